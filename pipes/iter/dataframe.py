"""Make Arrow tables from rows, and read them from Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...errors.notes import add_note
from ...errors.secrets import Options
from ...registry import IterDataPipe, OnError, expect_whole, functional_datapipe, own
from ...storage.reading import open_to_seek
from ...storage.streaming.streams import checked_path
from ..arrow import pa, pq
from ..bases.arguments import expect_names
from ..bases.striding import in_runs
from ..columns.formats import expect_all_rows
from ..columns.to_arrow import listed


@functional_datapipe("dataframe")
class DataFrameMaker(IterDataPipe["pa.Table"]):
    """Yield a `pyarrow.Table` of each `dataframe_size` rows; the last may have fewer.

    A row is a dict, or a tuple or list with a value for each column; anything else is the value of a single column.
    `columns` names the columns; the default is those of `dtype`, or else the fields of named tuples or all keys of the
    dicts. A key that a dict lacks is null; other keys are ignored. Values are those of `pyarrow.array`, nested in
    dicts, lists and tuples too. Tensors and arrays become numbers, or nested lists of their dtype, one level per
    dimension.

    `dtype` is a `pyarrow.Schema`, a struct type, or one type for all `columns`; without it, types are inferred for each
    table. `dtype_generator` is a function that returns it, called when a pass begins. `device` is ignored: tables are
    in main memory.

    Raises ValueError for a row with another number of values than columns, or for columns without names, and the errors
    of `pyarrow.array` for values of another type: `pyarrow.ArrowInvalid`, a ValueError, or TypeError.

    >>> rows = [(0, "a"), (1, "b"), (2, "c")]
    >>> dp = IterableWrapper(rows).dataframe(dataframe_size=2, columns=["id", "text"])
    >>> [table.to_pydict() for table in dp]
    [{'id': [0, 1], 'text': ['a', 'b']}, {'id': [2], 'text': ['c']}]
    """

    traits = ("batches",)
    buffers = ("dataframe_size",)
    buffered = "rows"
    gives = "batches"
    resumes_from_start = False

    def __init__(
        self,
        source: IterDataPipe[Any],
        dataframe_size: int = 1000,
        dtype: pa.Schema | pa.DataType | None = None,
        dtype_generator: Callable[[], pa.Schema | pa.DataType] | None = None,
        columns: Sequence[str] | None = None,
        device: str = "",
    ) -> None:
        expect_whole("dataframe_size", dataframe_size)
        if dtype_generator is not None and not callable(dtype_generator):
            raise TypeError(f"dtype_generator must be a function without arguments, and is {dtype_generator!r:.100}")
        expect_names(columns)
        _schema(dtype, columns)  # raises where they do not match
        self.source = source
        self.dataframe_size = dataframe_size
        self.dtype = dtype
        self.dtype_generator = dtype_generator
        self._columns = columns
        self.device = device

    def __iter__(self) -> Iterator[pa.Table]:
        dtype = self.dtype if self.dtype_generator is None else self.dtype_generator()
        schema = _schema(dtype, self._columns)
        for batch in in_runs(self.source, self.dataframe_size):
            yield _table(batch, self._columns, schema)

    def __len__(self) -> int:
        return -(-len(self.source) // self.dataframe_size)


@functional_datapipe("load_parquet_as_df")
class ParquetDataFrameLoader(IterDataPipe["pa.Table"]):
    """Yield a `pyarrow.Table` for each row group of each Parquet file.

    Prefer `read_parquet`, which reads ahead. Takes paths or URLs of fsspec. `columns` names the columns to read, by
    default those of `dtype`, or else all. Tables are converted to `dtype`: a `pyarrow.Schema`, a struct type, or one
    type for all `columns`. With `use_threads`, several threads decode columns. `device` is ignored: tables are in main
    memory. `storage_options` are for the file system. `on_error` handles a file that cannot be opened, or a row group
    that cannot be read.

    Raises FileNotFoundError for a missing file, KeyError for a column that a file lacks, and `pyarrow.ArrowInvalid`, a
    ValueError, for a file that is not Parquet, or values of another type.

    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
    >>> pq.write_table(pa.table({"id": [0, 1, 2], "text": ["a", "b", "c"]}), path, row_group_size=2)
    >>> dp = IterableWrapper([path]).load_parquet_as_df(columns=["id"])
    >>> [table.to_pydict() for table in dp]
    [{'id': [0, 1]}, {'id': [2]}]
    """

    traits = ("unpacks",)
    gives = "batches"
    resumes_from_start = False
    row_group: int = own(0)
    """The next row group of the file."""

    def __init__(
        self,
        source: IterDataPipe[str],
        dtype: pa.Schema | pa.DataType | None = None,
        columns: Sequence[str] | None = None,
        device: str = "",
        use_threads: bool = False,
        *,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        expect_names(columns)
        self.storage_options = Options(storage_options)
        self._schema = _schema(dtype, columns)
        self._names = columns if self._schema is None else self._schema.names
        self.source = source
        self.dtype = dtype
        self._columns = columns
        self.device = device
        self.use_threads = use_threads
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[pa.Table]:
        opened = self.error_policy.wrap(self._open)
        items = self.read(self.source)
        for number, item in items:
            items.keep_from(number)
            file: Any = opened(item)
            if self.error_policy.keep(file):
                try:
                    yield from self._tables(item, file)
                finally:
                    file.close(force=True)
            self.row_group = 0

    def _open(self, item: Any) -> pq.ParquetFile:
        stream = open_to_seek(checked_path(item), self.storage_options, retry=self._retry, counted_by=self.error_policy)
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        try:
            expect_all_rows(file.metadata)
            if missing := _missing(file, self._names):  # pyarrow would ignore them
                names = file.schema_arrow.names
                raise KeyError(f"the file has no column {', '.join(map(repr, missing))}: its columns are {names}")
        except BaseException:
            file.close(force=True)
            raise
        return file

    def _tables(self, path: Any, file: pq.ParquetFile) -> Iterator[pa.Table]:
        def read(place: tuple[Any, int]) -> pa.Table:
            try:
                table = file.read_row_group(place[1], columns=self._names, use_threads=self.use_threads)
                return table if self._schema is None else table.cast(self._schema)
            except Exception as error:
                add_note(error, f"in row group {place[1]} of the file")
                raise

        read_group = self.error_policy.wrap(read)
        for number in range(self.row_group, file.num_row_groups):
            table: Any = read_group((path, number))
            self.row_group += 1
            if self.error_policy.keep(table):
                yield table


def _schema(dtype: pa.Schema | pa.DataType | None, columns: Sequence[str] | None) -> pa.Schema | None:
    """Return the schema of tables; ValueError where `dtype` has no type for one of the columns."""
    if dtype is None:
        return None
    if isinstance(dtype, pa.StructType):
        dtype = pa.schema([*dtype])
    if isinstance(dtype, pa.DataType):
        if columns is None:
            raise ValueError(f"dtype is {dtype}, a type for all columns: name these in columns, or give a schema")
        return pa.schema([(name, dtype) for name in columns])
    if not isinstance(dtype, pa.Schema):
        raise TypeError(f"dtype must be a pyarrow.Schema or a type of pyarrow, and is of type {type(dtype).__name__}")
    if columns is None:
        return dtype
    if missing := [name for name in columns if name not in dtype.names]:
        raise ValueError(f"dtype has no field {', '.join(map(repr, missing))}: its fields are {dtype.names}")
    return pa.schema([dtype.field(name) for name in columns], dtype.metadata)


def _missing(file: pq.ParquetFile, names: Sequence[str] | None) -> list[str]:
    """Return the names that match no column of a file, nested ones (`a.b`) included."""
    paths = [file.schema.column(number).path + "." for number in range(len(file.schema))]
    return [name for name in names or () if not any(path.startswith(name + ".") for path in paths)]


def _table(rows: list[Any], columns: Sequence[str] | None, schema: pa.Schema | None) -> pa.Table:
    names = columns if schema is None else schema.names
    values = _values_of_columns(rows, names)
    if schema is None:
        return pa.table({name: pa.array(listed(column, name)) for name, column in values.items()})
    arrays = [pa.array(listed(values[field.name], field.name), field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _values_of_columns(rows: list[Any], names: Sequence[str] | None) -> dict[str, Sequence[Any]]:
    """Return the values of rows by column name."""
    if all(isinstance(row, (dict, Mapping)) for row in rows):
        keys = dict.fromkeys(key for row in rows for key in row) if names is None else names
        return {key: [row.get(key) for row in rows] for key in keys}
    names = getattr(rows[0], "_fields", None) if names is None else names
    if any(isinstance(row, pa.RecordBatch) for row in rows[:1]):
        raise ValueError("the items are batches of columns, not rows: put .rows() before it")
    if names is None:
        raise ValueError(f"a row is of type {type(rows[0]).__name__}, which does not name its values: give columns")
    values = [row if isinstance(row, (tuple, list)) else (row,) for row in rows]
    if wrong := [len(row) for row in values if len(row) != len(names)]:
        raise ValueError(f"a row has {wrong[0]} values, and there are {len(names)} columns: {', '.join(names)}")
    return dict(zip(names, zip(*values, strict=True), strict=True))
