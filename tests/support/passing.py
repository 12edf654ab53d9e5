"""The operators that tests make their mistakes in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import penstock as ps


class Passing(ps.IterDataPipe):
    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class PassingByIndex(ps.MapDataPipe):
    def __init__(self, source: Any) -> None:
        self.source = source

    def __getitem__(self, index: int) -> Any:
        return self.source[index]

    def __len__(self) -> int:
        return len(self.source)


class HoldsALock(Passing):
    """Cannot be pickled."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.lock = threading.Lock()


class Holding(ps.IterDataPipe):
    """Holds sources in containers, and items that are none."""

    payload = ("items",)

    def __init__(self, held: Any, items: Any = ()) -> None:
        self.held = held
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        yield from ()
