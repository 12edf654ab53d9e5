"""Delta Lake tables: a version's files by its log, without the rows that deletion vectors mark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from urllib.parse import unquote

from ...errors.checks import takes_only
from ...errors.optional import require
from ...errors.secrets import Options, without_secrets
from ...registry import OnError
from ...storage.stores import options_of_library
from ...storage.streaming.streams import checked_path
from ..arrow import pa, pc
from ..bases.rows.column_reader import BATCH_SIZE, PREFETCH
from ..columns.filters import may_be_true
from ..columns.formats import ParquetFormat
from ..columns.origins import Fragment
from .table_versions import FragmentLister, FragmentReader, plain_schema, reading_fragments

_FEATURES = {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint"}
_FEATURES |= {"vacuumProtocolCheck"}
"""The features of tables that are read; columns that are renamed by mapping are refused by themselves."""


class DeltaLister(FragmentLister):
    """Yield the files of a version of a Delta table: what `read_delta` begins with."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        version: int | None = None,
        filter: str | pc.Expression | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        require("deltalake", "delta")
        self.url = checked_path(url)
        self.storage_options = Options(storage_options)
        self._take(version, filter)

    def pinned(self) -> int:
        return int(self._table(self.version).version())

    def schema_of(self, version: int) -> pa.Schema:
        return _schema(self._table(version))

    def fragments(self, version: int, filter: Callable[[pa.Schema], pc.Expression] | None) -> Iterable[Fragment]:
        table = self._table(version)
        self._expect_readable(table)
        schema = _schema(table)
        expression = None if filter is None else filter(schema)
        files, urls = pa.table(table.get_add_actions()), table.file_uris()
        rows_kept = _rows_kept(table, urls)
        for number, url in sorted(enumerate(urls), key=lambda pair: pair[1]):
            file = {name: files[name][number] for name in files.column_names if name in ("partition", "min", "max")}
            values = {name: value.cast(schema.field(name).type) for name, value in _parts(file.get("partition"))}
            if expression is None or may_be_true(expression, values, _ranges(file)):
                yield Fragment(url, partial(_DeltaFile, kept=rows_kept.get(url)), schema, tuple(values.items()))

    def _table(self, version: int | None) -> Any:
        library = require("deltalake", "delta")
        options = options_of_library(self.url, self.storage_options)
        try:
            return library.DeltaTable(self.url, version=version, storage_options=options or None)
        except library.exceptions.TableNotFoundError as error:
            raise FileNotFoundError(f"there is no Delta table at {without_secrets(self.url)!r}") from error
        except library.exceptions.DeltaError as error:
            if version is None:
                raise
            raise ValueError(
                f"version {version} of the Delta table {without_secrets(self.url)!r} cannot be read: there is none "
                "yet, or its log was cleaned up"
            ) from error

    def _expect_readable(self, table: Any) -> None:
        """Raise ValueError for a table whose files do not say all that counts."""
        if unknown := {*(table.protocol().reader_features or ())} - _FEATURES:
            raise ValueError(f"the Delta table needs {', '.join(sorted(unknown))}, which read_delta does not know")
        if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise ValueError(
                "the Delta table maps its columns to other names in its files, which read_delta does not read: write "
                "it anew without delta.columnMapping.mode, or give batches of deltalake's DeltaTable.scan to "
                "ps.from_arrow"
            )


class _DeltaFile(ParquetFormat):
    """A Parquet file of a Delta table; `kept` says of its first rows which are not deleted, None of all."""

    int96_unit: ClassVar[str | None] = "us"

    def __init__(self, open_stream: Callable[[], pa.NativeFile], kept: pa.Array | None) -> None:
        super().__init__(open_stream, {})
        self._kept = kept

    def read(self, number: int, columns: Sequence[str]) -> pa.Table:
        table = super().read(number, columns)
        if self._kept is None:
            return table
        start = sum(self.footer.row_group(before).num_rows for before in range(number))
        kept = self._kept.slice(start, table.num_rows)
        return table.filter(pa.concat_arrays([kept, pa.repeat(True, table.num_rows - len(kept))]))


def _schema(table: Any) -> pa.Schema:
    return plain_schema(pa.schema(table.schema().to_arrow()))


def _rows_kept(table: Any, urls: Sequence[str]) -> dict[str, pa.Array]:
    """Return for each file with deleted rows which of its rows are kept."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    vectors = pa.table(table.deletion_vectors())
    # deltalake escapes these addresses, and not those of the files.
    files = [unquote(url).removeprefix("file://") for url in vectors["filepath"].to_pylist()]
    if unknown := {*files} - {*urls}:
        raise RuntimeError(f"the Delta table has deleted rows of files that it does not list, such as {min(unknown)!r}")
    return dict(zip(files, (pa.array(kept.values) for kept in vectors["selection_vector"]), strict=True))


def _parts(values: pa.StructScalar | None) -> Iterable[tuple[str, pa.Scalar]]:
    return () if values is None else values.items()


def _ranges(file: Mapping[str, pa.Scalar]) -> dict[str, tuple[pa.Scalar, pa.Scalar]]:
    """Return the least and the greatest value of columns of integers and dates: others are cut, or leave NaN out."""
    most = dict(_parts(file.get("max")))
    return {
        name: (least, most[name])
        for name, least in _parts(file.get("min"))
        if (pa.types.is_integer(least.type) or pa.types.is_date(least.type))
        and least.is_valid
        and name in most
        and most[name].is_valid
    }


@takes_only(filters="write them as filter=…, text such as \"year == 2024 and kind == 'a'\"")
def read_delta(
    url: str | os.PathLike[str],
    version: int | None = None,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    batch_size: int = BATCH_SIZE,
    *,
    prefetch: int = PREFETCH,
    storage_options: Mapping[str, Any] | None = None,
    on_error: OnError = "raise",
) -> FragmentReader:
    """Return a chain that yields the record batches of a Delta Lake table.

    `url` is the table's folder. A pass reads `version`, by default the newest when it begins, and its state has that
    version. Readers share the files. A file is left out where the `filter` excludes its partition, or the least and
    greatest integers and dates in the table's log; row groups as by `read_parquet`, which documents the other
    arguments. Deleted rows are left out, by the table's deletion vectors too. Columns have the types of the table, and
    are null in files from before they were added. `storage_options` are as for `read_parquet`, for S3; for other stores
    they open the log, too, and must have names that deltalake takes.

    Raises ImportError without deltalake, FileNotFoundError where there is no table, ValueError for a version that is
    not there, and for a table with features that are not known, or with columns that are mapped to other names.

    >>> import tempfile
    >>> import deltalake, pyarrow as pa
    >>> import penstock as ps
    >>> url = tempfile.mkdtemp()
    >>> deltalake.write_deltalake(url, pa.table({"id": [1, 2], "kind": ["a", "b"]}), partition_by=["kind"])
    >>> deltalake.write_deltalake(url, pa.table({"id": [3], "kind": ["b"]}), mode="append")
    >>> [batch.to_pydict() for batch in ps.read_delta(url, version=0, filter="kind == 'b'")]
    [{'id': [2], 'kind': ['b']}]
    """
    lister = DeltaLister(url, version, filter, storage_options)
    return reading_fragments(lister, columns, filter, batch_size, prefetch, storage_options, on_error)
