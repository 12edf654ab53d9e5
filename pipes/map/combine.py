"""Several map-style pipes become one."""

from __future__ import annotations

import operator
from typing import Any, TypeVar

from ...registry import MapDataPipe, functional_datapipe, say_where
from ...registry.torch_pipes import TorchMapDataPipe
from ..arguments import expect_pipes
from .index import from_start

T = TypeVar("T")


@functional_datapipe("zip")
class Zipper(MapDataPipe[tuple[Any, ...]]):
    """Give tuples of the items that the sources have at one index or key; as many as the shortest has.

    Negative indices count from the end of the shortest.

    >>> dp = SequenceWrapper("abc").zip(SequenceWrapper(range(10, 20)))
    >>> dp[0], dp[-1], len(dp)
    (('a', 10), ('c', 12), 3)
    """

    def __init__(self, *sources: MapDataPipe[Any]) -> None:
        expect_pipes("Zipper", sources, TorchMapDataPipe)
        self.sources = sources

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        try:
            if type(index) is int and index < 0:
                index = from_start(index, len(self))
            return tuple([source[index] for source in self.sources])
        except Exception as error:
            say_where(error, self, index)
            raise

    def __len__(self) -> int:
        return min(map(len, self.sources))


@functional_datapipe("concat")
class Concater(MapDataPipe[T]):
    """Give the items of the first source, then those of the second, and so on, under one running index.

    The sources are read by 0, 1, 2, …. Negative indices count from the end of the last.

    >>> dp = SequenceWrapper("ab").concat(SequenceWrapper("cd"))
    >>> dp[2], list(dp)
    ('c', ['a', 'b', 'c', 'd'])
    """

    def __init__(self, *sources: MapDataPipe[T]) -> None:
        expect_pipes("Concater", sources, TorchMapDataPipe)
        self.sources = sources

    def __getitem__(self, index: int) -> T:
        try:
            number = operator.index(index)
            if number < 0:
                number = from_start(number, len(self))
            for source in self.sources:
                if number < (length := len(source)):
                    return source[number]
                number -= length
            raise IndexError(f"index {index} is out of range: the length is {len(self)}")
        except Exception as error:
            say_where(error, self, index)
            raise

    def __len__(self) -> int:
        return sum(map(len, self.sources))
