"""Parts of text files, read apart from each other: the lines that begin in a range of bytes."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from .formats import BLOCK_SIZE, FORMATS, ColumnFormat

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["has_plain_line_ends", "lines_in_range", "text_part"]

_LONGEST_LINE = 64 * 2**20


class _NoRows(ColumnFormat):
    """A part of a file in which no line begins."""

    def __init__(self, schema: pa.Schema) -> None:
        self._streams = []
        self.schema = schema

    def parts(self, first: int) -> Iterable[int]:
        return ()


def _is_divisible(options: Mapping[str, Any]) -> bool:
    """Say whether each line of a text file is a row, so that the file can be read in parts."""
    hinder = ("newlines_in_values", "escape_char", "skip_rows", "skip_rows_after_names")
    if not options.get("ignore_empty_lines", True):
        return False
    is_utf8 = options.get("encoding", "utf8") in ("utf8", "utf-8")
    return is_utf8 and not any(options.get(name) for name in hinder)


def text_part(
    kind: str, file: IO[bytes], start: int, stop: int, options: Mapping[str, Any], schema: pa.Schema | None
) -> ColumnFormat:
    """Return the format of the lines of a CSV or JSON file that begin at bytes `start` to `stop - 1`.

    `schema` is that of the first block of the file, where known.

    Raises ValueError for a part of fewer bytes than a block, which a reader of the whole file looks at together, and
    where a value has a line end.
    """
    import pyarrow as pa

    if not _is_divisible(options):
        raise ValueError(f"with {dict(options)}, a file cannot be divided: put sharding_filter in place of shard_files")
    block_size = options.get("block_size", BLOCK_SIZE)
    if stop - start < block_size:
        raise ValueError(
            f"a part of the file has {stop - start} bytes, and a block {block_size}: give shard_files "
            f"min_bytes={block_size}, or this reader a smaller block_size"
        )
    if schema is None:
        file.seek(0)
        block = file.read(block_size)
        first_lines = block[: block.rfind(b"\n") + 1] or block
        with closing(FORMATS[kind](partial(pa.BufferReader, first_lines), options)) as whole:
            schema = whole.schema
    lines = lines_in_range(file, start, stop)
    if kind == "csv":
        given: dict[str, Any] = {"column_types": dict(zip(schema.names, schema.types, strict=True))}
        if start:
            given |= {"column_names": schema.names, "autogenerate_column_names": False}
        if (quote := options.get("quote_char", '"')) and lines.count(quote.encode()) % 2:
            raise ValueError(
                f"a part of the file has an odd number of {quote}, as where a quoted value has a line end, so that the "
                "file cannot be divided at line ends: put sharding_filter in place of shard_files"
            )
    else:
        unexpected = options.get("unexpected_field_behavior", "infer")
        given = {
            "explicit_schema": schema,
            "unexpected_field_behavior": "error" if unexpected == "infer" else unexpected,  # as after the first block
        }
    if not lines.strip(b"\r\n"):
        return _NoRows(schema)
    return FORMATS[kind](partial(pa.BufferReader, lines), {**options, **given})


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
