"""Sources that are no pipes: a list stands for the pipe of its items, as torch's operators took it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from .functional import operators
from .torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = ["expect_pipe", "with_pipes"]

_PIPES = (TorchIterDataPipe, TorchMapDataPipe)


def with_pipes(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of an operator, with pipes in place of lists and other iterables as its sources.

    >>> import penstock as ps
    >>> ps.iter.Batcher([1, 2, 3], 2)
    IterableWrapper([1, 2, 3], deepcopy=False).batch(2)
    """
    wrappers = _wrappers(cls)
    if wrapper := wrappers.get("sources"):
        return (*(_piped(given, wrapper) for given in args),), kwargs
    for place, (name, wrapper) in enumerate(wrappers.items()):
        if not wrapper:
            continue
        if place < len(args):
            args = (*args[:place], _piped(args[place], wrapper), *args[place + 1 :])
        elif name in kwargs:
            kwargs = {**kwargs, name: _piped(kwargs[name], wrapper)}
    return args, kwargs


@functools.cache
def _wrappers(cls: type) -> dict[str, str]:
    """Return the class that wraps plain values for each parameter of a constructor, empty for one that is no pipe."""
    wrappers = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        annotation = str(parameter.annotation)
        is_pipe = name in ("source", "sources") or re.fullmatch(r"(Iter|Map)DataPipe(\[[^|]*\])?", annotation)
        by_index = "MapDataPipe" in annotation if "DataPipe" in annotation else TorchMapDataPipe in cls.__mro__
        wrappers[name] = ("SequenceWrapper" if by_index else "IterableWrapper") if is_pipe else ""
    return wrappers


def _piped(given: Any, wrapper: str) -> Any:
    if isinstance(given, _PIPES) or not _can_be_read_again(given, wrapper):
        return given
    return operators[wrapper].cls(given, deepcopy=False)


def _can_be_read_again(given: object, wrapper: str) -> bool:
    """Say whether each pass over plain values gives the same ones, and the ones that were meant."""
    if wrapper == "SequenceWrapper":
        return isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    if isinstance(given, (list, tuple)):
        return not any(isinstance(item, _PIPES) for item in given)
    is_text_or_unordered = isinstance(given, (str, bytes, Mapping, Set))
    return isinstance(given, Iterable) and not (isinstance(given, Iterator) or is_text_or_unordered or _is_table(given))


def expect_pipe(cls: type, given: object) -> None:
    """Raise TypeError for a source that is no pipe, and say how to make one of it."""
    if isinstance(given, _PIPES):
        return
    raise TypeError(
        f"{cls.__name__} reads from a pipe, and its source is of type {type(given).__name__}: {_how_to_make(given)}"
    )


def _how_to_make(given: object) -> str:
    if isinstance(given, (str, bytes)):
        return f"give a list, as in [{given!r:.80}]"
    if isinstance(given, Mapping):
        return "give what is meant of it, as in [*mapping.items()]"
    if isinstance(given, Set):
        return "its order is not fixed: give sorted(items)"
    if _is_table(given):
        return "read its rows, as in penstock.from_pandas(frame) or penstock.from_arrow(table)"
    if isinstance(given, Iterator):
        return "it can be read only once: give a list, or IterableWrapper(items) where a single pass is enough"
    if isinstance(given, (list, tuple)):
        return "it has pipes in it: concatenate them, as in first.concat(second)"
    return "wrap it, as in IterableWrapper(items)"


def _is_table(given: object) -> bool:
    return hasattr(given, "columns")  # of pandas, Arrow, Polars: they are iterated by column, if at all
