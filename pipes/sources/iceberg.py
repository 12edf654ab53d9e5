"""Iceberg tables: a snapshot's files by its manifests, without the rows that delete files mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...errors.checks import takes_only
from ...errors.optional import require
from ...errors.secrets import Options, without_secrets
from ...registry import OnError
from ..arrow import pa, pc
from ..bases.rows.column_reader import BATCH_SIZE, PREFETCH
from ..columns.filters import may_be_true
from ..columns.formats import ColumnFormat, ParquetFormat
from ..columns.origins import Fragment
from .table_versions import FragmentLister, FragmentReader, LibraryFormat, plain_schema, reading_fragments

if TYPE_CHECKING:
    from pyiceberg.schema import Schema  # type: ignore[import-not-found, unused-ignore]
    from pyiceberg.table import FileScanTask, Table  # type: ignore[import-not-found, unused-ignore]


class IcebergLister(FragmentLister):
    """Yield the files of a snapshot of an Iceberg table: what `read_iceberg` begins with."""

    _name = "snapshot_id"
    _looked_up = "the newest snapshot: give snapshot_id=…"

    def __init__(
        self,
        table: str,
        snapshot_id: int | None = None,
        filter: str | pc.Expression | None = None,
        catalog: str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        require("pyiceberg", "iceberg")
        if not isinstance(table, str):
            raise TypeError(
                "read_iceberg takes the identifier of a table, as in 'sales.orders', or the address of its metadata, "
                f"as Table.metadata_location has it, and this is a {type(table).__name__}"
            )
        self.table = table
        self.catalog = catalog
        self.properties = Options(properties)
        self._take(snapshot_id, filter)

    def pinned(self) -> list[int]:
        """Return the numbers of the snapshot and of the schema; the snapshot of a table without one is 0."""
        table = self._loaded()
        if self.version is None:
            snapshot = table.current_snapshot()
            return [0 if snapshot is None else snapshot.snapshot_id, table.schema().schema_id]
        return [self.version, table.scan(snapshot_id=self._known(table, self.version)).projection().schema_id]

    def schema_of(self, version: Sequence[int]) -> pa.Schema:
        return _plain(self._loaded().schemas()[version[1]])

    def fragments(
        self, version: Sequence[int], filter: Callable[[pa.Schema], pc.Expression] | None
    ) -> Iterable[Fragment]:
        number, schema_id = version
        if number == 0:  # nothing was written yet
            return
        table = self._loaded()
        tasks = table.scan(snapshot_id=self._known(table, number)).plan_files()
        of_table = table.schemas()[schema_id]
        schema = _plain(of_table)
        expression = None if filter is None else filter(schema)
        for task in sorted(tasks, key=lambda task: task.file.file_path):
            if expression is None or may_be_true(expression, {}, _ranges(task, of_table, schema)):
                yield Fragment(task.file.file_path, partial(_opened, table, task, of_table), schema)

    def _known(self, table: Table, snapshot_id: int) -> int:
        if table.snapshot_by_id(snapshot_id) is None:
            raise ValueError(
                f"the Iceberg table {without_secrets(self.table)!r} has no snapshot {snapshot_id}: there never was "
                "one, or it has expired"
            )
        return snapshot_id

    def _loaded(self) -> Table:
        catalogs = require("pyiceberg.catalog", "iceberg")
        exceptions = require("pyiceberg.exceptions", "iceberg")
        if self.table.endswith(".metadata.json"):
            static: Table = require("pyiceberg.table", "iceberg").StaticTable.from_metadata(self.table, self.properties)
            return static
        try:
            loaded: Table = catalogs.load_catalog(self.catalog, **self.properties).load_table(self.table)
        except exceptions.NoSuchTableError as error:
            raise FileNotFoundError(f"the catalog has no Iceberg table {self.table!r}") from error
        return loaded


def _opened(table: Table, task: FileScanTask, schema: Schema, open_stream: Callable[[], Any]) -> ColumnFormat:
    """Return a file to be read by row groups, where its columns have the table's names and numbers; else whole."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow  # type: ignore[import-not-found, unused-ignore]

    if not task.delete_files and task.file.file_format.value == "PARQUET":
        content = ParquetFormat(lambda: table.io.new_input(task.file.file_path).open(), {})
        if {*map(_shape, schema_to_pyarrow(schema))} <= {*map(_shape, content.schema)}:
            return content
        content.close()
    return LibraryFormat(_plain(schema), partial(_batches, table, task, schema))


