"""Base of the column file readers: files to record batches."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, ClassVar, TypedDict

from ....errors.secrets import Options, without_secrets
from ....registry import (
    IterDataPipe,
    OnError,
    Provenance,
    ReadRows,
    add_error_context,
    expect_whole,
    own,
)
from ...arrow import pa, pc
from ...columns.files import ColumnFile
from ...columns.filters import expression_of
from ...columns.formats import ParquetFormat
from ...columns.origins import FilePart, Origin, RowGroup, origin_of, part_name
from ...columns.text_formats import TEXT, check_options
from ...columns.to_arrow import rows_in
from ..arguments import expect_names
from .cuts_batches import CutsBatches
from .one_schema import OneSchema, all_items
from .parts import ReadsParts

BATCH_SIZE = 65536
"""Default maximum rows of a batch."""

PREFETCH = 2
"""Default number of files or row groups read at once."""

_FOOTERS = 32 * 2**20
"""Maximum bytes of cached footers, kept for files read by row group."""


class ColumnOptions(TypedDict, total=False):
    """The options that all column readers take by keyword, for type checkers; `ColumnReader` has the defaults."""

    unify: bool | pa.Schema
    prefetch: int
    storage_options: Mapping[str, Any] | None
    on_error: OnError


class ColumnReader(OneSchema["pa.RecordBatch"], CutsBatches, ReadsParts["pa.RecordBatch"]):
    """Yield the record batches of column files: a base class."""

    traits = ("unpacks",)
    works_in = "threads"
    buffers = ("prefetch",)
    buffered = "files"
    resumes_from_start = False
    gives = "batches"
    kind: ClassVar[str]
    """The format of the files, a key of `FORMATS`."""

    transient = (*OneSchema.transient, *CutsBatches.transient)
    _advice = (
        "give columns that are the same in all files, or unify=True, by which what is missing becomes null and numbers "
        "the wider type"
    )
    _target: pa.Schema | None = own(None, saved=False)
    _footers: OrderedDict[str, Any] = own(OrderedDict, saved=False)
    _schemas: dict[str, pa.Schema] = own(dict, saved=False)
    """Schemas of text files that are read in parts."""
    _last: ReadRows | None = own(None, saved=False)

    def __init__(
        self,
        source: IterDataPipe[Any],
        columns: Sequence[str] | None = None,
        filter: str | pc.Expression | None = None,
        batch_size: int = BATCH_SIZE,
        *,
        unify: bool | pa.Schema = False,
        prefetch: int = PREFETCH,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
        **format_options: Any,
    ) -> None:
        expect_names(columns)
        expect_whole("batch_size", batch_size)
        expect_whole("prefetch", prefetch)
        if filter is not None:
            expression_of(filter)  # raises for an invalid filter
        if not isinstance(unify, (bool, pa.Schema)):
            raise TypeError(f"unify must be True, False or a pyarrow.Schema, and is {unify!r:.100}")
        check_options(self.kind, format_options, [*inspect.signature(type(self)).parameters])
        self.source = source
        self._columns = columns
        self._filter = filter
        self.batch_size = batch_size
        self.unify = unify
        self._prefetch = prefetch
        self.storage_options = Options(storage_options)
        self.format_options = format_options
        self.handle_errors(on_error)

    def settle(self, shards: Collection[tuple[int, int]]) -> list[str] | None:
        if not isinstance(self.unify, bool):
            return None
        if self.unify:
            self._known = None  # new files may have new columns
        return super().settle(shards)

    def _schema_in(self, item: Any) -> tuple[str, pa.Schema] | None:
        files: set[ColumnFile] = set()
        target = self._unified(files)
        with closing(self._column_file(item, files, self._filter, target)) as file:
            first = next(iter(_part_numbers(item, file, 0)), None)
            is_empty = first is None or (file.content.goes_on is False and file.read(first) is None)
            return None if is_empty else (origin_of(item).url, file.schema if target is None else target)

    def schema(self) -> pa.Schema:
        """Return the schema of the batches: only the start or the end of the first file is read, unless it is empty.

        With `unify=True`, of every file, in all shards.

        Raises ValueError without files.
        """
        files: set[ColumnFile] = set()
        target = self._unified(files)
        for item in all_items(self.source, f"read_{self.kind}"):
            with closing(self._column_file(item, files, self._filter, target)) as file:
                if target is not None or not file.is_empty:
                    return file.schema
        raise ValueError("there is no file, or only empty ones, so no schema")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self.unify, bool):
            self._begin_schema()
        if self.unify is True and self._first is not None:
            self._target, self._first = self._first[1], None
        else:
            self._target = self._unified(self._open_files)
        self._begin_cutting()
        return super().__iter__()

    def _parts(self, item: Any, first: int) -> Iterator[tuple[int, Any]]:
        file = self.error_policy.wrap(self._opened)(item)
        if not isinstance(file, ColumnFile):
            yield first, file
            return

        def read(place: tuple[str, int]) -> pa.Table | None:
            return file.read(place[1])

        guarded: Callable[[Any], Any] = self.error_policy.wrap(read)
        with closing(file):
            for number in _part_numbers(item, file, first):
                table = guarded((file.origin.url, number))
                if table is None:
                    return
                yield number, table
                if not (file.content.goes_on or hasattr(table, "schema")):
                    return

    def _items(self, item: Any, number: int, part: pa.Table) -> Iterable[pa.RecordBatch]:
        self._expect_schema(origin_of(item).url, part.schema)
        return self._batches(item, part_name(self.kind, item, number), part)

    def _batches(self, item: Any, name: str, part: pa.Table) -> Iterator[pa.RecordBatch]:
        url, first = origin_of(item).url, 0
        # A filter drops rows, and a part of a text file does not know how many rows are before it.
        are_known = self._filter is None and not (isinstance(item, FilePart) and self.kind in TEXT)
        for whole in part.to_batches():
            for batch in self._cut(whole, 0, whole.num_rows, self.batch_size):
                rows = rows_in(batch)
                self._last = ReadRows(url, name, range(first, first + rows) if are_known else None)
                yield batch
                first += rows

    def provenance(self) -> Provenance | None:
        return None if self._last is None else Provenance((self._last,))

    def _opened(self, item: Any) -> ColumnFile:
        url = origin_of(item).url
        if isinstance(item, RowGroup) and self.kind != "parquet":
            raise TypeError(f"Parquet files have row groups, and {without_secrets(url)!r} is read as {self.kind}")
        footers, schemas = self._footers, self._schemas
        known = footers.get(url) or schemas.get(url)
        file = self._column_file(item, self._open_files, self._filter, self._target, known=known)
        if isinstance(item, (FilePart, RowGroup)) and isinstance(file.content, ParquetFormat):
            footers[url] = file.content.footer
            while sum(footer.serialized_size for footer in [*footers.values()]) > _FOOTERS and len(footers) > 1:
                footers.popitem(last=False)
        elif isinstance(item, FilePart) and self.kind in TEXT:
            schemas[url] = file.content.schema
        return file

    def _column_file(
        self,
        item: Any,
        files: set[ColumnFile],
        filter: str | pc.Expression | None = None,
        target: pa.Schema | None = None,
        **more: Any,
    ) -> ColumnFile:
        return ColumnFile(
            item,
            self.kind,
            **{"columns": self._columns, **more},
            filter=filter,
            target=target,
            options=self.format_options,
            storage=self.storage_options,
            policy=self.error_policy,
            retry=self._retry,
            among=files,
        )

    def _schema_of(self, files: set[ColumnFile], origin: Origin) -> Iterator[pa.Schema]:
        try:
            with closing(self._column_file(origin, files, columns=None)) as file:
                yield file.schema
        except Exception as error:
            add_error_context(error, self, origin.url)
            raise

    def _unified(self, files: set[ColumnFile]) -> pa.Schema | None:
        """Return the schema to convert all files to, or None where each must have the schema of the first."""
        if not isinstance(self.unify, bool):
            return self.unify
        if not self.unify:
            return None
        origins: dict[str, Origin] = {}
        for item in all_items(self.source, f"read_{self.kind}"):
            origin = origin_of(item)
            origins.setdefault(origin.url, origin)
        readers = self._in_threads(partial(self._schema_of, files), files)
        try:
            read = readers.read(origin for _, origin in sorted(origins.items()))
            schemas = [schema for _, found in read for schema in found]
        finally:
            readers.stop()
        return pa.unify_schemas(schemas, promote_options="permissive") if schemas else None


def _part_numbers(item: Any, file: ColumnFile, first: int) -> Iterable[int]:
    """Return the numbers of the parts to read, from `first` on; a `RowGroup` matched already and is one part."""
    if isinstance(item, FilePart) and file.content.goes_on:
        if (number := len([*file.content.parts(0)])) != item.size:
            raise RuntimeError(f"the file has {number} parts, and had {item.size} when it was divided: begin anew")
        return (part for part in file.parts(max(first, item.start)) if part < item.stop)
    if not isinstance(item, RowGroup):
        return file.parts(first)
    assert isinstance(file.content, ParquetFormat)
    if item.number not in (there_are := file.content.parts(0)):
        raise IndexError(f"the file has {len(there_are)} row groups, and none of number {item.number}")
    return [item.number] if item.number >= first else []
