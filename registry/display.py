"""How a chain shows itself: the way its user wrote it."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Generator, Iterator
from typing import Any

from .graph import DataPipe, descend, is_one_of_several, sources_of
from .secrets import Options, Short
from .torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = ["arguments_of", "kept_arguments", "show_chain", "step"]

_WIDTH = 100
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LINE_BREAK = re.compile(r"\n\s*")
_short = Short()
_short.maxother = 60
_short.maxstring = 120  # so that most paths and URLs stand as they are


def kept_arguments(pipe: DataPipe) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Yield the parameters of a pipe's class, each with the argument that this pipe was made with.

    They are read from the attributes that have the names of the parameters, or these after an underscore; where there
    is neither, the default is taken to be meant.
    """
    held = vars(pipe)
    for name, parameter in _parameters_of(type(pipe).__init__):
        yield parameter, held.get(name, held.get(f"_{name}", parameter.default))


@functools.lru_cache(maxsize=1000)
def _parameters_of(constructor: Callable[..., None]) -> list[tuple[str, inspect.Parameter]]:
    return [*inspect.signature(constructor).parameters.items()][1:]


def arguments_of(pipe: DataPipe) -> list[str]:
    """Return the arguments that a pipe was made with, sources and defaults apart, as text."""
    shown: list[str] = []
    by_position = True
    for parameter, value in kept_arguments(pipe):
        if _is_default(value, parameter.default) or _holds_pipes(value):
            by_position = by_position and _holds_pipes(value)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            shown += [_show(part) for part in value]
        elif parameter.kind is parameter.VAR_KEYWORD:
            shown += [f"{key}={_show(part)}" for key, part in value.items()]
        elif by_position and parameter.kind is not parameter.KEYWORD_ONLY:
            shown.append(_show(value))
            by_position = False  # a second bare value would not say what it is
        else:
            shown.append(f"{parameter.name}={_show(value)}")
    return shown


def step(pipe: DataPipe) -> str:
    """Return one pipe as text, without what it reads from."""
    return f"{type(pipe).__name__}({', '.join(arguments_of(pipe))})"


def show_chain(pipe: DataPipe) -> str:
    """Return a chain as text: one line where it is short, else one line for each step."""
    shown: dict[int, str] = {}
    return _joined(descend(lambda visited: _steps(visited, shown), pipe))


def _joined(steps: list[str]) -> str:
    line = "".join(steps)
    return line if len(line) <= _WIDTH else "\n    ".join(steps)


def _steps(pipe: DataPipe, shown: dict[int, str]) -> Generator[DataPipe, list[str], list[str]]:
    """The steps of a chain, but what is read through several pipes only once: `shown` has its last step, by its id."""
    sources = sources_of(pipe)
    method = vars(type(pipe)).get("functional_name")  # not inherited: a subclass is another operator
    if not sources:
        return [step(pipe)]
    if is_one_of_several(pipe):
        shared = id(sources[0])
        before = ["…"]
        if shared not in shown:
            *before, shown[shared] = yield sources[0]
        return [*before, f"{shown[shared]}[{vars(pipe)['number']}]"]
    first: list[str] = yield sources[0]
    others = []
    for source in sources[1:]:
        others.append(_joined((yield source)))
    if method is None:
        return [f"{type(pipe).__name__}({', '.join([_joined(first), *others, *arguments_of(pipe)])})"]
    first.append(f".{method}({', '.join([*others, *arguments_of(pipe)])})")
    return first


def _is_default(value: Any, default: Any) -> bool:
    if value is default or (isinstance(value, Options) and not value):
        return True
    try:
        return bool(type(value) is type(default) and value == default)
    except Exception:  # a value whose == is not a plain truth, such as an array
        return False


def _holds_pipes(value: object) -> bool:
    kinds = (TorchIterDataPipe, TorchMapDataPipe)
    return isinstance(value, kinds) or (
        isinstance(value, (tuple, list)) and any(isinstance(part, kinds) for part in value)
    )


def _show(value: object) -> str:
    name = getattr(value, "__qualname__", None)
    if name is None:
        return _LINE_BREAK.sub(" ", _ADDRESS.sub("", _short.repr(value)))
    return str(name).rpartition("<locals>.")[2]
