"""Old names of parameters, which work for one release."""

from __future__ import annotations

import functools
import inspect
import itertools
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from ..errors.secrets import Options

P = ParamSpec("P")
R = TypeVar("R")


def by_new_names(
    name: str, taker: Callable[..., Any], old_names: Mapping[str, str], given: dict[str, Any]
) -> dict[str, Any]:
    """Return keyword arguments under their new names, with a DeprecationWarning for each old name.

    A new name that ends in `[]` is that of a dict of options, which used to be separate arguments. Raises TypeError for
    an argument given under both names.
    """
    parameters = inspect.signature(taker).parameters
    renamed = [old for old in given if old in old_names and old not in parameters]
    found = {key: value for key, value in given.items() if key not in renamed}
    for old in renamed:
        new, bracket, _ = old_names[old].partition("[")
        instead = f"{new}={{{old!r}: …}}" if bracket else new
        warnings.warn(
            f"{name}({old}=…) is {instead} now; the next release removes the old name",
            DeprecationWarning,
            stacklevel=_frames_of_ours(),
        )
        if bracket:
            found[new] = Options(found.get(new), **{old: given[old]})
        elif new in found:
            raise TypeError(f"{name} got {new} twice, once by its old name {old}")
        else:
            found[new] = given[old]
    return found


def takes_old_names(**old_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take arguments by their old names, too."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def by_any_name(*args: P.args, **kwargs: P.kwargs) -> R:
            new: Any = by_new_names(function.__name__, function, old_names, kwargs)
            return function(*args, **new)

        return by_any_name

    return decorate


def _frames_of_ours() -> int:
    """Return the `stacklevel` with which the caller's warning shows the user's line."""
    callers = (
        frame.f_globals.get("__name__", "").partition(".")[0]
        for frame, _ in traceback.walk_stack(inspect.currentframe())
    )
    return sum(1 for _ in itertools.takewhile("penstock".__eq__, callers))
