"""A worker process: reads its shards in turn, or streams for all workers, a bounded number of items ahead."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ...registry import copy_of
from ...state.copying import copy_for_shard
from ...state.seeds import seed_process
from ...workers.processes import become_worker
from ...workers.transport import receive_parcel_descriptor
from ..options import Division, ReadOptions, WorkerInfo
from ..shards import Shards
from .dispatch import RemoteFeed, StreamSender
from .dispatched import connect_feeds
from .protocol import DISCONNECTED, Sender, send_failure
from .status import StatusWriter

Feeds = dict[tuple[int, int], Connection]
"""Connections by the (stream, shard) of a dispatched stream."""


@dataclass(frozen=True)
class Setup:
    """The message that a process receives once, at its start."""

    name: str
    """Its name in errors."""
    chain: bytes
    """The chain, or a list of streams to read for all workers, by cloudpickle; each shard gets its own copy."""
    division: Division
    options: ReadOptions
    max_blocks: int
    """How many blocks of shared memory each connection may use."""
    worker: WorkerInfo | None
    """Which of the workers it is; None for the reader of dispatched streams."""
    feeds: Sequence[tuple[int, int]] = ()
    """The (stream, shard) of each of its connections for shards of dispatched streams."""


def run_worker(to_parent: Connection, feeds: int, to_main: Connection | None = None) -> None:
    """Serve the main process until its command to end, or until it is gone.

    The parent sends a status file, and the ends of so many connections for shards of dispatched streams. It is the main
    process itself, unless `to_main` leads there.
    """
    become_worker()
    try:
        watch = StatusWriter(receive_parcel_descriptor(to_parent))
        ends = [Connection(receive_parcel_descriptor(to_parent)) for _ in range(feeds)]
        _serve(to_main or to_parent, ends, watch)
    except DISCONNECTED:
        pass  # the other end is gone, or its machine


def _serve(connection: Connection, ends: list[Connection], watch: StatusWriter) -> None:
    for preparation in cloudpickle.loads(connection.recv_bytes()):
        preparation()
    pickled = connection.recv_bytes()
    try:
        setup: Setup = cloudpickle.loads(pickled)
        chain, feeds = cloudpickle.loads(setup.chain), dict(zip(setup.feeds, ends, strict=True))
        if setup.worker is None:
            sender: Sender = StreamSender(connection, chain, setup.division, feeds, setup.max_blocks, watch)
        else:
            sender = _sender_of_shards(connection, setup, setup.worker, chain, feeds, watch)
    except Exception as error:  # such as a module not installed here
        send_failure(connection, error)
        return
    sender.serve()


def _sender_of_shards(
    connection: Connection, setup: Setup, worker: WorkerInfo, chain: Any, feeds: Feeds, watch: StatusWriter
) -> Sender:
    options, division = setup.options, setup.division
    copied = copy_of if len(division.shards) <= worker.num_workers else copy_for_shard

    def chain_of(shard: int) -> Any:
        return connect_feeds(
            copied(chain), lambda stream: RemoteFeed(feeds[stream, shard], shard, options.worker_prefetch)
        )

    options = replace(
        options,
        init_fn=_watched(watch, "worker_init_fn", options.init_fn),
        reset_fn=_watched(watch, "worker_reset_fn", options.reset_fn),
    )
    return Sender(
        connection,
        setup.max_blocks,
        partial(Shards(chain_of, division, worker, options).begin, with_seed=seed_process),
        lambda shard: f"{setup.name}, shard {shard} of {division.num_shards}",
        watch,
        f"worker {worker.worker_id} (worker process {os.getpid()})",
    )


def _watched(watch: StatusWriter, name: str, fn: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Return a function, if there is one, with errors that name it."""
    if fn is None:
        return None

    def watched(*arguments: Any) -> Any:
        with watch.during(name):
            return fn(*arguments)

    return watched
