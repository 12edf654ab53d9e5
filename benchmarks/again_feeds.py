"""Sources that record which items are pulled, items that show the source items they were made of, and cases."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import penstock as ps

SOURCE = 10**9
"""The items of source `n` are numbered from `n` times this number on."""
_NUMBER = re.compile(r"\d{10}")


class Feed:
    """Makes the sources of one chain, and records what is pulled from them."""

    def __init__(self, items: int, folder: Path, most: int | None = None) -> None:
        self.items = items
        """The number of items, emitted or pulled, after which the chain is resumed."""
        self.most = min(items, most or items)
        """The number of pulled items after which it is resumed, if smaller."""
        self.length = 4 * items + 20_000
        self.folder = folder
        self.pulled: list[int] = []
        self._sources = 0

    def source(self, shape: Callable[[int], Any] | None = None, length: int | None = None) -> Any:
        """Return a pipe of numbers, or of what a function makes of each number."""
        numbers, count = self._numbers(shape, length)
        return ps.iter.IterableWrapper(numbers, deepcopy=False).map(count)

    def sequence(self, length: int | None = None) -> Any:
        """Return the same as a map-style pipe."""
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
        """Return a pipe of paths of files with different contents, `times` as many as will be read."""
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
    """The most items of the source: more would take too many files, or too long."""
    buffers: Callable[[int], int] | None = None
    """The number of items it may buffer, by the number pulled, if its outputs do not show it."""
    passes: int = 0
    """The number of passes before the resumed one."""
    repeats: bool = False
    """Whether its items are pulled several times even without resuming."""
    excused: str = ""
    """The reason why it may read more again."""


def as_it_is(item: Any) -> Any:
    return item


def of_its_source(number: int) -> int:
    """Return the place of a number among those of its source."""
    return number % SOURCE


def numbers_in(item: Any) -> Iterator[int]:
    """Yield the numbers of the source items that an item was made of, as far as it shows them."""
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
