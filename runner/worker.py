"""What runs in a worker process: it reads its shards in turn, a bounded number of items ahead."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ..registry import copy_of, walk
from ..workers.processes import pickled_error
from .dispatch import RemoteFeed
from .protocol import FAILED, HUNG_UP, NONE, Arrival, Sender
from .seeds import seed_globals
from .shards import Dispatched, Division, Epoch, InitFn, Place, ResetFn, ShardPass, Shards, WorkerInfo
from .worker_init import begin, prepare, received_ends
from .worker_status import Watch

__all__ = ["Setup", "run_worker", "serve"]


@dataclass(frozen=True)
class Setup:
    """What a worker receives once, at its start."""

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


def run_worker(connection: Connection, lines: list[tuple[int, int]]) -> None:
    """Serve the main process until it wants no more, or is gone.

    `lines` are the (stream, shard) numbers of the connections for shards of dispatched streams.
    """
    try:
        watch = begin(connection)
        dispatched = dict(zip(lines, received_ends(connection, len(lines)), strict=True))
        prepare(connection)
        serve(connection, dispatched, watch)
    except HUNG_UP:
        pass  # the main process closed its end


def serve(connection: Connection, dispatched: dict[tuple[int, int], Connection], watch: Watch) -> None:
    """Serve the other end of a connection."""
    setup = connection.recv_bytes()
    try:
        worker = _Worker(cloudpickle.loads(setup), dispatched, watch)
    except Exception as error:  # such as a module not installed here
        connection.send_bytes(Arrival(NONE, FAILED, error=pickled_error(error)).to_bytes())
        return
    name = f"worker {worker.setup.worker.worker_id} (worker process {os.getpid()})"
    Sender(connection, worker.setup.max_blocks, worker.begin, worker.name, watch, name).serve()


class _Worker:
    """The shards of a worker."""

    def __init__(self, setup: Setup, dispatched: dict[tuple[int, int], Connection], watch: Watch) -> None:
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

    def begin(self, epoch: Epoch, place: Place) -> ShardPass:
        """Begin a pass over a shard."""
        return self._shards.begin(epoch, place, seed_globals)

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
        chain = copy_of(self._chain)
        for pipe in walk(chain):
            if isinstance(pipe, Dispatched):
                pipe.feed = RemoteFeed(self._dispatched[pipe.point, shard], shard, self.setup.prefetch)
        return chain
