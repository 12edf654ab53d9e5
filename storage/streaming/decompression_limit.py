"""A bound on how large a compressed file may become in memory."""

from __future__ import annotations

__all__ = ["MAX_BYTES", "TooLarge", "expect_within_limit"]

MAX_BYTES = 2**30
"""Default bound on the bytes of a decompressed file."""

_HONEST = 100
"""Compression ratio that is always allowed; that of decompression bombs is about 1000."""


class TooLarge(ValueError):
    """A file would exceed its memory bound: probably a decompression bomb."""


def expect_within_limit(grown: int, packed: int, max_bytes: float) -> None:
    """Raise TooLarge if bytes decompress to more than `max_bytes` and to more than 100 times their size."""
    if grown > max(max_bytes, _HONEST * packed):
        raise TooLarge(
            f"{packed:,} bytes grow to {grown:,} or more, and max_bytes is {max_bytes:,}: this may be a decompression "
            "bomb; if the file is right, give a larger max_bytes"
        )
