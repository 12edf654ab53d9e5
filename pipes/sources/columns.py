"""Functions that list, shard and read column files."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from ...errors.checks import takes_only
from ...registry import IterDataPipe, OnError
from ..arrow import pa, pc
from ..bases.listers_and_openers import expect_roots
from ..bases.rows.column_reader import BATCH_SIZE, ColumnOptions, ColumnReader
from ..iter.list_tables import TableFileLister
from ..iter.read_columns import CsvReader, IpcReader, JsonReader, OrcReader, ParquetReader

R = TypeVar("R", bound=ColumnReader)
C = TypeVar("C", bound=Callable[..., Any])

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""The path or URL of a file, of a folder, or with a pattern; or a list of them."""


def _shows_options(function: C) -> C:
    """Let the signature of a function show the options of `ColumnReader`, in place of `**options` or before others."""
    parameters = {**inspect.signature(function).parameters}
    others = parameters.popitem()[1]
    for name, each in inspect.signature(ColumnReader).parameters.items():
        if each.kind is inspect.Parameter.KEYWORD_ONLY:
            parameters[name] = each
    if others.name != "options":
        parameters[others.name] = others
    function.__signature__ = inspect.signature(function).replace(parameters=[*parameters.values()])  # type: ignore[attr-defined]
    return function


@takes_only()
@_shows_options
def read_parquet(
    paths: Paths,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    batch_size: int = BATCH_SIZE,
    *,
    shuffle_row_groups: bool = False,
    hive: bool = True,
    **options: Unpack[ColumnOptions],
) -> ParquetReader:
    """Return a chain that yields the record batches of Parquet files.

    The chain is `list_table_files`, `sharding_filter`, `read_parquet`. `paths` is the path or URL of a file, of a
    folder or with a pattern, or a list of them. `list_table_files` documents how they are listed and what `key=value`
    folders mean, `read_parquet` the other arguments. Readers share the files; with `shuffle_row_groups` they share the
    row groups of all files, in a random order.

    >>> import os, tempfile
    >>> import penstock as ps, pyarrow as pa, pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> for year in (2023, 2024):
    ...     os.mkdir(f"{folder}/year={year}")
    ...     pq.write_table(pa.table({"price": [1, 2, 3]}), f"{folder}/year={year}/0.parquet")
    >>> dp = ps.read_parquet(folder, filter="year == 2024 and price > 1")
    >>> dp.schema().names
    ['price', 'year']
    >>> [batch.to_pydict() for batch in dp]
    [{'price': [2, 3], 'year': [2024, 2024]}]
    """
    return _reading(
        ParquetReader, paths, columns, filter, batch_size, hive, shuffle_row_groups=shuffle_row_groups, **options
    )


@_shows_options
def read_csv(
    paths: Paths,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    batch_size: int = BATCH_SIZE,
    *,
    hive: bool = True,
    **format_options: Any,
) -> CsvReader:
    r"""Return a chain that yields the record batches of CSV files.

    The arguments are those of `ps.read_parquet`, and options of `pyarrow.csv`, as for the method `read_csv`. Readers
    share the files.

    >>> import os, tempfile
    >>> import penstock as ps
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "a.csv"), "w") as file:
    ...     _ = file.write('id\n0\n1\n')
    >>> [batch.to_pydict() for batch in ps.read_csv(folder)]
    [{'id': [0, 1]}]
    """
    return _reading(CsvReader, paths, columns, filter, batch_size, hive, **format_options)


@_shows_options
def read_json(
    paths: Paths,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    batch_size: int = BATCH_SIZE,
    *,
    hive: bool = True,
    **format_options: Any,
) -> JsonReader:
    r"""Return a chain that yields the record batches of JSON Lines files.

    The arguments are those of `ps.read_parquet`, and options of `pyarrow.json`, as for the method `read_json`. Readers
    share the files.

    >>> import os, tempfile
    >>> import penstock as ps
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "a.json"), "w") as file:
    ...     _ = file.write('{"id": 0}\n{"id": 1}\n')
    >>> [batch.to_pydict() for batch in ps.read_json(folder)]
    [{'id': [0, 1]}]
    """
    return _reading(JsonReader, paths, columns, filter, batch_size, hive, **format_options)


@takes_only()
@_shows_options
def read_ipc(
    paths: Paths,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    batch_size: int = BATCH_SIZE,
    *,
    hive: bool = True,
    **options: Unpack[ColumnOptions],
) -> IpcReader:
    """Return a chain that yields the record batches of Arrow IPC files.

    The arguments are those of `ps.read_parquet`. Readers share the files.

    >>> import os, tempfile
    >>> import penstock as ps, pyarrow as pa, pyarrow.feather
    >>> folder = tempfile.mkdtemp()
    >>> pa.feather.write_feather(pa.table({"id": [0, 1]}), os.path.join(folder, "a.arrow"))
    >>> [batch.to_pydict() for batch in ps.read_ipc(folder)]
    [{'id': [0, 1]}]
    """
    return _reading(IpcReader, paths, columns, filter, batch_size, hive, **options)


@takes_only()
@_shows_options
def read_orc(
    paths: Paths,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    batch_size: int = BATCH_SIZE,
    *,
    hive: bool = True,
    **options: Unpack[ColumnOptions],
) -> OrcReader:
    """Return a chain that yields the record batches of ORC files.

    The arguments are those of `ps.read_parquet`. Readers share the files.

    >>> import os, tempfile
    >>> import penstock as ps, pyarrow as pa, pyarrow.orc
    >>> folder = tempfile.mkdtemp()
    >>> pa.orc.write_table(pa.table({"id": [0, 1]}), os.path.join(folder, "a.orc"))
    >>> [batch.to_pydict() for batch in ps.read_orc(folder)]
    [{'id': [0, 1]}]
    """
    return _reading(OrcReader, paths, columns, filter, batch_size, hive, **options)


def _reading(
    reader: type[R],
    paths: Paths,
    columns: Sequence[str] | None,
    filter: str | pc.Expression | None,
    batch_size: int,
    hive: bool,
    *,
    shuffle_row_groups: bool = False,
    **options: Any,
) -> R:
    common: dict[str, Any] = {name: options[name] for name in ("storage_options", "on_error") if name in options}
    # The lister compares the values of folders as text, which times of another form are not.
    by_folder = None if _has_times(options.get("unify")) else filter
    files: IterDataPipe[Any] = files_of(paths, reader.kind, hive=hive, filter=by_folder, **common)
    if shuffle_row_groups:
        files = files.shuffle_row_groups(filter, **common)
    return reader(files.sharding_filter(), columns, filter, batch_size, **options)


def _has_times(unify: bool | pa.Schema | None) -> bool:
    return not (unify is None or isinstance(unify, bool)) and any(map(pa.types.is_temporal, unify.types))


def files_of(
    paths: Paths,
    kind: str,
    storage_options: Mapping[str, Any] | None = None,
    on_error: OnError = "raise",
    hive: bool = False,
    filter: str | pc.Expression | None = None,
) -> TableFileLister:
    """Return a pipe of the files of a format under `paths`."""
    expect_roots("paths", paths)
    return TableFileLister(paths, kind, hive=hive, filter=filter, storage_options=storage_options, on_error=on_error)
