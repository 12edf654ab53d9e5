"""Measures the steps of a chain while they run: the time of each, its waits, and what its threads did.

A step is measured if it has a `Meter`. All times are in nanoseconds. The steps of a thread read one another: the own
time of a step is its time less that of the steps that it read meanwhile. Timing a call takes about half a µs, which
steps are not charged with. Where items are so fast that this would show, only some items of the thread's last step are
timed, chosen at random. Each of them stands for those left out before it.
"""

from __future__ import annotations

import functools
import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeVar

from .own import Tally

__all__ = [
    "Hand",
    "Meter",
    "acquire",
    "allow_for_timing",
    "as_step",
    "count_bytes",
    "current_meter",
    "pause_of_retry",
    "wait_of",
    "work_as",
]

T = TypeVar("T")

_MOST_COST = 0.01
"""The share of the time that measuring may take, before items are left out."""
_FIRST_CALLS = 500
"""So many are measured before any is left out."""
_LONGEST_GAP = 1000
_MOST_SPANS = 500
_BETWEEN_PROBES = 10_000_000
_SHORTEST_SPAN = 10_000
"""Shorter calls are not drawn on a time line."""


class Spans:
    """The beginnings and durations of some calls, spread over the whole time."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int]] = []
        self._every = 1
        self._seen = 0

    def add(self, began: int, took: int) -> None:
        """Keep one call in so many."""
        self._seen += 1
        if self._seen % self._every:
            return
        self.kept.append((began, took))
        if len(self.kept) >= _MOST_SPANS:
            del self.kept[::2]
            self._every *= 2


class Hand:
    """What one thread did for a step, in the background."""

    def __init__(self) -> None:
        self.items = 0
        self.busy = 0
        self.cpu = 0
        """The processor time; less than `busy` if the thread waited, for the GIL, a network or another process."""
        self.queued = 0
        """How long other work had the processor while the thread could have run. It is known on Linux only."""
        self._queued_before: int | None = None
        self.gil_waits = 0
        """How long it took to get the GIL back, in all probes."""
        self.probes = 0
        self._next_probe = 0
        self.spans = Spans()

    def do(self, function: Callable[[Any], T], item: Any) -> T:
        """Call a function, and measure it."""
        clock = _here.clock
        if self._queued_before is None:
            self._queued_before = _queued_of_thread()
        began, cpu, idle = perf_counter_ns(), time.thread_time_ns(), clock.idle
        try:
            return function(item)
        finally:
            took = perf_counter_ns() - began - (clock.idle - idle)
            self.items += 1
            self.busy += took
            self.cpu += time.thread_time_ns() - cpu
            self._probe()
            if took > _SHORTEST_SPAN:
                self.spans.add(began, took)

    def _probe(self) -> None:
        """Release the GIL now and then: it comes back at once, unless other threads hold it while they compute."""
        began = perf_counter_ns()
        if began >= self._next_probe:
            queued = _queued_of_thread()
            began = perf_counter_ns()
            time.sleep(0)
            took = perf_counter_ns() - began
            queued_after = _queued_of_thread()
            self.gil_waits += max(took - (queued_after - queued), 0)
            self.probes += 1
            self.queued = queued_after - (self._queued_before or 0)
            self._next_probe = began + took + _BETWEEN_PROBES


def _queued_of_thread() -> int:
    """Return how long this thread has waited for a processor."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return 0


