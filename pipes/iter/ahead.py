"""Reading ahead of the consumer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from itertools import islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from ...registry import IterDataPipe, Node, Trail, close, functional_datapipe, walk

T = TypeVar("T")

_END = object()
_PATIENCE = 30.0
"""Seconds that a source may take to finish an item when prefetching is stopped."""


@functional_datapipe("prefetch")
class Prefetcher(IterDataPipe[T]):
    """Yield the items of the source, read by a thread up to `buffer_size` items ahead.

    The thread starts with the first item asked for and ends with the pass: when it is exhausted, closed or replaced. An
    error of the source is raised in its turn, after the items before it.

    >>> dp = IterableWrapper(range(4)).prefetch(2)
    >>> list(dp)
    [0, 1, 2, 3]
    """

    holds_items = False
    transient = ("_trail",)

    def __init__(self, source: IterDataPipe[T], buffer_size: int = 10) -> None:
        if buffer_size < 1:
            raise ValueError(f"buffer_size must be at least 1, and is {buffer_size}")
        self.source = source
        self.buffer_size = buffer_size

    def reset(self) -> None:
        self._handed_out = 0

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        node, skip = self._trail.way_back()
        return {"skip": skip}, [node]

    def set_state(self, state: dict[str, Any]) -> None:
        self._handed_out = state["skip"]

    def __iter__(self) -> Iterator[T]:
        self._trail = Trail(self.source, lambda: self._handed_out)
        reader = _Reader(self._trail, self.source, skip=self._handed_out, room=self.buffer_size)
        try:
            for item in reader:
                self._handed_out += 1
                yield item
        finally:
            reader.stop()

    def __len__(self) -> int:
        return len(self.source)


class _Reader(Generic[T]):
    """A thread that reads the trail of a source into a buffer with room for so many items."""

    def __init__(self, trail: Trail[T], source: IterDataPipe[T], skip: int, room: int) -> None:
        self._trail = trail
        self._source = source
        self._skip = skip
        self._room = threading.Semaphore(room)
        self._buffer: SimpleQueue[Any] = SimpleQueue()
        self._stopped = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._read, name="penstock-prefetch", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while (item := self._buffer.get()) is not _END:
            self._room.release()
            yield item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the thread, and wait until it has closed the source."""
        self._stopped = True
        self._room.release()
        if self._thread is threading.current_thread() or sys.is_finalizing():
            return  # collected by the thread itself, or the interpreter has ended it: there is nothing to wait for
        for pipe in walk(self._source):
            if isinstance(pipe, IterDataPipe):
                pipe.interrupt()
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            raise RuntimeError(
                f"the source gave no item and did not end for {_PATIENCE} s after prefetching was stopped"
            )

    def _read(self) -> None:
        items = iter(self._trail)
        try:
            for item in islice(items, self._skip, None):
                self._room.acquire()
                if self._stopped:
                    break
                self._buffer.put(item)
        except BaseException as error:  # raised again where the items are read
            self._error = error
        finally:
            close(items)
            self._buffer.put(_END)
