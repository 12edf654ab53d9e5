"""Join several streams into one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle, islice, zip_longest
from typing import Any, TypeVar, overload

from ...registry import IterDataPipe, T, Tally, functional_datapipe, own
from ...state.foreign import TorchIterDataPipe
from ..bases.arguments import expect_pipes

T2 = TypeVar("T2")
T3 = TypeVar("T3")
R = TypeVar("R", bound=tuple[Any, ...])


@functional_datapipe("zip")
class Zipper(IterDataPipe[R]):
    """Yield tuples of one item from each source, until the shortest is exhausted.

    Take it for sources in step; `zip_with_iter` and `zip_with_map` join by key. As with Python's `zip`, sources before
    the shortest have by then yielded one more item, which is dropped. To zip a pipe with itself, fork it or build it
    twice: a pipe has one live iterator.

    >>> dp = IterableWrapper("abc").zip(IterableWrapper(range(10)))
    >>> list(dp)
    [('a', 0), ('b', 1), ('c', 2)]
    """

    traits = ("pairs",)
    resumes_from_start = False

    @overload
    def __init__(self: Zipper[tuple[T, T2]], source: IterDataPipe[T], second: IterDataPipe[T2], /) -> None: ...

    @overload
    def __init__(
        self: Zipper[tuple[T, T2, T3]], source: IterDataPipe[T], second: IterDataPipe[T2], third: IterDataPipe[T3], /
    ) -> None: ...

    @overload
    def __init__(self: Zipper[tuple[Any, ...]], *sources: IterDataPipe[Any]) -> None: ...

    def __init__(self, *sources: IterDataPipe[Any]) -> None:
        expect_pipes("Zipper", sources, TorchIterDataPipe)
        self.sources = sources

    def __iter__(self) -> Iterator[R]:
        tuples: Iterator[Any] = zip(*self.sources, strict=False)
        return tuples

    def __len__(self) -> int:
        return min(map(len, self.sources))


@functional_datapipe("zip_longest")
class ZipperLongest(IterDataPipe[tuple[Any, ...]]):
    """Yield tuples of one item from each source, until the longest is exhausted.

    Take it where shorter sources are filled up; `zip` ends with them. `fill_value` replaces the items of exhausted
    sources.

    >>> dp = IterableWrapper("abc").zip_longest(IterableWrapper(range(2)), fill_value=-1)
    >>> list(dp)
    [('a', 0), ('b', 1), ('c', -1)]
    """

    traits = ("pairs",)
    resumes_from_start = False

    def __init__(self, *sources: IterDataPipe[Any], fill_value: Any = None) -> None:
        expect_pipes("ZipperLongest", sources, TorchIterDataPipe)
        self.sources = sources
        self.fill_value = fill_value

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip_longest(*self.sources, fillvalue=self.fill_value)

    def __len__(self) -> int:
        return max(map(len, self.sources))


@functional_datapipe("mux")
class Multiplexer(IterDataPipe[T]):
    """Yield one item from each source in turn, until the shortest is exhausted.

    Take it for strict turns. Only complete rounds are yielded: items of an incomplete last round are dropped.
    `mux_longest` continues with the other sources. `mix` draws the next source by weight.

    >>> dp = IterableWrapper("abc").mux(IterableWrapper("xy"))
    >>> list(dp)
    ['a', 'x', 'b', 'y']
    """

    traits = ("merges",)
    gives = "same"
    keeps_schema = True

    def __init__(self, *sources: IterDataPipe[T]) -> None:
        expect_pipes("Multiplexer", sources, TorchIterDataPipe)
        self.sources = sources

    def __iter__(self) -> Iterator[T]:
        return self.outputs_of_each(iter, zip(*self.sources, strict=False))

    def __len__(self) -> int:
        return len(self.sources) * min(map(len, self.sources))


@functional_datapipe("mux_longest")
class MultiplexerLongest(IterDataPipe[T]):
    """Yield one item from each source in turn, skipping exhausted ones, until all are exhausted.

    Take it for turns in which no item is dropped; `mux` ends with the shortest source.

    >>> dp = IterableWrapper("abc").mux_longest(IterableWrapper("x"))
    >>> list(dp)
    ['a', 'x', 'b', 'c']
    """

    traits = ("merges",)
    gives = "same"
    keeps_schema = True
    resumes_from_start = False
    gone: list[int] = own(list)
    """The numbers of the exhausted sources."""
    turns: Tally = own(Tally)
    """The turns taken since the last source was exhausted."""

    def __init__(self, *sources: IterDataPipe[T]) -> None:
        expect_pipes("MultiplexerLongest", sources, TorchIterDataPipe)
        self.sources = sources

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._stretches())

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def _stretches(self) -> Iterator[Iterator[T]]:
        """Yield an iterator over the items until the next source is exhausted, again and again."""
        readers = [iter(source) for source in self.sources]
        while left := [source for source in range(len(self.sources)) if source not in self.gone]:
            turns = islice(cycle([readers[source] for source in left]), self.turns.items % len(left), None)
            yield map(next, self.turns.follow(turns))
            last = (self.turns.items - 1) % len(left)
            self.gone.append(left[last])
            self.turns = Tally(last)


@functional_datapipe("concat")
class Concater(IterDataPipe[T]):
    """Yield the items of the first source, then those of the second, and so on.

    Take it for one source after another; `mux` takes turns, and `mix` draws. A pipe may be given several times: each
    time it is read again. `dp + other` is short for `dp.concat(other)`.

    >>> dp = IterableWrapper("ab").concat(IterableWrapper("cd"))
    >>> list(dp)
    ['a', 'b', 'c', 'd']
    """

    traits = ("merges",)
    gives = "same"
    keeps_schema = True
    resumes_from_start = False
    number: int = own(0)
    """The number of the current source."""

    def __init__(self, *sources: IterDataPipe[T]) -> None:
        expect_pipes("Concater", sources, TorchIterDataPipe)
        self.sources = sources

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._from_current_on())

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def _from_current_on(self) -> Iterator[IterDataPipe[T]]:
        while self.number < len(self.sources):
            source = self.sources[self.number]
            yield source
            self._source_ended(source)
            self.number += 1
