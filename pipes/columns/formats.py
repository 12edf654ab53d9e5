"""Column file formats, each read by parts: row groups, stripes, record batches, blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors.hints import hint_on_argument
from ...errors.notes import add_note
from ...state.replay import expect_no_fewer

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

__all__ = [
    "BLOCK_SIZE",
    "FORMATS",
    "TEXT",
    "ColumnFormat",
    "NoRows",
    "ParquetFormat",
    "check_options",
    "expect_all_rows",
]

BLOCK_SIZE = 2**20
"""Bytes of a block of a text file, by default; that of pyarrow."""

TEXT = ("csv", "json")
"""The formats that are text."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
"""Bytes that are no rows: a byte order mark, and blanks."""

_ROWS_AT_A_TIME = 64
"""Rows per step in the search for the damage in a column."""


class ColumnFormat:
    """A column file. Each call of `open_stream` opens it again; `close` closes all streams."""

    goes_on: ClassVar[bool] = True
    """Whether parts after an unreadable one can be read."""

    schema: pa.Schema

    def __init__(self, open_stream: Callable[[], pa.NativeFile], options: Mapping[str, Any]) -> None:
        self._open_stream = open_stream
        self._options = options
        self._streams: list[pa.NativeFile] = []

    def parts(self, first: int) -> Iterable[int]:
        """Return the numbers of the parts from `first` on, without an end where their number is unknown."""
        raise NotImplementedError

    def read(self, number: int, columns: Sequence[str]) -> pa.Table | None:
        """Return some columns of a part, or None after the last."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open."""
        while self._streams:
            self._streams.pop().close()

    def _opened(self) -> pa.NativeFile:
        self._streams.append(self._open_stream())
        return self._streams[-1]


class NoRows(ColumnFormat):
    """A text file, or a part of one, that is empty: without columns unless another part tells them."""

    goes_on = False

    def __init__(self, schema: pa.Schema) -> None:
        self._streams = []
        self.schema = schema

    def parts(self, first: int) -> Iterable[int]:
        return ()


