"""Argument checks that all parts of Penstock share."""

from __future__ import annotations

import operator
from typing import Any, Literal

__all__ = ["AUTO", "MOST_AHEAD", "expect_whole"]

AUTO: Literal["auto"] = "auto"
"""An argument that is found by measuring."""

MOST_AHEAD = 1024
"""How many items are read ahead at most where the number is found."""


def expect_whole(name: str, number: Any, least: int = 1, or_word: str | None = None) -> None:
    """Raise TypeError if an argument is not a whole number, and ValueError if it is less than `least`.

    Integers of other libraries, such as NumPy's, pass; True and False do not. `or_word` passes, too.

    >>> expect_whole("count", -1, least=0)
    Traceback (most recent call last):
    ValueError: count must be at least 0, and is -1
    """
    if or_word is not None and isinstance(number, str) and number == or_word:
        return
    otherwise = "" if or_word is None else f', or "{or_word}"'
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} must be a whole number{otherwise}, and is {number!r:.100}")
    if operator.index(number) < least:
        raise ValueError(f"{name} must be at least {least}{otherwise}, and is {number}")
