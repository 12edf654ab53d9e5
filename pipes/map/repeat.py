"""The items of a map-style pipe, several times over."""

from __future__ import annotations

from typing import Any

from ...registry import MapDataPipe, T, expect_whole, functional_datapipe
from ..bases.indexing import Renumbered, from_start


@functional_datapipe("repeat")
class Repeater(Renumbered[T]):
    """Give the items of the source `times` times over, under one running index: all of them, and all of them again.

    The `repeat` of a stream gives each item several times before the next, and its `cycle` is like this.

    >>> dp = SequenceWrapper("abc").repeat(2)
    >>> list(dp), dp[-1]
    (['a', 'b', 'c', 'a', 'b', 'c'], 'c')
    """

    traits = ("cycles",)

    def __init__(self, source: MapDataPipe[T], times: int) -> None:
        expect_whole("times", times, least=0)
        self.source = source
        self.times = times

    def _at(self, index: Any) -> int:
        return from_start(index, len(self)) % len(self.source)

    def __len__(self) -> int:
        return self.times * len(self.source)
