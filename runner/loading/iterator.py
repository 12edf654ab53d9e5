"""The iterator of a loader, which can be paused."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

from ...registry import expect_whole

__all__ = ["DataLoader2Iterator", "PauseIteration"]

T = TypeVar("T")


class PauseIteration(StopIteration):
    """Raised by a paused loader iterator, such as at its limit; a `for` loop ends on it."""


class DataLoader2Iterator(Iterator[T]):
    """One epoch of a loader, as `iter()` returns it.

    >>> import penstock as ps
    >>> iterator = iter(ps.DataLoader2(ps.iter.IterableWrapper(range(5))))
    >>> iterator.limit(2)
    >>> list(iterator)
    [0, 1]
    >>> iterator.resume()
    >>> list(iterator)
    [2, 3]
    """

    def __init__(self, items: Generator[T, None, None], iterator_id: int) -> None:
        self.iterator_id = iterator_id
        self._items = items
        self._limit: int | None = None
        self._left: int | None = None

    def __next__(self) -> T:
        if self._left is not None:
            if self._left == 0:
                raise PauseIteration("this iterator is paused: resume() continues it")
            self._left -= 1
        return next(self._items)

    def limit(self, num_batches: int | None) -> None:
        """Pause after `num_batches` items, and again as many after each `resume()`; None sets no limit.

        A `for` loop over a paused iterator ends.
        """
        if num_batches is not None:
            expect_whole("num_batches", num_batches, least=0)
        self._limit = self._left = num_batches

    def pause(self) -> None:
        """Hand out nothing until `resume()`. Prefetched items are kept; prefetching stays within its limits."""
        self._left = 0

    def resume(self) -> None:
        """Continue, for as many items as the limit allows."""
        self._left = self._limit

    def close(self) -> None:
        """Abandon the epoch."""
        self._items.close()
