"""The text of a chain, in the form that its user wrote."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..state.foreign import declared
from ..state.graph import DataPipe, is_one_of_several, sources_of, walk
from ..state.step_text import arguments_of, is_data_set

_LINE_WIDTH = 100
_DEEPEST = 30
"""The most levels of indentation."""


def show_chain(pipe: DataPipe) -> str:
    """Return a chain as text: one line if it is short, else one line per step and a tree of the branches."""
    lines = _tree(_calls_of(pipe))
    line = _joined(lines)
    return line if len(line) <= _LINE_WIDTH else "\n".join(lines)


def show_tree(pipe: DataPipe) -> str:
    """Return a chain as text: a tree if it has branches, however short."""
    branches = any(len(sources_of(part)) > 1 for part in walk(pipe, stop=is_data_set))
    return "\n".join(_tree(_calls_of(pipe))) if branches else show_chain(pipe)


@dataclass(frozen=True)
class _Call:
    """A step in a text. It has those of its sources that are among its arguments, not before it."""

    name: str
    arguments: tuple[str, ...] = ()
    sources: tuple[list[_Call], ...] = ()
    after: str = ""
    parentheses: bool = True


_ELLIPSIS = _Call("…", parentheses=False)


def _calls_of(pipe: DataPipe) -> list[_Call]:
    shown: dict[int, _Call] = {}
    seen: dict[str, Any] = {}
    return _calls(pipe, shown, seen)


def _calls(pipe: Any, shown: dict[int, _Call], seen: dict[str, Any]) -> list[_Call]:
    """Return the steps of a chain, with shared sources only once: `shown` has their last steps, by their ids."""
    line: list[DataPipe] = []  # a loop, since chains are long
    while (shown_as := declared(pipe, "in_a_chain", None)) is None and id(pipe) not in shown and sources_of(pipe):
        line.append(pipe)
        pipe = sources_of(pipe)[0]
    if shown_as is not None:
        calls = [_Call(shown_as(pipe), parentheses=False)]
    elif id(pipe) in shown:
        calls = [_ELLIPSIS, shown[id(pipe)]]
    else:
        calls = [_Call(type(pipe).__name__, (*arguments_of(pipe, seen=seen),))]
    for step in reversed(line):
        calls = _with_step(step, calls, shown, seen)
    return calls


def _with_step(pipe: DataPipe, first: list[_Call], shown: dict[int, _Call], seen: dict[str, Any]) -> list[_Call]:
    """Return the steps of a pipe, those of its first source being known."""
    if is_one_of_several(pipe):
        return [*first[:-1], replace(first[-1], after=f"[{vars(pipe)['number']}]")]
    among = [_calls(source, shown, seen) for source in sources_of(pipe)[1:]]
    arguments = (*arguments_of(pipe, seen=seen),)
    method = vars(type(pipe)).get("functional_name")  # not inherited: a subclass is another operator
    if method is None and not among and len(first) == 1 and not first[0].sources:
        call = _Call(type(pipe).__name__, (_line_of(first[0]) or "", *arguments))
        first = []
    elif method is None:
        call = _Call(type(pipe).__name__, arguments, (first, *among))
        first = []
    else:
        call = _Call(f".{method}", arguments, (*among,))
    shown[id(pipe)] = replace(call, sources=tuple([_ELLIPSIS] for _ in call.sources))
    first.append(call)
    return first


def _line_of(call: _Call) -> str | None:
    """Return a step as one line; None if its sources need lines of their own."""
    parts = []
    for source in call.sources:
        steps = [step for step in source if step is not _ELLIPSIS]
        if len(steps) > 1 or any(step.sources for step in steps):
            return None
        parts.append("".join(_line_of(step) or "" for step in source))
    arguments = f"({', '.join([*parts, *call.arguments])})" if call.parentheses else ""
    line = f"{call.name}{arguments}{call.after}"
    return line if not call.sources or len(line) <= _LINE_WIDTH else None


def _tree(steps: list[_Call]) -> list[str]:
    """Return a line for each step. Sources among the arguments are further to the right."""
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
            if (line := _line_of(call)) is not None:
                below.append((at, line, comma))
                continue
            below += [(at, f"{call.name}(", ""), *((at + 1, source, ",") for source in call.sources)]
            below += [(at + 1, ", ".join(call.arguments), ",")] if call.arguments else []
            below.append((at, f"){call.after}", comma))
        waiting += reversed(below)
    return lines


def _joined(lines: list[str]) -> str:
    """Return the lines of a tree as one, without the commas before closing parentheses."""
    line = ""
    for part in map(str.strip, lines):
        line = line.removesuffix(", ") + part if part.startswith(")") else line + part
        line += " " * part.endswith(",")
        if len(line) > _LINE_WIDTH:
            break
    return line
