"""The main process's side of the workers: starting them, taking what arrives, ending them."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ..pipes.processes import PREPARATIONS, context_for, describe_exit, start
from ..registry import IterDataPipe, Node, walk
from ..registry.display import step
from ..registry.graph import pipes_in
from .seeds import SeedGenerator
from .transport import Inbox, blocks_for_each, receive_parcel_descriptor
from .worker import STOP, Arrival, Credit, Epoch, Setup, WorkerInfo, run

__all__ = ["PoolOptions", "WorkerPool", "WorkerReader"]

_PATIENCE = 2.0
"""Seconds that a worker has to end by itself, and again when it is terminated, before it is killed."""


@dataclass(frozen=True)
class PoolOptions:
    """What a pool of workers is made from."""

    chain: IterDataPipe[Any]
    num_workers: int
    start_method: str | None
    prefetch: int
    init_fn: Callable[[Any, WorkerInfo], Any] | None
    reset_fn: Callable[[Any, WorkerInfo, SeedGenerator], Any] | None


@dataclass
class Place:
    """Where a shard stands, as far as its items were handed out: so many items after a node, or after the start."""

    shard: int
    node: Node | None = None
    skip: int = 0


class Interrupted(BaseException):
    """Another thread said that the pass is given up."""


class _Line:
    """One worker process, and the connection to it."""

    def __init__(self, setup: Setup, start_method: str | None, prefetch: int) -> None:
        context: Any = context_for(start_method, run.__module__)
        self._prefetch = prefetch
        self._eaten = 0
        self._inbox = Inbox()
        self.worker = setup.worker
        self._connection, theirs = context.Pipe(duplex=True)
        self._process = context.Process(
            target=run, args=(theirs,), name=f"penstock-worker-{setup.worker.worker_id}", daemon=True
        )
        start(self._process)
        theirs.close()  # so that the worker's end is the only one, and its death is seen at once
        self._send(cloudpickle.dumps(PREPARATIONS))
        self._send(cloudpickle.dumps(setup))

    def begin(self, number: int, seed: int, positions: dict[int, tuple[Node | None, int]], rank: int) -> None:
        self._eaten = 0
        self._send(pickle.dumps(Credit(0, self._inbox.unused_blocks())))
        self._send(pickle.dumps(Epoch(number, seed, self._prefetch, positions, rank)))

    def receive(self, epoch: int, interruption: Connection) -> tuple[Arrival, Any]:
        """Return the next arrival of an epoch and its item; what is left of earlier epochs is dropped."""
        while True:
            if interruption in mp_connection.wait([self._connection, interruption]):
                raise Interrupted
            try:
                arrival: Arrival = pickle.loads(self._connection.recv_bytes())
                item = None
                if arrival.parcel is not None:
                    item = self._inbox.unpack(arrival.parcel, self._receive_descriptor)
            except (EOFError, ConnectionResetError):
                raise self._death() from None
            if arrival.epoch == epoch:
                return arrival, item

    def ate_one(self) -> None:
        """Let the worker read on; told only when half of what it may read ahead is used up, as telling costs time."""
        self._eaten += 1
        if self._eaten >= (self._prefetch + 1) // 2:
            self._send(pickle.dumps(Credit(self._eaten, self._inbox.unused_blocks())))
            self._eaten = 0

    def hang_up(self) -> BaseProcess:
        """Tell the worker to end, and return its process."""
        with suppress(OSError):  # it has ended already
            self._connection.send_bytes(pickle.dumps(STOP))
        self._connection.close()
        process: BaseProcess = self._process
        return process

    def _send(self, message: bytes) -> None:
        try:
            self._connection.send_bytes(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._death() from None

    def _receive_descriptor(self) -> int:
        return receive_parcel_descriptor(self._connection)

    def _death(self) -> RuntimeError:
        self._process.join(_PATIENCE)
        return RuntimeError(
            f"worker {self.worker.worker_id} of {self.worker.num_workers} (process {self._process.pid}) "
            f"{describe_exit(self._process.exitcode)}; what it printed, or the system's log, may say why"
        )


class WorkerPool:
    """Worker processes that read the shards of a chain: shard s lives on worker s mod num_workers."""

    def __init__(self, options: PoolOptions, num_shards: int) -> None:
        chain = _pickled(options.chain)
        max_blocks = blocks_for_each(options.num_workers)
        self._epoch = 0
        self._lines: list[_Line] = []
        self._interruption, self._interrupt = multiprocessing.Pipe(duplex=False)
        try:
            for worker_id in range(options.num_workers):
                worker = WorkerInfo(options.num_workers, worker_id)
                setup = Setup(worker, chain, num_shards, options.init_fn, options.reset_fn, max_blocks)
                self._lines.append(_Line(setup, options.start_method, options.prefetch))
        except BaseException:
            self.shutdown()
            raise

    def begin(self, seed: int, places: Iterable[Place], rank: int) -> None:
        """Let every worker begin an epoch with its shards, in the order given; shards left out are not read."""
        self._epoch += 1
        while self._interruption.poll():
            self._interruption.recv_bytes()
        for line in self._lines:
            own = {place.shard: (place.node, place.skip) for place in places if self._line_of(place.shard) is line}
            line.begin(self._epoch, seed, own, rank)

    def receive(self, shard: int) -> tuple[Arrival, Any]:
        """Return what the worker of a shard sends next, which is of that shard."""
        line = self._line_of(shard)
        arrival, item = line.receive(self._epoch, self._interruption)
        if arrival.parcel is not None:
            line.ate_one()
        return arrival, item

    def interrupt(self) -> None:
        """Let a `receive` that waits in another thread raise Interrupted."""
        self._interrupt.send_bytes(b"!")

    def shutdown(self) -> None:
        """End all workers; those that do not end by themselves are killed."""
        processes = [line.hang_up() for line in self._lines]
        self._lines = []
        for insist in (None, BaseProcess.terminate, BaseProcess.kill):
            deadline = time.monotonic() + _PATIENCE
            for process in processes:
                if insist is not None and process.is_alive():
                    insist(process)
            for process in processes:
                process.join(max(deadline - time.monotonic(), 0))
        for process in processes:
            process.close()
        self._interruption.close()
        self._interrupt.close()

    def _line_of(self, shard: int) -> _Line:
        return self._lines[shard % len(self._lines)]


def _pickled(chain: IterDataPipe[Any]) -> bytes:
    try:
        return bytes(cloudpickle.dumps(chain))
    except Exception as error:
        for culprit in _not_picklable(chain):
            error.add_note(f"penstock: {culprit} cannot be pickled, and so not be sent to worker processes")
            break
        raise


def _not_picklable(chain: Any) -> Iterator[str]:
    for pipe in walk(chain):
        for name, value in vars(pipe).items():
            if name not in getattr(pipe, "transient", ()) and not [*pipes_in(value)]:
                try:
                    cloudpickle.dumps(value)
                except Exception:
                    yield f"the {name} of {step(pipe)}"


class WorkerReader(IterDataPipe[Any]):
    """Yield the items of all shards in turn, as the workers deliver them."""

    holds_items = False
    payload = ("_pool_options",)
    transient = ("_places", "_pool", "_given_up")

    def __init__(self, options: PoolOptions) -> None:
        self._pool_options = options
        self.epoch_seed = 0
        self.rank = 0
        self.num_shards = options.num_workers
        self._pool: WorkerPool | None = None

    def reset(self) -> None:
        self._given_up = False
        self._places = deque(Place(shard) for shard in range(self.num_shards))

    def get_state(self) -> dict[str, Any]:
        places = [[place.shard, place.node, place.skip] for place in self._places]
        return {"num_shards": self.num_shards, "places": places}

    def set_state(self, state: dict[str, Any]) -> None:
        self._places = deque(Place(*place) for place in state["places"])
        self.read_in_shards(state["num_shards"])

    def __iter__(self) -> Iterator[Any]:
        pool, places = self._ready_pool(), self._places
        try:
            pool.begin(self.epoch_seed, places, self.rank)
        except BaseException:  # a worker has died since: the next epoch begins anew
            self.shutdown()
            raise
        if self._given_up:  # while the workers were starting
            raise Interrupted
        while places:
            place = places[0]
            try:
                arrival, item = pool.receive(place.shard)
            except Interrupted:
                raise
            except BaseException as error:  # a worker is gone, or half a message was read: the next epoch begins anew
                self.shutdown()
                error.add_note(f"penstock: waiting for the next item of shard {place.shard} of {self.num_shards}")
                raise
            if arrival.error is not None:
                theirs, cause = cloudpickle.loads(arrival.error)
                raise theirs from cause
            if arrival.parcel is None:
                places.popleft()
                continue
            if arrival.node is None:
                place.skip += 1
            else:
                place.node, place.skip = arrival.node, 0
            places.rotate(-1)
            yield item

    def read_in_shards(self, number: int) -> None:
        """Divide the chain into so many parts from the next epoch on."""
        if number != self.num_shards:
            self.shutdown()
            self.num_shards = number

    def interrupt(self) -> None:
        self._given_up = True
        pool = self._pool
        if pool is not None:
            pool.interrupt()

    def shutdown(self) -> None:
        """End the workers."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()

    def _ready_pool(self) -> WorkerPool:
        if self._pool is None:
            self._pool = WorkerPool(self._pool_options, self.num_shards)
        return self._pool
