"""CSV and JSON files, whole or in parts that are read apart from each other."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import IO, Any

from ...errors.hints import hint_on_argument
from ...errors.notes import add_note
from ...storage.streaming.decompression_limit import LINE_BYTES
from ..arrow import pa
from .formats import ColumnFormat, StreamedFormat
from .origins import FilePart

BLOCK_SIZE = 2**20
"""Bytes of a block of a text file, by default; that of pyarrow."""

TEXT = ("csv", "json")
"""The formats that are text."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
"""Bytes that are no rows: a byte order mark, and blanks."""


class EmptyFormat(ColumnFormat):
    """A text file, or a part of one, that is empty: without columns unless another part tells them."""

    goes_on = False

    def __init__(self, schema: pa.Schema) -> None:
        self._streams = []
        self.schema = schema

    def parts(self, first: int) -> Iterable[int]:
        return ()


class CsvFormat(StreamedFormat):
    """A CSV file; the options may set another delimiter."""

    def _reader(self, columns: Sequence[str] | None) -> Any:
        from pyarrow import csv  # type: ignore[import-untyped]

        kinds = (csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions)
        read, parse, convert = (kind(**given) for kind, given in options_by_class(self._options, kinds).items())
        read.use_threads = False  # keeps row numbers in errors, and takes no longer
        if columns is not None:
            convert.include_columns = columns
        return csv.open_csv(self._opened(), read, parse, convert)


class JsonFormat(StreamedFormat):
    """A file with a JSON object on each line."""

    def _reader(self, columns: Sequence[str] | None) -> Any:
        from pyarrow import json

        kinds = (json.ReadOptions, json.ParseOptions)
        read, parse = (kind(**given) for kind, given in options_by_class(self._options, kinds).items())
        if columns is not None:  # other columns are not converted
            parse.explicit_schema = pa.schema([self.schema.field(name) for name in columns])
            parse.unexpected_field_behavior = "ignore"
        try:
            return json.open_json(self._opened(), read, parse)
        except pa.ArrowInvalid as error:
            if self._opened().read(256).lstrip().startswith(b"["):
                raise ValueError(
                    "the file is one list, and one object per line is needed: `jq -c '.[]'` converts it"
                ) from error
            _advise(error)
            raise

    def read(self, number: int, columns: Sequence[str]) -> pa.Table | None:
        try:
            return super().read(number, columns)
        except pa.ArrowInvalid as error:
            _advise(error)
            raise


def _advise(error: Exception) -> None:
    if " changed from " in str(error) or "Failed to convert JSON" in str(error):
        add_note(
            error,
            "each column needs one type, which the first block tells: give all fields and types by "
            "explicit_schema=pyarrow.schema(…); ps.read_text(path).parse_json() takes lines whose types differ",
        )
    if "unexpected field" in str(error):
        add_note(
            error, "the first block lacks this field: give all fields and types by explicit_schema=pyarrow.schema(…)"
        )


def text_format(
    kind: str,
    open_stream: Callable[[], pa.NativeFile],
    options: Mapping[str, Any],
    schema: pa.Schema | None = None,
) -> ColumnFormat:
    """Return the format of a CSV or JSON file, which may be empty, or have blank lines only."""
    try:
        return (CsvFormat if kind == "csv" else JsonFormat)(open_stream, options, schema)
    except pa.ArrowInvalid:
        with open_stream() as stream:
            if any(block.strip(_BLANK) for block in iter(partial(stream.read, BLOCK_SIZE), b"")):
                raise
        return EmptyFormat(pa.schema([]))


def check_options(kind: str, options: Mapping[str, Any], known: list[str]) -> None:
    """Raise TypeError for an option that a format lacks; `known` are the arguments of its reader."""
    if options and kind not in ("csv", "json"):
        name = next(iter(options))
        raise TypeError(f"got an unexpected keyword argument {name!r}{hint_on_argument(name, known)}")
    if options:
        from pyarrow import csv, json

        of_csv = csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions
        options_by_class(options, of_csv if kind == "csv" else (json.ReadOptions, json.ParseOptions))


def options_by_class(options: Mapping[str, Any], kinds: Sequence[type]) -> dict[type, dict[str, Any]]:
    """Return the options of each of some pyarrow classes.

    Raises TypeError for an option that none of them has.
    """
    known = {kind: {name for name in dir(kind) if name[0] != "_"} - _NOT_OPTIONS for kind in kinds}
    if unknown := [name for name in options if not any(name in names for names in known.values())]:
        possible = sorted(set().union(*known.values()))
        hint = hint_on_argument(unknown[0], possible)
        raise TypeError(f"there is no option {unknown[0]!r}{hint}; the options are {', '.join(possible)}")
    return {kind: {name: options[name] for name in options if name in names} for kind, names in known.items()}


_NOT_OPTIONS = {"equals", "validate", "include_columns", "include_missing_columns", "use_threads"}
"""Attributes of the option classes that users may not set."""


def _is_divisible(options: Mapping[str, Any]) -> bool:
    """Say whether a text file with these options of pyarrow can be read in parts."""
    hinder = ("newlines_in_values", "escape_char", "skip_rows", "skip_rows_after_names")
    if not (options.get("ignore_empty_lines", True) and options.get("double_quote", True)):
        return False
    is_utf8 = options.get("encoding", "utf8") in ("utf8", "utf-8")
    return is_utf8 and not any(options.get(name) for name in hinder)


