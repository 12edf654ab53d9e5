"""Chains of thousands of steps, for the tests of what must not recurse over them."""

from __future__ import annotations

import os
import sys
from typing import Any

import penstock as ps

MOST = 300 if sys.version_info[:2] == (3, 12) else 3000
"""Steps that a chain may have; Python 3.12 lets C call itself 1,500 times, whatever the stack."""
STEPS = MOST if "PENSTOCK_CASES" in os.environ else min(MOST, 1500)
"""More than Python lets calls nest by itself; `nox -s thorough` takes as many as there may be."""


def numbers(n: int = 6) -> Any:
    return ps.iter.IterableWrapper(range(n))


def is_any(item: Any) -> bool:
    return True


def first(items: Any) -> Any:
    return items[0]


def maps(dp: Any, steps: int = STEPS) -> Any:
    for _ in range(steps):
        dp = dp.map(abs)
    return dp


def mixed(dp: Any, steps: int = STEPS) -> Any:
    for _ in range(steps // 4):
        dp = dp.map(abs).filter(is_any).batch(1).unbatch()
    return dp


def branched(dp: Any, steps: int = STEPS) -> Any:
    """Two branches of a long chain, each long."""
    one, other = maps(dp, steps // 3).fork(2)
    return maps(one, steps // 3).zip(maps(other, steps // 3)).map(first)


def forked(dp: Any, steps: int = STEPS) -> Any:
    """Branches that part and meet, again and again."""
    for _ in range(steps // 50):
        one, other = maps(dp, 46).fork(2)
        dp = one.zip(other).map(first)
    return dp


def diamonds(dp: Any, steps: int = STEPS) -> Any:
    """Branches that part and meet at every other step."""
    for _ in range(steps // 5):
        one, other = dp.fork(2)
        dp = one.zip(other).map(first)
    return dp


def converted(dp: Any, steps: int = STEPS) -> Any:
    """Steps that another kind of pipe reads."""
    for _ in range(steps // 100):
        dp = maps(dp, 97).enumerate().to_map_datapipe().to_iter_datapipe()
    return dp


def shuffled(dp: Any, steps: int = STEPS) -> Any:
    for _ in range(steps):
        dp = dp.shuffle(buffer_size=1)
    return dp


def zero(item: Any) -> int:
    return 0


def grouped(dp: Any, steps: int = STEPS) -> Any:
    """The steps that take the most of the stack."""
    for _ in range(steps // 2):
        dp = dp.groupby(zero, group_size=1).unbatch()
    return dp


def skipping(dp: Any, steps: int = STEPS) -> Any:
    for _ in range(steps):
        dp = dp.map(abs, on_error="skip")
    return dp
