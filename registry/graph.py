"""Walking a chain: which pipes a pipe reads from. Nothing is pickled and no item is touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = ["pipes_in", "sources_of", "walk"]

DataPipe = TorchIterDataPipe[Any] | TorchMapDataPipe[Any]


def sources_of(pipe: DataPipe) -> list[DataPipe]:
    """Return the pipes that a pipe holds: its attributes, and those inside its lists, tuples, sets and dicts.

    Attributes that the class names in `payload` hold items, not sources, and are left alone.

    >>> import penstock as ps
    >>> numbers, letters = ps.iter.IterableWrapper([1, 2]), ps.iter.IterableWrapper("ab")
    >>> sources_of(numbers.zip(letters)) == [numbers, letters]
    True
    """
    payload = getattr(type(pipe), "payload", ())
    return [source for name, value in vars(pipe).items() if name not in payload for source in pipes_in(value)]


def pipes_in(value: object) -> Iterator[DataPipe]:
    """Yield the pipes in a value: itself, or those inside a list, tuple, set or dict."""
    if isinstance(value, (TorchIterDataPipe, TorchMapDataPipe)):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from pipes_in(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from pipes_in(key)
            yield from pipes_in(part)


def walk(pipe: DataPipe) -> Iterator[DataPipe]:
    """Yield a pipe and then everything that it reads from, depth first, each pipe once.

    >>> import penstock as ps
    >>> [type(p).__name__ for p in walk(ps.iter.IterableWrapper("ab").map(str.upper).batch(2))]
    ['Batcher', 'Mapper', 'IterableWrapper']
    """
    seen: set[int] = set()
    waiting = [pipe]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting.extend(reversed(sources_of(current)))
