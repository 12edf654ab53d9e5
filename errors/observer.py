"""The hook by which a profile listens to what steps do.

`here.observer` is the observer of the step that this thread runs or works for. Without one, nothing is reported. All
times are in nanoseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Protocol, TypeVar

__all__ = ["Observer", "Worker", "acquire", "count_bytes", "here", "pause_of_retry", "wait_of"]

T = TypeVar("T")


class Observer(Protocol):
    """Listens to a step, or to one thread that works for it."""

    capacity: int
    """How many items may be ready for the reader, if the step reads ahead."""
    threads: int
    """How many threads work for the step at once."""

    def enter(self) -> None:
        """Begin an item: this thread runs the step now."""

    def leave(self, items: int = 0) -> None:
        """End what `enter` began, with so many items made; do nothing if this thread does not run the step."""

    def worker(self) -> Worker:
        """Return the observer of a thread that works for the step."""

    def reader(self) -> Observer:
        """Return the observer of a thread that reads the source of the step."""

    def read_bytes(self, number: int) -> None:
        """Count bytes read from files and objects."""

    def waited_for_retry(self, took: int) -> None:
        """Count a pause between two attempts."""

    def waited_for_item(self, ready: int, took: int) -> None:
        """Count a request for an item that a thread makes: `ready` items were there, and it came after `took`."""

    def waited_for_capacity(self, took: int) -> None:
        """Count a wait of a thread whose items are not wanted yet."""


class Worker(Observer, Protocol):
    """Listens to one thread that works for a step."""

    def call(self, function: Callable[[Any], T], item: Any) -> T:
        """Return the result of a function."""


class _Here(threading.local):
    observer: Observer | None = None


here = _Here()


def count_bytes(number: int) -> None:
    """Count bytes that the step in this thread has read."""
    if (observer := here.observer) is not None:
        observer.read_bytes(number)


def pause_of_retry(pause: Callable[[], object]) -> None:
    """Wait before another attempt."""
    began = perf_counter_ns()
    pause()
    if (observer := here.observer) is not None:
        observer.waited_for_retry(perf_counter_ns() - began)


def wait_of(get: Callable[[], T], ready: Callable[[], int]) -> T:
    """Return what `get` returns, when a thread has made it; `ready` returns how many items are there."""
    if (observer := here.observer) is None:
        return get()
    number, began = ready(), perf_counter_ns()
    try:
        return get()
    finally:
        observer.waited_for_item(number, perf_counter_ns() - began)


def acquire(semaphore: threading.Semaphore) -> None:
    """Acquire a semaphore; the wait is no work of the thread."""
    began = perf_counter_ns()
    semaphore.acquire()
    if (observer := here.observer) is not None:
        observer.waited_for_capacity(perf_counter_ns() - began)
