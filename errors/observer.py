"""What a profile measures of steps while they run: the time of each, its waits, and what its threads did.

`here.observer` is the observer of the step that this thread runs or works for. Without one, nothing is measured. The
steps of a thread read one another: the own time of a step is its time less that of the steps that it read meanwhile,
and less the cost of the timing itself. All times are in seconds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_SPANS = 500
_SHORTEST_SPAN = 10e-6
"""Shorter calls are not drawn on a time line."""


@dataclass(slots=True)
class Measurements:
    """What was measured of a step, or of one of its threads."""

    items: int = 0
    """How many items it gave."""
    own: float = 0.0
    """The time that it took itself, in the thread of its reader."""
    waiting: float = 0.0
    """The time that its reader waited in it for its threads or processes; no part of `own`."""
    retrying: float = 0.0
    """The time between attempts."""
    blocked: float = 0.0
    """The time that its threads waited for room."""
    cpu: float = 0.0
    """The processor time of its threads; less than they worked if they waited, for the GIL, a network or a process."""
    bytes: int = 0
    """How much it read from files and objects."""
    threads: int = 0
    """How many threads worked for it at once."""
    reads_ahead: bool = False
    """Whether a thread of its own reads its source."""
    capacity: int = 0
    """How many items may be ready for its reader, if threads make them."""
    looks: int = 0
    """How often its reader asked for an item that a thread makes."""
    ready: int = 0
    """How many items were ready then, summed over all looks."""


@dataclass(eq=False, slots=True)  # without slots, timing an item takes half as long again
class Observer(Measurements):
    """Measures what one thread does for a step: the thread of its reader, or one that works for it."""

    cost: tuple[float, float] = (0.0, 0.0)
    """What timing an item adds to the time of its step, and to that of the step's reader."""
    helpers: list[Observer] = field(default_factory=list)
    """One for each thread that has worked for the step."""
    spans: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_MOST_SPANS))
    """The beginnings and durations of the last calls, for a time line."""
    _reader: Observer | None = None
    """That of what runs the step: another step, or a thread."""
    _began: float = 0.0
    _inner: float = 0.0
    """The time in the present item that is not the step's own."""

    def enter(self) -> None:
        """Begin an item: this thread runs the step now."""
        self._reader = here.observer
        here.observer = self
        self._inner = 0.0
        self._began = perf_counter()

    def leave(self, items: int = 0) -> None:
        """End what `enter` began, with so many items made; do nothing if this thread does not run the step."""
        ended = perf_counter()
        if here.observer is not self:
            return
        took = ended - self._began
        in_step, in_reader = self.cost
        self.own += took - self._inner - in_step
        self.items += items
        here.observer = reader = self._reader
        if reader is not None:
            reader._inner += took + in_reader
        if took > _SHORTEST_SPAN:
            self.spans.append((self._began, took))

    def time(self, function: Callable[..., T], items: int, *arguments: Any) -> T:
        """Call a function that makes `items` items of the step."""
        self.enter()
        try:
            return function(*arguments)
        finally:
            self.leave(items)

    def worker(self) -> Observer:
        """Return the observer of a thread that works for the step."""
        self.helpers.append(worker := Observer(cost=self.cost, helpers=self.helpers))
        return worker

    def call(self, function: Callable[[Any], T], item: Any) -> T:
        """Call a function in the thread of a `worker`."""
        cpu = time.thread_time()
        try:
            return self.time(function, 1, item)
        finally:
            self.cpu += time.thread_time() - cpu

    def leave_out(self, wait: float) -> float:
        """Return the time of a wait, which is no part of the step's own."""
        self._inner += wait
        return wait


class _Here(threading.local):
    observer: Observer | None = None


here = _Here()


def count_bytes(number: int) -> None:
    """Count bytes that the step in this thread has read from files and objects."""
    if (observer := here.observer) is not None:
        observer.bytes += number


def pause_of_retry(pause: Callable[[], object]) -> None:
    """Wait before another attempt."""
    began = perf_counter()
    pause()
    if (observer := here.observer) is not None:
        observer.retrying += perf_counter() - began


def wait_of(get: Callable[[], T], ready: Callable[[], int]) -> T:
    """Return what `get` returns, when a thread has made it; `ready` returns how many items are there."""
    if (observer := here.observer) is None:
        return get()
    number, began = ready(), perf_counter()
    try:
        return get()
    finally:
        observer.looks += 1
        observer.ready += number
        if not number:  # with items ready, another reason made it wait, such as the GIL
            observer.waiting += observer.leave_out(perf_counter() - began)


def acquire(semaphore: threading.Semaphore) -> None:
    """Acquire a semaphore; the wait is no work of the thread, whose items are not wanted yet."""
    began = perf_counter()
    semaphore.acquire()
    if (observer := here.observer) is not None:
        observer.blocked += observer.leave_out(perf_counter() - began)
