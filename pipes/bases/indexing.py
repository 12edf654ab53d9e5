"""Indices of operators that count their own items."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ...registry import MapDataPipe, T, add_error_context
from .ahead.fetching import Fetching


def from_start(index: int, length: int) -> int:
    """Return an index counted from the start; IndexError where it is out of range for `length`."""
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range: the length is {length}")
    return number % length


class Renumbered(Fetching[T]):
    """Give items of the source under other numbers: a base class, whose `_at` returns their indices in the source."""

    gives = "same"
    keeps_schema = True
    source: MapDataPipe[T]

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            return self.source[self._at(index)]
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _at(self, index: Any) -> int:
        """Return the index in the source of an item; IndexError where it is out of range."""
        raise NotImplementedError(f"{type(self).__name__} must define _at")

    def _fetch(self, indices: list[Any]) -> Sequence[T]:
        return self.source.__getitems__([*map(self._at, indices)])  # type: ignore[attr-defined, no-any-return]
