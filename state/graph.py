"""Traversing a chain: the pipes that a pipe reads from. Nothing is pickled and no item is read."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from .foreign import TorchIterDataPipe, TorchMapDataPipe, declared

DataPipe = TorchIterDataPipe[Any] | TorchMapDataPipe[Any]


def sources_of(pipe: DataPipe) -> list[DataPipe]:
    """Return the pipes among a pipe's attributes, and inside their lists, tuples, sets and dicts.

    Attributes named in the class's `payload` hold items, not sources, and are ignored.

    >>> import penstock as ps
    >>> numbers, letters = ps.iter.IterableWrapper([1, 2]), ps.iter.IterableWrapper("ab")
    >>> sources_of(numbers.zip(letters)) == [numbers, letters]
    True
    """
    cls: Any = type(pipe)
    items = cls._no_sources if hasattr(cls, "_no_sources") else declared(pipe, "payload", ())
    found: list[DataPipe] = []
    for name, value in vars(pipe).copy().items():  # atomic copy: another thread may be reading the pipe
        if _roles.get(type(value), True) and name not in items:
            _add_pipes_in(value, found)
    return found


def pipes_in(value: object) -> Iterator[DataPipe]:
    """Yield the pipes in a value: itself, or those inside a list, tuple, set or dict."""
    found: list[DataPipe] = []
    _add_pipes_in(value, found)
    return iter(found)


_NO_ROLE, _PIPE, _CONTAINER, _MAPPING = range(4)
_ROLES: tuple[Any, ...] = ((TorchIterDataPipe, TorchMapDataPipe), (list, tuple, set, frozenset), dict)
_roles: dict[type, int] = {}
"""The role of each type in the search for pipes. A cache, since `isinstance` is slow for pipes."""

_MOST_ROLES = 1000
"""The most types in the cache, which keeps them alive."""


def _role_of(value: object) -> int:
    kind = type(value)
    role = next((number for number, types in enumerate(_ROLES, 1) if isinstance(value, types)), _NO_ROLE)
    if value.__class__ is kind:  # not a proxy, which may stand for any object
        if len(_roles) >= _MOST_ROLES:
            _roles.clear()
        _roles[kind] = role
    return role


def _add_pipes_in(value: Any, found: list[DataPipe]) -> None:
    role = _roles.get(type(value))
    if role is None:
        role = _role_of(value)
    if role == _PIPE:
        found.append(value)
    elif role == _CONTAINER:
        for part in value:
            if _roles.get(type(part), True):
                _add_pipes_in(part, found)
    elif role == _MAPPING:
        for pair in value.items():
            _add_pipes_in(pair, found)


def walk(pipe: DataPipe, stop: Callable[[DataPipe], bool] | None = None) -> Iterator[DataPipe]:
    """Yield a pipe and then everything that it reads from, depth first, each pipe once.

    The traversal stops at pipes for which `stop` is true; these are included.

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
            if stop is None or not stop(current):
                waiting.extend(reversed(sources_of(current)))


def sources_first(*pipes: DataPipe, stop: Callable[[DataPipe], bool] | None = None) -> list[DataPipe]:
    """Return pipes and everything that they read from, each once, sources first.

    The traversal stops at pipes for which `stop` is true; these are included.

    >>> import penstock as ps
    >>> [type(p).__name__ for p in sources_first(ps.iter.IterableWrapper("ab").map(str.upper).batch(2))]
    ['IterableWrapper', 'Mapper', 'Batcher']
    """
    found: list[DataPipe] = []
    seen: set[int] = set()
    waiting = [(pipe, False) for pipe in reversed(pipes)]
    while waiting:
        current, sources_are_found = waiting.pop()
        if sources_are_found:
            found.append(current)
        elif id(current) not in seen:
            seen.add(id(current))
            waiting.append((current, True))
            if stop is None or not stop(current):
                waiting.extend((source, False) for source in reversed(sources_of(current)))
    return found


def is_one_of_several(pipe: DataPipe) -> bool:
    """Say whether a pipe is one of several branches of its source, which is read only through them."""
    return bool(declared(pipe, "is_one_of_several", False))


# Lengths


class _LengthCalls(threading.local):
    """The state of a thread's `len` calls."""

    depth = 0
    known: dict[int, tuple[Any, int | Exception]]
    """The pipes seen since the outermost call, by their ids, with their lengths or errors."""


_len_calls = _LengthCalls()


def memoized_len(length: Callable[[Any], int]) -> Callable[[Any], int]:
    """Return a `__len__` that evaluates each pipe once."""

    @functools.wraps(length)
    def __len__(self: Any) -> int:  # noqa: N807
        return _length_of(self, length)  # keep this small: it is pickled with a user's class

    return __len__


def _length_of(pipe: Any, length: Callable[[Any], int]) -> int:
    if not _len_calls.depth:
        _len_calls.known = {}
    if id(pipe) not in _len_calls.known:
        _len_calls.depth += 1
        try:
            if _len_calls.depth % STEPS_AT_A_TIME == 0:
                let_steps_nest()
            _len_calls.known[id(pipe)] = pipe, length(pipe)
        except Exception as error:
            _len_calls.known[id(pipe)] = pipe, error
        finally:
            _len_calls.depth -= 1
    _, found = _len_calls.known[id(pipe)]
    if not _len_calls.depth:
        del _len_calls.known
    if isinstance(found, Exception):
        try:
            raise found
        finally:
            del found  # the traceback holds this frame: a cycle would keep the chain until garbage collection
    return found


# Python's recursion limit

STEPS_AT_A_TIME = 50
"""The recursion limit is checked once per this many steps of a chain."""
_MOST_STEPS = 6000
_MOST_FRAMES = 15_400
"""More frames would overflow the C stack and end the process: each takes about half a KB of 8 MB."""
_LIMIT = 20_000
"""Python's recursion limit. Closing steps takes more calls than reading them, but no more C stack."""


def let_steps_nest() -> None:
    """Raise Python's recursion limit for a long chain, whose iterators call each other.

    Raises RecursionError if the C stack may overflow. A limit that is already above `_LIMIT` is left alone.
    """
    limit = sys.getrecursionlimit()
    if limit > _LIMIT:
        return
    names = [frame.f_code.co_name for frame, _ in traceback.walk_stack(inspect.currentframe())]
    if (steps := names.count("_deliver")) > _MOST_STEPS or len(names) > _MOST_FRAMES:
        raise RecursionError(f"the stack has no room for {steps:,} steps, each of which reads the next, and more")
    if 8 * len(names) > limit:
        sys.setrecursionlimit(min(10 * len(names), _LIMIT))
