"""Lengths of chains of any length, with any number of shared sources."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from .foreign import declares
from .graph import sources_first

__all__ = ["iterative_len"]

_DEEP = 200
"""The most nested `len` calls of pipes; longer chains are evaluated sources first."""


class _Asked(threading.local):
    """The state of a thread's `len` calls."""

    depth = 0
    known: dict[int, tuple[Any, int | Exception]]
    """The pipes seen since the outermost call, by their ids, with their lengths or errors."""


_asked = _Asked()


def iterative_len(length: Callable[[Any], int]) -> Callable[[Any], int]:
    """Return a `__len__` that evaluates each pipe once, and the pipes of a long chain one after the other."""

    @functools.wraps(length)
    def __len__(self: Any) -> int:  # noqa: N807
        return _length_of(self, length)  # keep this small: it is pickled with a user's class

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
        try:
            raise found
        finally:
            del found  # the traceback holds this frame: a cycle would keep the chain until garbage collection
    return found


def _ask_sources_of(pipe: Any) -> None:
    depth, _asked.depth = _asked.depth, 1
    try:
        part: Any
        for part in sources_first(pipe)[:-1]:
            if id(part) not in _asked.known and declares(part, "__len__"):
                try:
                    _asked.known[id(part)] = part, len(part)
                except Exception as error:
                    _asked.known[id(part)] = part, error
    finally:
        _asked.depth = depth
