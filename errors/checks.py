"""Argument checks that all parts of Penstock share."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

from .hints import hint_on_argument

P = ParamSpec("P")
R = TypeVar("R")

AUTO: Literal["auto"] = "auto"
"""An argument that is found by measuring."""

MOST_AHEAD = 1024
"""How many items are read ahead at most where the number is found."""


def expect_whole(
    name: str, number: Any, least: int | None = 1, or_word: str | None = None, optional: bool = False
) -> None:
    """Raise TypeError if an argument is not a whole number, and ValueError if it is less than `least`.

    Integers of other libraries, such as NumPy's, pass; True and False do not. `or_word` passes, too, and None does
    where it is `optional`.

    >>> expect_whole("count", -1, least=0)
    Traceback (most recent call last):
    ValueError: count must be at least 0, and is -1
    """
    if (optional and number is None) or (or_word is not None and isinstance(number, str) and number == or_word):
        return
    otherwise = "" if or_word is None else f', or "{or_word}"'
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} must be a whole number{otherwise}, and is {number!r:.100}")
    if least is not None and operator.index(number) < least:
        raise ValueError(f"{name} must be at least {least}{otherwise}, and is {number}")


def expect_one_of(name: str, value: object, *allowed: object) -> None:
    """Raise ValueError if an argument is none of the allowed values."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, and is {value!r:.100}")


def expect_number(name: str, number: Any) -> None:
    """Raise TypeError if an argument cannot be compared with numbers."""
    try:
        number < 0  # noqa: B015
    except TypeError:
        raise TypeError(f"{name} must be a number, and is {number!r:.100}") from None


def expect_seconds(name: str, seconds: Any) -> None:
    """Raise TypeError if an argument is not a number, and ValueError if it is not more than 0."""
    expect_number(name, seconds)
    if not seconds > 0:
        raise ValueError(f"{name} must be seconds, more than 0, and is {seconds}")


def takes_only(**hints: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function, or a constructor, raise TypeError with a hint for a keyword that it does not take.

    `hints` has the hints for some names; for others, the nearest names are the hint.

    >>> @takes_only(num_workers="each call has one worker")
    ... def read(path, batch_size=1): ...
    >>> read("a.csv", batchsize=2)
    Traceback (most recent call last):
    TypeError: read takes no batchsize: did you mean 'batch_size'?
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = [*inspect.signature(function).parameters]

        @functools.wraps(function)
        def knowing(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    taker = type(args[0]).__name__ if function.__name__ == "__init__" else function.__name__
                    hint = f": {hints[name]}" if name in hints else hint_on_argument(name, known)
                    raise TypeError(f"{taker} takes no {name}{hint}")
            return function(*args, **kwargs)

        return knowing

    return decorate
