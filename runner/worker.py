"""What runs in a worker process: the shards that live there, read in turn, a bounded number of items ahead."""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import torch

from ..pipes.processes import end_with_parent, pickled_error
from ..registry import Node, derive_seed, say_where
from ..registry.notes import notes_of
from ..registry.state import node_of_repetition
from .shards import InitFn, Place, ResetFn, ShardPass, Shards, WorkerInfo
from .transport import Outbox, Parcel, send_parcel_descriptor
from .watch import Watch

__all__ = ["STOP", "Arrival", "Credit", "Epoch", "Setup", "run"]


@dataclass(frozen=True)
class Setup:
    """All that a worker needs to know once."""

    worker: WorkerInfo
    chain: bytes
    """The chain, by cloudpickle; each shard gets a copy of its own."""
    num_shards: int
    init_fn: InitFn | None
    reset_fn: ResetFn | None
    max_blocks: int
    repeated: dict[int, Node]
    """For each shard, what it gives again in each epoch, as far as that is known."""


@dataclass(frozen=True)
class Epoch:
    """Begin to read; what was under way is dropped."""

    number: int
    seed: int
    credit: int
    places: list[Place]
    """Where each shard stands that is to be read."""
    rank: int
    """Which of the ranks it is that the shards belong to: each has other random numbers below its sharding points."""


@dataclass(frozen=True)
class Credit:
    """Read so many items more, and use these blocks again."""

    items: int
    blocks: list[int]


STOP = None
"""The command to end."""


@dataclass(frozen=True)
class Report:
    """What there is to tell of a shard besides where it stands."""

    stats: dict[str, dict[str, Any]]
    """What its steps have counted."""
    repeated: Node | None
    """What it gives again in each epoch."""

    @classmethod
    def of(cls, chain: Any) -> Report:
        """Report on the chain of a shard."""
        return cls(chain.stats(), node_of_repetition(chain))


@dataclass(frozen=True)
class Arrival:
    """What comes from a worker: an item, or the end, or an error of a shard."""

    epoch: int
    shard: int
    parcel: Parcel | None = None
    node: Node | None = None
    """Where the shard stands after this item, on some of them."""
    report: Report | None = None
    """With a node, and at the end."""
    error: bytes | None = None


def run(connection: Connection) -> None:
    """Serve the main process until it says that nothing more is wanted, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends the workers
    end_with_parent()
    torch.set_num_threads(1)
    try:
        for prepare in cloudpickle.loads(connection.recv_bytes()):
            prepare()
        setup = cloudpickle.loads(connection.recv_bytes())
        _Worker(connection, setup).serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the main process closed its end


class _Worker:
    def __init__(self, connection: Connection, setup: Setup) -> None:
        self._connection = connection
        self._setup = setup
        self._outbox = Outbox(setup.max_blocks)
        self._epoch = -1
        self._credit = 0
        self._shards = Shards(
            lambda: cloudpickle.loads(setup.chain),
            setup.num_shards,
            setup.worker,
            setup.init_fn,
            setup.reset_fn,
            setup.repeated,
        )
        self._passes: dict[int, ShardPass] = {}
        self._turns: deque[int] = deque()
        self._commands: SimpleQueue[Epoch | Credit | None] = SimpleQueue()
        self._watch = Watch()
        send_parcel_descriptor(connection, self._watch.descriptor())
        threading.Thread(target=self._listen, name="penstock-commands", daemon=True).start()

    def _listen(self) -> None:
        """Take commands off the connection as they come, or both sides could wait for the other to read."""
        command: Any = self
        while command is not STOP:
            try:
                command = pickle.loads(self._connection.recv_bytes())
            except (EOFError, OSError):  # the main process closed its end
                command = STOP
            self._commands.put(command)

    def serve(self) -> None:
        while True:
            if not (self._turns and self._credit) or not self._commands.empty():
                command = self._commands.get()
                if command is STOP:
                    return
                self._obey(command)
            else:
                self._read_one()

    def _obey(self, command: Epoch | Credit) -> None:
        if isinstance(command, Credit):
            self._outbox.take_back(command.blocks)
            self._credit += command.items
            return
        self._epoch, self._credit = command.number, command.credit
        for shard, reading in self._passes.items():
            try:
                reading.close()
            except Exception as error:  # it has no place in the new epoch but at its beginning
                self._send_error(shard, error)
        self._passes.clear()
        self._turns.clear()
        rank = command.rank
        _seed_globals(derive_seed(command.seed, rank * self._setup.worker.num_workers + self._setup.worker.worker_id))
        for place in command.places:
            try:
                self._passes[place.shard] = self._shards.begin(place, command.seed, rank)
            except Exception as error:
                self._send_error(place.shard, error)
            else:
                self._turns.append(place.shard)

    def _read_one(self) -> None:
        shard = self._turns.popleft()
        reading = self._passes[shard]
        try:
            with self._watch:
                item = next(reading.items)
        except StopIteration:
            self._send(Arrival(self._epoch, shard, report=Report.of(reading.chain)))
            return
        except SystemExit as error:
            self._watch.write(" ".join(notes_of(error)).removeprefix("penstock: raised in "))
            raise
        except Exception as error:
            self._send_error(shard, error)
            return
        try:
            parcel, descriptor = self._outbox.pack(item)
        except Exception as error:
            error.add_note("the item could not be pickled, and so not be sent to the main process")
            say_where(error, reading.chain, item)
            self._send_error(shard, error)
            return
        try:
            node = reading.node_if_due()
            report = None if node is None else Report.of(reading.chain)
            message = pickle.dumps(Arrival(self._epoch, shard, parcel, node, report), protocol=5)
        except Exception as error:
            error.add_note("the state of the chain could not be taken")
            self._send_error(shard, error)
            return
        self._connection.send_bytes(message)
        if descriptor is not None:
            send_parcel_descriptor(self._connection, descriptor)
        self._credit -= 1
        self._turns.append(shard)

    def _send(self, arrival: Arrival) -> None:
        self._connection.send_bytes(pickle.dumps(arrival, protocol=5))

    def _send_error(self, shard: int, error: Exception) -> None:
        worker = self._setup.worker
        error.add_note(
            f"penstock: in worker {worker.worker_id} of {worker.num_workers} (process {os.getpid()}), "
            f"shard {shard} of {self._setup.num_shards}"
        )
        self._send(Arrival(self._epoch, shard, error=pickled_error(error)))


def _seed_globals(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
