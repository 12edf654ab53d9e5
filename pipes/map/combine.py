"""Several map-style pipes become one."""

from __future__ import annotations

import operator
from typing import Any, TypeVar, overload

from ...registry import MapDataPipe, T, add_error_context, functional_datapipe
from ...state.foreign import TorchMapDataPipe
from ..bases.arguments import expect_pipes
from ..bases.indexing import Fetching, from_start

T2 = TypeVar("T2")
T3 = TypeVar("T3")
R = TypeVar("R", bound=tuple[Any, ...])


@functional_datapipe("zip")
class Zipper(Fetching[R]):
    """Give tuples of the sources' items at one index or key, as many as the shortest source has.

    Negative indices count from the end of the shortest.

    >>> dp = SequenceWrapper("abc").zip(SequenceWrapper(range(10, 20)))
    >>> dp[0], dp[-1], len(dp)
    (('a', 10), ('c', 12), 3)
    """

    @overload
    def __init__(self: Zipper[tuple[T, T2]], source: MapDataPipe[T], second: MapDataPipe[T2], /) -> None: ...

    @overload
    def __init__(
        self: Zipper[tuple[T, T2, T3]], source: MapDataPipe[T], second: MapDataPipe[T2], third: MapDataPipe[T3], /
    ) -> None: ...

    @overload
    def __init__(self: Zipper[tuple[Any, ...]], *sources: MapDataPipe[Any]) -> None: ...

    def __init__(self, *sources: MapDataPipe[Any]) -> None:
        expect_pipes("Zipper", sources, TorchMapDataPipe)
        self.sources = sources

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            if type(index) is int and index < 0:
                index = from_start(index, len(self))
            items = []
            for source in self.sources:  # a comprehension costs a call
                items.append(source[index])
            return tuple(items)
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _fetch(self, indices: list[Any]) -> list[R]:
        length = len(self)
        indices = [from_start(index, length) if type(index) is int else index for index in indices]
        columns = [source.__getitems__(indices) for source in self.sources]  # type: ignore[attr-defined]
        return [*zip(*columns, strict=True)]  # type: ignore[list-item]

    def __len__(self) -> int:
        return min(map(len, self.sources))


@functional_datapipe("concat")
class Concater(Fetching[T]):
    """Give the items of the first source, then those of the second, and so on, under one running index.

    The sources are read by 0, 1, 2, …. Negative indices count from the end of the last. `dp + other` is
    short for `dp.concat(other)`.

    >>> dp = SequenceWrapper("ab").concat(SequenceWrapper("cd"))
    >>> dp[2], list(dp)
    ('c', ['a', 'b', 'c', 'd'])
    """

    gives = "same"
    keeps_schema = True

    def __init__(self, *sources: MapDataPipe[T]) -> None:
        expect_pipes("Concater", sources, TorchMapDataPipe)
        self.sources = sources

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            number = operator.index(index)
            if number < 0:
                number = from_start(number, len(self))
            for source in self.sources:
                if number < (length := len(source)):
                    return source[number]
                number -= length
            raise IndexError(f"index {index} is out of range: the length is {len(self)}")
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _fetch(self, indices: list[int]) -> list[T]:
        length, start = len(self), 0
        numbers = [from_start(index, length) for index in indices]
        found: dict[int, T] = {}
        for source in self.sources:
            end = start + len(source)
            if mine := [number for number in numbers if start <= number < end]:
                items = source.__getitems__([number - start for number in mine])  # type: ignore[attr-defined]
                found.update(zip(mine, items, strict=True))
            start = end
        return [found[number] for number in numbers]

    def __len__(self) -> int:
        return sum(map(len, self.sources))
