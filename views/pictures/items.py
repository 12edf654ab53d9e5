"""Types of the items of a step, from annotations and from data in memory. Nothing is read or called."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

from ...state.foreign import TorchIterDataPipe, TorchMapDataPipe
from ...state.graph import DataPipe

__all__ = ["item_of", "type_in_words"]

_PIPES: tuple[type, ...] = (TorchIterDataPipe, TorchMapDataPipe)
_MODULE = re.compile(r"(?:\w+\.)+(?=\w)")
_IN_MEMORY = (list, tuple, range, str, bytes, dict, set, frozenset)
_QUOTED = re.compile(r"(?:ForwardRef\()?'([^']*)'\)?")
_DATA_CHUNK = re.compile(r"\bDataChunk\b")
_MOST_FIELDS = 12
_LONGEST, _MOST_PARTS = 60, 60
"""The characters and the parts of a type that people still read; each zip of a pipe with itself doubles the parts."""


def item_of(pipe: DataPipe, items_of_sources: Sequence[Any]) -> Any:
    """Return the type of a pipe's items; `typing.Any` if unknown.

    It is the type that the class declares, as in `IterDataPipe[tuple[int, T]]`. Its variables come from the sources,
    the return annotations of functions, and the first of the items in memory.
    """
    kind: Any = type(pipe)
    declared = _declared(kind)
    for self_hint, hints in _signatures(kind):
        bound = _bindings(hints, vars(pipe), items_of_sources)
        if bound is not None:
            own = dict(zip(getattr(kind, "__parameters__", ()), get_args(self_hint), strict=False))
            declared = _put_in(_put_in(declared, own), bound)
            break
    declared = _put_in(declared, {}, unknown=Any)
    if declared is Any and len(items_of_sources) == 1 and _passes_on(kind):
        return items_of_sources[0]
    return declared if _parts(declared) <= _MOST_PARTS else Any


def type_in_words(kind: Any) -> str:
    """Return a type as short text, without the names of modules; empty for `typing.Any`.

    A `DataChunk` is a list.

    >>> import io
    >>> type_in_words(tuple[str, dict[str, io.BytesIO]]), type_in_words(Any)
    ('tuple[str, dict[str, BytesIO]]', '')
    """
    if kind is Any:
        return ""
    text = kind.__name__ if isinstance(kind, type) and not get_args(kind) else repr(kind)
    text = _DATA_CHUNK.sub("list", _MODULE.sub("", _QUOTED.sub(r"\1", text))).replace("list[Any]", "list")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _passes_on(kind: type) -> bool:
    """Say whether items of a class without a declared type are those of its source."""
    splits = hasattr(kind, "branches") and getattr(kind, "gives", None) == "same"
    return splits or getattr(kind, "is_one_of_several", False) or getattr(kind, "keeps_schema", False) is True


@functools.lru_cache(maxsize=1000)
def _declared(kind: Any) -> Any:
    """Return the type of the items, which a class of pipes passes to its base."""
    for base in getattr(kind, "__orig_bases__", kind.__bases__):
        origin: Any = get_origin(base) or base
        if not _is_pipe(origin):
            continue
        arguments = get_args(base)
        if origin in _PIPES:
            return arguments[0] if arguments else Any
        return _put_in(_declared(origin), dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False)))
    return Any


@functools.lru_cache(maxsize=1000)
def _signatures(kind: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Return the annotations of a constructor, or of each of its overloads: that of `self`, and the others by name."""
    constructor: Any = kind.__init__
    if not isinstance(constructor, FunctionType):  # that of object, say
        return []
    names = {**vars(typing), **getattr(sys.modules.get(kind.__module__), "__dict__", {})}
    found = []
    for function in typing.get_overloads(constructor) or [constructor]:
        hints = {name: _evaluated(hint, names) for name, hint in inspect.get_annotations(function).items()}
        hints.pop("return", None)
        found.append((hints.pop("self", None), hints))
    return found


def _evaluated(hint: Any, names: dict[str, Any]) -> Any:
    try:
        return eval(hint, names) if isinstance(hint, str) else hint
    except Exception:  # the name may be imported for type checkers only
        return Any


