"""Write columns to Parquet files and NumPy arrays."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

import numpy as np

from ...errors.secrets import without_secrets
from ...registry import IterDataPipe, OnError, expect_whole, functional_datapipe
from ...storage.streaming.streams import checked_path
from ..arrow import pa, pq
from ..bases.writing.write_rows import RowWriter, TableWriter
from ..bases.writing.write_shards import CountedFile, Mode
from ..columns.kinds import expect_kinds, has_elements, of_parquet, repeating_in
from ..columns.to_arrow import rows_in
from ..columns.writing import Arrays, arrays_of, fitted_arrays, types_in

_ROW_GROUP = 2**26
"""The size of a row group in memory, in bytes."""


@functional_datapipe("write_parquet")
class ParquetWriter(TableWriter):
    """Write Parquet files to a folder, and yield the URL and the number of rows of each.

    Take it for columns and rows: it keeps types, and `read_parquet` reads it in parts. `write_csv` and `write_json` are
    for other programs.

    An item is a batch or a row. A batch is a `pyarrow.RecordBatch`, a `pyarrow.Table`, or a dict of tensors, arrays and
    lists with a value for each row. A row is a dict. A structured array of NumPy is a batch, and a record of one a row:
    their fields are the columns. `batched` says which of the two a dict is. Without it, the chain decides: after
    `to_tensors` dicts are batches, after `rows` or `read_images` rows. Where the chain does not tell, as after
    `IterableWrapper` or `flatmap`, dicts are rows; a dict of tensors and arrays, perhaps with lists, and nothing else
    is then an error.

    Tensors and arrays with dimensions besides the rows become Arrow's fixed-shape tensors, which keep shape and dtype.
    So do those of single rows; if their shapes differ, they become lists. Times that `to_tensors` made int64 become
    Arrow's times again. Tensors on a device are copied to main memory. All batches must have the same columns and
    types. For rows, the first 256 decide: integers fit among floats, and None anywhere.

    `url_template` is a folder, locally or at any URL of fsspec, whose files are `part-00000.parquet` and so on; or it
    names the files: `{shard}`, or `{shard:06d}`, is the number of the file, from 0. Each file has `rows_per_file` rows,
    the last one the rest, whatever the sizes of the batches; without `rows_per_file`, about 128 MiB of data in memory.
    A file is sent while it is written. On a local disk and in object stores it appears when it is complete.

    `mode` says what happens to files of an earlier run, which have such names:

    - `"error"` raises FileExistsError before the first item.
    - `"overwrite"` replaces them all: each new file the one of its name, when it is complete; the others are removed at
      the end of the pass. A pass that fails thus leaves new files and earlier ones.
    - `"append"` numbers the new files from above theirs. The first number is part of the name of the index.

    The first two also raise for files of a run in another format and, in a plain folder, for files of the format that
    have other names, as readers of the folder would take them too. Where the chain itself reads such files in, above or
    below the folder, all modes raise ValueError before the first item. Each pass is a run: a second one over the same
    writer is an error without a `mode`. A resumed pass goes on in every mode.

    `rows_per_group` is the number of rows of a row group: what is kept in
    memory, and what `read_parquet` reads, shuffles and divides. Without it, row groups have about 64 MiB in memory.
    `compression` is that of `pyarrow.parquet.ParquetWriter`. Pages have checksums, which `read_parquet` verifies.

    At its end, a pass writes an index, `.…index.json`. It has the type of each of the `columns`, and for each file its
    `name`, `rows`, `bytes` and `sha256`. Readers of folders and patterns, such as `read_parquet` and `pyarrow.dataset`,
    ignore it, since its name begins with a dot.

    Put a `sharding_filter` before this to write in parallel. Each of n parts writes its own files: the first has the
    numbers 0, n, 2 n, …, and its index is `.…index-0-of-n.json`. On several ranks use `apply_sharding(dp, ranks,
    rank)`: `DistributedReadingService` makes ranks end together, which would repeat files or leave some out. A resumed
    chain does not write files again that it had yielded.

    `on_error` handles an item that cannot be written: one that is no batch or row, or whose columns or types differ
    from those before or do not exist in the format. Nothing of it is in a file. It cannot be a `Retry`. A failed upload
    always raises. `storage_options` are options of the file system, such as `{"anon": True}`; without them, credentials
    and endpoints come from the environment.

    Raises TypeError for an item that is neither batch nor row, and for values and types that Arrow or Parquet does not
    have. Raises ValueError for a dict that may be both, and for columns or types that differ from those before. These
    errors name the column and the number of the item. Raises OSError, or an error of the file system's client, with the
    file's URL, where a file cannot be written. At construction, raises ValueError where the stream is divided by
    anything but `sharding_filter`.

    >>> import torch
    >>> batches = IterableWrapper([{"id": torch.arange(3), "image": torch.zeros(3, 2, 2)}])
    >>> dp = batches.write_parquet("memory://parquet/", rows_per_file=2, batched=True, mode="overwrite")
    >>> list(dp)
    [('memory://parquet/part-00000.parquet', 2), ('memory://parquet/part-00001.parquet', 1)]
    >>> [batch.column("image").type.shape for batch in ps.read_parquet("memory://parquet/")]
    [[2, 2], [2, 2]]
    """

    _suffixes = (".parquet",)

    def __init__(
        self,
        source: IterDataPipe[Any],
        url_template: str | os.PathLike[str],
        rows_per_file: int | None = None,
        *,
        mode: Mode = "error",
        rows_per_group: int | None = None,
        compression: str = "snappy",
        batched: bool | None = None,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            source,
            url_template,
            rows_per_file,
            mode=mode,
            batched=batched,
            on_error=on_error,
            storage_options=storage_options,
        )
        expect_whole("rows_per_group", rows_per_group, optional=True)
        if compression != "snappy":
            _expect_compression(compression)
        self.rows_per_group = rows_per_group
        self.compression = compression

    def _expect_types(self, schema: pa.Schema) -> None:
        expect_kinds(
            schema, has_elements, "a tensor or list without elements cannot be read back from Parquet: leave it out"
        )
        expect_kinds(schema, of_parquet, "Parquet has no place for it: cast it before, or leave it out")

    def _fill(self, file: CountedFile, content: Iterator[pa.Table]) -> int:
        rows = 0
        repeating = [path for field in self.known for path in repeating_in(field.name, field.type)]
        with pq.ParquetWriter(
            file, self.known, compression=self.compression, use_dictionary=repeating, write_page_checksum=True
        ) as writer:
            for table, rows_of_each in _row_groups(content, self.rows_per_group):
                writer.write_table(table, rows_of_each)
                rows += table.num_rows
        return rows


@functional_datapipe("write_numpy")
class NumpyWriter(RowWriter[Arrays]):
    """Write NumPy files to a folder, and yield the URL and the number of rows of each.

    Take it for arrays that NumPy loads or maps, and `write_parquet` for mixed columns. With a `column`, each file is
    the array of that column, and its name ends in `.npy`; else it has all columns as arrays by their names, and ends in
    `.npz`.
    Arrays have the rows as their first dimension, and the dtype of the tensors and arrays; text is an array of `str`.
    They are written without pickle. A file's content is in memory until it is complete.

    Items, `batched`, the folder, the names and sizes of files, `mode`, the index, writing in parallel, resuming and
    `on_error` are as for `write_parquet`.

    Raises KeyError for a missing `column`. Raises TypeError, which names the column, for bytes, null and other values
    that NumPy could only pickle or would cut short. Raises ValueError for rows whose shapes differ, and for columns or
    dtypes that differ from those before.

    >>> import torch
    >>> batches = IterableWrapper([{"id": torch.arange(3), "image": torch.zeros(3, 2, 2)}])
    >>> dp = batches.write_numpy("memory://numpy/", rows_per_file=2, column="image", batched=True, mode="overwrite")
    >>> list(dp)
    [('memory://numpy/part-00000.npy', 2), ('memory://numpy/part-00001.npy', 1)]
    >>> import fsspec, numpy as np
    >>> with fsspec.open("memory://numpy/part-00000.npy") as file:
    ...     np.load(file).shape
    (2, 2, 2)
    """

    def __init__(
        self,
        source: IterDataPipe[Any],
        url_template: str | os.PathLike[str],
        rows_per_file: int | None = None,
        *,
        mode: Mode = "error",
        column: str | None = None,
        batched: bool | None = None,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._suffixes = (".npy", ".npz") if column is not None else (".npz", ".npy")
        super().__init__(
            source,
            url_template,
            rows_per_file,
            mode=mode,
            batched=batched,
            on_error=on_error,
            storage_options=storage_options,
        )
        if self._files.url(0).endswith(".npy") != (column is not None):
            raise ValueError(
                "an .npy file has one array, which column names, and an .npz file all: url_template is "
                f"{without_secrets(checked_path(url_template))!r}, and column is {column!r:.100}"
            )
        self.column = column

    def _made(self, batch: Any) -> Arrays:
        return arrays_of(batch, self.column)

    def _fitted(self, piece: Arrays, of_rows: bool) -> Arrays:
        return piece if self.known is None else fitted_arrays(piece, self.known, widen=of_rows)

    def _types(self, piece: Arrays) -> dict[str, str]:
        return types_in(piece)

    def _index(self) -> dict[str, Any]:
        return {"columns": self.known or {}, **super()._index()}

    def _fill(self, file: CountedFile, content: Iterator[Arrays]) -> int:
        pieces = [*content]
        arrays = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        if self.column is not None:
            np.lib.format.write_array(file, arrays[self.column], allow_pickle=False)
        else:
            with zipfile.ZipFile(cast("IO[bytes]", file), "w") as archive:
                for name, array in arrays.items():
                    # Without a time, so equal arrays give equal bytes.
                    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, array, allow_pickle=False)
        return rows_in(arrays)


def _expect_compression(compression: str) -> None:
    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([]), compression=compression).close()
    except (pa.ArrowException, AttributeError, TypeError) as error:
        raise ValueError(f"compression must be one that Parquet has, and is {compression!r:.100}: {error}") from error


def _row_groups(tables: Iterator[pa.Table], rows_per_group: int | None) -> Iterator[tuple[pa.Table, int]]:
    """Join tables into ones of one or more row groups; yield them with the number of rows per group."""
    buffered: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        buffered.append(table)
        rows += table.num_rows
        size += table.nbytes
        if size >= _ROW_GROUP if rows_per_group is None else rows >= rows_per_group:
            rows_of_each = rows_per_group or max(rows * _ROW_GROUP // size, 1)
            together = pa.concat_tables(buffered)
            end = rows - rows % rows_of_each
            yield together.slice(0, end), rows_of_each
            rest = together.slice(end)
            buffered, rows, size = [rest], rest.num_rows, rest.nbytes
    if rows:
        yield pa.concat_tables(buffered), rows
