"""Batches of columns that are cut in pieces, made into something else while they are whole: that costs less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ..columns.batch_rows import pieces, sliced

__all__ = ["CutsBatches"]


class CutsBatches:
    """The base of operators that cut batches: the step after them may make something of the whole ones first."""

    transient: ClassVar[tuple[str, ...]] = ("_next_make", "_make")
    _next_make: Callable[[Any], Any] | None = None
    _make: Callable[[Any], Any] | None = None

    def make_of_whole(self, function: Callable[[Any], Any]) -> None:
        """Let the pass that begins next cut what a function makes of each batch of Arrow's, row by row the same."""
        self._next_make = function

    def _begin_cutting(self) -> None:
        """Called when a pass begins."""
        self._make, self._next_make = self._next_make, None

    def _cut(self, batch: Any, start: int, end: int, n: int) -> Iterator[Any]:
        """Return so many rows of a batch as batches of `n` rows; the last may have fewer."""
        whole = end - (end - start) % n
        if self._make is not None and end - start > n and not isinstance(batch, dict):
            try:
                batch = self._make(batch)
            except Exception:  # the step itself says what is wrong, and in which piece
                self._make = None
        yield from pieces(batch, start, whole, n)
        if whole < end:
            yield sliced(batch, whole, end)
