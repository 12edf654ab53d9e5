"""Column files by path or URL: opened, and read by parts as tables of selected columns."""

from __future__ import annotations

import mmap
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import IO, Any

from ...errors.notes import add_note
from ...registry import ErrorPolicy, Retry
from ...storage.addresses import is_local_path
from ...storage.chains import suffix_of
from ...storage.reading import open_to_seek
from ...storage.streaming.ranged import Ranged
from ..arrow import pa, pc, pq
from .arrow_values import first_failing
from .filters import expression_of, fields_in, guarantee
from .formats import ColumnFormat, OrcFormat, ParquetFormat, ipc_format
from .origins import FilePart, Fragment, known_values, origin_of, part_name
from .text_formats import TEXT, EmptyFormat, text_format, text_part

_IN_MEMORY = 32 * 2**20
"""Remote text files of at least so many bytes are copied to disk, not into memory."""

FORMATS: dict[str, Callable[..., ColumnFormat]] = {
    "parquet": ParquetFormat,
    "csv": partial(text_format, "csv"),
    "json": partial(text_format, "json"),
    "ipc": ipc_format,
    "orc": OrcFormat,
}
"""What opens a file of each format."""

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""The codec of a text file, by the ending of its name."""

_TABS = re.compile(rf"\.tsv({'|'.join(map(re.escape, CODECS))})?\Z", re.IGNORECASE)
"""The end of the name of a file whose values have tabs between them."""


class ColumnFile:
    """A column file read with selected columns, filtered rows, and the types of a schema.

    Without `columns` all are read; without `target` types are those of the file. `known` is what another part of the
    file told: the footer of a Parquet file, or the schema of a text file. While the file is open it is in `among`, so
    that another thread can give it up.

    A text file that is empty has no columns and no parts.

    Raises KeyError for an unknown column, and pyarrow's error for a file of another format.
    """

    def __init__(
        self,
        item: object,
        kind: str,
        *,
        columns: Sequence[str] | None = None,
        filter: str | pc.Expression | None = None,
        target: pa.Schema | None = None,
        known: pq.FileMetaData | pa.Schema | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
        storage: Mapping[str, Any],
        policy: ErrorPolicy,
        retry: Retry | None = None,
        among: set[ColumnFile] | None = None,
    ) -> None:
        self.origin = origin = origin_of(item)
        self._item = item
        self._kind = kind
        self._among = among = set() if among is None else among
        self._streams: list[IO[bytes]] = []
        self._copy: Callable[[], pa.NativeFile] | None = None
        self._target = target
        if kind == "csv" and _TABS.search(origin.url):
            options = {"delimiter": "\t", **options}
        among.add(self)
        try:
            self.content = self._opened(known, options, (storage, policy, retry))
        except BaseException:
            self._close_streams()
            raise
        try:
            self._select(columns, filter)
        except BaseException:
            self.close()
            raise

    def _select(self, columns: Sequence[str] | None, filter: str | pc.Expression | None) -> None:
        self._known = known_values(self.origin)
        own = [field for field in self.content.schema if field.name not in self._known]
        fields = [*own, *(pa.field(name, value.type) for name, value in self._known.items())]
        self._available = pa.schema(fields, self.content.schema.metadata)
        self.is_empty = isinstance(self.content, EmptyFormat) and not self.content.schema.names
        if self.is_empty and not self._target:  # it has none of the columns
            columns, filter = (), None
        self.whole_schema = self._available if self._target is None else self._target
        self._wanted = [*(self.whole_schema.names if columns is None else columns)]
        if missing := [name for name in self._wanted if name not in self.whole_schema.names]:
            has = self.whole_schema.names
            raise KeyError(f"the file has no column {', '.join(map(repr, missing))}: its columns are {has}")
        self._filter = None if filter is None else expression_of(filter, self.whole_schema)
        looked_at = [] if self._filter is None else fields_in(self._filter, self.whole_schema)
        self._together = [*dict.fromkeys([*self._wanted, *looked_at])]
        _expect_once(self._together, self.content.schema.names)
        own_names = {field.name for field in own}
        # Where the file has none of them, one is read anyway, to count the rows.
        self._to_read = [name for name in self._together if name in own_names] or self.content.schema.names[:1]

    def _opened(
        self,
        known: pq.FileMetaData | pa.Schema | None,
        options: Mapping[str, Any],
        how: tuple[Mapping[str, Any], ErrorPolicy, Retry | None],
    ) -> ColumnFormat:
        item, kind = self._item, self._kind
        if isinstance(item, Fragment):
            return item.opened(partial(self._open_stream, *how))
        if not isinstance(item, FilePart) or kind not in TEXT:
            return FORMATS[kind](partial(self._open_stream, *how), options, *([] if known is None else [known]))
        storage, policy, retry = how
        file = open_to_seek(item.url, storage, retry=retry, counted_by=policy)
        self._streams.append(file)
        return text_part(kind, file, item, options, known)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the tables."""
        whole = self.whole_schema
        return pa.schema([whole.field(name) for name in self._wanted], whole.metadata)

    def parts(self, first: int) -> Iterable[int]:
        """Return the numbers of the parts to read, from `first` on."""
        numbers = self.content.parts(first)
        if self._filter is None or not isinstance(self.content, ParquetFormat):
            return numbers
        whole = self.whole_schema
        known = {
            name: _cast(pa.repeat(value, 1), whole.field(name).type, name)[0]
            for name, value in self._known.items()
            if name in whole.names
        }
        matching = self.content.matching(self._filter, guarantee(known), whole)
        return [number for number in numbers if number in matching]

    def row_groups(self) -> list[int]:
        """Return how many rows each row group of a Parquet file has, whether they match or not."""
        assert isinstance(self.content, ParquetFormat)
        footer = self.content.footer
        return [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]

    def read(self, number: int) -> pa.Table | None:
        """Return the matching rows of a part, or None where the part does not exist."""
        try:
            table = self.content.read(number, self._to_read)
            return None if table is None else self._finished(table)
        except Exception as error:
            add_note(error, f"in {part_name(self._kind, self._item, number)} of the file")
            raise

    def close(self) -> None:
        """Close what is open."""
        self.content.close()
        self._close_streams()

    def give_up(self) -> None:
        """Make reads that wait for bytes of the file raise; called by another thread."""
        for stream in [*self._streams]:
            # Do not close it: that is up to the reading thread. Threads of the stream may be just starting.
            raw: Any = getattr(stream, "raw", None)
            if isinstance(raw, Ranged):
                raw.interrupt()

    def _close_streams(self) -> None:
        self._copy = None
        while self._streams:
            self._streams.pop().close()
        self._among.discard(self)

    def _open_stream(self, storage: Mapping[str, Any], policy: ErrorPolicy, retry: Retry | None) -> pa.NativeFile:
        """Return an Arrow stream of the file; text is decompressed by the name of the file."""
        url, is_text = self.origin.url, self._kind in TEXT
        if self._copy is not None:
            stream = self._copy()
        elif is_local_path(url) and not storage:
            # Arrow's own files hold arrays as in memory: mapping avoids a copy.
            stream = pa.memory_map(url) if self._kind == "ipc" else pa.OSFile(url)
        else:
            file = open_to_seek(url, storage, retry=retry, counted_by=policy)
            self._streams.append(file)
            if is_text:
                self._copy = _opener_of_copy(file)
            stream = self._copy() if self._copy is not None else pa.PythonFile(file, mode="r")
        codec = CODECS.get(suffix_of(url)) if is_text else None
        return stream if codec is None else pa.CompressedInputStream(stream, codec)

    def _finished(self, table: pa.Table) -> pa.Table:
        if self._target is not None or self._known:
            arrays = {name: self._column(table, name) for name in self._together}
            table = pa.Table.from_arrays([*arrays.values()], [*arrays])
        if self._filter is not None:
            table = table.filter(self._filter).combine_chunks()  # the filter leaves many small chunks
        return table if table.column_names == self._wanted else table.select(self._wanted)

    def _column(self, table: pa.Table, name: str) -> Any:
        if name in self._known:
            column = pa.repeat(self._known[name], table.num_rows)
        elif name in table.column_names:
            column = table[name]
        else:
            return pa.nulls(table.num_rows, self.whole_schema.field(name).type)
        wanted = self.whole_schema.field(name).type
        return column if column.type == wanted else _cast(column, wanted, name)


