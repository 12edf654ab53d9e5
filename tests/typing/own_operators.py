"""Operators of a user's own, for which `penstock stubs` writes a stub."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TypeVar

import penstock as ps

T = TypeVar("T")


@ps.functional_datapipe("pairwise")
class Pairer(ps.IterDataPipe[tuple[T, T]]):
    """Yield each item together with the one that follows it.

    >>> dp = IterableWrapper("abc").pairwise()
    """

    def __init__(self, source: ps.IterDataPipe[T]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[tuple[T, T]]:
        yield from itertools.pairwise(self.source)


@ps.functional_datapipe("halves")
class Halver(ps.IterDataPipe[T]):
    """Give two pipes, as the class of another library may: by `__new__`."""

    def __new__(cls, source: ps.IterDataPipe[T], buffer_size: int = 10):  # type: ignore[no-untyped-def]
        return source.fork(2, buffer_size)


@ps.functional_datapipe("shout")
class Shouter(ps.IterDataPipe[str]):
    """Yield each text in capitals, with so many exclamation marks."""

    def __init__(self, source: ps.IterDataPipe[str], *, marks: int = 1) -> None:
        self.source = source
        self.marks = marks

    def __iter__(self) -> Iterator[str]:
        return (item.upper() + "!" * self.marks for item in self.source)
