"""Threads that read iterators ahead of their consumer."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Generic, TypeVar

from ..errors.closing import close
from ..errors.notes import describe_item
from ..errors.observer import Observer, acquire, here
from .threads import PATIENCE, Arrivals, Interrupted, join

__all__ = ["Reader", "Readers"]

K = TypeVar("K")
T = TypeVar("T")

_END = object()


class Reader(Generic[T]):
    """A thread that reads an iterator up to `capacity` items ahead of its consumer, and closes it in the end.

    `give_up` is called where the items are no longer wanted; it should end what the iterator waits for. `what` is the
    name of the iterator in the error for one that does not end. `is_work` says whether to read is work of the step that
    is observed, and not of its source.
    """

    def __init__(
        self,
        items: Iterable[T],
        capacity: int,
        name: str,
        give_up: Callable[[], object],
        what: str = "the source",
        is_work: bool = False,
    ) -> None:
        self._items = items
        self._give_up = give_up
        self._what = what
        self._capacity = capacity
        self._free = threading.Semaphore(capacity)
        self._taken_back = 0
        """How much capacity to withdraw once their items are taken."""
        self.blocked = 0.0
        """Seconds that the thread has waited for capacity."""
        self._buffer: Arrivals[Any] = Arrivals()
        self._stopped = self._is_closed = False
        self._error: BaseException | None = None
        observer = None if here.observer is None else here.observer.worker()
        read = partial(observer.call, self._read) if is_work and observer is not None else self._read
        self._thread = threading.Thread(target=read, args=(observer,), name=name, daemon=True)
        atexit.register(self.stop)  # a thread inside torch may abort the interpreter at exit
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while (item := self._buffer.get()) is not _END:
            if self._taken_back:
                self._taken_back -= 1
            else:
                self._free.release()
            yield item
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback leads back to this frame, a cycle that would keep items

    def resize(self, capacity: int) -> None:
        """Read up to `capacity` items ahead from now on; called by the consumer."""
        more = capacity - self._capacity - self._taken_back
        self._capacity, self._taken_back = capacity, max(-more, 0)
        if more > 0:
            self._free.release(more)

    def interrupt(self) -> None:
        """Let the consumer's wait for an item raise Interrupted; called by another thread."""
        self._error = Interrupted()
        self._buffer.put(_END)

    def stop(self) -> None:
        """Stop the thread, and wait until it has closed the iterator; RuntimeError if that does not end."""
        if self._stopped:
            return
        self._stopped = True
        self._free.release()
        atexit.unregister(self.stop)
        if self._thread is threading.current_thread() or sys.is_finalizing():
            return  # garbage-collected in the thread itself, or ended by the interpreter: nothing to wait for
        if not self._is_closed:
            self._give_up()
        if not join([self._thread], PATIENCE):
            raise RuntimeError(f"{self._what} gave no item and did not end for {PATIENCE} s after reading was stopped")

    def _read(self, observer: Observer | None) -> None:
        here.observer = observer
        try:
            items = iter(self._items)
            while self._wait_for_capacity() and (item := next(items, _END)) is not _END:
                self._buffer.put(item)
                del item  # else it would be kept while the next is made
        except BaseException as error:
            if not self._stopped:  # otherwise nobody asks for it, and the items in its frames would be kept
                self._error = error
        finally:
            close(self._items)
            self._is_closed = True
            self._buffer.put(_END)

    def _wait_for_capacity(self) -> bool:
        """Wait for capacity; say whether the next item is wanted."""
        if not self._free.acquire(blocking=False):
            began = time.perf_counter()
            acquire(self._free)
            self.blocked += time.perf_counter() - began
        return not self._stopped


class Readers(Generic[K, T]):
    """Reads what a function gives for items, for up to `at_once` items at a time, each in a thread.

    For each item one output is made before it is wanted. `give_up` is called when no more are wanted; it should end
    what waits for something outside.
    """

    def __init__(
        self, outputs_of: Callable[[K], Iterator[T]], at_once: int, name: str, give_up: Callable[[], object]
    ) -> None:
        self._outputs_of = outputs_of
        self._at_once = at_once
        self._name = name
        self._give_up = give_up
        self._readers: deque[tuple[K, Reader[T]]] = deque()
        self._is_interrupted = False

    def read(self, items: Iterable[K]) -> Iterator[tuple[K, Iterator[T]]]:
        """Yield each item with its outputs, in order; they are to be read to their end."""
        for item in items:
            outputs = self._outputs_of(item)
            reader = Reader(outputs, 1, self._name, self._give_up, describe_item(item), is_work=True)
            self._readers.append((item, reader))
            if self._is_interrupted:  # before this one was there to be interrupted
                raise Interrupted
            if here.observer is not None:
                here.observer.threads = max(here.observer.threads, len(self._readers))
            if len(self._readers) == self._at_once:
                yield from self._oldest()
        while self._readers:
            yield from self._oldest()

    def interrupt(self) -> None:
        """Let a wait for an output raise Interrupted; called by another thread."""
        self._is_interrupted = True
        for _, reader in [*self._readers]:
            reader.interrupt()

    def stop(self) -> None:
        """Drop what was not read, and wait for what is being made; RuntimeError if that does not end."""
        with ExitStack() as each_stops:
            for _, reader in self._readers:
                each_stops.callback(reader.stop)

    def _oldest(self) -> Iterator[tuple[K, Iterator[T]]]:
        item, reader = self._readers[0]
        yield item, iter(reader)
        reader.stop()
        self._readers.popleft()
