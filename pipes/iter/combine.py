"""Several streams become one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle, islice, zip_longest
from typing import Any, TypeVar, overload

from ...registry import IterDataPipe, Node, Tally, capture, functional_datapipe
from ...registry.iteration import has_not_begun
from ...registry.state import node_before_pass
from ...registry.torch_pipes import TorchIterDataPipe
from ..arguments import expect_pipes

T = TypeVar("T")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
R = TypeVar("R", bound=tuple[Any, ...])


@functional_datapipe("zip")
class Zipper(IterDataPipe[R]):
    """Yield tuples of one item from each source, until the shortest is exhausted.

    As with `zip`, the sources before the shortest have then given one item more, which is dropped. To zip a pipe with
    itself, fork it or build it twice: a pipe has one live iterator.

    >>> dp = IterableWrapper("abc").zip(IterableWrapper(range(10)))
    >>> list(dp)
    [('a', 0), ('b', 1), ('c', 2)]
    """

    holds_items = False

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

    In the places of the sources that are exhausted before stands `fill_value`.

    >>> dp = IterableWrapper("abc").zip_longest(IterableWrapper(range(2)), fill_value=-1)
    >>> list(dp)
    [('a', 0), ('b', 1), ('c', -1)]
    """

    holds_items = False

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

    Only whole rounds are yielded: what the sources before the shortest gave in the last round is dropped.
    `mux_longest` goes on with the others; `mix` draws whose turn it is, by weights.

    >>> dp = IterableWrapper("abc").mux(IterableWrapper("xy"))
    >>> list(dp)
    ['a', 'x', 'b', 'y']
    """

    gives = "same"
    keeps_schema = True

    def __init__(self, *sources: IterDataPipe[T]) -> None:
        expect_pipes("Multiplexer", sources, TorchIterDataPipe)
        self.sources = sources

    def __iter__(self) -> Iterator[T]:
        for item in zip(*self.sources, strict=False):
            yield from item
            self.mark()

    def __len__(self) -> int:
        return len(self.sources) * min(map(len, self.sources))


@functional_datapipe("mux_longest")
class MultiplexerLongest(IterDataPipe[T]):
    """Yield one item from each source in turn, passing over those that are exhausted, until all are.

    >>> dp = IterableWrapper("abc").mux_longest(IterableWrapper("x"))
    >>> list(dp)
    ['a', 'x', 'b', 'c']
    """

    gives = "same"
    keeps_schema = True
    holds_items = False
    transient = ("_left", "_turn", "_turns_taken")

    def __init__(self, *sources: IterDataPipe[T]) -> None:
        expect_pipes("MultiplexerLongest", sources, TorchIterDataPipe)
        self.sources = sources

    def reset(self) -> None:
        self._left = [*range(len(self.sources))]  # which sources are not exhausted
        self._turn = 0  # which of those is the first in the present stretch
        self._turns_taken = Tally()

    def get_state(self) -> dict[str, Any]:
        return {"left": [*self._left], "turn": self._turn + self._turns_taken.items}

    def set_state(self, state: dict[str, Any]) -> None:
        self._left, self._turn = [*state["left"]], state["turn"]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._stretches())

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def _stretches(self) -> Iterator[Iterator[T]]:
        """Yield, for each number of sources that are left, the items until one of them is exhausted."""
        readers = [iter(source) for source in self.sources]
        while self._left:
            turns = islice(cycle([readers[source] for source in self._left]), self._turn % len(self._left), None)
            yield map(next, self._turns_taken.follow(turns))
            last = (self._turn + self._turns_taken.items - 1) % len(self._left)
            del self._left[last]
            self._turn, self._turns_taken = last, Tally()


@functional_datapipe("concat")
class Concater(IterDataPipe[T]):
    """Yield the items of the first source, then those of the second, and so on.

    The same pipe may stand several times: it is read anew each time.

    >>> dp = IterableWrapper("ab").concat(IterableWrapper("cd"))
    >>> list(dp)
    ['a', 'b', 'c', 'd']
    """

    gives = "same"
    keeps_schema = True
    holds_items = False
    transient = ("_number",)

    def __init__(self, *sources: IterDataPipe[T]) -> None:
        expect_pipes("Concater", sources, TorchIterDataPipe)
        self.sources = sources

    def reset(self) -> None:
        self._number = 0

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        current = self.sources[self._number]
        # A source that is not being read has its pass still to come: if it stands here twice, it has been at its end.
        nodes = [
            capture(source) if source is current or has_not_begun(source) else node_before_pass(source)
            for source in self.sources
        ]
        return {"number": self._number}, nodes

    def set_state(self, state: dict[str, Any]) -> None:
        self._number = state["number"]

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._from_current_on())

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def _from_current_on(self) -> Iterator[IterDataPipe[T]]:
        while self._number < len(self.sources):
            yield self.sources[self._number]
            self._number += 1
