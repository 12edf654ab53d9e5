"""A worker process: reads its shards in turn, a bounded number of items ahead."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ...registry import copy_of
from ..options import Division, InitFn, ResetFn, WorkerInfo
from ..positions import Epoch, ShardPosition
from ..seeds import seed_globals
from ..shards import ShardPass, Shards
from .dispatch import RemoteFeed
from .dispatched import connect_feeds
from .init import initialize_process, receive_connections, run_preparations
from .protocol import DISCONNECTED, Sender, send_failure
from .status import StatusWriter

__all__ = ["Setup", "run_worker", "serve"]


@dataclass(frozen=True)
class Setup:
    """The message that a worker receives once, at its start."""

    worker: WorkerInfo
    name: str
    """The worker's name in errors."""
    chain: bytes
    """The chain, by cloudpickle; each shard gets its own copy."""
    division: Division
    init_fn: InitFn | None
    reset_fn: ResetFn | None
    prefetch: int
    max_blocks: int = 0


def run_worker(connection: Connection, streams: list[tuple[int, int]]) -> None:
    """Serve the main process until its command to end, or until it is gone.

    `streams` are the (stream, shard) numbers of the connections for shards of dispatched streams.
    """
    try:
        watch = initialize_process(connection)
        dispatched = dict(zip(streams, receive_connections(connection, len(streams)), strict=True))
        run_preparations(connection)
        serve(connection, dispatched, watch)
    except DISCONNECTED:
        pass  # the main process closed its end


def serve(connection: Connection, dispatched: dict[tuple[int, int], Connection], watch: StatusWriter) -> None:
    """Serve the other end of a connection."""
    setup = connection.recv_bytes()
    try:
        worker = _Worker(cloudpickle.loads(setup), dispatched, watch)
    except Exception as error:  # such as a module not installed here
        send_failure(connection, error)
        return
    name = f"worker {worker.setup.worker.worker_id} (worker process {os.getpid()})"
    Sender(connection, worker.setup.max_blocks, worker.begin, worker.name, watch, name).serve()


class _Worker:
    """The shards of a worker."""

    def __init__(self, setup: Setup, dispatched: dict[tuple[int, int], Connection], watch: StatusWriter) -> None:
        self.setup = setup
        self._chain = cloudpickle.loads(setup.chain)
        self._dispatched = dispatched
        self._watch = watch
        self._shards = Shards(
            self._chain_of,
            setup.division,
            setup.worker,
            self._watched("worker_init_fn", setup.init_fn),
            self._watched("worker_reset_fn", setup.reset_fn),
        )

    def begin(self, epoch: Epoch, position: ShardPosition) -> ShardPass:
        """Begin a pass over a shard."""
        return self._shards.begin(epoch, position, seed_globals)

    def name(self, shard: int) -> str:
        """Return the name of a shard's reader in errors."""
        return f"{self.setup.name}, shard {shard} of {self.setup.division.num_shards}"

    def _watched(self, name: str, fn: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Return a function, if there is one, with errors that name it."""
        if fn is None:
            return None

        def watched(*arguments: Any) -> Any:
            with self._watch.during(name):
                return fn(*arguments)

        return watched

    def _chain_of(self, shard: int) -> Any:
        def feed_of(stream: int) -> RemoteFeed:
            return RemoteFeed(self._dispatched[stream, shard], shard, self.setup.prefetch)

        return connect_feeds(copy_of(self._chain), feed_of)
