"""Reading ahead of the consumer."""

from __future__ import annotations

import atexit
import sys
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, TypeVar

from ...registry import IterDataPipe, MapDataPipe, Node, Trail, close, expect_whole, functional_datapipe, walk
from ...registry.graph import is_one_of_several
from ..threads import PATIENCE, join

T = TypeVar("T")

_END = object()


class Progress:
    """Which items of a trail are done with: all before number `done`, and some beyond it."""

    def __init__(self, done: int = 0, beyond: Iterable[int] = ()) -> None:
        self.done = done
        self.beyond = set(beyond)

    def add(self, number: int) -> None:
        """Count an item as done with."""
        self.beyond.add(number)
        while self.done in self.beyond:
            self.beyond.remove(self.done)
            self.done += 1


class ReadsAhead(IterDataPipe[T]):
    """The base of operators that hold some of their source's items while they hand out others.

    Such an operator reads its source by `_ahead()` and leaves out the items, numbered from 0, that `_progress` says are
    done with; it counts each one there before it hands out what became of it. On resuming, the source goes back to
    before the first item that is not done with.
    """

    holds_items = False
    transient: ClassVar[tuple[str, ...]] = ("_trail",)
    source: IterDataPipe[Any]

    def reset(self) -> None:
        self._trail: Trail[Any] | None = None
        self._progress = Progress()

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        if self._trail is None:
            return super().snapshot()
        node, skip = self._trail.way_back()
        start = self._progress.done - skip
        beyond = [number - start for number in sorted(self._progress.beyond)]
        return {"skip": skip, **({"beyond": beyond} if beyond else {})}, [node]

    def set_state(self, state: dict[str, Any]) -> None:
        self._progress = Progress(state["skip"], state.get("beyond", ()))

    def _ahead(self) -> Iterator[Any]:
        """Return the source's items, from where the state says that it is to be read."""
        progress = self._progress  # a way back to the pipe itself would keep it alive until garbage is collected
        self._trail = Trail(self.source, lambda: progress.done)
        return iter(self._trail)


@functional_datapipe("prefetch")
class Prefetcher(ReadsAhead[T]):
    """Yield the items of the source, read by a thread up to `buffer_size` items ahead.

    The thread starts with the first item asked for and ends with the pass: when it is exhausted, closed or replaced. An
    error of the source is raised in its turn, after the items before it.

    >>> dp = IterableWrapper(range(4)).prefetch(2)
    >>> list(dp)
    [0, 1, 2, 3]
    """

    gives = "same"
    keeps_schema = True

    def __init__(self, source: IterDataPipe[T], buffer_size: int = 10) -> None:
        expect_whole("buffer_size", buffer_size)
        self.source = source
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[T]:
        progress = self._progress
        reader = ReadingThread(self._ahead(), self.source, self.buffer_size, skip=progress.done)
        try:
            for item in reader:
                progress.done += 1
                yield item
        finally:
            reader.stop()

    def __len__(self) -> int:
        return len(self.source)


class ReadingThread(Generic[T]):
    """A thread that reads items, which come from a source, into a buffer with room for so many."""

    def __init__(self, items: Iterator[T], source: IterDataPipe[Any], room: int, skip: int = 0) -> None:
        self._items = items
        self._source = source
        self._skip = skip
        self._room = threading.Semaphore(room)
        self._buffer: SimpleQueue[Any] = SimpleQueue()
        self._stopped = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._read, name="penstock-prefetch", daemon=True)
        atexit.register(self.stop)  # a thread in the middle of torch's code when the interpreter ends may abort it
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while (item := self._buffer.get()) is not _END:
            self._room.release()
            yield item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the thread, and wait until it has closed the source."""
        if self._stopped:
            return
        self._stopped = True
        self._room.release()
        atexit.unregister(self.stop)
        if self._thread is threading.current_thread() or sys.is_finalizing():
            return  # collected by the thread itself, or the interpreter has ended it: there is nothing to wait for
        for pipe in walk(self._source, stop=is_one_of_several):  # what is behind a branch, others may still read
            if isinstance(pipe, (IterDataPipe, MapDataPipe)):
                pipe.interrupt()
        if not join([self._thread], PATIENCE):
            raise RuntimeError(
                f"the source gave no item and did not end for {PATIENCE} s after prefetching was stopped"
            )

    def _read(self) -> None:
        try:
            for item in islice(self._items, self._skip, None):
                self._room.acquire()
                if self._stopped:
                    break
                self._buffer.put(item)
        except BaseException as error:  # raised again where the items are read
            self._error = error
        finally:
            close(self._items)
            self._buffer.put(_END)
