"""The main process's side of the workers: starting them, taking what arrives, ending them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ..pipes.processes import context_for, preparations
from ..pipes.transport import blocks_for_each
from ..registry import IterDataPipe, Path, walk
from ..registry.display import step
from ..registry.graph import pipes_in
from ..registry.notes import add_note
from .child import Child, end_all
from .dispatch import STREAM_READER, divided, run_dispatch
from .line import BEGUN, HUNG_UP, Arrival, Receiver
from .shards import Division, Epoch, Place, ReadOptions, Received, Report, WorkerInfo
from .worker import Setup, run

__all__ = ["Interrupted", "WorkerPool"]

_LOOK_EVERY = 2.0
"""Seconds after which it is looked what has become of a worker that gives nothing."""


_PATIENCE_WITH_EARLIER = 3.0
"""Seconds that a worker has for the item it is at in an epoch that was given up, before new workers take over."""


class Interrupted(BaseException):
    """Another thread said that the pass is given up."""


class _Line(Child):
    """One worker process, and the connection to it."""

    def __init__(self, setup: Setup, options: ReadOptions, dispatched: dict[tuple[int, int], Connection]) -> None:
        super().__init__(options.start_method, f"penstock-worker-{setup.worker.worker_id}", run, dispatched)
        self._timeout = options.timeout
        self._receiver = Receiver(self.connection, options.worker_prefetch)
        self.worker = setup.worker
        try:
            self.connection.send_bytes(cloudpickle.dumps(preparations()))
            self.connection.send_bytes(cloudpickle.dumps(setup))
        except HUNG_UP:
            raise self._death() from None

    def begin(self, epoch: Epoch, places: list[Place]) -> None:
        try:
            self._receiver.begin(epoch, places)
        except HUNG_UP:
            raise self._death() from None

    def has_begun(self, epoch: Epoch, deadline: float) -> bool:
        """Say whether the worker lets go, in time, of what it was at, and begins; what it sent before is dropped."""
        try:
            while self.connection.poll(max(deadline - time.monotonic(), 0)):
                if not self.take_sighting() and self._receiver.receive()[0].reading == epoch.reading:
                    return True
        except HUNG_UP:
            raise self._death() from None
        return False

    def receive(self, epoch: Epoch, interruption: Connection, needed: list[Child]) -> tuple[Arrival, Any]:
        """Return the next arrival of an epoch and its item; what is left of earlier epochs is dropped.

        `needed` are other processes without which there is none.
        """
        try:
            while True:
                self._wait(interruption, [self, *needed])
                if self.take_sighting():
                    continue
                arrival, item = self._receiver.receive()
                if arrival.reading == epoch.reading and arrival.shard != BEGUN:
                    if arrival.parcel is not None:
                        self._receiver.take_one()
                    return arrival, item
        except HUNG_UP:
            raise self._death() from None

    def _death(self) -> RuntimeError:
        how = self.end() or "has closed its connection"
        return RuntimeError(f"{self} {how}; what it printed, or the system's log, may say why")

    def _wait(self, interruption: Connection, needed: list[Child]) -> None:
        """Wait until something arrives, or raise an error that says why nothing does."""
        stopped: list[Child] = []
        patience = _LOOK_EVERY if self._timeout is None else min(self._timeout, _LOOK_EVERY)
        began = time.monotonic()
        while not (ready := mp_connection.wait([self.connection, interruption], patience)):
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise TimeoutError(f"{self} gave no item for timeout={self._timeout} s{self.seen()}")
            if self.end(patience=0) is not None and not self.connection.poll():
                raise EOFError  # and what the worker had started keeps the connection open
            before, stopped = stopped, [each for each in needed if each.is_stopped()]
            for each in stopped:
                if each in before:
                    raise RuntimeError(f"{each} was stopped, as by SIGSTOP, and does not go on{each.seen()}")
        if interruption in ready:
            raise Interrupted

    def hang_up(self) -> BaseProcess:
        """Tell the worker to end, and return its process."""
        self._receiver.hang_up()
        self.let_go()
        return self.process

    def __str__(self) -> str:
        worker = self.worker
        return f"worker {worker.worker_id} of {worker.num_workers} (process {self.process.pid})"


class _Dispatcher(Child):
    """The process that reads streams once for all shards, and a connection to the workers for each shard of each."""

    def __init__(self, streams: list[Any], options: ReadOptions, division: Division) -> None:
        pickled = _pickled(streams)
        context: Any = context_for(options.start_method, run.__module__)
        pairs = {(point, shard): context.Pipe() for point in range(len(streams)) for shard in division.shards}
        self.to_workers = {key: worker_end for key, (worker_end, _) in pairs.items()}
        ends = [[pairs[point, shard][1] for shard in division.shards] for point in range(len(streams))]
        super().__init__(options.start_method, "penstock-dispatcher", run_dispatch, ends)
        for end in (end for line in ends for end in line):
            end.close()
        self.connection.send_bytes(cloudpickle.dumps(preparations()))
        self.connection.send_bytes(pickle.dumps(division))
        self.connection.send_bytes(pickled)

    def let_workers_have_their_ends(self) -> None:
        """Close them here, or no worker would see that the process is gone."""
        for end in self.to_workers.values():
            end.close()

    def seen(self) -> str:
        """Return what the process was at, as the rest of a sentence, where that is known."""
        with suppress(*HUNG_UP):
            if self.connection.poll():
                self.take_sighting()
        return super().seen()

    def gives_up(self, epoch: int, deadline: float) -> bool:
        """Say whether the process gives up, in time, what it was at for the epochs before one."""
        with suppress(*HUNG_UP):
            self.connection.send_bytes(epoch.to_bytes(8))
            while self.connection.poll(max(deadline - time.monotonic(), 0)):
                if not self.take_sighting():
                    self.connection.recv_bytes()
                    return True
        return False

    def hang_up(self) -> BaseProcess:
        """Tell the process to end, and return it."""
        self.let_go()
        return self.process

    def __str__(self) -> str:
        return f"{STREAM_READER} (process {self.process.pid})"


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _leave_pools_to_parent() -> None:
    for pool in list(_pools):
        pool.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_pools_to_parent)


class WorkerPool:
    """Worker processes that read shards of a chain."""

    def __init__(self, options: ReadOptions, division: Division) -> None:
        divided_chain, streams = divided(options.chain)
        chain = _pickled(divided_chain)
        max_blocks = blocks_for_each(options.num_workers)
        self.broken = False
        self._division = division
        self._epoch = Epoch(0, 0, Path(0))
        self._lines: list[_Line] = []
        self._dispatcher: _Dispatcher | None = None
        self._under_way: set[int] = set()
        """The shards of this epoch that have not come to their ends."""
        self._reports: dict[int, bytes] = {}
        """The last of each shard in this epoch, pickled."""
        self._interruption, self._interrupt = multiprocessing.Pipe(duplex=False)
        _pools.add(self)
        try:
            ends: dict[tuple[int, int], Connection] = {}
            if streams:
                self._dispatcher = _Dispatcher(streams, options, division)
                ends = self._dispatcher.to_workers
            for worker_id in range(options.num_workers):
                setup = Setup(
                    WorkerInfo(options.num_workers, worker_id),
                    chain,
                    division,
                    options.init_fn,
                    options.reset_fn,
                    options.worker_prefetch,
                    max_blocks,
                )
                own = {
                    key: end for key, end in ends.items() if division.worker(key[1], options.num_workers) == worker_id
                }
                self._lines.append(_Line(setup, options, own))
            if self._dispatcher is not None:
                self._dispatcher.let_workers_have_their_ends()
        except BaseException:
            self.shutdown()
            raise

    def begin(self, places: Iterable[Place], seed: int, path: Path) -> None:
        """Let every worker begin an epoch with its shards; those left out are not read.

        Afterwards the pool is `broken` where a process is stuck in an epoch that was given up.
        """
        given_up = [line for line in self._lines if any(self._line_of(shard) is line for shard in self._under_way)]
        self._under_way = {place.shard for place in places}
        self._epoch = Epoch(self._epoch.number + 1, seed, path)
        self._reports = {}
        while self._interruption.poll():
            self._interruption.recv_bytes()
        deadline = time.monotonic() + _PATIENCE_WITH_EARLIER
        if self._dispatcher is not None and self._epoch.number > 1:
            self.broken = not self._dispatcher.gives_up(self._epoch.number, deadline)
            if self.broken:
                return
        for line in self._lines:
            own = [place for place in places if self._line_of(place.shard) is line]
            line.begin(self._epoch, own)
        self.broken = not all(line.has_begun(self._epoch, deadline) for line in given_up)

    def receive(self, shard: int) -> Received:
        """Return what the worker of a shard sends next, which is of that shard; its end, or an item, or its error."""
        line = self._line_of(shard)
        try:
            arrival, item = line.receive(self._epoch, self._interruption, self._needed())
        except Interrupted:
            raise
        except BaseException as error:  # a worker is gone, or half a message was read
            self.broken = True
            add_note(error, f"penstock: waiting for the next item of shard {shard} of {self._division.num_shards}")
            if self._dispatcher is not None and (seen := self._dispatcher.seen()):
                add_note(error, f"penstock: {self._dispatcher}{seen}")
            raise
        if arrival.parcel is None:
            self._under_way.discard(shard)
        if arrival.error is not None:
            theirs, cause = cloudpickle.loads(arrival.error)
            # It may be a moment until it is known that a process is gone.
            if self._dispatcher is not None and (how := self._dispatcher.end(patience=0.2)) is not None:
                self.broken = True
                add_note(theirs, f"penstock: {self._dispatcher} {how}")
            raise theirs from cause
        if arrival.report is not None:
            self._reports[shard] = arrival.report
        return Received(item, arrival.report, ended=arrival.parcel is None)

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return, for each shard, what its steps had counted when its worker last told."""
        reports: Iterator[tuple[int, Report]] = (
            (shard, pickle.loads(report)) for shard, report in [*self._reports.items()]
        )
        return {shard: report.stats for shard, report in reports}

    def interrupt(self) -> None:
        """Let a `receive` that waits in another thread raise Interrupted."""
        if not self._interrupt.closed:
            self._interrupt.send_bytes(b"!")

    def leave_to_parent(self) -> None:
        """Let go of the workers without a word to them, in a process that was forked off the one whose they are."""
        self.broken = True
        children = [*self._lines, *self._needed()]
        self._lines, self._dispatcher = [], None
        for child in children:
            child.let_go()
        self._interruption.close()
        self._interrupt.close()

    def shutdown(self) -> None:
        """End all workers; those that do not end by themselves are killed."""
        processes = [each.hang_up() for each in (*self._lines, self._dispatcher) if each is not None]
        self._lines, self._dispatcher = [], None
        end_all(processes)
        self._interruption.close()
        self._interrupt.close()

    def _needed(self) -> list[Child]:
        return [] if self._dispatcher is None else [self._dispatcher]

    def _line_of(self, shard: int) -> _Line:
        if not self._lines:
            raise RuntimeError("the workers are those of the process that this one was forked off: begin a new epoch")
        return self._lines[self._division.worker(shard, len(self._lines))]


def _pickled(chain: IterDataPipe[Any] | list[Any]) -> bytes:
    try:
        return bytes(cloudpickle.dumps(chain))
    except Exception as error:
        for culprit in (each for part in pipes_in(chain) for each in _not_picklable(part)):
            add_note(error, f"penstock: {culprit} cannot be pickled, and so not be sent to worker processes")
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
