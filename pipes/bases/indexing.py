"""Indices of operators that count their own items."""

from __future__ import annotations

import operator

__all__ = ["from_start"]


def from_start(index: int, length: int) -> int:
    """Return an index counted from the start; IndexError where it is out of range for `length`."""
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range: the length is {length}")
    return number % length
