"""Items that are kept in memory once they were read."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any, TypeVar

from ...registry import MapDataPipe, functional_datapipe, say_where

T = TypeVar("T")


@functional_datapipe("in_memory_cache")
class InMemoryCacheHolder(MapDataPipe[T]):
    """Give each item of the source, which is asked for it once and not again.

    The same object is given each time, so what changes it in place changes it for ever. Indices that are equal have one
    item; that -1 and the last index do is not known. What cannot be a key of a dict, such as a slice, is not kept. The
    items belong to the process, which is to say to each worker: they do not travel with pickles or copies.

    >>> dp = SequenceWrapper(range(3)).map(lambda x: print("reading", x) or x).in_memory_cache()
    >>> dp[2], dp[2]
    reading 2
    (2, 2)
    """

    payload = ("_kept",)
    transient = ("_kept",)
    _kept: dict[Hashable, T] | None = None

    def __init__(self, source: MapDataPipe[T]) -> None:
        self.source = source

    def __getitem__(self, index: Any) -> T:
        try:
            kept = self._kept
            if kept is None:
                kept = self._kept = {}
            if type(index) is not int:
                try:
                    index = operator.index(index)  # of a tensor, which is equal to no other as a key
                except TypeError:
                    if not isinstance(index, Hashable) or isinstance(index, slice):
                        return self.source[index]
            if index not in kept:
                kept[index] = self.source[index]
            return kept[index]
        except Exception as error:
            say_where(error, self, index)
            raise

    def __len__(self) -> int:
        return len(self.source)
