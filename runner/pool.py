"""The main process's side of the workers: starts them, receives their items, ends them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ..errors.notes import add_note
from ..registry import IterDataPipe, Path, walk
from ..state.graph import pipes_in
from ..state.step_text import step
from ..workers.captured import MUCH_TO_SEND, culprit_in, warn_of_copies
from ..workers.threads import Interrupted
from .child import Child, Children
from .dispatch import STREAM_READER, divided
from .protocol import BEGUN, FAILED, HUNG_UP, Arrival, Receiver
from .shards import Division, Epoch, Place, ReadOptions, Received, Report, ShardProfile, WorkerInfo
from .worker import Setup

__all__ = ["WorkerPool"]

_CHECK_EVERY = 2.0
"""Seconds between checks on a worker that gives nothing."""

_OF_NO_SHARD = -1
"""Takes the place of a shard for counts of the workers themselves."""

_PATIENCE_WITH_EARLIER = 3.0
"""Seconds for a worker to finish its item of an abandoned epoch, before new workers take over."""


class _Line:
    """The connection to one worker."""

    def __init__(self, setup: Setup, children: Children, dispatched: dict[tuple[int, int], Any], timeout: Any) -> None:
        self._setup = setup
        self._children = children
        self._dispatched = dispatched
        self._timeout: float | None = timeout
        self._epoch = Epoch(0, 0, Path(0))
        self._places: dict[int, Place] = {}
        """Positions of unfinished shards."""
        self._deaths = 0
        """How many workers in a row died before they gave anything."""
        self.replaced = 0
        self._report: bytes | None = None
        """The worker's last report."""
        self._start()

    def _start(self) -> None:
        while True:
            self.child = self._children.worker(self._setup.worker.worker_id, self._dispatched)
            self._receiver = Receiver(self.child.connection, self._setup.prefetch)
            self._epochs = 0
            """How many epochs this worker was sent."""
            setup = replace(self._setup, max_blocks=self.child.max_blocks)
            try:
                self.child.connection.send_bytes(cloudpickle.dumps(self._children.preparations()))
                self.child.connection.send_bytes(cloudpickle.dumps(setup))
                return
            except HUNG_UP:
                self._let_go_of_dead()

    def begin(self, epoch: Epoch, places: list[Place]) -> None:
        self._epoch, self._places = epoch, {place.shard: replace(place) for place in places}
        self._begin()

    def _begin(self) -> None:
        self._epochs += 1
        try:
            self._receiver.begin(self._epoch, [*self._places.values()])
        except HUNG_UP:
            self._replace_child()

    def has_begun(self, deadline: float) -> bool:
        """Say whether the worker abandons its earlier work and begins in time; what it sent before is dropped."""
        try:
            while self._epochs > 1 and self.child.connection.poll(max(deadline - time.monotonic(), 0)):
                if not self.child.take_sighting() and self._receiver.receive()[0].reading == self._epoch.reading:
                    return True
        except HUNG_UP:
            self._replace_child()
        return self._epochs == 1

    def receive(self, interruption: Connection, needed: list[_Dispatcher]) -> tuple[Arrival, Any]:
        """Return the epoch's next arrival and its item; arrivals of earlier epochs are dropped.

        `needed` are the dispatchers that the worker depends on.
        """
        while True:
            try:
                self._wait(interruption, needed)
                if self.child.take_sighting():
                    continue
                arrival, item = self._receiver.receive()
                is_awaited = arrival.reading == self._epoch.reading and arrival.shard != BEGUN
                if is_awaited and arrival.parcel is not None:
                    self._receiver.take_one()
            except HUNG_UP:
                self._replace_child()
                continue
            if arrival.shard == FAILED:
                raise _error_of(arrival)
            if is_awaited:
                self._note(arrival)
                return arrival, item

    def _note(self, arrival: Arrival) -> None:
        """Record how far a shard's items have come, for a replacement worker."""
        self._deaths = 0
        self._report = arrival.report or self._report
        if arrival.parcel is None:
            del self._places[arrival.shard]
        else:
            self._places[arrival.shard].advance(arrival.report)

    def _replace_child(self) -> None:
        """Replace a dead worker by one that resumes after its last arrivals, or raise its death."""
        self._let_go_of_dead()
        self._start()
        self.replaced += 1
        self._epoch = replace(self._epoch, again=self._epoch.again + 1)
        self._begin()

    def _let_go_of_dead(self) -> None:
        """Let go of a dead worker, with a warning, or raise its death."""
        death = self._death()
        self._deaths += 1
        if self._deaths >= self.child.deaths_in_a_row or self._dispatched:
            raise death from None
        warnings.warn(f"{death}. Another worker resumes after its last item", RuntimeWarning, stacklevel=2)
        self.child.let_go()

    def _death(self) -> RuntimeError:
        """Return the error of a dead worker; raise the worker's own error if it could not read at all."""
        with suppress(*HUNG_UP):
            while self.child.connection.poll():
                if not self.child.take_sighting() and (arrival := self._receiver.receive()[0]).shard == FAILED:
                    raise _error_of(arrival)
        how = self.child.end() or "has closed its connection"
        return RuntimeError(f"{self} {how}; what it printed, or the system's log, may say why")

    def _wait(self, interruption: Connection, needed: list[_Dispatcher]) -> None:
        """Wait until something arrives, or raise an error that says why nothing does."""
        stopped: list[_Line | _Dispatcher] = []
        patience = _CHECK_EVERY if self._timeout is None else min(self._timeout, _CHECK_EVERY)
        began = time.monotonic()
        connection = self.child.connection
        while not (ready := mp_connection.wait([connection, interruption], patience)):
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise TimeoutError(f"{self} gave no item for timeout={self._timeout} s{self.child.seen()}")
            if self.child.end(patience=0) is not None and not connection.poll():
                raise EOFError  # processes that the worker started keep the connection open
            everyone: list[_Line | _Dispatcher] = [self, *needed]
            before, stopped = stopped, [each for each in everyone if each.child.is_stopped()]
            for each in stopped:
                if each in before:
                    raise RuntimeError(f"{each} was stopped, as by SIGSTOP, and has not continued{each.seen()}")
        if interruption in ready:
            raise Interrupted

    @property
    def idle(self) -> float:
        """Seconds that the worker waited until more items were wanted, by its last report."""
        if self._report is None:
            return 0.0
        report: Report = pickle.loads(self._report)
        return report.idle

    def resize(self, room: int) -> None:
        """Let the worker read up to `room` items ahead from now on."""
        self._setup = replace(self._setup, prefetch=room)
        self._receiver.resize(room)

    def seen(self) -> str:
        """Return what the worker was doing, as the rest of a sentence, if known."""
        return self.child.seen()

    def hang_up(self) -> Child:
        """Tell the worker to end, and return it."""
        self._receiver.hang_up()
        self.child.let_go()
        return self.child

    def __str__(self) -> str:
        return f"{self._setup.name} {self.child}"


