"""The text of a chain, in the form that its user wrote."""

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

_LINE_WIDTH = 100
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LINE_BREAK = re.compile(r"\n\s*")
_short_value = Short()
_short_value.maxother = 60
_short_value.maxstring = 120  # shows most paths and URLs in full


def kept_arguments(pipe: DataPipe) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Yield the parameters of a pipe's class, each with the argument of this pipe.

    Arguments are read from attributes with the name of the parameter, or that name after an underscore. If both are
    missing, the default is assumed.
    """
    held = vars(pipe)
    for name, parameter in _parameters_of(type(pipe).__init__):
        yield parameter, held.get(name, held.get(f"_{name}", parameter.default))


@functools.lru_cache(maxsize=1000)
def _parameters_of(constructor: Callable[..., None]) -> list[tuple[str, inspect.Parameter]]:
    return [*inspect.signature(constructor).parameters.items()][1:]


def arguments_of(pipe: DataPipe) -> list[str]:
    """Return the arguments of a pipe as text, without sources and defaults."""
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
            by_position = False  # a second bare value would be unclear
        else:
            shown.append(f"{parameter.name}={_show(value)}")
    return shown


def step(pipe: DataPipe) -> str:
    """Return one pipe as text, without its sources."""
    return f"{type(pipe).__name__}({', '.join(arguments_of(pipe))})"


def show_chain(pipe: DataPipe) -> str:
    """Return a chain as text: one line if it is short, else one line per step."""
    shown: dict[int, str] = {}
    return _joined(descend(lambda visited: _steps(visited, shown), pipe))


def _joined(steps: list[str]) -> str:
    line = "".join(steps)
    return line if len(line) <= _LINE_WIDTH else "\n    ".join(steps)


def _steps(pipe: DataPipe, shown: dict[int, str]) -> Generator[DataPipe, list[str], list[str]]:
    """Return the steps of a chain, with shared sources only once: `shown` has their last steps, by their ids."""
    if shown_as := getattr(type(pipe), "in_a_chain", None):  # a data set: what it is made of is left out
        return [shown_as(pipe)]
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
    except Exception:  # == may not give a bool, such as for an array
        return False


def _holds_pipes(value: object) -> bool:
    kinds = (TorchIterDataPipe, TorchMapDataPipe)
    return isinstance(value, kinds) or (
        isinstance(value, (tuple, list)) and any(isinstance(part, kinds) for part in value)
    )


def _show(value: object) -> str:
    name = getattr(value, "__qualname__", None)
    if name is None:
        return _LINE_BREAK.sub(" ", _ADDRESS.sub("", _short_value.repr(value)))
    return str(name).rpartition("<locals>.")[2]
