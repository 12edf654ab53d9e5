"""Column batches converted before they are cut in pieces, which costs less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ...columns.batch_rows import pieces, sliced


class CutsBatches:
    """Base of operators that cut batches: the next step may convert batches before the cut."""

    transient: ClassVar[tuple[str, ...]] = ("_next_make", "_make", "is_made")
    _next_make: Callable[[Any], Any] | None = None
    _make: Callable[[Any], Any] | None = None
    is_made: bool = False
    """Whether the batch just yielded was cut from one that the next step's function has converted."""

    def make_of_whole(self, function: Callable[[Any], Any]) -> None:
        """Have the next pass convert each Arrow batch by `function`, which keeps rows in place, before the cut."""
        self._next_make = function

    def _begin_cutting(self) -> None:
        """Called when a pass begins."""
        self._make, self._next_make = self._next_make, None
        self.is_made = False

    def _cut(self, batch: Any, start: int, end: int, n: int) -> Iterator[Any]:
        """Return rows `start` to `end` of a batch as batches of `n` rows; the last may be shorter."""
        whole = end - (end - start) % n
        if self._make is not None and end - start > n and not isinstance(batch, dict):
            try:
                batch = self._make(batch)
                self.is_made = isinstance(batch, dict)
            except Exception:  # the step itself then raises, and names the piece
                self._make = None
        yield from pieces(batch, start, whole, n)
        if whole < end:
            yield sliced(batch, whole, end)
        self.is_made = False
