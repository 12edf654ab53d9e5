"""A bound for what small files may grow to in memory."""

from __future__ import annotations

__all__ = ["MAX_BYTES", "TooLarge", "expect_honest"]

MAX_BYTES = 2**30
"""Bytes that a file may grow to in memory, where nothing else is said."""

_HONEST = 100
"""How many times its own size a file may grow to, however large. Those made to fill memory grow a thousandfold."""


class TooLarge(ValueError):
    """A file would take more memory than its bound, as no honest one does."""


def expect_honest(grown: int, packed: int, max_bytes: float) -> None:
    """Raise TooLarge where some bytes grow to more than a bound, and to more than a hundred times as many."""
    if grown > max(max_bytes, _HONEST * packed):
        raise TooLarge(
            f"{packed:,} bytes grow to {grown:,} or more, and max_bytes is {max_bytes:,}: this may be made to fill the "
            "memory; where it is right, give a larger max_bytes"
        )
