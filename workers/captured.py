"""What is large of that which is sent to each process: found, and named in a warning."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

MUCH_TO_SEND = 64 * 2**20
"""Bytes sent to each process, from which on it is worth a warning."""


def warn_of_copies(sent: Iterable[tuple[str, Any]], size: int, processes: int) -> None:
    """Warn that each process gets a copy of what is sent, of `size` bytes, and name the largest part of it.

    `sent` has each part with its name, as in `("fn of map", fn)`. They are pickled once more to measure them.
    """
    name, value, largest = max(((name, value, _pickled_size(value)) for name, value in sent), key=lambda each: each[2])
    sizes = [(part, _pickled_size(kept)) for part, kept in _parts(value)]
    part, of_part = max(sizes, key=lambda each: each[1], default=("", 0))
    if 3 * of_part > largest:
        name, largest = f"{name} captures {part!r}", of_part
    advice = "put it in files, and let the chain read them"
    if callable(value):
        advice = (
            "load it from a file, in the function at its first call or in a class that map_pool makes in each process"
        )
    each = "the process" if processes == 1 else f"each of {processes:,} processes"
    total = f", {_megabytes(size * processes)} in all" if processes > 1 else ""
    warnings.warn(f"{name} ({_megabytes(largest)}), and a copy is sent to {each}{total}: {advice}", stacklevel=2)


def culprit_in(name: str, value: object) -> str:
    """Return the name of what cannot be pickled, with the captured variable that is to blame, if there is one.

    >>> import threading
    >>> lock = threading.Lock()
    >>> culprit_in("fn", lambda: lock)
    "fn captures 'lock', which"
    """
    part = next((part for part, kept in _parts(value) if not _pickled_size(kept)), None)
    return name if part is None else f"{name} captures {part!r}, which"


class _Counter:
    """A file that only counts what is written."""

    size = 0

    def write(self, data: Any) -> None:
        self.size += memoryview(data).nbytes


def _pickled_size(value: object) -> int:
    counter = _Counter()
    try:
        cloudpickle.dump(value, counter)
    except Exception:  # what cannot be pickled by itself
        return 0
    return counter.size


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a function captures, or the attributes of an object, by name."""
    if isinstance(value, functools.partial):
        yield from value.keywords.items()
        yield from _parts(value.func)
        with suppress(TypeError, ValueError):  # functions in C may have no signature
            for name, part in zip(inspect.signature(value.func).parameters, value.args, strict=False):
                yield from _parts(part) if callable(part) else [(name, part)]
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__self__)
    elif isinstance(value, types.FunctionType):
        yield from _captured(value)
    else:
        cls = value if isinstance(value, type) else type(value)
        yield from () if cls is value else getattr(value, "__dict__", {}).items()
        for method in vars(cls).values():
            if isinstance(method, types.FunctionType):
                yield from _captured(method)


def _captured(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function gets from where it was defined, by its names."""
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        if parameter.default is not parameter.empty:
            yield name, parameter.default
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            yield name, cell.cell_contents
    names = _global_names(function.__code__)
    yield from ((name, part) for name, part in function.__globals__.items() if name in names)


def _global_names(code: types.CodeType) -> set[str]:
    """Return the names that a function, and those that it defines, may look up outside."""
    inner = (_global_names(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return {*code.co_names}.union(*inner)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"
