"""The arguments of steps, as states compare them: numbers, text, and digests of what may be a secret."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import os
from collections import OrderedDict
from collections.abc import Sized
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import FunctionType, MappingProxyType
from typing import Any, cast

import numpy as np
import torch

from ..errors.secrets import without_credentials, without_secrets
from .foreign import TorchIterDataPipe, TorchMapDataPipe, declared, declares
from .graph import DataPipe

_MOST_PARTS = 1000
"""The longest collection that is compared as an argument."""
_COLLECTIONS = (list, tuple, range, set, frozenset, dict, MappingProxyType)
_SPEED = {
    *("device", "max_concurrency", "max_workers", "prefetch", "scheduled_tasks", "thread_name_prefix", "timeout"),
    "workers",
}
"""Arguments that no state has: another machine may need others, and items do not depend on them.

Operators add their own as `_not_compared`.
"""


def plain_arguments(pipe: DataPipe) -> dict[str, Any]:
    """Return the arguments of a step that are numbers, strings or booleans, and the number of its items.

    For Penstock's own operators, also lists and dicts of these; other operators may mutate theirs while they read.
    """
    if not declares(pipe, "functional_name"):  # how other libraries' pipes keep arguments is unknown
        return {}
    attributes, items = vars(pipe), declared(pipe, "payload", ())
    found: dict[str, Any] = {}
    cls: Any = type(pipe)
    is_ours = cls.__module__.startswith("penstock.")
    found |= attributes.get("_not_kept", {})
    for name in parameters_of(cls):
        value: Any = attributes[name] if name in attributes else attributes.get(f"_{name}")
        if name in items:
            if isinstance(value, range):
                found[name] = repr(value)
            elif isinstance(value, Sized) and not isinstance(value, (TorchIterDataPipe, TorchMapDataPipe)):
                found[f"len({name})"] = len(value)
        else:
            found |= _comparable(name, value, with_parts=is_ours)
    return found


def _comparable(name: str, value: Any, with_parts: bool) -> dict[str, Any]:
    """Return an argument that is a number, string or boolean in a form for states; nothing for any other.

    `with_parts` includes collections of these.
    """
    value = _plain_value(value)
    if type(value) is bool or (type(value) is float and math.isfinite(value)):
        return {name: value}
    if type(value) is int:
        return {name: value if abs(value) < 2**63 else str(value)}
    if type(value) is str:
        return {name: _told_apart(value)}
    if not with_parts or value is None:
        return {}
    if name.endswith("kwargs") and isinstance(value, dict):
        value = {key: each for key, each in value.items() if key not in _SPEED}
    written = _written(value)
    if not written.strip("[]{}(): ,…"):  # it tells nothing
        return {}
    has_text = "'" in written or '"' in written  # maybe a secret
    return {name: _digest_of_text(written) if has_text else _told_apart(written)}


def _plain_value(value: Any) -> Any:
    """Return a number or string as Python's own type: NumPy's, a tensor's, that of an enum, or a path."""
    if isinstance(value, (np.generic, np.ndarray, torch.Tensor)) and value.shape == ():
        value = value.item()
    for kind in (bool, int, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, (Enum, Fraction, Decimal, np.dtype, torch.dtype)):
        return str(value)
    if isinstance(value, os.PathLike) and isinstance(path := os.fspath(value), str):
        return path
    return value


def _written(value: Any, room: int = _MOST_PARTS) -> str:
    """Return a text that equal numbers, strings and collections of these share; "…" for others, and for large ones."""
    value = _plain_value(value)
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return repr(value)
    if isinstance(value, float):
        return repr(int(value) if value.is_integer() else value)
    if isinstance(value, range) and len(value) > room:
        return repr((value[0], value[-1], value.step))
    if isinstance(value, (np.ndarray, torch.Tensor)):
        with suppress(RuntimeError):  # meta, sparse, quantized and nested tensors have no list
            value = value.tolist() if math.prod(value.shape) <= room else value
    if not isinstance(value, _COLLECTIONS) or len(value) > room:
        return "…"
    room //= len(value) + 1
    if isinstance(value, (list, tuple, range)):
        return f"[{', '.join(_written(each, room) for each in value)}]"
    pairs = value.items() if isinstance(value, (dict, MappingProxyType)) else ((each, None) for each in value)
    parts = [f"{_written(key, room)}: {_written(each, room)}" for key, each in pairs]
    # Equal dicts and sets may have other orders. Keys that are unknown are told apart by their order only.
    has_order = isinstance(value, OrderedDict) or any(part.startswith("…") for part in parts)
    return f"{{{', '.join(parts if has_order else sorted(parts))}}}"


def keep_arguments(pipe: Any, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Keep, for states, the arguments that a pipe does not keep as attributes of their names."""
    attributes, made_of = vars(pipe), cast("Any", type(pipe))
    missing = [name for name in parameters_of(made_of) if name not in attributes and f"_{name}" not in attributes]
    if missing:
        bound = inspect.signature(cls).bind(*args, **kwargs)
        bound.apply_defaults()
        not_kept: dict[str, Any] = {}
        attributes["_not_kept"] = not_kept
        for name in missing:
            value = _plain_value(bound.arguments.get(name))
            if isinstance(value, dict):
                value = without_credentials(value)  # others go on with other ones
            # A string that is not kept may be a secret: as a part of a list it becomes a digest.
            not_kept |= _comparable(name, [value] if isinstance(value, str) else value, with_parts=True)


@functools.cache
def parameters_of(cls: type) -> tuple[str, ...]:
    """Return the constructor parameters of a class and its bases, which may take others."""
    made_by = [vars(base)["__init__"] for base in cls.__mro__ if isinstance(vars(base).get("__init__"), FunctionType)]
    names = dict.fromkeys(name for init in made_by for name in [*inspect.signature(init).parameters][1:])
    others = {
        *_SPEED,
        *getattr(cls, "_state_fields", ()),
        *getattr(cls, "transient", ()),
        *getattr(cls, "_not_compared", ()),
    }
    return (*(name for name in names if others.isdisjoint((name, f"_{name}"))),)


def _told_apart(text: str) -> str:
    """Return a text without secrets, or its digest if it is long: another password may open the same file."""
    text = without_secrets(text)
    return text if len(text) <= 200 else _digest_of_text(text)


def _digest_of_text(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
