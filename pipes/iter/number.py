"""Numbers that go with a stream: the place of each item, and how many there are."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, TypeVar

from ...registry import IterDataPipe, Tally, functional_datapipe

T = TypeVar("T")


@functional_datapipe("enumerate")
class Enumerator(IterDataPipe[tuple[int, T]]):
    """Yield pairs of a running number, from `starting_index` on, and the item.

    >>> dp = IterableWrapper("abc").enumerate(starting_index=1)
    >>> list(dp)
    [(1, 'a'), (2, 'b'), (3, 'c')]
    """

    holds_items = False
    transient = ("_first", "_tally")

    def __init__(self, source: IterDataPipe[T], starting_index: int = 0) -> None:
        self.source = source
        self.starting_index = operator.index(starting_index)

    def reset(self) -> None:
        self._first = self.starting_index
        self._tally = Tally()

    def get_state(self) -> dict[str, Any]:
        return {"next": self._first + self._tally.items}

    def set_state(self, state: dict[str, Any]) -> None:
        self._first = state["next"]

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return enumerate(self._tally.follow(self.source), self._first)

    def __len__(self) -> int:
        return len(self.source)


@functional_datapipe("set_length")
class LengthSetter(IterDataPipe[T]):
    """Yield the items as they are, and say that there are `length` of them.

    For a stream whose length its user knows and the chain cannot, such as after `filter`. Nothing is cut or checked:
    `header` cuts.

    >>> dp = IterableWrapper(range(10)).filter(lambda x: x % 2 == 0).set_length(5)
    >>> len(dp), list(dp)
    (5, [0, 2, 4, 6, 8])
    """

    holds_items = False
    broken_laws = {
        "len_is_exact": "the length is its user's word",
        "empty_source_ends": "the length is its user's word, over an empty source too",
    }

    def __init__(self, source: IterDataPipe[T], length: int) -> None:
        if operator.index(length) < 0:
            raise ValueError(f"length must be at least 0, and is {length}")
        self.source = source
        self.length = length

    def __iter__(self) -> Iterator[T]:
        return iter(self.source)

    def __len__(self) -> int:
        return self.length
