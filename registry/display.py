"""The text of a chain, in the form that its user wrote."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .graph import DataPipe, descend, is_one_of_several, sources_of, walk
from .secrets import Options, is_secret
from .short_values import ArgumentText
from .torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = ["arguments_of", "is_data_set", "kept_arguments", "show_chain", "show_tree", "step"]

_LINE_WIDTH = 100
_DEEPEST = 30
"""The most levels of indentation."""
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
    held = vars(pipe)
    for name, parameter in _parameters_of(type(pipe).__init__):
        yield parameter, held.get(name, held.get(f"_{name}", parameter.default))


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


def step(pipe: DataPipe) -> str:
    """Return one pipe as text, without its sources."""
    return f"{type(pipe).__name__}({', '.join(arguments_of(pipe))})"


def show_chain(pipe: DataPipe) -> str:
    """Return a chain as text: one line if it is short, else one line per step and a tree of the branches."""
    steps = _calls_of(pipe)
    line = "".join(_parts(steps))
    return line if len(line) <= _LINE_WIDTH else _tree(steps)


def show_tree(pipe: DataPipe) -> str:
    """Return a chain as text: a tree if it has branches, however short."""
    branches = any(len(sources_of(part)) > 1 for part in walk(pipe, stop=is_data_set))
    return _tree(_calls_of(pipe)) if branches else show_chain(pipe)


def is_data_set(pipe: DataPipe) -> bool:
    """Say whether a pipe is a data set, of which a text or picture omits what it is made of."""
    return hasattr(type(pipe), "in_a_chain")


@dataclass(frozen=True)
class _Call:
    """A step in a text. It has those of its sources that stand among its arguments, not before it."""

    name: str
    arguments: tuple[str, ...] = ()
    sources: tuple[list[_Call], ...] = ()
    after: str = ""
    parentheses: bool = True


_ELLIPSIS = _Call("…", parentheses=False)


def _calls_of(pipe: DataPipe) -> list[_Call]:
    shown: dict[int, _Call] = {}
    seen: dict[str, Any] = {}
    return descend(lambda visited: _calls(visited, shown, seen), pipe)


def _calls(
    pipe: DataPipe, shown: dict[int, _Call], seen: dict[str, Any]
) -> Generator[DataPipe, list[_Call], list[_Call]]:
    """Return the steps of a chain, with shared sources only once: `shown` has their last steps, by their ids."""
    if shown_as := getattr(type(pipe), "in_a_chain", None):
        return [_Call(shown_as(pipe), parentheses=False)]
    if id(pipe) in shown:
        return [_ELLIPSIS, shown[id(pipe)]]
    sources = sources_of(pipe)
    if not sources:
        return [_Call(type(pipe).__name__, (*arguments_of(pipe, seen=seen),))]
    first: list[_Call] = yield sources[0]
    if is_one_of_several(pipe):
        return [*first[:-1], replace(first[-1], after=f"[{vars(pipe)['number']}]")]
    among = []
    for source in sources[1:]:
        among.append((yield source))
    arguments = (*arguments_of(pipe, seen=seen),)
    method = vars(type(pipe)).get("functional_name")  # not inherited: a subclass is another operator
    if method is None and not among and len(first) == 1 and not first[0].sources:
        call = _Call(type(pipe).__name__, (_line_of(first[0]), *arguments))
        first = []
    elif method is None:
        call = _Call(type(pipe).__name__, arguments, (first, *among))
        first = []
    else:
        call = _Call(f".{method}", arguments, (*among,))
    shown[id(pipe)] = replace(call, sources=tuple([_ELLIPSIS] for _ in call.sources))
    first.append(call)
    return first


def _line_of(call: _Call) -> str:
    """Return a step without sources as text."""
    return f"{call.name}({', '.join(call.arguments)}){call.after}" if call.parentheses else call.name + call.after


def _parts(steps: list[_Call]) -> Iterator[str]:
    """Yield the parts of a line of steps, until it is too long."""
    waiting: list[str | _Call] = [*reversed(steps)]
    length = 0
    while waiting and length <= _LINE_WIDTH:
        part = waiting.pop()
        if isinstance(part, str) or not part.sources:
            text = part if isinstance(part, str) else _line_of(part)
            length += len(text)
            yield text
        else:
            waiting.append("".join([", " * bool(part.arguments), ", ".join(part.arguments), ")", part.after]))
            for place, source in reversed([*enumerate(part.sources)]):
                waiting += [*reversed(source), ", " if place else f"{part.name}("]


def _tree(steps: list[_Call]) -> str:
    """Return steps as text with a line for each. Sources among the arguments are further to the right."""
    lines: list[str] = []
    waiting: list[tuple[int, str | list[_Call], str]] = [(0, steps, "")]
    while waiting:
        depth, part, after = waiting.pop()
        if isinstance(part, str):
            lines.append("    " * min(depth, _DEEPEST) + part + after)
            continue
        if part[0] is _ELLIPSIS and len(part) > 1:
            part = [replace(part[1], name=f"…{part[1].name}"), *part[2:]]
        below: list[tuple[int, str | list[_Call], str]] = []
        for place, call in enumerate(part):
            at, comma = depth + (place > 0), after if place == len(part) - 1 else ""
            if not _fits_a_line(call):
                below += [(at, f"{call.name}(", ""), *((at + 1, source, ",") for source in call.sources)]
                below += [(at + 1, ", ".join(call.arguments), ",")] if call.arguments else []
                below.append((at, f"){call.after}", comma))
            else:
                below.append((at, "".join(_parts([call])), comma))
        waiting += reversed(below)
    return "\n".join(lines)


def _fits_a_line(call: _Call) -> bool:
    if not call.sources:
        return True
    steps = [[step for step in source if step is not _ELLIPSIS] for source in call.sources]
    one_step_each = all(len(each) <= 1 and not any(step.sources for step in each) for each in steps)
    return one_step_each and sum(map(len, _parts([call]))) <= _LINE_WIDTH


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