class Meter:
    """What a step did in this process, since it has been measured. A copy or pickle of it is a fresh one."""

    def __init__(self) -> None:
        global _active
        _active = True
        self._tally = Tally()
        self._called = 0
        self.own = 0.0
        """The time that it took itself, in the thread of its reader."""
        self.waiting = 0.0
        """The time that its reader waited in it for its threads or processes; no part of `own`."""
        self.retrying = 0.0
        """The time between attempts."""
        self.bytes = 0.0
        """How much it read from files and objects."""
        self.room = 0
        """How many items may be ready for its reader, if it reads ahead."""
        self.looks = 0
        """How often its reader asked for an item that is read ahead."""
        self.ready = 0
        """How many items were ready then, all looks together."""
        self.empty = 0
        """How many looks found none."""
        self.blocked = 0
        """The time that its thread waited for room."""
        self.hands: list[Hand] = []
        """One for each thread that has worked for it."""
        self.threads = 0
        """How many threads have worked for it at once."""
        self.thread_of: Meter | None = None
        """The step whose thread reads this one; None if no step reads ahead of it."""
        self.spans = Spans()

    def __reduce__(self) -> tuple[type[Meter], tuple[()]]:
        return Meter, ()

    @property
    def items(self) -> int:
        """How many items it gave."""
        return self._tally.items + self._called

    def follow(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the same items, and measure what they take."""
        source = self._tally.follow(items)
        clock = clock_of_thread()
        self.thread_of = clock.thread_of
        if clock.meter is clock.root and not clock.is_off:
            clock.begin()
        while True:
            if clock.is_off:
                for item in source:
                    yield item
                    if not clock.is_off:
                        break
                else:
                    return
            elif clock.gap and clock.meter is clock.root:
                clock.gap -= 1
                clock.is_off = True
                try:
                    item = next(source)
                except StopIteration:
                    return
                finally:
                    clock.is_off = False
                    if not clock.gap:
                        clock.left_out = perf_counter_ns() - clock.planned
                yield item
            else:
                try:
                    item = self._timed(clock, next, source)
                except StopIteration:
                    return
                yield item

    def call(self, function: Callable[..., T], items: int, *arguments: Any) -> T:
        """Return what a function returns, which makes so many items of the step, and measure what it takes."""
        self._called += items
        clock = clock_of_thread()
        return function(*arguments) if clock.is_off else self._timed(clock, function, *arguments)

    def _timed(self, clock: Clock, function: Callable[..., T], *arguments: Any) -> T:
        reader, inner = clock.meter, clock.inner
        clock.meter, clock.inner = self, 0
        began = perf_counter_ns()
        try:
            return function(*arguments)
        finally:
            took = perf_counter_ns() - began
            in_step, in_reader = _added
            self.own += clock.with_left_out(max(took - clock.inner - in_step, 0))
            clock.meter, clock.inner = reader, inner + took + in_reader
            clock.calls += 1
            if took > _SHORTEST_SPAN:
                self.spans.add(began, took)
            if reader is clock.root:
                clock.plan(took)

    def looked(self, ready: int, took: int) -> None:
        """Count that the reader asked for an item: `ready` were there, and it came after so long."""
        self.looks += 1
        self.ready += ready
        if not ready:  # else it took long for another reason, such as the GIL
            clock = clock_of_thread()
            clock.inner += took
            self.waiting += clock.with_left_out(took)
            self.empty += 1


class Clock:
    """The measuring in one thread."""

    __slots__ = (
        "_calls",
        "_took",
        "calls",
        "gap",
        "idle",
        "inner",
        "is_off",
        "left_out",
        "meter",
        "planned",
        "root",
        "thread_of",
        "weight",
    )

    def __init__(self) -> None:
        self.meter: Meter | None = None
        """The step that is being measured."""
        self.root: Meter | None = None
        """The `meter` when no step is being measured."""
        self.thread_of: Meter | None = None
        """The step whose thread this is."""
        self.inner = 0
        """The time of the steps that the present one has read."""
        self.idle = 0
        """The time that this thread waited until what it makes is wanted."""
        self.is_off = False
        """Whether the present item is not timed."""
        self.gap: int
        """How many more items are not timed."""
        self.weight: int
        """How many items the timed one stands for."""
        self.planned: int
        """When the present gap began."""
        self.left_out: int
        """How long the last gap was."""
        self.begin()

    def begin(self) -> None:
        """Begin with another chain; its first items are all timed."""
        self.gap, self.weight = 0, 1
        self.planned = self.left_out = 0
        self.calls = self._calls = self._took = 0

    def plan(self, took: int) -> None:
        """Decide how many items are left out after one that took so long."""
        self._took += took
        calls, self.calls = self.calls, 0
        self._calls += calls
        self.inner = 0
        cost = self._calls * sum(_added)
        if self._calls < _FIRST_CALLS or cost <= self._took * _MOST_COST:
            self.gap = 0
        else:
            mean = min(cost / (self._took * _MOST_COST + 1), _LONGEST_GAP)
            self.gap = int(_random.random() * 2 * mean)
        self.weight = self.gap + 1
        self.planned, self.left_out = perf_counter_ns(), 0

    def with_left_out(self, took: int) -> int:
        """Return a time with what it stands for: as much for each item left out, but no longer than they all took."""
        return took + min(took * (self.weight - 1), self.left_out)


_random = random.Random(0)  # not the program's, whose numbers must stay the same


class _Here(threading.local):
    def __init__(self) -> None:
        self.clock = Clock()


_here = _Here()
_active = False
"""Whether this process has measured anything."""
_added = (0, 0)
"""What timing a call adds to the time of its step, and to that of the step's reader."""


@functools.cache
def allow_for_timing() -> None:
    """Find out what timing a call adds, so that steps are not charged with it."""
    global _added
    own, _here.clock = _here.clock, Clock()
    rounds = []
    for _ in range(20):  # the fastest was the least disturbed
        reader, step = Meter(), Meter()
        deque(reader.follow(step.follow(itertools.repeat(None, _FIRST_CALLS // 2))), maxlen=0)
        rounds.append((reader.own, step.own))
    _here.clock = own
    of_reader, of_step = min(rounds)
    _added = round(of_step / step.items), round((of_reader - of_step) / step.items)


def clock_of_thread() -> Clock:
    """Return the clock of this thread."""
    return _here.clock


def current_meter() -> Meter | None:
    """Return the meter of the step that this thread is running, or works for; None if its item is not timed."""
    if not _active:
        return None
    clock = _here.clock
    return None if clock.is_off else clock.meter


@contextmanager
def as_step(meter: Meter | None) -> Iterator[None]:
    """Let threads that are made meanwhile work for a step, even if its present item is not timed."""
    clock = clock_of_thread()
    before = clock.meter, clock.is_off
    if meter is not None:
        clock.meter, clock.is_off = meter, False
    try:
        yield
    finally:
        clock.meter, clock.is_off = before


def work_as(meter: Meter, is_reader: bool = False) -> None:
    """Let this thread work for a step; `is_reader` if it reads the step's source."""
    clock = clock_of_thread()
    clock.meter = clock.root = meter
    if is_reader:
        clock.thread_of = meter


def count_bytes(number: int) -> None:
    """Count bytes that the step in this thread has read."""
    if (meter := current_meter()) is not None:
        meter.bytes += number * _here.clock.weight


def wait_of(get: Callable[[], T], ready: Callable[[], int]) -> T:
    """Return what `get` returns, and count the wait for it, if the step in this thread is measured."""
    if (meter := current_meter()) is None:
        return get()
    number, began = ready(), perf_counter_ns()
    try:
        return get()
    finally:
        meter.looked(number, perf_counter_ns() - began)


def pause_of_retry(pause: Callable[[], object]) -> None:
    """Wait before another attempt."""
    began = perf_counter_ns()
    pause()
    if (meter := current_meter()) is not None:
        meter.retrying += _here.clock.with_left_out(perf_counter_ns() - began)


def acquire(room: threading.Semaphore) -> None:
    """Wait for room; the wait is no work of the thread."""
    if (meter := current_meter()) is None:
        room.acquire()
        return
    began = perf_counter_ns()
    room.acquire()
    waited = perf_counter_ns() - began
    _here.clock.idle += waited
    meter.blocked += waited
