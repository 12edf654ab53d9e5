"""Python's recursion limit for long chains, whose iterators call each other."""

from __future__ import annotations

import inspect
import sys
import traceback

__all__ = ["let_steps_nest"]

_MOST_STEPS = 6000
_MOST_FRAMES = 15_400
"""More frames would overflow the C stack and end the process: each takes about half a KB of 8 MB."""
_LIMIT = 20_000
"""Python's recursion limit. Closing steps takes more calls than reading them, but no more C stack."""


def let_steps_nest() -> None:
    """Raise Python's recursion limit for a long chain, whose iterators call each other.

    Raises RecursionError if the C stack may overflow. A limit that is already above `_LIMIT` is left alone.
    """
    limit = sys.getrecursionlimit()
    if limit > _LIMIT:
        return
    names = [frame.f_code.co_name for frame, _ in traceback.walk_stack(inspect.currentframe())]
    if (steps := names.count("_deliver")) > _MOST_STEPS or len(names) > _MOST_FRAMES:
        raise RecursionError(f"the stack has no room for {steps:,} steps, each of which reads the next, and more")
    if 3 * len(names) > limit:
        sys.setrecursionlimit(min(4 * len(names), _LIMIT))
