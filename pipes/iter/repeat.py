"""Repeat items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat

from ...registry import IterDataPipe, T, expect_whole, functional_datapipe, own
from ..bases.one_to_one import SameItems


@functional_datapipe("cycle")
class Cycler(SameItems[T]):
    """Yield all items of the source `count` times over; without a count, for ever.

    Each time is a new pass: a shuffled source gives another order. The cycle ends at an empty pass, so a cycle of an
    empty source is empty.

    >>> dp = IterableWrapper(range(3)).cycle(2)
    >>> list(dp)
    [0, 1, 2, 0, 1, 2]
    """

    traits = ("cycles",)
    resumes_from_start = False
    begun: int = own(0)
    """How many passes over the source have begun."""

    def __init__(self, source: IterDataPipe[T], count: int | None = None) -> None:
        expect_whole("count", count, least=0, optional=True)
        self.source = source
        self._count = count  # `count` would hide the method of that name

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._passes())

    def __len__(self) -> int:
        if self._count is None:
            raise TypeError("a cycle without a count has no length")
        return self._count * len(self.source)

    def _passes(self) -> Iterator[Iterable[T]]:
        if self.begun:
            yield self.source  # the rest of a resumed pass: may be empty, as the pass was not
        while self._count is None or self.begun < self._count:
            self.begun += 1
            items = iter(self.source)
            first = list(islice(items, 1))
            if not first:
                return
            yield chain(first, items)


@functional_datapipe("repeat")
class Repeater(SameItems[T]):
    """Yield each item `times` times before the next: the same object, not copies of it.

    >>> dp = IterableWrapper(range(3)).repeat(2)
    >>> list(dp)
    [0, 0, 1, 1, 2, 2]
    """

    def __init__(self, source: IterDataPipe[T], times: int) -> None:
        expect_whole("times", times)
        self.source = source
        self.times = times

    def __iter__(self) -> Iterator[T]:
        times = self.times
        return self.outputs_of_each(lambda item: repeat(item, times), self.source)

    def __len__(self) -> int:
        return self.times * len(self.source)