class _Dispatcher:
    """Reads streams once for all shards, with a line to the workers for each shard of each stream."""

    def __init__(self, streams: list[Any], children: Children, division: Division) -> None:
        pickled = _pickled_chain(streams)
        lines = [(point, shard) for point in range(len(streams)) for shard in division.shards]
        self.child, self.to_workers = children.dispatcher(lines)
        connection = self.child.connection
        connection.send_bytes(cloudpickle.dumps(children.preparations()))
        connection.send_bytes(pickle.dumps(division))
        connection.send_bytes(pickled)

    def let_workers_have_their_ends(self) -> None:
        """Close the workers' ends here; otherwise no worker would notice the process's death."""
        for end in self.to_workers.values():
            end.close()

    def seen(self) -> str:
        """Return what the process was doing, as the rest of a sentence, if known."""
        with suppress(*HUNG_UP):
            if self.child.connection.poll():
                self.child.take_sighting()
        return self.child.seen()

    def end(self, patience: float) -> str | None:
        """Return how the process ended, and what it was doing; None if it does not end within `patience` seconds."""
        self.seen()
        return self.child.end(patience)

    def gives_up(self, epoch: int, deadline: float) -> bool:
        """Say whether the process abandons the epochs before `epoch` in time."""
        connection = self.child.connection
        with suppress(*HUNG_UP):
            connection.send_bytes(epoch.to_bytes(8))
            while connection.poll(max(deadline - time.monotonic(), 0)):
                if not self.child.take_sighting():
                    connection.recv_bytes()
                    return True
        return False

    def hang_up(self) -> Child:
        """Tell the process to end, and return it."""
        self.child.let_go()
        return self.child

    def __str__(self) -> str:
        return f"{STREAM_READER} {self.child}"


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()
_warned_of: weakref.WeakSet[IterDataPipe[Any]] = weakref.WeakSet()
"""The chains of which a warning said that they are large: a loader may start several pools."""