def text_part(
    kind: str, file: IO[bytes], part: FilePart, options: Mapping[str, Any], schema: pa.Schema | None
) -> ColumnFormat:
    """Return the format of a part of a CSV or JSON file, which is some blocks of the whole.

    pyarrow ends a block at its last line end, and parses it apart from the others. So these rows are those that a
    reader of the whole file finds in these blocks. `schema` is that of the file's first block, where known.

    Raises ValueError for a part that is no whole blocks, that ends in quotes, for a line longer than a block, and for
    options by which a file has no such blocks; RuntimeError for a file that has another size than when it was divided.
    """
    if not _is_divisible(options):
        raise ValueError(f"with {dict(options)}, a file cannot be divided: put sharding_filter in place of shard_files")
    block_size = options.get("block_size", BLOCK_SIZE)
    start, stop, size = part.start, part.stop, part.size
    _expect_size(file, size)
    if start % block_size or (stop % block_size and stop < size):
        raise ValueError(
            f"bytes {start} to {stop} of the file, which has {size}, are no whole blocks of {block_size}: give "
            f"shard_files min_bytes={block_size}"
        )
    if schema is None:
        first = _blocks(file, 0, min(2 * block_size, size), size, block_size)  # a first line may begin the second
        with closing(text_format(kind, partial(pa.BufferReader, first), options)) as whole:
            schema = whole.schema
        if not schema.names:
            raise ValueError("the first blocks of the file are blank: put sharding_filter in place of shard_files")
    given: dict[str, Any]
    if kind == "csv":
        given = {"column_types": dict(zip(schema.names, schema.types, strict=True))}
        if start:
            given |= {"column_names": schema.names, "autogenerate_column_names": False}
    else:
        unexpected = options.get("unexpected_field_behavior", "infer")
        given = {
            "explicit_schema": schema,
            "unexpected_field_behavior": "error" if unexpected == "infer" else unexpected,  # as after the first block
        }
    lines = _blocks(file, start, stop, size, block_size)
    if kind == "csv" and stop < size and _ends_in_quotes(lines, options):
        raise ValueError(
            "a part of the file ends in a quoted value, which has a line end, so that the file cannot be divided at "
            "line ends: put sharding_filter in place of shard_files"
        )
    if not lines.strip(b"\r\n" if kind == "csv" else None):
        return EmptyFormat(schema)
    return text_format(kind, partial(pa.BufferReader, lines), {**options, **given}, schema)


def _blocks(file: IO[bytes], start: int, stop: int, size: int, block_size: int) -> bytes:
    """Return the lines that pyarrow counts to some blocks, among empty lines that keep the blocks where they are.

    The line that the block before `start` leaves open belongs to these, and the one that they leave open does not. An
    empty block at the end tells pyarrow that the file goes on.
    """
    before = max(start - block_size, 0)
    file.seek(before)
    content = file.read(stop - before)
    begin = _end_of_lines(content[: start - before]) if start else 0
    end = len(content) if stop == size else _end_of_lines(content)
    if (start and not begin) or (stop < size and end <= len(content) - block_size):
        raise ValueError(
            f"a line from before byte {start if start and not begin else stop} is longer than a block: give a larger "
            f"block_size than {block_size}, and shard_files the same min_bytes"
        )
    after = b"" if stop == size else b"\n" * (len(content) - end + 1)
    return b"\n" * begin + content[begin:end] + after


def _ends_in_quotes(lines: bytes, options: Mapping[str, Any]) -> bool:
    """Say whether lines of a CSV file end within a value in quotes; quotes elsewhere in a value are text to pyarrow."""
    quote, delimiter = options.get("quote_char", '"'), re.escape(options.get("delimiter", ","))
    if not quote or quote.encode() not in lines:
        return False
    quote = re.escape(quote)
    no_quotes = rf"[^{quote}]++"
    value = rf"(?<![^{delimiter}\r\n]){quote}(?:{no_quotes}|{quote}{quote})*+{quote}"
    literal = rf"(?<=[^{delimiter}\r\n]){quote}"
    return re.fullmatch(rf"(?:{no_quotes}|{value}|{literal})*+".encode(), lines.removeprefix(codecs.BOM_UTF8)) is None


def _end_of_lines(block: bytes) -> int:
    return max(block.rfind(b"\n"), block.rfind(b"\r")) + 1


def has_plain_line_ends(encoding: str) -> bool:
    """Say whether the byte of a line feed is always a line feed in an encoding, so that a file is divided there."""
    return codecs.lookup(encoding).name in ("ascii", "cp1252", "iso8859-1", "utf-8", "utf-8-sig")


def lines_in_range(file: IO[bytes], start: int, stop: int, size: int) -> bytes:
    """Return the lines that begin at bytes `start` to `stop - 1` of a file of `size` bytes.

    Raises ValueError for a line of more than 64 MiB at an end of the range, and RuntimeError for another size.
    """
    _expect_size(file, size)
    begin = start
    if start:
        file.seek(start - 1)
        begin += len(_rest_of_line(file)) - 1
    else:
        file.seek(0)
    return b"" if begin >= stop else file.read(stop - 1 - begin) + _rest_of_line(file)


def _expect_size(file: IO[bytes], size: int) -> None:
    if (found := file.seek(0, os.SEEK_END)) != size:
        raise RuntimeError(
            f"the file has {found} bytes, and had {size} when it was divided among the readers: begin anew"
        )


def _rest_of_line(file: IO[bytes]) -> bytes:
    rest = file.readline(LINE_BYTES)
    if len(rest) == LINE_BYTES and not rest.endswith(b"\n"):
        raise ValueError(
            f"a line has more than {LINE_BYTES // 2**20} MiB, so the file is not divided among readers: put "
            "sharding_filter in place of shard_files"
        )
    return rest
