"""Measures the steps of a chain while they run: the time of each, its waits, and what its threads did.

A step is measured if it has a `Meter`. All times are in nanoseconds. The steps of a thread read one another: the own
time of a step is its time less that of the steps that it read meanwhile. Timing a call takes about half a µs, which
steps are not charged with. Where items are so fast that this would show, only some items of the thread's last step are
timed, chosen at random; `untimed` estimates the time of the others.
"""

from __future__ import annotations

import functools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TypeVar

from ..state.fields import Tally
from .untimed import MeterPart, Untimed, holds_meter, meter_at, waits_in

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

_MOST_COST = 0.005
"""Where timing takes more than this share of the time, some items stay untimed."""
_FIRST_CALLS = 500
"""Time this many calls before leaving any item untimed."""
_LONGEST_GAP = 1000
_LONG = 1_000_000
"""An untimed item is long if it takes more than this, and more than `_LONGER_BY` times the mean of timed items."""
_LONGER_BY = 10
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
        self._own = self._waiting = 0.0
        self._clock: Clock | None = None
        self.retrying = 0.0
        """The time between attempts."""
        self.bytes = 0.0
        """How much it read from files and objects."""
        self.room = 0
        """How many items may be ready for its reader, if it reads ahead."""
        self.looks = 0
        """How often its reader asked for an item that is read ahead."""
        self.ready = 0
        """How many items were ready then, summed over all looks."""
        self.empty = 0
        """How many looks found none."""
        self.blocked = 0
        """The time that its thread waited for room."""
        self.hands: list[Hand] = []
        """One for each thread that has worked for it."""
        self.threads = 0
        """How many threads have worked for it at once."""
        self.spans = Spans()

    def __reduce__(self) -> tuple[type[Meter], tuple[()]]:
        return Meter, ()

    @property
    def items(self) -> int:
        """How many items it gave."""
        return self._tally.items + self._called

    @property
    def own(self) -> float:
        """The time that it took itself, in the thread of its reader."""
        return self._own + self._of_left_out("own")

    @property
    def waiting(self) -> float:
        """The time that its reader waited in it for its threads or processes; no part of `own`."""
        return self._waiting + self._of_left_out("waiting")

    def _of_left_out(self, what: str) -> float:
        return 0.0 if self._clock is None else self._clock.untimed.time_of((self, what))

    @property
    def thread_of(self) -> Meter | None:
        """The step whose thread reads this one; None if no step reads ahead of it."""
        return None if self._clock is None else self._clock.thread_of

    def add(self, what: str, took: float) -> None:
        """Add the time of untimed items."""
        if what == "own":
            self._own += took
        else:
            self._waiting += took

    def count(self, items: Iterable[T]) -> Iterator[T]:
        """Return an iterator over the same items that counts them."""
        return self._tally.follow(items)

    def begin(self) -> tuple[Clock, Call | None]:
        """Begin a pass and its first item."""
        self._clock = clock = clock_of_thread()
        if clock.is_off:
            return clock, None
        if clock.meter is clock.root:
            clock.begin()
        return clock, self.enter(clock)

    def enter(self, clock: Clock) -> Call:
        """Begin an item, unless the clock is off."""
        reader, inner = clock.meter, clock.inner
        if reader is clock.root:
            if clock.gap:
                clock.gap -= 1
                clock.is_off = True
                clock.untimed.began = perf_counter_ns()
                return _NOT_TIMED
            clock.parts = []
        clock.meter, clock.inner = self, 0
        return reader, inner, perf_counter_ns()

    def leave(self, clock: Clock, call: Call) -> None:
        """End the item; `call` is what `enter` returned."""
        if clock.is_off:
            clock.is_off = False
            clock.untimed.end(clock.longest)
            return
        reader, inner, began = call
        took = perf_counter_ns() - began
        in_step, in_reader = _added
        own = max(took - clock.inner - in_step, 0)
        self._own += own
        clock.meter, clock.inner = reader, inner + took + in_reader
        clock.calls += 1
        if took > _SHORTEST_SPAN:
            self.spans.add(began, took)
        if clock.parts is not None:
            clock.parts.append(((self, "own"), own))
            if reader is clock.root:
                clock.plan(took)

    def end(self, clock: Clock, call: Call | None) -> None:
        """End a pass, and the current item, if any."""
        if call is not None:
            self.leave(clock, call)
        if clock.meter is clock.root and not clock.is_off:
            clock.settle()

    def call(self, function: Callable[..., T], items: int, *arguments: Any) -> T:
        """Call a function that makes `items` items of the step, measure it, and return its result."""
        self._called += items
        self._clock = clock = clock_of_thread()
        if clock.is_off:
            return function(*arguments)
        gap, clock.gap = clock.gap, 0  # time each: a direct call has no end event, to settle a gap
        call = self.enter(clock)
        clock.gap = gap
        try:
            return function(*arguments)
        finally:
            self.leave(clock, call)

    def looked(self, ready: int, took: int) -> None:
        """Count a request of the reader: `ready` items were there, and the item came after `took`."""
        self.looks += 1
        self.ready += ready
        if not ready:  # with items ready, another reason made it wait, such as the GIL
            clock = clock_of_thread()
            clock.inner += took
            self._waiting += took
            self.empty += 1
            if clock.parts is not None:
                clock.parts.append(((self, "waiting"), took))


