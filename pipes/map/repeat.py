"""The items of a map-style pipe, several times over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ...registry import MapDataPipe, add_error_context, expect_whole, functional_datapipe
from ..bases.ahead.fetching import Fetching
from ..bases.indexing import from_start

T = TypeVar("T")


@functional_datapipe("repeat")
class Repeater(Fetching[T]):
    """Give the items of the source `times` times over, under one running index: all of them, and all of them again.

    The `repeat` of a stream gives each item several times before the next, and its `cycle` is like this.

    >>> dp = SequenceWrapper("abc").repeat(2)
    >>> list(dp), dp[-1]
    (['a', 'b', 'c', 'a', 'b', 'c'], 'c')
    """

    traits = ("cycles",)
    gives = "same"
    keeps_schema = True

    def __init__(self, source: MapDataPipe[T], times: int) -> None:
        expect_whole("times", times, least=0)
        self.source = source
        self.times = times

    def __getitem__(self, index: Any) -> T | Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            return self.source[self._at(index)]
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _at(self, index: Any) -> int:
        return from_start(index, len(self)) % len(self.source)

    def _fetch(self, indices: list[Any]) -> Sequence[T]:
        return self.source.__getitems__([*map(self._at, indices)])  # type: ignore[attr-defined, no-any-return]

    def __len__(self) -> int:
        return self.times * len(self.source)
