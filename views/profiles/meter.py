"""Measures the steps of a chain while they run: the time of each, its waits, and what its threads did.

Every item is timed. The steps of a thread read one another: the own time of a step is its time less that of the steps
that it read meanwhile, and less what the timing itself takes. That is measured now and then, since the speed of a
processor changes. All times are in nanoseconds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import Any, TypeVar

from ...errors.observer import Worker, here

__all__ = ["Meter", "allow_for_timing"]

T = TypeVar("T")

_MOST_SPANS = 500
_SHORTEST_SPAN = 10_000
"""Shorter calls are not drawn on a time line."""
_BETWEEN_TRIALS = 1000
"""After so many items of a step, what the timing takes is measured again."""
_CALLS = 4
"""How many items a trial has."""

_trials: deque[tuple[int, int]] = deque(maxlen=9)
_in_step = _in_reader = 0
"""What timing an item adds to the time of its step, and to that of the step's reader: the medians of `_trials`."""


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


class Meter(Worker):
    """What one thread did for a step: the thread of its reader, or one that works for it.

    A copy or pickle of it is a fresh one.
    """

    def __init__(self, reads_for: Meter | None = None) -> None:
        self._reads_for = reads_for
        """The step whose source this thread reads."""
        self._reader: Any = None
        """The meter of what runs the step: that of another step, or of a thread."""
        self._began = 0
        self._inner = 0
        """The time in the present item that is not the step's own."""
        self._own = 0
        self.items = 0
        """How many items it gave."""
        self.cpu = 0
        """The processor time of `call`."""
        self.waiting = 0
        """The time that its reader waited in it for its threads or processes; no part of `own`."""
        self.retrying = 0
        """The time between attempts."""
        self.blocked = 0
        """The time that its thread waited for room."""
        self.bytes = 0
        """How much it read from files and objects."""
        self.capacity = 0
        """How many items may be ready for its reader, if it reads ahead."""
        self.looks = 0
        """How often its reader asked for an item that is read ahead."""
        self.ready = 0
        """How many items were ready then, summed over all looks."""
        self.empty = 0
        """How many looks found none."""
        self.threads = 0
        """How many threads have worked for it at once."""
        self.helpers: list[Meter] = []
        """One for each thread that has worked for it."""
        self.spans = Spans()

    def __reduce__(self) -> tuple[type[Meter], tuple[()]]:
        return Meter, ()

    @property
    def own(self) -> int:
        """The time that it took itself."""
        return max(self._own, 0)

    @property
    def thread_of(self) -> Meter | None:
        """The step whose thread reads this one; None if no step reads ahead of it."""
        meter = self
        while meter._reader is not None:
            meter = meter._reader
        return meter._reads_for

    def all_helpers(self) -> Iterator[Meter]:
        """Yield its helpers, and theirs."""
        for helper in [*self.helpers]:
            yield helper
            yield from helper.all_helpers()

    def enter(self) -> None:
        """Begin an item."""
        self._reader = here.observer
        here.observer = self
        self._inner = 0
        self._began = perf_counter_ns()

    def leave(self, items: int = 0) -> None:
        """End an item, if this thread has begun one."""
        ended = perf_counter_ns()
        if here.observer is not self:
            return
        took = ended - self._began
        self._own += took - self._inner - _in_step
        self.items += items
        here.observer = reader = self._reader
        if reader is not None:
            reader._inner += took + _in_reader
        if took > _SHORTEST_SPAN:
            self.spans.add(self._began, took)
        if not self.items % _BETWEEN_TRIALS:
            _try()

    def time(self, function: Callable[..., T], items: int, *arguments: Any) -> T:
        """Call a function that makes `items` items of the step, perhaps in a call of the same step."""
        outer, observer = (self._reader, self._began, self._inner), here.observer
        self.enter()
        try:
            return function(*arguments)
        finally:
            self.leave(items)
            self._reader, self._began, self._inner = outer
            here.observer = observer

    def call(self, function: Callable[[Any], T], item: Any) -> T:
        """Call a function in a thread that works for the step."""
        cpu = time.thread_time_ns()
        self.enter()
        try:
            return function(item)
        finally:
            self.leave(1)
            self.cpu += time.thread_time_ns() - cpu

    def worker(self) -> Meter:
        """Return the meter of a thread that works for the step."""
        self.helpers.append(worker := Meter())
        return worker

    def reader(self) -> Meter:
        """Return the meter of a thread that reads the source of the step."""
        self.helpers.append(reader := Meter(reads_for=self))
        return reader

    def read_bytes(self, number: int) -> None:
        """Count bytes."""
        self.bytes += number

    def waited_for_retry(self, took: int) -> None:
        """Count a pause between two attempts."""
        self.retrying += took

    def waited_for_item(self, ready: int, took: int) -> None:
        """Count a request for an item that a thread makes."""
        self.looks += 1
        self.ready += ready
        if not ready:  # with items ready, another reason made it wait, such as the GIL
            self._inner += took
            self.waiting += took
            self.empty += 1

    def waited_for_capacity(self, took: int) -> None:
        """Count a wait, which is no work."""
        self._inner += took
        self.blocked += took


def allow_for_timing() -> None:
    """Find out what timing an item adds, so that steps are not charged with it."""
    for _ in range(_trials.maxlen or 1):
        _try()


def _try() -> None:
    global _in_step, _in_reader
    trial, reader, step = Meter(), Meter(), Meter()
    trial.enter()  # so that the step in this thread is not charged with the trial
    for _ in range(_CALLS):
        reader.enter()
        step.enter()
        step.leave(1)
        reader.leave(1)
    # The meters' own times are what is not allowed for yet.
    of_step, of_both = step._own // _CALLS, reader._own // _CALLS
    _trials.append((_in_step + of_step, _in_reader + of_both - of_step))
    _in_step, _in_reader = (sorted(each)[len(each) // 2] for each in zip(*[*_trials], strict=True))
    trial.leave(1)
