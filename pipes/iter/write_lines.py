"""Write columns to CSV and JSON lines files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date, time
from typing import Any

from ...registry import functional_datapipe
from ..arrow import pa, pc
from ..bases.writing.write_rows import TableWriter
from ..bases.writing.write_shards import CountedFile
from ..columns.arrow_values import first_failing
from ..columns.batch_rows import values_of_arrow
from ..columns.kinds import expect_kinds, floats_in, is_tensor, of_csv, of_json
from ..columns.tensors import tensor_of


@functional_datapipe("write_csv")
class CSVWriter(TableWriter):
    """Write CSV files, each with a header, to a folder, and yield the URL and the number of rows of each.

    Take it where another program needs CSV; `write_parquet` keeps types. Files hold numbers, text and times, in UTF-8;
    text is quoted, null is an empty field: `read_csv` with `strings_can_be_null=True` and
    `quoted_strings_can_be_null=False` tells it from empty text. Items, `batched`, the folder, the names and sizes of
    files, `mode`, the index, writing in parallel, resuming and `on_error` are as for `write_parquet`. Text with line
    breaks is read back with `newlines_in_values=True`.

    Raises TypeError, which names the column, for tensors with more dimensions than the rows, lists, bytes and all else
    that no field can hold. Raises ValueError for null in a file of a single column, where its line would be empty.
    Raises what `write_parquet` raises.

    >>> rows = IterableWrapper([{"id": 0, "text": "a"}, {"id": 1, "text": "b"}])
    >>> dp = rows.write_csv("memory://csv/", mode="overwrite")
    >>> list(dp)
    [('memory://csv/part-00000.csv', 2)]
    >>> import fsspec
    >>> with fsspec.open("memory://csv/part-00000.csv", "rt") as file:
    ...     print(file.read().rstrip())
    "id","text"
    0,"a"
    1,"b"
    """

    _suffixes = (".csv",)

    def _expect_types(self, schema: pa.Schema) -> None:
        expect_kinds(schema, of_csv, "a field of CSV holds a number, text or a time: write_parquet has a place for it")

    def _expect_values(self, table: pa.Table) -> None:
        if table.num_columns == 1 and table.column(0).null_count:
            row = table.column(0).is_null().index(True).as_py()
            raise ValueError(
                f"the column {table.schema.names[0]!r} has null in row {row}, and is the only column: readers would "
                "drop the empty line; fill it first"
            )

    def _fill(self, file: CountedFile, content: Iterator[pa.Table]) -> int:
        import pyarrow.csv as csv  # type: ignore[import-untyped]

        rows = 0
        with csv.CSVWriter(file, self.known) as writer:
            for table in content:
                writer.write_table(table)
                rows += table.num_rows
        return rows


@functional_datapipe("write_json")
class JSONWriter(TableWriter):
    """Write JSON Lines files to a folder, and yield the URL and the number of rows of each.

    Take it where another program needs JSON lines; `write_parquet` keeps types. Files hold numbers, text, booleans,
    null, and lists and dicts of these; tensors become lists, without their dtype; timestamps, dates and times of day
    become text of ISO 8601. Items, `batched`, the folder, the
    names and sizes of files, `mode`, the index, writing in parallel, resuming and `on_error` are as for
    `write_parquet`. Names end in `.json` or `.jsonl`.

    Raises TypeError, which names the column, for bytes, durations and all else that JSON does not have. Raises
    ValueError for floats that are infinite or not a number. Raises what `write_parquet` raises.

    >>> rows = IterableWrapper([{"id": 0, "text": "a"}, {"id": 1, "text": None}])
    >>> dp = rows.write_json("memory://json/", mode="overwrite")
    >>> list(dp)
    [('memory://json/part-00000.json', 2)]
    >>> import fsspec
    >>> with fsspec.open("memory://json/part-00000.json", "rt") as file:
    ...     print(file.read().rstrip())
    {"id":0,"text":"a"}
    {"id":1,"text":null}
    """

    _suffixes = (".json", ".jsonl")

    def _expect_types(self, schema: pa.Schema) -> None:
        expect_kinds(
            schema, of_json, "JSON holds numbers, text, booleans, and lists and dicts of these: convert it before"
        )

    def _expect_values(self, table: pa.Table) -> None:
        for name, column in zip(table.schema.names, table.columns, strict=True):
            try:
                _expect_finite(column)
            except ValueError as error:
                row, _ = first_failing(column, _expect_finite, error)
                raise ValueError(
                    f"the column {name!r} has a float that is infinite or not a number in row {row}: JSON has none"
                ) from None

    def _fill(self, file: CountedFile, content: Iterator[pa.Table]) -> int:
        rows = 0
        for table in content:
            for start in range(0, table.num_rows, self.rows_at_once):
                file.write(_lines(table.slice(start, self.rows_at_once)).encode())
            rows += table.num_rows
        return rows


def _lines(table: pa.Table) -> str:
    names = table.schema.names
    columns = [_json_values(table.column(name), name) for name in names]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return "".join([f"{_to_json(row)}\n" for row in rows])


def _json_values(column: pa.ChunkedArray, name: str) -> Sequence[Any]:
    if is_tensor(column.type):
        return tensor_of(column, name).tolist()  # type: ignore[union-attr]
    return values_of_arrow(name, column)


def _plain(value: Any) -> str | float:
    # Older versions of pyarrow give half floats as NumPy scalars.
    return value.isoformat() if isinstance(value, (date, time)) else float(value)


_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


def _expect_finite(column: pa.ChunkedArray) -> None:
    for chunk in column.chunks:
        for floats in floats_in(chunk):
            if pc.all(pc.is_finite(floats), min_count=0).as_py() is False:
                raise ValueError("not all are finite")
