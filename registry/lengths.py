"""Lengths of chains, however long these are, and however often their branches meet."""

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
    known: dict[int, tuple[Any, int | Exception]]
    """The pipes that were asked since the first, by their ids, with their lengths or what they raised."""


_asked = _Asked()


def asked_in_turn(length: Callable[[Any], int]) -> Callable[[Any], int]:
    """Return a `__len__` that asks each pipe once, and where a chain is long one pipe after the other."""

    @functools.wraps(length)
    def __len__(self: Any) -> int:  # noqa: N807
        return _length_of(self, length)  # all else stays here, where the function travels with a class of a user's

    return __len__


def _length_of(pipe: Any, length: Callable[[Any], int]) -> int:
    if not _asked.depth:
        _asked.known = {}
    if id(pipe) not in _asked.known:
        if _asked.depth >= _DEEP:
            _ask_sources_of(pipe)
        _asked.depth += 1
        try:
            _asked.known[id(pipe)] = pipe, length(pipe)
        except Exception as error:
            _asked.known[id(pipe)] = pipe, error
        finally:
            _asked.depth -= 1
    _, found = _asked.known[id(pipe)]
    if not _asked.depth:
        del _asked.known
    if isinstance(found, Exception):
        raise found
    return found


def _ask_sources_of(pipe: Any) -> None:
    depth, _asked.depth = _asked.depth, 1
    try:
        for part in sources_first(pipe)[:-1]:
            if id(part) not in _asked.known and hasattr(type(part), "__len__"):
                try:
                    _asked.known[id(part)] = part, len(part)
                except Exception as error:
                    _asked.known[id(part)] = part, error
    finally:
        _asked.depth = depth