def _expect_once(wanted: Sequence[str], names: Sequence[str]) -> None:
    """Raise ValueError where several columns of the file have a wanted name."""
    if several := [name for name in wanted if names.count(name) > 1]:
        raise ValueError(
            f"the file has several columns {', '.join(map(repr, several))}, which cannot be told apart: select others "
            "by columns=[…]; for CSV, rename them by column_names=[…] with skip_rows=1"
        )


def _cast(column: Any, wanted: pa.DataType, name: str) -> Any:
    try:
        return column.cast(wanted)
    except pa.ArrowException as error:
        row, _ = first_failing(column, lambda part: part.cast(wanted), error)
        add_note(error, f"column {name!r} is {column.type}, and cannot become {wanted}: row {row} fails")
        raise


def _opener_of_copy(file: IO[bytes]) -> Callable[[], pa.NativeFile]:
    """Return a function that opens a copy of a file, in memory or in an unnamed temporary file.

    Arrow reads text ahead in its own threads. If these called Python at exit, they would abort it.
    """
    content = file.read(_IN_MEMORY)
    if len(content) < _IN_MEMORY:
        return partial(pa.BufferReader, content)
    with tempfile.TemporaryFile() as temporary:
        temporary.write(content)
        del content
        shutil.copyfileobj(file, temporary)
        temporary.flush()
        mapped = mmap.mmap(temporary.fileno(), 0, access=mmap.ACCESS_READ)
    return partial(pa.BufferReader, pa.py_buffer(mapped))


def first_difference(schema: pa.Schema, expected: pa.Schema) -> str:
    """Describe the first field in which a schema differs from the expected one."""
    for field in expected:
        if field.name not in schema.names:
            return f"column {field.name!r} ({field.type}) is missing"
        if not (here := schema.field(field.name)).equals(field):
            return f"column {field.name!r} is {_field_text(here)}, and not {_field_text(field)}"
    if more := [name for name in schema.names if name not in expected.names]:
        return f"there is a column {more[0]!r} ({schema.field(more[0]).type}) more"
    return f"the columns come in another order: {schema.names}, and not {expected.names}"


def _field_text(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"
