"""What runs in a worker process: the shards that live there, read in turn, a bounded number of items ahead."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch

from ..pipes.processes import end_with_parent
from ..pipes.transport import send_parcel_descriptor
from ..registry import copy_of, walk
from .dispatch import RemoteFeed
from .line import HUNG_UP, Sender
from .shards import Dispatched, Division, Epoch, InitFn, Place, ResetFn, ShardPass, Shards, WorkerInfo
from .watch import Watch

__all__ = ["Setup", "run"]


@dataclass(frozen=True)
class Setup:
    """All that a worker needs to know once."""

    worker: WorkerInfo
    chain: bytes
    """The chain, by cloudpickle; each shard gets a copy of its own."""
    division: Division
    init_fn: InitFn | None
    reset_fn: ResetFn | None
    prefetch: int
    max_blocks: int


def run(connection: Connection, dispatched: dict[tuple[int, int], Connection]) -> None:
    """Serve the main process until it says that nothing more is wanted, or is gone.

    `dispatched` are the connections along which a stream's shards come that is read once for all, by the stream's
    number and the shard's.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends the workers
    end_with_parent()
    torch.set_num_threads(1)
    try:
        for prepare in cloudpickle.loads(connection.recv_bytes()):
            prepare()
        watch = Watch()
        send_parcel_descriptor(connection, watch.descriptor())
        worker = _Worker(cloudpickle.loads(connection.recv_bytes()), dispatched, watch)
        Sender(connection, worker.setup.max_blocks, worker.begin, worker.name, watch).serve()
    except HUNG_UP:
        pass  # the main process closed its end


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
        return self._shards.begin(epoch, place, _seed_globals)

    def name(self, shard: int) -> str:
        """Return how errors call the reader of a shard."""
        worker = self.setup.worker
        return f"worker {worker.worker_id} of {worker.num_workers}, shard {shard} of {self.setup.division.num_shards}"

    def _watched(self, name: str, fn: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Let errors say that it was in this function, where there is one."""
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


def _seed_globals(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(
        seed
    )  # torch.manual_seed takes 100 µs, to ask for devices a worker does not use