class ParquetFormat(ColumnFormat):
    """A Parquet file; `footer` is its metadata, where already known."""

    def __init__(
        self,
        open_stream: Callable[[], pa.NativeFile],
        options: Mapping[str, Any],
        footer: pq.FileMetaData | None = None,
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        super().__init__(open_stream, options)
        stream = self._opened()
        # Coalescing column ranges saves requests; a local disk has none.
        is_local = isinstance(stream, pa.OSFile)
        try:
            self._file = pq.ParquetFile(
                stream, metadata=footer, pre_buffer=not is_local, page_checksum_verification=True
            )
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(f"the footer is corrupt: the name of a column is no text: {error}") from error
        self.footer = self._file.metadata
        if footer is None:
            expect_all_rows(self.footer)
        self.schema = self._file.schema_arrow

    def parts(self, first: int) -> range:
        return _numbers(first, self.footer.num_row_groups)

    def matching(self, expression: pc.Expression, known: pc.Expression, schema: pa.Schema) -> set[int]:
        """Return the row groups that may have matching rows, by the statistics in the footer."""
        import pyarrow as pa
        import pyarrow.dataset as ds  # type: ignore[import-untyped]

        footer = pa.BufferOutputStream()  # else the fragment would read it from the file again
        self.footer.write_metadata_file(footer)
        fragment = ds.ParquetFileFormat().make_fragment(pa.BufferReader(footer.getvalue()), partition_expression=known)
        try:
            return {group.id for group in fragment.subset(expression, schema=schema).row_groups}
        except pa.ArrowException:  # the filter does not fit the types of this file
            return {*self.parts(0)}

    def read(self, number: int, columns: Sequence[str]) -> pa.Table:
        try:
            return self._file.read_row_group(number, columns=columns)
        except Exception as error:
            if (place := self._damage(number, columns)) is not None:
                add_note(error, "column {!r} cannot be read, from row {} of the row group on".format(*place))
            raise

    def _damage(self, number: int, columns: Sequence[str]) -> tuple[str, int] | None:
        """Return the first unreadable column of a row group, and about how many of its rows are readable."""
        for name in columns:
            rows = 0
            try:
                for batch in self._file.iter_batches(_ROWS_AT_A_TIME, [number], [name], use_threads=False):
                    rows += batch.num_rows
            except Exception:
                return name, rows
        return None


def _numbers(first: int, parts: int) -> range:
    """Return the numbers of the parts from `first` on; RuntimeError if a resumed pass has read more than there are."""
    expect_no_fewer(first - parts)
    return range(first, parts)


def expect_all_rows(footer: pq.FileMetaData) -> None:
    """Raise `pyarrow.ArrowInvalid` where the rows of the row groups do not add up to those of the file.

    A footer has no checksum: one flipped bit could drop rows silently.
    """
    import pyarrow as pa

    found = sum(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    if found != footer.num_rows:
        raise pa.ArrowInvalid(f"the footer is corrupt: it counts {footer.num_rows} rows, but {found} in the row groups")


class OrcFormat(ColumnFormat):
    """An ORC file."""

    def __init__(self, open_stream: Callable[[], pa.NativeFile], options: Mapping[str, Any]) -> None:
        from pyarrow.orc import ORCFile  # type: ignore[import-untyped]

        super().__init__(open_stream, options)
        self._file = ORCFile(self._opened())
        self.schema = self._file.schema

    def parts(self, first: int) -> Iterable[int]:
        return _numbers(first, self._file.nstripes)

    def read(self, number: int, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        return pa.Table.from_batches([self._file.read_stripe(number, columns=[*columns])])


class _Streamed(ColumnFormat):
    """A file read from its start: a later part costs reading those before it. `schema` is its own, where known."""

    goes_on = False

    def __init__(
        self,
        open_stream: Callable[[], pa.NativeFile],
        options: Mapping[str, Any],
        schema: pa.Schema | None = None,
    ) -> None:
        super().__init__(open_stream, options)
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._columns: Sequence[str] | None = None
        self._next = 0
        if schema is None:
            self._begin(None)
        else:
            self.schema = schema

    def _reader(self, columns: Sequence[str] | None) -> Any:
        """Return a reader of some columns of the file, or of all with None."""
        raise NotImplementedError

    def parts(self, first: int) -> Iterable[int]:
        return count(first)

    def read(self, number: int, columns: Sequence[str]) -> pa.Table | None:
        import pyarrow as pa

        wanted = None if [*columns] == self.schema.names else columns
        if self._batches is None or wanted != self._columns or number < self._next:
            self._begin(wanted)
        assert self._batches is not None
        try:
            batch = next(islice(self._batches, number - self._next, None), None)
        except Exception:
            self._batches = None  # a retry starts over
            raise
        self._next = number + 1
        return None if batch is None else self._checked(pa.Table.from_batches([batch]))

    def _checked(self, table: pa.Table) -> pa.Table:
        return table

    def close(self) -> None:
        self._batches = None
        super().close()

    def _begin(self, columns: Sequence[str] | None) -> None:
        self.close()
        reader = self._reader(columns)
        if columns is None:
            self.schema = reader.schema
        self._batches, self._columns, self._next = iter(reader), columns, 0


class CsvFormat(_Streamed):
    """A CSV file; the options may set another delimiter."""

    def _reader(self, columns: Sequence[str] | None) -> Any:
        from pyarrow import csv

        kinds = (csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions)
        read, parse, convert = (kind(**given) for kind, given in options_by_class(self._options, kinds).items())
        read.use_threads = False  # keeps row numbers in errors, and takes no longer
        if columns is not None:
            convert.include_columns = columns
        return csv.open_csv(self._opened(), read, parse, convert)


class JsonFormat(_Streamed):
    """A file with a JSON object on each line."""

    def _reader(self, columns: Sequence[str] | None) -> Any:
        import pyarrow as pa
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
        import pyarrow as pa

        try:
            return super().read(number, columns)
        except pa.ArrowInvalid as error:
            _advise(error)
            raise


def _advise(error: Exception) -> None:
    if " changed from " in str(error):
        add_note(error, "each column needs one type: ps.read_text(path).parse_json() takes lines whose types differ")
    if "unexpected field" in str(error):
        add_note(
            error, "the first block lacks this field: give all fields and types by explicit_schema=pyarrow.schema(…)"
        )


class IpcStreamFormat(_Streamed):
    """An Arrow IPC stream, the format for sinks that cannot seek."""

    def _reader(self, columns: Sequence[str] | None) -> Any:
        import pyarrow as pa

        stream = self._opened()
        return pa.ipc.open_stream(stream, options=_only(columns, getattr(self, "schema", None)))

    def _checked(self, table: pa.Table) -> pa.Table:
        return _validated(table)


class IpcFileFormat(ColumnFormat):
    """An Arrow IPC file, which is also Feather."""

    def __init__(self, open_stream: Callable[[], pa.NativeFile], options: Mapping[str, Any]) -> None:
        import pyarrow as pa

        super().__init__(open_stream, options)
        self._stream = self._opened()
        self._file = pa.ipc.open_file(self._stream)
        self._columns: Sequence[str] | None = None
        self.schema = self._file.schema

    def parts(self, first: int) -> Iterable[int]:
        return _numbers(first, self._file.num_record_batches)

    def read(self, number: int, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        # A memory map reads no unused columns; to exclude them, Arrow would copy the rest.
        if columns != self._columns and not isinstance(self._stream, pa.MemoryMappedFile):
            self._file = pa.ipc.open_file(self._stream, options=_only(columns, self.schema))
            self._columns = columns
        return _validated(pa.Table.from_batches([self._file.get_batch(number)]).select(columns))


def _validated(table: pa.Table) -> pa.Table:
    """Return a table after full validation: one wrong bit in a string offset would crash the process."""
    table.validate(full=True)
    return table


def ipc_format(open_stream: Callable[[], pa.NativeFile], options: Mapping[str, Any]) -> ColumnFormat:
    """Return the format of an Arrow IPC file or stream."""
    with open_stream() as stream:
        beginning = stream.read(6)
    if beginning.startswith(b"FEA1"):
        raise ValueError("the file has Feather's version 1, which is older than Arrow: convert it with pyarrow.feather")
    return (IpcFileFormat if beginning == b"ARROW1" else IpcStreamFormat)(open_stream, options)


def _text_format(
    kind: type[_Streamed],
    open_stream: Callable[[], pa.NativeFile],
    options: Mapping[str, Any],
    schema: pa.Schema | None = None,
) -> ColumnFormat:
    """Return the format of a text file, which may be empty, or have blank lines only."""
    import pyarrow as pa

    try:
        return kind(open_stream, options, schema)
    except pa.ArrowInvalid:
        with open_stream() as stream:
            if any(block.strip(_BLANK) for block in iter(partial(stream.read, BLOCK_SIZE), b"")):
                raise
        return NoRows(pa.schema([]))


FORMATS: dict[str, Callable[..., ColumnFormat]] = {
    "parquet": ParquetFormat,
    "csv": partial(_text_format, CsvFormat),
    "json": partial(_text_format, JsonFormat),
    "ipc": ipc_format,
    "orc": OrcFormat,
}
"""What opens a file of each format."""


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
        possible = ", ".join(sorted(set().union(*known.values())))
        raise TypeError(f"there is no option {', '.join(map(repr, unknown))}: the options are {possible}")
    return {kind: {name: options[name] for name in options if name in names} for kind, names in known.items()}


_NOT_OPTIONS = {"equals", "validate", "include_columns", "include_missing_columns", "use_threads"}
"""Attributes of the option classes that users may not set."""


def _only(columns: Sequence[str] | None, schema: pa.Schema | None) -> Any:
    import pyarrow as pa

    wanted = None if columns is None or schema is None else [schema.names.index(name) for name in columns]
    return pa.ipc.IpcReadOptions(included_fields=wanted)
