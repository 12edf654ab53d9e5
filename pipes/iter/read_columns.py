"""Read files with columns as record batches."""

from __future__ import annotations

from ...registry import functional_datapipe
from ..bases.rows.column_reader import ColumnReader


@functional_datapipe("read_parquet")
class ParquetReader(ColumnReader):
    """Yield the record batches of each Parquet file, of at most `batch_size` rows from one row group.

    Takes paths, URLs of fsspec, or the items of `list_row_groups`; objects in S3 and other stores are read by ranges.
    `columns` selects columns, by default all. `filter` selects rows: a `pyarrow.compute.Expression`, or text such as
    `"price > 3 and kind == 'a'"`. Beside a column of dates or times, text is one of its type: `"time < '2024-09-01'"`,
    in the zone of the column unless it ends with another one. A row group is skipped where the statistics in the footer
    exclude a match. Up to `prefetch` files or row groups are read at once, one per thread; one more row group may be in
    memory.

    All files must have the columns and types of the first file, whichever reader has it. With `unify=True`, columns
    that a file lacks are null, and numbers get the widest of their types. For that, the footers of all files are read
    when a pass begins, unless `unify` is the resulting `pyarrow.Schema`. `schema()` returns it in advance.

    `storage_options` are options of the file system, such as `{"anon": True}`. `on_error` handles a file that cannot be
    opened, or a row group that cannot be read. A state has the current row group and the number of its batches yielded;
    resuming does not read earlier row groups.

    Raises FileNotFoundError for a missing file, KeyError for a column that a file lacks, ValueError for a file with
    other columns than those before, `pyarrow.ArrowInvalid`, a ValueError, for a file that is not Parquet, or values
    that do not fit a type, and OSError for a damaged file: checksums of pages are verified where present.

    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
    >>> pq.write_table(pa.table({"id": range(5), "text": [*"abcde"]}), path, row_group_size=3)
    >>> dp = IterableWrapper([path]).read_parquet(columns=["text"], filter="id > 0", batch_size=2)
    >>> [batch.to_pydict() for batch in dp]
    [{'text': ['b', 'c']}, {'text': ['d', 'e']}]
    """

    kind = "parquet"


@functional_datapipe("read_csv")
class CsvReader(ColumnReader):
    r"""Yield the record batches of each CSV file, of at most `batch_size` rows.

    Arguments and errors are as for `read_parquet`, with blocks of a file, by default a megabyte, in place of row
    groups. Further arguments are options of `pyarrow.csv`: `ReadOptions`, `ParseOptions` and `ConvertOptions`, such as
    `delimiter=";"`, `column_names`, `column_types` or `block_size`. Without a `delimiter`, it is the tab in files
    named `.tsv`, and else the comma.

    Types are inferred from the first block, unless `column_types` gives them. A file that is empty, or blank, has no
    rows, whatever the columns of the others. A file is read from its start: resuming reads it again up to the place,
    and skipping a damaged row leaves out the rest. A file that is not on disk is copied first, to memory or, from 32 MB
    on, to a temporary file.

    Raises `pyarrow.ArrowInvalid`, with the number of the row, for a row with too many or too few values, or a value of
    another type.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("id;text\n0;a\n1;b\n")
    >>> dp = IterableWrapper([path]).read_csv(delimiter=";")
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [0, 1], 'text': ['a', 'b']}]
    """

    kind = "csv"


@functional_datapipe("read_json")
class JsonReader(ColumnReader):
    r"""Yield the record batches of each JSON Lines file, of at most `batch_size` rows.

    Arguments and errors are as for `read_csv`. Further arguments are options of `pyarrow.json`: `explicit_schema`,
    `newlines_in_values`, `unexpected_field_behavior` and `block_size`.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.jsonl")
    >>> with open(path, "w") as file:
    ...     _ = file.write('{"id": 0, "text": "a"}\n{"id": 1}\n')
    >>> dp = IterableWrapper([path]).read_json()
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [0, 1], 'text': ['a', None]}]
    """

    kind = "json"


@functional_datapipe("read_ipc")
class IpcReader(ColumnReader):
    """Yield the record batches of each Arrow IPC file, such as Feather, cut to at most `batch_size` rows.

    Arguments and errors are as for `read_parquet`, with the record batches of a file in place of row groups. Both IPC
    formats are read, file and stream. Uncompressed data are not copied: a local file is memory-mapped, and must not be
    truncated while its batches are in use.

    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.feather
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.arrow")
    >>> pa.feather.write_feather(pa.table({"id": range(3)}), path)
    >>> dp = IterableWrapper([path]).read_ipc(batch_size=2)
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [0, 1]}, {'id': [2]}]
    """

    kind = "ipc"


@functional_datapipe("read_orc")
class OrcReader(ColumnReader):
    """Yield the record batches of each ORC file, of at most `batch_size` rows from one stripe.

    Arguments and errors are as for `read_parquet`, with stripes in place of row groups. All stripes are read, whatever
    the filter.

    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.orc
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.orc")
    >>> pa.orc.write_table(pa.table({"id": range(3)}), path)
    >>> dp = IterableWrapper([path]).read_orc(batch_size=2)
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [0, 1]}, {'id': [2]}]
    """

    kind = "orc"
