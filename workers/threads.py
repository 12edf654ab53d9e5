"""Threads that work for one pass over a pipe, and end with it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from ..errors.notes import describe_item
from ..errors.observer import here, wait_of

T = TypeVar("T")
R = TypeVar("R")

PATIENCE = 30.0
"""Seconds for a thread to finish its item when the result is no longer wanted."""

Outcome = tuple[int | None, Any, BaseException | None]
"""An item's number, and its result or error; without a number, an error that belongs to no item."""


class Interrupted(BaseException):
    """Another thread abandoned the pass."""


_get: Any = SimpleQueue.get

_process = os.getpid()
"""This process's id, cached: a system call each time would cost more than a queue."""


def _know_process() -> None:
    global _process
    _process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_know_process)


class Arrivals(SimpleQueue[T]):
    """A queue that threads of this process fill.

    A forked process has no such threads: `get` raises RuntimeError there instead of waiting.
    """

    def __init__(self) -> None:
        self._process = _process

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Return the first arrival, when there is one."""
        if self._process is not _process:
            raise RuntimeError(
                f"the threads that work for this pass are those of process {self._process}, from which this one, "
                f"process {_process}, was forked off: begin a new pass here"
            )
        item: T = wait_of(partial(_get, self, block, timeout), self.qsize)
        return item


def join(threads: Iterable[threading.Thread], patience: float) -> bool:
    """Wait for threads to end, and say whether they have."""
    if sys.is_finalizing():
        return True  # the interpreter has ended them
    deadline = time.monotonic() + patience
    # Garbage collection may call this in one of them. One that was just being started, when an interrupt came, ends
    # without being waited for.
    others = [thread for thread in threads if thread is not threading.current_thread() and thread.is_alive()]
    for thread in others:
        thread.join(max(deadline - time.monotonic(), 0))
    return not any(thread.is_alive() for thread in others)


class Threads:
    """Up to `most` threads that call a function on items, and put each result into the queue `arrivals`.

    `function_of_thread` is called once in each thread, and returns the function. `insist` is called if threads have not
    ended in time.

    Not concurrent.futures' pool: it delays interpreter exit until all submitted work is done, and has no wait with a
    timeout.
    """

    def __init__(
        self,
        function_of_thread: Callable[[], Callable[[Any], Any]],
        most: int,
        name: str,
        patience: float = PATIENCE,
        insist: Callable[[], None] | None = None,
    ) -> None:
        self._function_of_thread = function_of_thread
        self.arrivals: Arrivals[Outcome] = Arrivals()
        self._most = most
        self._name = name
        self._patience = patience
        self._insist = insist
        self._tasks: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._in_hand: dict[threading.Thread, Any] = {}
        self.stopped = threading.Event()
        """Set when the results are no longer wanted."""
        self._resized = threading.Condition()
        self.idle = 0.0
        """Seconds that threads had nothing to do, all together."""
        self._observer = here.observer

    def resize(self, most: int) -> None:
        """Let up to `most` threads work from now on; others wait."""
        with self._resized:
            self._most = most
            self._resized.notify_all()

    def submit(self, number: int, item: Any) -> None:
        """Give an item to the next free thread."""
        self._tasks.put((number, item))
        if len(self._threads) >= self._most:
            return
        with self._resized:  # `stop`, which another thread may call, waits for threads that have started
            if self.stopped.is_set():
                return
            if not self._threads:  # a thread inside torch's code at interpreter exit may abort the process
                atexit.register(self.stop)
            number = len(self._threads)
            thread = threading.Thread(target=self._work, args=(number,), name=f"{self._name}_{number}", daemon=True)
            self._threads.append(thread)  # first: Ctrl-C may fall while it starts, and `stop` is to know of it
            thread.start()
        if self._observer is not None:
            self._observer.threads = max(self._observer.threads, len(self._threads))

    def stop(self) -> None:
        """Drop what has not begun, and wait for what has; RuntimeError if that does not end."""
        with self._resized:
            if self.stopped.is_set():
                return
            self.stopped.set()
        atexit.unregister(self.stop)
        self.resize(len(self._threads))
        for _ in self._threads:
            self._tasks.put(None)
        if join(self._threads, self._patience):
            return
        if self._insist is not None:
            self._insist()
            if join(self._threads, self._patience):
                return
        items = ", ".join(describe_item(item) for item in [*self._in_hand.values()])
        raise RuntimeError(f"still running {self._patience} s after it was cancelled: {items}")

    def _work(self, place: int) -> None:
        me = threading.current_thread()
        try:
            function = self._function_of_thread()
        except BaseException as error:  # raised again where the results are read
            self.arrivals.put((None, None, error))
            return
        if self._observer is not None:
            function = partial(self._observer.worker().call, function)
        while (task := self._next_task(place)) is not None and not self.stopped.is_set():
            number, item = task
            self._in_hand[me] = item
            try:
                self.arrivals.put((number, function(item), None))
            except BaseException as error:
                self.arrivals.put((number, None, error))
            del self._in_hand[me], task, item  # else an idle thread would keep it alive

    def _next_task(self, place: int) -> tuple[int, Any] | None:
        if place >= self._most:
            with self._resized:
                self._resized.wait_for(lambda: place < self._most)
        began = time.perf_counter()
        task = self._tasks.get()
        self.idle += time.perf_counter() - began
        return task


def map_in_threads(
    function: Callable[[T], R],
    items: Sequence[T],
    most: int,
    name: str,
    patience: float = PATIENCE,
    give_up: Callable[[], object] | None = None,
) -> list[R]:
    """Return what a function makes of each item, called in up to `most` threads, or raise the first error.

    `give_up` is called at the end: calls that still run should end soon.
    """
    results: dict[int, R] = {}
    threads = Threads(lambda: function, min(most, len(items)), name, patience)
    try:
        for number, item in enumerate(items):
            threads.submit(number, item)
        while len(results) < len(items):
            place, result, error = threads.arrivals.get()
            assert place is not None  # threads have no start-up that could fail
            if error is not None:
                raise error
            results[place] = result
    finally:
        if give_up is not None:
            give_up()
        threads.stop()
    return [results[place] for place in range(len(items))]


class InlineWorkers:
    """Calls a function on each item in the thread that submits it: `Threads` without a thread."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.arrivals: Arrivals[Outcome] = Arrivals()
        self._function = function

    def submit(self, number: int, item: Any) -> None:
        """Put the result of an item into `arrivals`."""
        try:
            self.arrivals.put((number, self._function(item), None))
        except BaseException as error:  # raised again where the results are read
            self.arrivals.put((number, None, error))

    def stop(self) -> None:
        """Do nothing: nothing runs."""


class Pool(Protocol):
    """What threads call: processes, actors or models of this process. It is kept from one pass to the next."""

    def are_ours(self) -> bool:
        """Say whether this process can use it: it may have been forked off, or have another connection now."""

    def threads(self, wrap: Callable[[Callable[..., Any]], Callable[[Any], Any]], most: int) -> Threads:
        """Return up to `most` threads for a pass, each of which calls a member through the function of `wrap`."""

    def close(self) -> None:
        """End all members."""
