"""Column file formats, each read by parts: row groups, stripes, record batches, blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, ClassVar

from ...errors.notes import add_note
from ...state.replay import expect_no_fewer
from ..arrow import ds, pa, pc, pq
from .filters import may_be_true_of_nan

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


class ParquetFormat(ColumnFormat):
    """A Parquet file; `footer` is its metadata, where already known."""

    int96_unit: ClassVar[str | None] = None
    """The unit of the times that old writers have in 96 bits; without it they are nanoseconds, which end in 2262."""

    def __init__(
        self,
        open_stream: Callable[[], pa.NativeFile],
        options: Mapping[str, Any],
        footer: pq.FileMetaData | None = None,
    ) -> None:
        super().__init__(open_stream, options)
        stream = self._opened()
        # Coalescing column ranges saves requests; a local disk has none.
        is_local = isinstance(stream, pa.OSFile)
        try:
            self._file = pq.ParquetFile(
                stream,
                metadata=footer,
                pre_buffer=not is_local,
                coerce_int96_timestamp_unit=self.int96_unit,
                page_checksum_verification=True,
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
        footer = pa.BufferOutputStream()  # else the fragment would read it from the file again
        self.footer.write_metadata_file(footer)
        fragment = ds.ParquetFileFormat().make_fragment(pa.BufferReader(footer.getvalue()), partition_expression=known)
        try:
            if may_be_true_of_nan(expression, schema):  # the least and greatest values leave NaN out
                return {*self.parts(0)}
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
        return pa.Table.from_batches([self._file.read_stripe(number, columns=[*columns])])


class StreamedFormat(ColumnFormat):
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
            self.schema = getattr(reader, "schema", None) or self.schema  # a library need not say it
        self._batches, self._columns, self._next = iter(reader), columns, 0


class IpcStreamFormat(StreamedFormat):
    """An Arrow IPC stream, the format for sinks that cannot seek."""

    def _reader(self, columns: Sequence[str] | None) -> Any:
        stream = self._opened()
        return pa.ipc.open_stream(stream, options=_only(columns, getattr(self, "schema", None)))

    def _checked(self, table: pa.Table) -> pa.Table:
        return _validated(table)


class IpcFileFormat(ColumnFormat):
    """An Arrow IPC file, which is also Feather."""

    def __init__(self, open_stream: Callable[[], pa.NativeFile], options: Mapping[str, Any]) -> None:
        super().__init__(open_stream, options)
        self._stream = self._opened()
        self._file = pa.ipc.open_file(self._stream)
        self._columns: Sequence[str] | None = None
        self.schema = self._file.schema

    def parts(self, first: int) -> Iterable[int]:
        return _numbers(first, self._file.num_record_batches)

    def read(self, number: int, columns: Sequence[str]) -> pa.Table:
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


def _only(columns: Sequence[str] | None, schema: pa.Schema | None) -> Any:
    wanted = None if columns is None or schema is None else [schema.names.index(name) for name in columns]
    return pa.ipc.IpcReadOptions(included_fields=wanted)
