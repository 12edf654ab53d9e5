"""Ranges of the bytes of a text file, and the lines that begin in them."""

from __future__ import annotations

import codecs
from typing import IO

__all__ = ["has_plain_line_ends", "lines_in_range"]

_LONGEST_LINE = 64 * 2**20


def has_plain_line_ends(encoding: str) -> bool:
    """Say whether the byte of a line feed is always a line feed in an encoding, so that a file is divided there."""
    return codecs.lookup(encoding).name in ("ascii", "cp1252", "iso8859-1", "utf-8", "utf-8-sig")


def lines_in_range(file: IO[bytes], start: int, stop: int) -> bytes:
    """Return the lines of a file that begin at bytes `start` to `stop - 1`.

    Raises ValueError for a line of more than 64 MiB at an end of the range, and RuntimeError for a file that is shorter
    than the range.
    """
    begin = start
    if start:
        file.seek(start - 1)
        begin += len(_rest_of_line(file)) - 1
    else:
        file.seek(0)
    if begin >= stop:
        return b""
    lines = file.read(stop - 1 - begin) + _rest_of_line(file)
    if begin + len(lines) < stop:
        raise RuntimeError(
            f"the file has {begin + len(lines)} bytes, and had at least {stop} when it was divided among the readers: "
            "begin anew"
        )
    return lines


def _rest_of_line(file: IO[bytes]) -> bytes:
    rest = file.readline(_LONGEST_LINE)
    if len(rest) == _LONGEST_LINE and not rest.endswith(b"\n"):
        raise ValueError(
            f"a line has more than {_LONGEST_LINE // 2**20} MiB, so the file is not divided among readers: put "
            "sharding_filter in place of shard_files"
        )
    return rest
