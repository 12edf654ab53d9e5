"""How a step of a random chain is written as plain data, drawn at random and built: what all rules share.

A chain is a list of steps, the first of which is a source. A step is a list, too: the name of its rule and
its arguments. So the text of a chain is what rebuilds it, in any process.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.testing.probes import as_plain

Spec = list[Any]
"""A chain as plain data: `[["numbers", 9], ["batch", 2, False]]`."""
Draw = Callable[[Any], Any]
"""What draws one argument, given the drawer."""

ANY = "any"
ITEM = "item"
"""Any kind of item but streams, which are read once."""
SAME = "same"

FOLDERS = "penstock-random-chains-"
"""What the names of the folders that chains read and write begin with."""
_ELSEWHERE = re.compile(rf"""[^'" ]*{FOLDERS}[^/'"]*|http://127.0.0.1:[0-9]+""")
"""What is another on another machine, or in another run, and is left out of the texts of items."""


@dataclass(frozen=True)
class Rule:
    """How one step is added to a chain."""

    name: str
    make: Callable[..., Any]
    draws: tuple[Draw, ...]
    takes: str
    """The kind of items that it reads."""
    gives: str
    covers: tuple[str, ...]
    """The operators that it adds, by their names in the registry."""
    grows: float
    """How many items, at most, it gives for one that it reads."""
    slow: bool
    """Whether a pass takes longer than a few milliseconds."""
    elsewhere: bool
    """Whether it can be in a worker process."""
    in_branch: bool
    """Whether a branch of a stream can have it."""


STEPS: dict[str, Rule] = {}
ROOTS: dict[str, Rule] = {}


def _rule(rules: dict[str, Rule], *draws: Draw, covers: str | None = None, **options: Any) -> Callable[[Any], Any]:
    def enter(make: Callable[..., Any]) -> Callable[..., Any]:
        name = make.__name__.strip("_")
        whole = {
            "takes": ITEM,
            "gives": ITEM,
            "grows": 1,
            "slow": False,
            "elsewhere": True,
            "in_branch": True,
            **options,
        }
        covered = tuple((f"iter.{name}" if covers is None else covers).split())
        rules[name] = Rule(name, make, draws, covers=covered, **whole)
        return make

    return enter


def step(*draws: Draw, covers: str | None = None, **options: Any) -> Callable[[Any], Any]:
    """Enter a function of a chain, and of what is drawn, that returns a longer chain; its name is the step's."""
    return _rule(STEPS, *draws, covers=covers, **options)


def root(*draws: Draw, covers: str = "", **options: Any) -> Callable[[Any], Any]:
    """Enter a function that returns a source."""
    return _rule(ROOTS, *draws, covers=covers, **options)


def small(least: int, most: int) -> Draw:
    return lambda drawer: drawer.random.randint(least, most)


def of(*choices: Any) -> Draw:
    return lambda drawer: drawer.random.choice(choices)


flag = of(False, True)


def build(spec: Spec) -> Any:
    """Build the chain that is meant."""
    name, *arguments = spec[0]
    return extended(ROOTS[name].make(*arguments), spec[1:])


def extended(dp: Any, steps: list[Any]) -> Any:
    for name, *arguments in steps:
        dp = STEPS[name].make(dp, *arguments)
    return dp


def text(item: Any) -> str:
    """All that is in an item, as text; streams are read to their end."""
    return _ELSEWHERE.sub("…", repr(_plain(item)))


def _plain(item: Any) -> Any:
    if isinstance(item, (pa.RecordBatch, pa.Table)):
        return (type(item).__name__, str(item.schema), item.to_pylist())
    if isinstance(item, (list, tuple)) and not callable(getattr(item, "read", None)):
        parts = [_plain(part) for part in item]
        return parts if isinstance(item, list) else (type(item).__name__, *parts)
    if type(item) is dict:
        return {key: _plain(value) for key, value in item.items()}
    return as_plain(item)


def mark(item: Any) -> int:
    """A number that any item has, the same in every process."""
    return zlib.crc32(text(item).encode())
