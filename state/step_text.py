"""The text of one step: its class and arguments, in the form that its user wrote."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..errors.secrets import Options, is_secret
from ..errors.short_values import ArgumentText
from .foreign import TorchIterDataPipe, TorchMapDataPipe, declared, declares
from .graph import DataPipe

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LINE_BREAK = re.compile(r"\n\s*")
_short_text, _long_text = ArgumentText(), ArgumentText(room=400, most=20)
_LONGEST_AGAIN = 16
"""The most characters of a dict or of options that a text repeats at each step that has the same."""


def kept_arguments(pipe: DataPipe) -> Iterator[tuple[inspect.Parameter, Any]]:
    """Yield the parameters of a pipe's class, each with the argument of this pipe.

    Arguments are read from attributes with the name of the parameter, or that name after an underscore. If both are
    missing, the default is assumed.
    """
    attributes = vars(pipe)
    for name, parameter in _parameters_of(type(pipe).__init__):
        yield parameter, attributes.get(name, attributes.get(f"_{name}", parameter.default))


@functools.lru_cache(maxsize=1000)
def _parameters_of(constructor: Callable[..., None]) -> list[tuple[str, inspect.Parameter]]:
    return [*inspect.signature(constructor).parameters.items()][1:]


def arguments_of(pipe: DataPipe, in_full: bool = False, seen: dict[str, Any] | None = None) -> list[str]:
    """Return the arguments of a pipe as text, without sources and defaults; long ones are cut later if `in_full`.

    `seen` collects the dicts and options of a chain by their text: the same are "…" after the first time.
    """
    text_of = _long_text if in_full else _short_text
    shown: list[str] = []
    by_position = True
    for parameter, value in kept_arguments(pipe):
        if _is_default(value, parameter.default) or _holds_pipes(value):
            by_position = by_position and _holds_pipes(value)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            shown += [_line_of_text(text_of.repr(part)) for part in value]
        elif parameter.kind is parameter.VAR_KEYWORD:
            shown += map(_line_of_text, text_of.named(value))
        elif by_position and parameter.kind is not parameter.KEYWORD_ONLY and not is_secret(parameter.name):
            shown.append(_line_of_text(text_of.repr(value)))
            by_position = False  # a second bare value would be unclear
        else:
            (text,) = map(_line_of_text, text_of.named({parameter.name: value}))
            if seen is not None and isinstance(value, Mapping) and len(text) > _LONGEST_AGAIN:
                is_again = text in seen and _is_default(value, seen[text])
                seen.setdefault(text, value)
                text = f"{parameter.name}=…" if is_again else text
            shown.append(text)
            by_position = False
    return shown


def step_text(pipe: DataPipe) -> str:
    """Return one pipe as text, without its sources."""
    return declared(pipe, "shown_as", None) or f"{type(pipe).__name__}({', '.join(arguments_of(pipe))})"


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
        isinstance(value, (tuple, list)) and any(issubclass(kind, kinds) for kind in {*map(type, value)})
    )


def _line_of_text(text: str) -> str:
    """Return text on one line, without the addresses of objects."""
    return _LINE_BREAK.sub(" ", _ADDRESS.sub("", text))


def is_data_set(pipe: DataPipe) -> bool:
    """Say whether a pipe is a data set, of which a text or picture omits what it is made of."""
    return declares(pipe, "in_a_chain")
