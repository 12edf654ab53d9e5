"""Threads that work for one pass over a pipe, and end with it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Any, TypeVar

from ..registry.notes import describe_item

__all__ = ["PATIENCE", "Arrivals", "Interrupted", "Outcome", "Threads", "join"]

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds that what a thread has in hand may take when its results are no longer wanted."""

Outcome = tuple[int | None, Any, BaseException | None]
"""The number of an item, its result, or its error; without a number, an error that belongs to no item."""


class Interrupted(BaseException):
    """Another thread said that the pass is given up."""


_get: Any = SimpleQueue.get

_process = os.getpid()
"""This process: asking the system each time would cost more than a queue."""


def _know_process() -> None:
    global _process
    _process = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_know_process)


class Arrivals(SimpleQueue[T]):
    """A queue that threads of this process fill; in a process that is forked off, which has no such threads, no wait.

    Raises RuntimeError there when something is taken.
    """

    def __init__(self) -> None:
        self._process = _process

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Return what arrived first, when there is something."""
        if self._process is not _process:
            raise RuntimeError(
                f"the threads that work for this pass are those of process {self._process}, from which this one, "
                f"process {_process}, was forked off: begin a new pass here"
            )
        item: T = _get(self, block, timeout)
        return item


def join(threads: Iterable[threading.Thread], patience: float) -> bool:
    """Wait until threads have ended, and say whether they have."""
    if sys.is_finalizing():
        return True  # the interpreter has ended them
    deadline = time.monotonic() + patience
    others = [thread for thread in threads if thread is not threading.current_thread()]  # it may collect garbage
    for thread in others:
        thread.join(max(deadline - time.monotonic(), 0))
    return not any(thread.is_alive() for thread in others)


class Threads:
    """Up to `most` threads that call a function on items, and put each result into a queue.

    `function_of_thread` is called once in each thread, and returns the function. `insist` is called where threads have
    not ended in time.

    Not concurrent.futures' pool: it keeps the interpreter from ending until all that was submitted has been done, and
    cannot be waited for with a bound.
    """

    def __init__(
        self,
        function_of_thread: Callable[[], Callable[[Any], Any]],
        arrivals: Arrivals[Outcome],
        most: int,
        name: str,
        patience: float = PATIENCE,
        insist: Callable[[], None] | None = None,
    ) -> None:
        self._function_of_thread = function_of_thread
        self._arrivals = arrivals
        self._most = most
        self._name = name
        self._patience = patience
        self._insist = insist
        self._tasks: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._in_hand: dict[threading.Thread, Any] = {}
        self._stopped = False

    def submit(self, number: int, item: Any) -> None:
        """Have an item worked on by the next thread that is free."""
        self._tasks.put((number, item))
        if len(self._threads) == self._most:
            return
        if not self._threads:  # a thread in the middle of torch's code when the interpreter ends may abort the process
            atexit.register(self.stop)
        thread = threading.Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """Drop what has not begun, and wait for what has; RuntimeError where that does not end."""
        if self._stopped:
            return
        self._stopped = True
        atexit.unregister(self.stop)
        for _ in self._threads:
            self._tasks.put(None)
        if join(self._threads, self._patience):
            return
        if self._insist is not None:
            self._insist()
            if join(self._threads, self._patience):
                return
        items = ", ".join(describe_item(item) for item in [*self._in_hand.values()])
        raise RuntimeError(f"not done {self._patience} s after its result was no longer wanted: {items}")

    def _work(self) -> None:
        me = threading.current_thread()
        try:
            function = self._function_of_thread()
        except BaseException as error:  # raised again where the results are read
            self._arrivals.put((None, None, error))
            return
        while (task := self._tasks.get()) is not None and not self._stopped:
            number, item = task
            self._in_hand[me] = item
            try:
                self._arrivals.put((number, function(item), None))
            except BaseException as error:
                self._arrivals.put((number, None, error))
            del self._in_hand[me], task, item  # or it would be kept while there is nothing to do