Call = tuple["Meter | None", int, int]
"""An item being made: the step that reads it, the time of what that step has read before, and the beginning."""

_NOT_TIMED: Call = (None, 0, 0)


class Clock:
    """The measuring in one thread."""

    __slots__ = (
        "_before",
        "_calls",
        "_cost",
        "_items",
        "_took",
        "calls",
        "gap",
        "idle",
        "inner",
        "is_off",
        "longest",
        "meter",
        "parts",
        "root",
        "thread_of",
        "untimed",
    )

    def __init__(self) -> None:
        self.meter: Meter | None = None
        """The step being measured."""
        self.root: Meter | None = None
        """The `meter` when no step is being measured."""
        self.thread_of: Meter | None = None
        """The step whose thread this is."""
        self.inner = 0
        """The time of the steps that the present one has read."""
        self.idle = 0
        """The time that this thread waited because its items were not wanted yet."""
        self.is_off = False
        """Whether the present item is not timed."""
        self.gap: int
        """How many more items are not timed."""
        self.longest: int
        """The longest time of a quick item."""
        self.parts: list[tuple[MeterPart, float]] | None = None
        """The time of each part of the present item, if it is timed."""
        self.untimed = Untimed()
        self.begin()

    def begin(self) -> None:
        """Begin with another chain; its first items are all timed."""
        self.settle()
        self.gap = self._before = 0
        self.longest = _LONG
        self.calls = self._calls = self._items = self._took = self._cost = 0

    def settle(self) -> None:
        """Add the times of untimed items to the steps."""
        self.untimed.unwatch()
        untimed, self.untimed = self.untimed, Untimed()
        for (meter, what), took in untimed.times().items():
            meter.add(what, took)

    def plan(self, took: int) -> None:
        """Decide how many items to leave untimed after a timed one."""
        began = perf_counter_ns()
        if self.parts is not None and took <= self.longest:
            self.untimed.told_by(self.parts, self._before)
        self.parts = None
        calls, self.calls, self.inner = self.calls, 0, 0
        self._calls += calls
        self._took += took
        self._items += 1
        self.longest = max(_LONG, self._took * _LONGER_BY // self._items)
        if self._calls < _FIRST_CALLS or self._cost <= self._took * _MOST_COST:
            self.gap = 0
        else:
            mean = min(self._cost / (self._took * _MOST_COST + 1), _LONGEST_GAP)
            self.gap = int(_random.random() * 2 * mean)
            self.untimed.watch()
        self._before = self.gap
        self._cost += calls * sum(_added) + perf_counter_ns() - began


_random = random.Random(0)  # not the program's generator, whose numbers must stay the same


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
    clock, rounds = Clock(), []
    for _ in range(20):  # the fastest was the least disturbed
        reader, step = Meter(), Meter()
        for _ in range(_FIRST_CALLS // 2):
            outer = reader.enter(clock)
            step.leave(clock, step.enter(clock))
            reader.leave(clock, outer)
        clock.settle()
        rounds.append((reader.own, step.own))
    of_reader, of_step = min(rounds)
    calls = _FIRST_CALLS // 2
    _added = round(of_step / calls), round((of_reader - of_step) / calls)


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


def _meter_here() -> Meter | None:
    """Return the meter of the step that this thread is running, or works for, even if its item is not timed."""
    if not _active or not _here.clock.is_off:
        return current_meter()
    part = meter_at(sys._getframe())
    return None if part is None else part[0]


def count_bytes(number: int) -> None:
    """Count bytes that the step in this thread has read."""
    if (meter := _meter_here()) is not None:
        meter.bytes += number


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
    if (meter := _meter_here()) is not None:
        meter.retrying += perf_counter_ns() - began


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


holds_meter(Meter.call, "self")
waits_in(wait_of)
