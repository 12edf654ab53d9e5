"""Sources that note which of their items are pulled, items that tell which of those they were made of, and cases."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import penstock as ps

__all__ = ["SOURCE", "Case", "Feed", "as_it_is", "numbers_in", "of_its_source"]

SOURCE = 10**9
"""The items of source number 1 are numbered from here on, those of number 2 from twice as much, and so on."""
_NUMBER = re.compile(r"\d{10}")


class Feed:
    """Makes the sources of one chain, and knows what was pulled from them."""

    def __init__(self, items: int, folder: Path, most: int | None = None) -> None:
        self.items = items
        """After how many items, handed out or pulled, the chain is resumed."""
        self.most = min(items, most or items)
        """After how many pulled, where that is less."""
        self.length = 4 * items + 20_000
        self.folder = folder
        self.pulled: list[int] = []
        self._sources = 0

    def source(self, shape: Callable[[int], Any] | None = None, length: int | None = None) -> Any:
        """Return a pipe of numbers, or of what a function makes of each number."""
        numbers, count = self._numbers(shape, length)
        return ps.iter.IterableWrapper(numbers, deepcopy=False).map(count)

    def sequence(self, length: int | None = None) -> Any:
        """Return such a pipe that is read by index."""
        numbers, count = self._numbers(None, length)
        return ps.map.SequenceWrapper(numbers, deepcopy=False).map(count)

    def _numbers(self, shape: Callable[[int], Any] | None, length: int | None) -> tuple[range, Callable[[int], Any]]:
        self._sources += 1
        first = self._sources * SOURCE
        note = self.pulled.append

        def count(number: int) -> Any:
            note(number)
            return number if shape is None else shape(number)

        return range(first, first + (length or self.length)), count

    def files(self, content: Callable[[int], bytes], ending: str, times: int = 2) -> Any:
        """Return a pipe of the paths of files, `times` as many as are to be read, each with a content of its own."""
        folder = self.folder / ending
        length = times * self.most
        if not folder.exists():
            folder.mkdir()
            for number in range(SOURCE, SOURCE + length):
                (folder / f"{number}.{ending}").write_bytes(content(number))
        return self.source(lambda number: f"{folder}{os.sep}{number}.{ending}", length)

    def path(self, name: str) -> str:
        return str(self.folder / name)


class Case(NamedTuple):
    """How resuming one operator is measured."""

    operator: str
    chain: Callable[[Feed], Any]
    note: str = ""
    most: int | None = None
    """More items of the source than this are not worth their files, or their time."""
    holds: Callable[[int], int] | None = None
    """How many items it may hold, of so many that were pulled, where what it yields does not tell."""
    passes: int = 0
    """How many passes are read before the one that is resumed."""
    repeats: bool = False
    """Whether its items are pulled several times over without being resumed."""
    excused: str = ""
    """Why it may read more again."""


def as_it_is(item: Any) -> Any:
    return item


def of_its_source(number: int) -> int:
    """Return the place of a number among those of its source."""
    return number % SOURCE


def numbers_in(item: Any) -> Iterator[int]:
    """Yield the numbers of the sources' items that an item was made of, as far as it shows them."""
    if isinstance(item, int):
        if item >= SOURCE:
            yield item
    elif isinstance(item, str):
        yield from map(int, _NUMBER.findall(item))
    elif isinstance(item, Mapping):
        yield from numbers_in(item.values())
    elif hasattr(item, "to_pydict"):
        yield from numbers_in(item.to_pydict())
    elif hasattr(item, "tolist"):
        yield from numbers_in(item.tolist())
    elif isinstance(item, float):
        yield from numbers_in(int(item))
    elif hasattr(item, "url"):
        yield from numbers_in(item.url)
    elif isinstance(item, Iterable) and not isinstance(item, bytes) and not hasattr(item, "read"):
        for part in item:
            yield from numbers_in(part)
