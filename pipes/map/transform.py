"""One item in, what a function makes of it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...registry import MapDataPipe, functional_datapipe

T = TypeVar("T")
R = TypeVar("R")


@functional_datapipe("map")
class Mapper(MapDataPipe[R]):
    """Give fn(item) for each item, computed each time it is asked for.

    Indices and keys, negative ones included, go to the source as they are.

    >>> dp = SequenceWrapper(range(3)).map(lambda x: x * 10)
    >>> dp[2], list(dp)
    (20, [0, 10, 20])
    """

    def __init__(self, source: MapDataPipe[T], fn: Callable[[T], R]) -> None:
        if not callable(fn):
            raise TypeError(f"fn must be callable, and is {fn!r}")
        self.source: MapDataPipe[Any] = source
        self.fn = fn

    def __getitem__(self, index: Any) -> R:
        return self.fn(self.source[index])

    def __len__(self) -> int:
        return len(self.source)
