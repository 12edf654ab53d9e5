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
from itertools import cycle
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from ..errors.closing import close
from ..errors.notes import describe_item
from ..errors.observer import Observer, acquire, here
from .threads import PATIENCE, Arrivals, Interrupted, join

K = TypeVar("K")
T = TypeVar("T")

_END = object()


class Reader(Generic[T]):
    """A thread that reads iterators up to `capacity` items ahead of its consumer, and closes each at its end.

    `give_up` is called where the items are no longer wanted; it should end what the iterator waits for. `is_work` says
    whether to read is work of the step that is observed, and not of its source.
    """

    def __init__(self, capacity: int, name: str, give_up: Callable[[], object], is_work: bool = False) -> None:
        self._give_up = give_up
        self.capacity = capacity
        self._free = threading.Semaphore(capacity)
        self._taken_back = 0
        """How much capacity to withdraw once their items are taken."""
        self.blocked = 0.0
        """Seconds that the thread has waited for capacity."""
        self._sources: SimpleQueue[Any] = SimpleQueue()
        self._buffer: Arrivals[Any] = Arrivals()
        self._stopped = False
        self._is_closed = True
        self._error: BaseException | None = None
        observer = None if here.observer is None else here.observer.worker()
        self._thread = threading.Thread(target=self._work, args=(observer, is_work), name=name, daemon=True)

    def start(self, items: Iterable[T], what: str = "the source") -> None:
        """Begin to read items, when those before have been read to their end; `what` is their name in an error."""
        self._what = what
        self._is_closed = False
        self._sources.put(items)
        if not self._thread.ident:
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

    @property
    def waiting(self) -> int:
        """How many items wait for the consumer."""
        return self._buffer.qsize()

    def resize(self, capacity: int) -> None:
        """Read up to `capacity` items ahead from now on; called by the consumer."""
        more = capacity - self.capacity - self._taken_back
        self.capacity, self._taken_back = capacity, max(-more, 0)
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
        self._sources.put(_END)
        atexit.unregister(self.stop)
        if self._thread is threading.current_thread() or sys.is_finalizing():
            return  # garbage-collected in the thread itself, or ended by the interpreter: nothing to wait for
        if not self._is_closed:
            self._give_up()
        if not join([self._thread], PATIENCE):
            raise RuntimeError(f"{self._what} gave no item and did not end for {PATIENCE} s after reading was stopped")

    def _work(self, observer: Observer | None, is_work: bool) -> None:
        read: Callable[[Iterable[T]], None] = self._read
        if observer is not None and is_work:
            read = partial(observer.call, self._read)
        else:
            here.observer = observer
        while (items := self._sources.get()) is not _END:
            read(items)
            del items

    def _read(self, source: Iterable[T]) -> None:
        try:
            items = iter(source)
            while self._wait_for_capacity() and (item := next(items, _END)) is not _END:
                self._buffer.put(item)
                del item  # else it would be kept while the next is made
        except BaseException as error:
            if not self._stopped:  # otherwise nobody asks for it, and the items in its frames would be kept
                self._error = error
        finally:
            self._free.release()  # what was acquired for an item after the last
            close(source)
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
        self._readers = [Reader[T](1, name, give_up, is_work=True) for _ in range(at_once)]
        self._is_interrupted = False

    def read(self, items: Iterable[K]) -> Iterator[tuple[K, Iterable[T]]]:
        """Yield each item with its outputs, in order; they are to be read to their end."""
        started: deque[tuple[K, Reader[T]]] = deque()
        for item, reader in zip(items, cycle(self._readers)):
            reader.start(self._outputs_of(item), describe_item(item))
            started.append((item, reader))
            if self._is_interrupted:  # before this one was there to be interrupted
                raise Interrupted
            if here.observer is not None:
                here.observer.threads = max(here.observer.threads, len(started))
            if len(started) == len(self._readers):
                yield started.popleft()
        yield from started

    def interrupt(self) -> None:
        """Let a wait for an output raise Interrupted; called by another thread."""
        self._is_interrupted = True
        for reader in self._readers:
            reader.interrupt()

    def stop(self) -> None:
        """Drop what was not read, and wait for what is being made; RuntimeError if that does not end."""
        with ExitStack() as each_stops:
            for reader in self._readers:
                each_stops.callback(reader.stop)
