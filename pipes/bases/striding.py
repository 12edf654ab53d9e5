"""Every n-th item of a stream, without reading the others where possible, and runs of n."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from ...registry import IterDataPipe, T, own
from ...state.run import begin_pass


class Strided(IterDataPipe[T]):
    """Yield items that can be read selectively: a base class.

    `__iter__` calls `_items`. A subclass that overrides `__iter__` is read completely, since it may change the items.
    """

    def __iter__(self) -> Iterator[T]:
        return self._items(0, 1, 1)

    def _items(self, first: int, step: int, at_a_time: int) -> Iterator[T]:
        """Yield every `step`-th item from upcoming item `first` on, reading `at_a_time` a call where possible."""
        raise NotImplementedError(f"{type(self).__name__} must define _items")


class Positioned(Strided[T]):
    """Yield items with positions: the base of operators that can begin at any position."""

    resumes_from_start = False
    position: int | Callable[[], int] = own(0, save=lambda value: value() if callable(value) else value)
    """The position after the last item yielded; during a pass, a function that returns it."""

    def _items(self, first: int, step: int, at_a_time: int) -> Iterator[T]:
        begun_at = self.position
        start = begun_at + first  # type: ignore[operator]  # it is a number until here
        items, yielded = self._items_from(start, step, at_a_time)

        def position() -> int:
            number = yielded()
            return start + (number - 1) * step + 1 if number else begun_at  # type: ignore[return-value]

        self.position = position
        return items

    def _items_from(self, start: int, step: int, at_a_time: int) -> tuple[Iterator[T], Callable[[], int]]:
        """Return every `step`-th item from a position on, and a function that returns how many were yielded."""
        raise NotImplementedError(f"{type(self).__name__} must define _items_from")


def strided(source: IterDataPipe[T], first: int = 0, step: int = 1, at_a_time: int = 1) -> Iterator[T]:
    """Begin a pass over every `step`-th item of a source, from upcoming item `first` on.

    `at_a_time` is how many of these the reader takes at once; no more are read ahead.
    """
    if type(source).__iter__ is Strided.__iter__:
        return begin_pass(source, lambda pipe: pipe._items(first, step, at_a_time))
    items = iter(source)
    return items if (first, step) == (0, 1) else islice(items, first, None, step)


def in_runs(source: IterDataPipe[T], length: int) -> Iterator[list[T]]:
    """Begin a pass over a source in lists of `length` items; the last may be shorter."""
    items = iter(source)
    return iter(lambda: list(islice(items, length)), [])
