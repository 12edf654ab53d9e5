"""Lengths of chains, however long these are."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from .graph import sources_first

__all__ = ["asked_in_turn"]

_DEEP = 200
"""So many pipes may ask each other; the length of a longer chain is asked from its beginning on."""


class _Asked(threading.local):
    """What a thread is asking."""

    depth = 0
    known: dict[int, int | Exception] | None = None
    """The lengths of the pipes of a long chain, by their ids, or what they raised."""


_asked = _Asked()


def asked_in_turn(length: Callable[[Any], int]) -> Callable[[Any], int]:
    """Return a `__len__` that asks pipe after pipe where a chain is so long that asking would be a deep recursion."""

    @functools.wraps(length)
    def __len__(self: Any) -> int:  # noqa: N807
        return _length_of(self, length)  # all else stays here, where the function travels with a class of a user's

    return __len__


def _length_of(pipe: Any, length: Callable[[Any], int]) -> int:
    if _asked.known is not None and id(pipe) in _asked.known:
        found = _asked.known[id(pipe)]
        if isinstance(found, Exception):
            raise found
        return found
    if _asked.depth >= _DEEP:
        _ask_sources_of(pipe)
    _asked.depth += 1
    try:
        return length(pipe)
    finally:
        _asked.depth -= 1
        if not _asked.depth:
            _asked.known = None


def _ask_sources_of(pipe: Any) -> None:
    depth, _asked.depth = _asked.depth, 1
    known = _asked.known = {} if _asked.known is None else _asked.known
    try:
        for part in sources_first(pipe)[:-1]:
            if id(part) not in known and hasattr(type(part), "__len__"):
                try:
                    known[id(part)] = len(part)
                except Exception as error:
                    known[id(part)] = error
    finally:
        _asked.depth = depth
