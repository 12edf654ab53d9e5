"""Types of the items of a step, from annotations and from data in memory. Nothing is read or called."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

from ...state.foreign import TorchIterDataPipe, TorchMapDataPipe
from ..chain_info import StepInfo

_PIPES: tuple[type, ...] = (TorchIterDataPipe, TorchMapDataPipe)
_MODULE = re.compile(r"(?:\w+\.)+(?=\w)")
_IN_MEMORY = (list, tuple, range, str, bytes)
_QUOTED = re.compile(r"(?:ForwardRef\()?'([^']*)'\)?")
_DATA_CHUNK = re.compile(r"\bDataChunk\b")
_MOST_FIELDS = 12
_LONGEST, _LONGEST_KEPT = 60, 2000
"""The characters of a type that people still read, and of one that is followed: each zip of a pipe with itself doubles
them."""


def item_of(step: StepInfo, items_of_sources: Sequence[Any]) -> Any:
    """Return the type of a step's items; `typing.Any` if unknown.

    It is the type that the class declares, as in `IterDataPipe[tuple[int, T]]`. Its variables come from the sources,
    the return annotations of functions, and the first of the items in memory.
    """
    kind: Any = type(step.pipe)
    declared = _declared(kind)
    for self_hint, hints in _signatures(kind):
        bound = _bindings(hints, step.attributes, items_of_sources)
        if bound is not None:
            own = dict(zip(getattr(kind, "__parameters__", ()), get_args(self_hint), strict=False))
            declared = _put_in(_put_in(declared, own), bound)
            break
    declared = _put_in(declared, dict.fromkeys(_variables(declared), Any))
    passes_on = getattr(kind, "keeps_schema", False) is True or (step.is_branch and step.sources[0].gives == "same")
    if declared is Any and passes_on and all(item == items_of_sources[0] for item in items_of_sources):
        return items_of_sources[0]
    return declared if len(repr(declared)) <= _LONGEST_KEPT else Any


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
    found = []
    constructor = kind.__init__
    overloads = typing.get_overloads(constructor) if inspect.isfunction(constructor) else []
    for function in overloads or [constructor]:
        try:
            hints = typing.get_type_hints(function)
        except Exception:  # a name may be imported for type checkers only
            continue
        hints.pop("return", None)
        found.append((hints.pop("self", None), hints))
    return found


def _bindings(hints: Mapping[str, Any], attributes: Mapping[str, Any], items: Sequence[Any]) -> dict[Any, Any] | None:
    """Return the types that the arguments give to the variables of annotations, or None if the arguments do not fit."""
    bound: dict[Any, Any] = {}
    sources = [hint for hint in hints.values() if _is_pipe(get_origin(hint))]
    if len(sources) == len(items):
        for hint, item in zip(sources, items, strict=True):
            _bind(get_args(hint)[0], item, bound)
    elif len(sources) > 1:
        return None
    for name, hint in hints.items():
        value = attributes.get(name, attributes.get(f"_{name}"))
        if hint is NoneType and value is not None:
            return None
        if get_origin(hint) is Callable:
            _bind(get_args(hint)[-1], _result_of(value), bound)
        elif type(value) in _IN_MEMORY and len(value):
            _bind(hint, list[_type_of(next(iter(value)))], bound)  # type: ignore[misc]
    return bound


def _is_pipe(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, _PIPES)


def _bind(hint: Any, actual: Any, bound: dict[Any, Any]) -> None:
    """Add the types that a type gives to the variables of an annotation."""
    if isinstance(hint, TypeVar):
        bound[hint] = actual if bound.get(hint, actual) == actual else Any
    elif get_origin(hint) in (typing.Union, UnionType):
        for part in get_args(hint):
            _bind(part, actual, bound)
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


def _variables(hint: Any) -> tuple[Any, ...]:
    return (hint,) if isinstance(hint, TypeVar) else getattr(hint, "__parameters__", ())


def _put_in(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """Return a type with variables replaced; others are left."""
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    variables = _variables(hint)
    return hint[tuple(bound.get(variable, variable) for variable in variables)] if variables else hint