def _leave_pools_to_parent() -> None:
    for pool in list(_pools):
        pool.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_pools_to_parent)


class WorkerPool:
    """Worker processes that read shards of a chain."""

    def __init__(self, options: ReadOptions, division: Division) -> None:
        chain, self._streams = divided(options.chain)
        self._chain = _pickled_chain(chain)
        if len(self._chain) >= MUCH_TO_SEND and options.chain not in _warned_of:
            _warned_of.add(options.chain)
            warn_of_copies(_attributes(chain), len(self._chain), options.num_workers)
        assert options.start is not None
        self._options = options
        self._children: Children = options.start()
        self.broken = False
        self._division = division
        self._epoch = Epoch(0, 0, Path(0))
        self._lines: list[_Line] = []
        self._dispatcher: _Dispatcher | None = None
        self._under_way: set[int] = set()
        """The unfinished shards of this epoch."""
        self._reports: dict[tuple[int, tuple[int, int]], bytes] = {}
        """The last report of each shard in each reading of this epoch, pickled."""
        self._interruption, self._interrupt = multiprocessing.Pipe(duplex=False)
        _pools.add(self)

    def open(self) -> None:
        """Start the workers."""
        self._start(self._options.num_workers)

    def _start(self, num_workers: int) -> None:
        """Start the workers that are missing."""
        options, division = self._options, self._division
        try:
            ends: dict[tuple[int, int], Any] = {}
            if self._streams:
                self._dispatcher = _Dispatcher(self._streams, self._children, division)
                ends = self._dispatcher.to_workers
            for worker_id in range(len(self._lines), num_workers):
                setup = Setup(
                    WorkerInfo(num_workers, worker_id),
                    self._children.name(worker_id, num_workers),
                    self._chain,
                    division,
                    options.init_fn,
                    options.reset_fn,
                    options.worker_prefetch,
                )
                own = {key: end for key, end in ends.items() if division.worker(key[1], num_workers) == worker_id}
                self._lines.append(_Line(setup, self._children, own, options.timeout))
            if self._dispatcher is not None:
                self._dispatcher.let_workers_have_their_ends()
        except BaseException:
            self.shutdown()
            raise

    def resize(self, num_workers: int, prefetch: int) -> None:
        """Read through so many workers from the next `begin` on, each `prefetch` items ahead from now on."""
        self._options = replace(self._options, worker_prefetch=prefetch)
        if num_workers != len(self._lines):
            # Lines of a dispatcher lead from one worker each.
            kept = 0 if self._dispatcher is not None else num_workers
            surplus: list[_Line | _Dispatcher] = [*self._lines[kept:], *self._needed()]
            del self._lines[kept:]
            self._dispatcher = None
            self._children.end([each.hang_up() for each in surplus])
            self._start(num_workers)
        for line in self._lines:
            line.resize(prefetch)

    def idle(self) -> float:
        """Return for how many seconds the workers waited until more items were wanted, by their last reports."""
        return sum(line.idle for line in [*self._lines])

    def begin(self, places: Iterable[Place], seed: int, path: Path, settled: list[Any], goes_on: bool = False) -> None:
        """Let every worker begin an epoch with its shards, or go on with it; shards left out are not read.

        Its steps get what they have `settled`.

        Afterwards the pool is `broken` if a process is stuck in an abandoned epoch.
        """
        given_up = [line for line in self._lines if any(self._line_of(shard) is line for shard in self._under_way)]
        self._under_way = {place.shard for place in places}
        self._epoch = Epoch(self._epoch.number + 1, seed, path, settled=settled)
        if not goes_on:
            self._reports = {}
        self._children.interrupt(False)
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
        for line in given_up:
            if not line.has_begun(deadline):
                line.child.kill()
                self.broken = True

    def receive(self, shard: int) -> Received:
        """Return the shard's next item or its end, as its worker sends it; raise the worker's error."""
        line = self._line_of(shard)
        try:
            arrival, item = line.receive(self._interruption, self._needed())
        except Interrupted:
            self.broken = line.child.connection.closed  # interrupted while replacing a dead worker
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
            theirs = _error_of(arrival)
            # A process's death may take a moment to show.
            if self._dispatcher is not None and (how := self._dispatcher.end(patience=0.2)) is not None:
                self.broken = True
                add_note(theirs, f"penstock: {self._dispatcher} {how}")
            raise theirs
        if arrival.report is not None:
            self._reports[shard, arrival.reading] = arrival.report
        return Received(item, arrival.report, ended=arrival.parcel is None)

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return, for each shard, what its steps had counted at its worker's last report."""
        last = {shard: report for (shard, _), report in [*self._reports.items()]}  # a state carries the counts on
        reports: Iterator[tuple[int, Report]] = ((shard, pickle.loads(report)) for shard, report in last.items())
        stats = {shard: report.stats for shard, report in reports}
        if replaced := sum(line.replaced for line in self._lines):
            stats[_OF_NO_SHARD] = {"workers": {"replaced": replaced}}
        return stats

    def profiles(self) -> list[ShardProfile]:
        """Return what the workers had measured at their last reports of each reading, in the order of the shards."""
        profiles = []
        for (shard, reading), pickled in sorted([*self._reports.items()]):
            report: Report = pickle.loads(pickled)
            if report.profile is not None:
                profiles.append(replace(report.profile, shard=shard, reading=reading))
        return profiles

    def interrupt(self) -> None:
        """Make a `receive` that waits in another thread raise Interrupted."""
        self._children.interrupt(True)
        if not self._interrupt.closed:
            self._interrupt.send_bytes(b"!")

    def leave_to_parent(self) -> None:
        """Let go of the workers without a message, in a process forked from their owner."""
        self.broken = True
        children = [line.child for line in self._lines] + [each.child for each in self._needed()]
        self._lines, self._dispatcher = [], None
        for child in children:
            child.let_go()
        self._interruption.close()
        self._interrupt.close()

    def shutdown(self) -> None:
        """End all workers; kill those that do not end by themselves."""
        children = [each.hang_up() for each in (*self._lines, self._dispatcher) if each is not None]
        self._lines, self._dispatcher = [], None
        self._children.end(children)
        self._interruption.close()
        self._interrupt.close()

    def _needed(self) -> list[_Dispatcher]:
        return [] if self._dispatcher is None else [self._dispatcher]

    def _line_of(self, shard: int) -> _Line:
        if not self._lines:
            raise RuntimeError(
                "the workers belong to the process from which this one was forked off: begin a new epoch"
            )
        return self._lines[self._division.worker(shard, len(self._lines))]


