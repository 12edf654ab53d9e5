"""Parts of CSV and JSON files, read apart from each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from .formats import BLOCK_SIZE, FORMATS, ColumnFormat
from .line_ranges import lines_in_range

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["is_divisible", "text_part"]


class _NoRows(ColumnFormat):
    """A part of a file in which no line begins."""

    def __init__(self, schema: pa.Schema) -> None:
        self._streams = []
        self.schema = schema

    def parts(self, first: int) -> Iterable[int]:
        return ()


def is_divisible(options: Mapping[str, Any]) -> bool:
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

    if not is_divisible(options):
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
