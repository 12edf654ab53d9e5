"""Tables with versions, such as Delta's: their fragments listed, shared among readers, and read as record batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from ...registry import IterDataPipe, OnError, expect_whole, own
from ...registry.sharding import part_read
from ..arrow import pa, pc
from ..bases.rows.column_reader import PREFETCH, ColumnReader
from ..columns.batch_rows import as_batch
from ..columns.files import ColumnFile
from ..columns.filters import expression_of
from ..columns.formats import StreamedFormat
from ..columns.origins import Fragment
from ..iter.shard import ShardingFilter

ROWS = 8192
"""The most rows of a part of a fragment that a library reads."""


class FragmentLister(IterDataPipe[Fragment]):
    """Yield the fragments of one version of a table: a base class."""

    transient: ClassVar[tuple[str, ...]] = ("to_read",)
    to_read: Any = None
    """What names the version that the next pass reads, as `pinned` returned it."""
    version: int | None
    _name: ClassVar[str] = "version"
    """The argument that gives the version."""
    _looked_up: ClassVar[str] = "the newest version: give version=…"
    """What a pass looks up when it begins, and the argument that gives it."""

    def _take(self, version: int | None, filter: str | pc.Expression | None) -> None:
        """Keep the arguments that all listers have; raise TypeError or ValueError for wrong ones."""
        expect_whole(self._name, version, least=0, optional=True)
        if filter is not None:
            expression_of(filter)  # raises for an invalid filter
        self.version = version
        self._filter = filter

    def pinned(self) -> Any:
        """Return what names the version to read, as plain data: the given version, or the newest."""
        raise NotImplementedError

    def schema_of(self, version: Any) -> pa.Schema:
        """Return the schema of a version."""
        raise NotImplementedError

    def fragments(self, version: Any, filter: Callable[[pa.Schema], pc.Expression] | None) -> Iterable[Fragment]:
        """Return the fragments of a version, always in one order, without those that a filter excludes."""
        raise NotImplementedError

    def schema(self) -> pa.Schema:
        """Return the schema of the version that is read, was read last, or would be."""
        return self.schema_of(self.pinned() if self.to_read is None else self.to_read)

    def pinned_for(self, alone: bool) -> Any:
        """Return what `pinned` returns; RuntimeError unless this process is `alone`, where others may find another."""
        if self.version is None and not alone:
            raise RuntimeError(
                f"several processes would each look up {self._looked_up}, the same in all. DataLoader2 and "
                "to_ray_dataset look it up once for all of their workers"
            )
        return self.pinned()

    def __iter__(self) -> Iterator[Fragment]:
        given = None if self._filter is None else partial(expression_of, self._filter)
        yield from self.fragments(self.pinned() if self.to_read is None else self.to_read, given)


class FragmentReader(ColumnReader):
    """Yield the record batches of the fragments of a table, of a version that is fixed when a pass begins."""

    kind = "table"
    settled: Any = None
    version_read: Any = own(None)
    """What names the version that the pass reads."""

    @property
    def lister(self) -> FragmentLister:
        """The step that lists the fragments."""
        lister: FragmentLister = self.source.source  # type: ignore[attr-defined]
        return lister

    def settle(self, shards: Collection[tuple[int, int]]) -> Any:
        """Return the version that all shards read."""
        parts = part_read(self.source)[0] * next(iter(shards))[0]
        return self.lister.pinned_for(alone=len(shards) == parts)

    def _begin_schema(self) -> None:
        settled, self.settled = self.settled, None
        if self.version_read is None:
            self.version_read = self.settle([(1, 0)]) if settled is None else settled
        self.lister.to_read = self.version_read

    def _column_file(
        self,
        item: Any,
        files: set[ColumnFile],
        filter: str | pc.Expression | None = None,
        target: pa.Schema | None = None,
        **more: Any,
    ) -> ColumnFile:
        return super()._column_file(item, files, filter, item.schema, **more)

    def schema(self) -> pa.Schema:
        """Return the schema of the batches, which is that of the table's version."""
        whole = self.lister.schema()
        return whole if self._columns is None else pa.schema([_field(whole, name) for name in self._columns])


class LibraryFormat(StreamedFormat):
    """A fragment that a library reads by itself: `read` returns the batches of some columns, all with None."""

    def __init__(
        self, schema: pa.Schema, read: Callable[[Sequence[str]], Iterable[pa.RecordBatch]], rows: int = ROWS
    ) -> None:
        self._read = read
        self._rows = rows
        super().__init__(lambda: None, {}, schema)

    def _reader(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        return _in_equal_parts(self._read(self.schema.names if columns is None else columns), self._rows)


def reading_fragments(
    lister: FragmentLister,
    columns: Sequence[str] | None,
    filter: str | pc.Expression | None,
    batch_size: int,
    prefetch: int = PREFETCH,
    storage_options: Mapping[str, Any] | None = None,
    on_error: OnError = "raise",
) -> FragmentReader:
    """Return a chain that shares the fragments of a lister among readers, and reads them."""
    return FragmentReader(
        ShardingFilter(lister),
        columns,
        filter,
        batch_size,
        prefetch=prefetch,
        storage_options=storage_options,
        on_error=on_error,
    )


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the names and types of another, and nothing else."""
    return pa.schema([(field.name, field.type) for field in schema])


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if name not in schema.names:
        raise KeyError(f"the table has no column {name!r}: its columns are {schema.names}")
    return schema.field(name)


def _in_equal_parts(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of so many rows, the last with fewer: how a library cuts them may change, and states count them."""
    held: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        held = table if held is None else pa.concat_tables([held, table])
        while held.num_rows >= rows:
            yield as_batch(held.slice(0, rows))
            held = held.slice(rows)
    if held is not None and held.num_rows:
        yield as_batch(held)
