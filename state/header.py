"""The header of a state: its version, and the classes and arguments of the chain that may load it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Any

from ..errors.secrets import short as _short
from .arguments import plain_arguments
from .graph import DataPipe, sources_of, walk
from .node import KEYS_OF_A_NODE
from .step_text import step_text

VERSION = 5

_DEEPEST_STATE = 200
"""Nested lists and dicts: a loader's state contains those of shards, steps and nodes."""

_MOST_LINES = 40
"""The number of lines up to which a difference is shown in full."""


def header(pipe: DataPipe) -> dict[str, Any]:
    """Return the entries of a state that describe its chain."""
    return {
        "version": VERSION,
        "chain": chain_shape(pipe),
        "arguments": [plain_arguments(part) for part in walk(pipe)],
    }


def chain_shape(pipe: DataPipe) -> list[str]:
    """Return the class names of a chain, one line per pipe, sources below; several sources are indented.

    A source that several pipes share is written out once.
    """
    lines: list[str] = []
    seen: set[int] = set()
    waiting = [(pipe, 0)]
    while waiting:
        part, depth = waiting.pop()
        name = "  " * depth + type(part).__name__
        sources = sources_of(part)
        if id(part) in seen and sources:
            lines.append(f"{name}, the same")
            continue
        seen.add(id(part))
        lines.append(name)
        below = depth + (len(sources) > 1)  # else the indents of a long chain would take quadratic space
        waiting += [(source, below) for source in reversed(sources)]
    return lines


def check_state(pipe: DataPipe, state: dict[str, Any], strict: bool = True, *entries: str) -> dict[str, Any]:
    """Return the state to load; raise ValueError for another version, chain or arguments, and show the difference.

    Without `strict`, arguments may differ, and the order of the sources too. `entries` are the keys of the state
    besides those that `state_of` returns.
    """
    of = "a loader" if entries else "a chain"
    if isinstance(state, dict) and "chain" in state and state.get("version", VERSION) != VERSION:
        raise ValueError(f"the state has version {_short(state['version'])}, and this penstock reads version {VERSION}")
    if not isinstance(state, dict) or {"version", "chain", "arguments", "state", *entries} != state.keys():
        raise ValueError(f"not a state of {of}: {_short(state)}; give what state_dict() of {of} returned")
    expect_plain(state)
    here = header(pipe)
    if here["chain"] != state["chain"]:
        difference = _diff(state["chain"], here["chain"])
        raise ValueError(f"the state is of another chain (- the state's, + this chain's):\n{difference}")
    if strict and here["arguments"] != state["arguments"]:
        _expect_same_arguments(pipe, state["arguments"])
    return state if strict else _without_order(state)


def _without_order(part: Any) -> Any:
    """Return a state without the check values of items."""
    if isinstance(part, dict):
        is_node = part.keys() <= KEYS_OF_A_NODE  # also among what a sharding_filter owns
        return {key: _without_order(value) for key, value in part.items() if key != "last_given" or not is_node}
    return [*map(_without_order, part)] if isinstance(part, (list, tuple)) else part


def _diff(one: Any, other: list[str]) -> str:
    if not isinstance(one, list) or not all(isinstance(line, str) for line in one):
        return f"- {_short(one)}"
    if len(one) + len(other) <= _MOST_LINES:
        return "\n".join(difflib.ndiff(one, other))
    # A complete diff of long chains would take minutes.
    place = next((number for number, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), -1)
    start = min(len(one), len(other)) if place < 0 else place
    lines = [f"the same up to step {start}, of {len(one)} and {len(other)}"]
    return "\n".join(
        [*lines, *(f"- {line}" for line in one[start : start + 5]), *(f"+ {line}" for line in other[start : start + 5])]
    )


def _expect_same_arguments(pipe: DataPipe, theirs: Any) -> None:
    """Raise ValueError if arguments differ, with the step and both values."""
    parts = [*walk(pipe)]
    are_dicts = isinstance(theirs, (list, tuple)) and all(isinstance(each, dict) for each in theirs)
    if not are_dicts or len(theirs) != len(parts):
        raise ValueError(f"the state has no arguments of {len(parts)} steps: {_short(theirs)}")
    differences = (
        f"{step_text(part):.200} was made with {name}={before.get(name, '(nothing told)')!r:.80}, and has "
        f"{now.get(name, '(nothing to tell)')!r:.80} now"
        for part, before in zip(parts, theirs, strict=True)
        for now in [plain_arguments(part)]
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    )
    found = [*islice(differences, 5)]
    if found:
        raise ValueError(
            "the state is of a chain with other arguments, which may divide the rest of the stream differently:\n"
            + "\n".join(found)
            + "\nload_state_dict(state, strict=False) loads it anyway"
        )


def expect_plain(state: Any) -> None:
    """Raise ValueError for a state with anything but plain data, or with integers that are too large."""
    seen: set[int] = set()
    waiting = [(state, 0)]
    while waiting:
        value, depth = waiting.pop()
        parts: Iterable[Any] = ()
        if isinstance(value, (dict, list, tuple)):
            if depth > _DEEPEST_STATE:
                raise ValueError(f"a state has at most {_DEEPEST_STATE} levels of lists and dicts")
            if id(value) in seen and value:
                raise ValueError(f"a state cannot hold the same list or dict twice: {_short(value)}")
            seen.add(id(value))
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            parts = value.values()
        elif isinstance(value, (list, tuple)):
            parts = value
        elif type(value) is int:
            if not -(2**63) <= value < 2**64:
                raise ValueError(f"a state cannot hold integers as large as {_short(value)}")
        elif not (value is None or type(value) in (str, bytes, bool, float)):
            raise ValueError(
                f"a state is plain data, and this contains {_short(value)}, of type {type(value).__name__}"
            )
        waiting += [(part, depth + 1) for part in parts]