def _batches(table: Table, task: FileScanTask, schema: Schema, columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
    from pyiceberg.expressions import AlwaysTrue  # type: ignore[import-not-found, unused-ignore]
    from pyiceberg.io.pyarrow import ArrowScan  # type: ignore[import-not-found, unused-ignore]

    scan = ArrowScan(table.metadata, table.io, schema.select(*columns), AlwaysTrue())
    batches: Iterable[pa.RecordBatch] = scan.to_record_batches([task])
    return batches


def _plain(schema: Schema) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow  # type: ignore[import-not-found, unused-ignore]

    return plain_schema(schema_to_pyarrow(schema, include_field_ids=False))


def _shape(field: pa.Field) -> tuple[Any, ...]:
    """Return the name and the number of a field, and of those in it."""
    number = (field.metadata or {}).get(b"PARQUET:field_id")
    return field.name, number, tuple(_shape(field.type.field(place)) for place in range(field.type.num_fields))


def _ranges(task: FileScanTask, of_table: Schema, schema: pa.Schema) -> dict[str, tuple[pa.Scalar, pa.Scalar]]:
    """Return the least and the greatest value of columns of integers, dates and times in a file.

    Bounds of text are cut, and those of floats leave NaN out.
    """
    from pyiceberg.conversions import from_bytes  # type: ignore[import-not-found, unused-ignore]
    from pyiceberg.types import DateType, IntegerType, LongType, TimestampType, TimestamptzType  # type: ignore[import-not-found, unused-ignore]

    found = {}
    lower, upper = task.file.lower_bounds or {}, task.file.upper_bounds or {}
    for field in of_table.fields:
        name = field.name
        if field.field_id not in lower or field.field_id not in upper:
            continue
        if isinstance(kind := field.field_type, (DateType, IntegerType, LongType, TimestampType, TimestamptzType)):
            ends = (from_bytes(kind, bounds[field.field_id]) for bounds in (lower, upper))
            low, high = (pa.scalar(end, schema.field(name).type) for end in ends)
            found[name] = low, high
    return found


@takes_only(
    filters="write them as filter=…, text such as \"year == 2024 and kind == 'a'\"",
    row_filter="write it as filter=…, text such as \"year == 2024 and kind == 'a'\"",
    version="it is snapshot_id=…",
)
def read_iceberg(
    table: str | Table,
    snapshot_id: int | None = None,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    batch_size: int = BATCH_SIZE,
    *,
    catalog: str | None = None,
    properties: Mapping[str, Any] | None = None,
    prefetch: int = PREFETCH,
    on_error: OnError = "raise",
) -> FragmentReader:
    """Return a chain that yields the record batches of an Iceberg table.

    `table` is an identifier, such as `"sales.orders"`, of a `catalog` that pyiceberg's configuration names, or that
    `properties` describe; or the address of a `.metadata.json`, whose file system takes the `properties`. Of a loaded
    `pyiceberg.table.Table`, the metadata is read as it was loaded. A pass reads `snapshot_id`, by default the newest
    when it begins, and its state has that snapshot.

    pyiceberg plans the read, and opens the files. Readers share them. A file is left out where the `filter` excludes
    the integers, dates and times that a manifest says of it, whatever the partitions. Parquet files with the columns of
    the snapshot are read by row groups, as by `read_parquet`, which documents the other arguments. pyiceberg itself
    reads files with deleted rows, whose deletes it applies, and files from before columns were added or renamed: each
    is then in memory as a whole, and resuming reads it from its start.

    Raises ImportError without pyiceberg, FileNotFoundError for a table that the catalog lacks, ValueError for a
    snapshot that is not there, and for equality deletes, which pyiceberg does not read.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> import penstock as ps
    >>> from pyiceberg.catalog import load_catalog
    >>> folder = tempfile.mkdtemp()
    >>> properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    >>> catalog = load_catalog("local", **properties)
    >>> catalog.create_namespace("sales")
    >>> rows = pa.table({"id": [1, 2], "kind": ["a", "b"]})
    >>> catalog.create_table("sales.orders", rows.schema).append(rows)
    >>> dp = ps.read_iceberg("sales.orders", filter="id > 1", catalog="local", properties=properties)
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [2], 'kind': ['b']}]
    """
    loaded: Any = table
    if hasattr(table, "metadata_location"):
        loaded, properties = loaded.metadata_location, {**loaded.io.properties, **(properties or {})}
    lister = IcebergLister(loaded, snapshot_id, filter, catalog, properties)
    return reading_fragments(lister, columns, filter, batch_size, prefetch, None, on_error)
