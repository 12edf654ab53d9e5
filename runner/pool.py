"""The main process's side of the workers: starting them, taking what arrives, ending them."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import psutil

from ..pipes.processes import PREPARATIONS, context_for, describe_exit, start
from ..registry import IterDataPipe, Node, walk
from ..registry.display import step
from ..registry.graph import pipes_in
from .shards import Place, ReadOptions, Received, WorkerInfo
from .transport import Inbox, blocks_for_each, receive_parcel_descriptor
from .watch import Sighting
from .worker import STOP, Arrival, Credit, Epoch, Setup, run

__all__ = ["Interrupted", "WorkerPool"]

_PATIENCE = 2.0
"""Seconds that a worker has to end by itself, and again when it is terminated, before it is killed."""


_LOOK_EVERY = 2.0
"""Seconds after which it is looked what has become of a worker that gives nothing."""


class Interrupted(BaseException):
    """Another thread said that the pass is given up."""


class _Line:
    """One worker process, and the connection to it."""

    def __init__(self, setup: Setup, options: ReadOptions) -> None:
        context: Any = context_for(options.start_method, run.__module__)
        self._prefetch = options.worker_prefetch
        self._timeout = options.timeout
        self._eaten = 0
        self._inbox = Inbox()
        self.worker = setup.worker
        self._connection, theirs = context.Pipe(duplex=True)
        self._process = context.Process(
            target=run, args=(theirs,), name=f"penstock-worker-{setup.worker.worker_id}", daemon=True
        )
        start(self._process)
        theirs.close()  # so that the worker's end is the only one, and its death is seen at once
        self._sighting: Sighting | None = None
        self._send(cloudpickle.dumps(PREPARATIONS))
        self._send(cloudpickle.dumps(setup))

    def begin(self, number: int, seed: int, places: list[Place], rank: int) -> None:
        self._eaten = 0
        self._send(pickle.dumps(Credit(0, self._inbox.unused_blocks())))
        self._send(pickle.dumps(Epoch(number, seed, self._prefetch, places, rank)))

    def receive(self, epoch: int, interruption: Connection) -> tuple[Arrival, Any]:
        """Return the next arrival of an epoch and its item; what is left of earlier epochs is dropped."""
        while True:
            self._wait(interruption)
            try:
                if self._sighting is None:
                    self._sighting = Sighting(self._receive_descriptor())
                    continue
                arrival: Arrival = pickle.loads(self._connection.recv_bytes())
                item = None
                if arrival.parcel is not None:
                    item = self._inbox.unpack(arrival.parcel, self._receive_descriptor)
            except (EOFError, ConnectionResetError):
                raise self._death() from None
            if arrival.epoch == epoch:
                return arrival, item

    def _wait(self, interruption: Connection) -> None:
        """Wait until something arrives, or raise an error that says why nothing does."""
        stopped = False
        patience = _LOOK_EVERY if self._timeout is None else min(self._timeout, _LOOK_EVERY)
        began = time.monotonic()
        while not (ready := mp_connection.wait([self._connection, interruption], patience)):
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise TimeoutError(f"{self} gave no item for timeout={self._timeout} s{self._seen()}")
            if self._is_stopped():
                if stopped:  # as it was when it was looked at before
                    raise RuntimeError(f"{self} was stopped, as by SIGSTOP, and does not go on{self._seen()}")
                stopped = True
        if interruption in ready:
            raise Interrupted

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
        if self._sighting is not None:
            self._sighting.close()
        process: BaseProcess = self._process
        return process

    def __str__(self) -> str:
        worker = self.worker
        return f"worker {worker.worker_id} of {worker.num_workers} (process {self._process.pid})"

    def _send(self, message: bytes) -> None:
        try:
            self._connection.send_bytes(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._death() from None

    def _receive_descriptor(self) -> int:
        return receive_parcel_descriptor(self._connection)

    def _is_stopped(self) -> bool:
        try:
            return bool(psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def _seen(self) -> str:
        return "" if self._sighting is None else str(self._sighting)

    def _death(self) -> RuntimeError:
        self._process.join(_PATIENCE)
        return RuntimeError(
            f"{self} {describe_exit(self._process.exitcode)}{self._seen()}; what it printed, or the system's log, may "
            "say why"
        )


class WorkerPool:
    """Worker processes that read the shards of a chain: shard s lives on worker s mod num_workers."""

    def __init__(self, options: ReadOptions, num_shards: int, repeated: dict[int, Node]) -> None:
        chain = _pickled(options.chain)
        max_blocks = blocks_for_each(options.num_workers)
        self.broken = False
        self._num_shards = num_shards
        self._epoch = 0
        self._lines: list[_Line] = []
        self._stats: dict[int, Any] = {}
        self._repeated: dict[int, Node] = {}
        self._interruption, self._interrupt = multiprocessing.Pipe(duplex=False)
        try:
            for worker_id in range(options.num_workers):
                worker = WorkerInfo(options.num_workers, worker_id)
                setup = Setup(worker, chain, num_shards, options.init_fn, options.reset_fn, max_blocks, repeated)
                self._lines.append(_Line(setup, options))
        except BaseException:
            self.shutdown()
            raise

    def begin(self, places: Iterable[Place], seed: int, rank: int) -> None:
        """Let every worker begin an epoch with its shards, in the order given; shards left out are not read."""
        self._epoch += 1
        self._stats = {}
        while self._interruption.poll():
            self._interruption.recv_bytes()
        for line in self._lines:
            own = [place for place in places if self._line_of(place.shard) is line]
            line.begin(self._epoch, seed, own, rank)

    def receive(self, shard: int) -> Received:
        """Return what the worker of a shard sends next, which is of that shard; its end, or an item, or its error."""
        line = self._line_of(shard)
        try:
            arrival, item = line.receive(self._epoch, self._interruption)
            if arrival.parcel is not None:
                line.ate_one()
        except Interrupted:
            raise
        except BaseException as error:  # a worker is gone, or half a message was read
            self.broken = True
            error.add_note(f"penstock: waiting for the next item of shard {shard} of {self._num_shards}")
            raise
        if arrival.error is not None:
            theirs, cause = cloudpickle.loads(arrival.error)
            raise theirs from cause
        if arrival.report is not None:
            self._stats[shard] = arrival.report.stats
            if arrival.report.repeated is not None:
                self._repeated[shard] = arrival.report.repeated
        return Received(item, arrival.node, ended=arrival.parcel is None)

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return, for each shard, what its steps had counted when its worker last told."""
        return self._stats

    def repeated(self) -> dict[int, Node]:
        """Return, for each shard, what its passes give again in each epoch, where something does."""
        return self._repeated

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