def _error_of(arrival: Arrival) -> Exception:
    """Return an error that arrived, with a cause that shows where it was raised."""
    assert arrival.error is not None
    error: Exception
    error, error.__cause__ = cloudpickle.loads(arrival.error)
    return error


def _pickled_chain(chain: IterDataPipe[Any] | list[Any]) -> bytes:
    try:
        return bytes(cloudpickle.dumps(chain))
    except Exception as error:
        for culprit, mend in (each for part in pipes_in(chain) for each in _not_picklable(part)):
            add_note(error, f"penstock: {culprit} cannot be pickled, so it cannot be sent to worker processes{mend}")
            break
        raise


def _not_picklable(chain: Any) -> Iterator[tuple[str, str]]:
    """Yield the attributes that cannot be pickled, each with its mend in a class of the user."""
    for pipe, name, value in _sent(chain):
        try:
            cloudpickle.dumps(value)
        except Exception:
            ours = type(pipe).__module__.startswith("penstock.")
            yield culprit_in(f"the {name} of {step(pipe)}", value), "" if ours else ": make it in __iter__"


def _attributes(chain: Any) -> Iterator[tuple[str, Any]]:
    """Yield what the steps of a chain hold, by names such as `fn of map`."""
    for pipe, name, value in _sent(chain):
        yield f"{name.lstrip('_')} of {getattr(pipe, 'functional_name', None) or type(pipe).__name__}", value


def _sent(chain: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield the attributes that are sent with a chain, without the sources, each after its step and its name."""
    for pipe in walk(chain):
        for name, value in vars(pipe).items():
            if name not in getattr(pipe, "transient", ()) and not [*pipes_in(value)]:
                yield pipe, name, value