def _bindings(hints: Mapping[str, Any], attributes: Mapping[str, Any], items: Sequence[Any]) -> dict[Any, Any] | None:
    """Return the types that the arguments give to the variables of annotations, or None if the arguments do not fit."""
    bound: dict[Any, Any] = {}
    sources = [hint for hint in hints.values() if _is_pipe(get_origin(hint))]
    if len(sources) == 1 and all(item == items[0] for item in items):  # several, where it is `*sources`
        items = items[:1]
    if len(sources) == len(items):
        for hint, item in zip(sources, items, strict=True):
            _bind(get_args(hint)[0], item, bound)
    elif len(sources) > 1:
        return None
    for name, hint in hints.items():
        value = attributes.get(name, attributes.get(f"_{name}"))
        if hint in (None, NoneType) and value is not None:
            return None
        if get_origin(hint) is Callable and len(get_args(hint)) == 2:
            _bind(get_args(hint)[1], _result_of(value), bound)
        elif type(value) in _IN_MEMORY and len(value):
            for part in get_args(hint) if get_origin(hint) in (typing.Union, UnionType) else (hint,):
                if get_origin(part) is Iterable or (get_origin(part) is Sequence and not isinstance(value, dict)):
                    _bind(get_args(part)[0], _type_of(next(iter(value))), bound)
                elif get_origin(part) is Mapping and isinstance(value, dict):
                    _bind(get_args(part)[1], _type_of(next(iter(value.values()))), bound)
    return bound


def _is_pipe(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, _PIPES)


def _bind(hint: Any, actual: Any, bound: dict[Any, Any]) -> None:
    if isinstance(hint, TypeVar):
        bound[hint] = actual if bound.get(hint, actual) == actual else Any
    elif len(get_args(hint)) == 1 and len(get_args(actual)) == 1:
        whole, part = get_origin(hint), get_origin(actual)
        if isinstance(whole, type) and isinstance(part, type) and issubclass(part, whole):
            _bind(get_args(hint)[0], get_args(actual)[0], bound)


def _result_of(function: Any) -> Any:
    """Return the type that a function declares to return, or that a class makes."""
    if isinstance(function, type):
        return function
    if inspect.iscoroutinefunction(function):
        return Any
    try:
        returned = inspect.get_annotations(inspect.unwrap(function), eval_str=True).get("return", Any)
    except Exception:  # no function, or names that are there for type checkers only
        return Any
    return NoneType if returned is None else returned


def _type_of(value: Any, levels: int = 3) -> Any:
    """Return the type of a value in memory, with those of its parts, down some levels."""
    kind: Any = type(value)
    if not levels or kind not in (tuple, list, dict) or not 0 < len(value) <= _MOST_FIELDS:
        return kind
    if kind is tuple:
        return tuple[tuple(_type_of(part, levels - 1) for part in value)]  # type: ignore[misc]
    if kind is list:
        return list[_type_of(value[0], levels - 1)]  # type: ignore[misc]
    keys, values = {*map(type, value)}, {*map(type, value.values())}
    first = _type_of(next(iter(value.values())), levels - 1) if len(values) == 1 else Any
    return dict[keys.pop() if len(keys) == 1 else Any, first]  # type: ignore[misc]


def _parts(hint: Any) -> int:
    return 1 + sum(map(_parts, get_args(hint)))


def _put_in(hint: Any, bound: Mapping[Any, Any], unknown: Any = None) -> Any:
    """Return a type with variables replaced; other variables are left, or replaced by `unknown`."""
    if isinstance(hint, TypeVar):
        return bound.get(hint, unknown or hint)
    arguments = get_args(hint)
    origin = get_origin(hint)
    if not arguments or origin is None:
        return hint
    put = tuple(_put_in(part, bound, unknown) if not isinstance(part, list) else part for part in arguments)
    try:
        return functools.reduce(operator.or_, put) if origin in (typing.Union, UnionType) else origin[put]
    except TypeError:  # a special form, such as Callable, which has its own rules
        return hint
