from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import penstock as ps
from penstock.pipes.columns.rows_or_batches import may_be_batch
from penstock.pipes.columns.tensors import tensor_of
from penstock.pipes.iter import IterableWrapper
from penstock.testing import check_operator
from resuming import passed_on

KINDS = ["parquet", "csv", "json", "jsonl", "npz"]
WRITERS = {"parquet": "write_parquet", "csv": "write_csv", "json": "write_json", "jsonl": "write_json"}


def writing(source: Any, folder: object, kind: str, rows_per_file: int, **arguments: Any) -> Any:
    """A chain that writes what there is in a list, or comes from a pipe; what may be batches in a list are such."""
    if isinstance(source, list) and any(map(may_be_batch, source)):
        arguments = {"batched": True, **arguments}
    arguments = {"mode": "overwrite", **arguments}  # many tests write again over what they have written
    pipe = source if isinstance(source, ps.IterDataPipe) else IterableWrapper(source, deepcopy=False)
    write = getattr(pipe, WRITERS.get(kind, "write_numpy"))
    return write(f"{folder}/train-{{shard:04d}}.{kind}", rows_per_file, **arguments)


def written(source: Any, folder: object, kind: str, rows_per_file: int = 3, **arguments: Any) -> list[tuple[str, int]]:
    return list(writing(source, folder, kind, rows_per_file, **arguments))


def rows_of(path: object) -> list[dict[str, Any]]:
    """The rows of a file, as other libraries read it."""
    name = str(path)
    if name.endswith(".parquet"):
        return pq.read_table(name).to_pylist()  # type: ignore[no-any-return]
    if name.endswith(".csv"):
        return pa.csv.read_csv(name).to_pylist()  # type: ignore[no-any-return]
    if name.endswith((".json", ".jsonl")):
        return [json.loads(line) for line in Path(name).read_text("utf-8").splitlines()]
    with np.load(name, allow_pickle=False) as file:
        return [dict(zip(file, row, strict=True)) for row in zip(*(file[key].tolist() for key in file), strict=True)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def ids(numbers: range) -> list[dict[str, Any]]:
    return [{"id": number, "text": f"Größe {number}"} for number in numbers]


def batch(numbers: range) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(ids(numbers), pa.schema([("id", pa.int64()), ("text", pa.string())]))


def as_tensors(numbers: range) -> dict[str, Any]:
    return {"id": torch.tensor([*numbers], dtype=torch.int64), "text": [f"Größe {number}" for number in numbers]}


SHAPES: dict[str, Callable[[], list[Any]]] = {
    "rows": lambda: ids(range(7)),
    "batches of Arrow": lambda: [batch(range(2)), batch(range(2, 2)), batch(range(2, 7))],
    "tables": lambda: [
        pa.table(batch(range(4))),
        pa.concat_tables([pa.table(batch(range(4, 5))), pa.table(batch(range(5, 7)))]),
    ],
    "dicts of tensors": lambda: [as_tensors(range(3)), as_tensors(range(3, 7))],
}


# What is written


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_read_back_from_files_of_so_many(tmp_path: Path, kind: str, shape: str) -> None:
    urls = [f"{tmp_path}/train-000{number}.{kind}" for number in range(3)]
    assert written(SHAPES[shape](), tmp_path, kind) == [(urls[0], 3), (urls[1], 3), (urls[2], 1)]
    assert [rows_of(url) for url in urls] == [ids(range(3)), ids(range(3, 6)), ids(range(6, 7))]
    assert sorted(contents(tmp_path)) == [".train-index.json", *map(os.path.basename, urls)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_index_tells_of_each_file_what_is_in_it(tmp_path: Path, kind: str) -> None:
    written(ids(range(7)), tmp_path, kind)
    files = contents(tmp_path)
    index = json.loads(files.pop(".train-index.json"))
    assert index == {
        "columns": {"id": "int64", "text": "str" if kind == "npz" else "string"},
        "shards": [
            {
                "name": name,
                "rows": rows,
                "bytes": len(files[name]),
                "sha256": hashlib.sha256(files[name]).hexdigest(),
            }
            for name, rows in zip(files, (3, 3, 1), strict=True)
        ],
    }
    for number, source in enumerate(([], [batch(range(0))])):  # no rows are no files
        folder = tmp_path / str(number)
        assert written(source, folder, kind) == []
        assert [*contents(folder)] == [".train-index.json"]
        assert json.loads(contents(folder)[".train-index.json"])["shards"] == []


# Tensors

DTYPES = st.sampled_from(
    [np.bool_, *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64"]
)
ARRAYS = DTYPES.flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
)


def bits_of(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return str(array.dtype), array.shape, array.tobytes()


@given(array=ARRAYS, rows_per_file=st.integers(1, 5), way=st.sampled_from(["array", "tensor", "rows", "Fortran"]))
@settings(max_examples=40)
def test_tensors_keep_shape_and_dtype_and_every_bit(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray[Any, Any], rows_per_file: int, way: str
) -> None:
    folder = tmp_path_factory.mktemp("tensors")
    tensor = torch.from_numpy(array)
    source: list[Any] = {
        "array": [{"x": array}],
        "tensor": [{"x": tensor}],
        "rows": [{"x": row} for row in tensor],
        "Fortran": [{"x": np.asfortranarray(array)}],
    }[way]
    batched = way != "rows"
    parquet = [url for url, _ in written(source, folder, "parquet", rows_per_file, batched=batched)]
    read = torch.cat([_tensor(pq.read_table(url).column("x")) for url in parquet])
    assert bits_of(read.numpy()) == bits_of(array)
    npz = [url for url, _ in written(source, folder / "npz", "npz", rows_per_file, batched=batched)]
    assert bits_of(np.concatenate([np.load(url)["x"] for url in npz])) == bits_of(array)
    npy = [url for url, _ in written(source, folder / "npy", "npy", rows_per_file, column="x", batched=batched)]
    assert bits_of(np.concatenate([np.load(url) for url in npy])) == bits_of(array)


def _tensor(column: pa.ChunkedArray) -> torch.Tensor:
    tensor = tensor_of(column, "x")
    assert isinstance(tensor, torch.Tensor)
    return tensor


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_a_tensor_is_asked_for_a_copy_on_the_cpu(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: asked.append(tensor) or cpu(tensor))
    tensor = torch.zeros(3, 2)
    written([{"x": tensor}], tmp_path, kind)
    assert len(asked) == 1


def test_tensors_of_rows_whose_shapes_differ_are_lists_in_parquet(tmp_path: Path) -> None:
    lengths = [2, 3, *[2] * 600, 1]  # most of those that are looked at together have one length
    rows = [{"n": n, "ids": torch.arange(n, dtype=torch.int32)} for n in lengths]
    [(url, _)] = written(rows, tmp_path, "parquet", 1000)
    table = pq.read_table(url)
    assert table.schema.field("ids").type.value_type == pa.int32()
    assert table.column("ids").to_pylist() == [[*range(n)] for n in lengths]


def test_numpy_keeps_what_arrow_has_no_type_for(tmp_path: Path) -> None:
    arrays = {
        "complex": np.array([1 + 2j, 3]),
        "empty": np.zeros((2, 0)),
        "day": np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        "fields": np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")]),
    }
    [(url, _)] = written([arrays], tmp_path, "npz")
    with np.load(url) as file:
        assert {name: bits_of(file[name]) for name in file} == {name: bits_of(array) for name, array in arrays.items()}
    times = pa.array([0, None], pa.timestamp("us"))
    [(url, _)] = written([pa.record_batch({"text": ["a", "bcd"], "time": times})], tmp_path, "npz")
    with np.load(url) as file:
        assert file["text"].tolist() == ["a", "bcd"]
        assert file["time"].dtype == "datetime64[us]"
        assert np.isnat(file["time"]).tolist() == [False, True]


# Text and numbers


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "text": TEXTS,
            "int": st.integers(-(2**63), 2**63 - 1),
            "float": st.floats(allow_nan=False, allow_infinity=False),
            "bool": st.booleans(),
        }
    ),
    min_size=1,
    max_size=6,
)


@given(rows=ROWS, kind=st.sampled_from(["csv", "jsonl", "parquet", "npz"]))
@settings(max_examples=40)
def test_text_and_numbers_are_read_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], kind: str
) -> None:
    if kind == "npz":
        rows = [row | {"text": row["text"].rstrip("\0")} for row in rows]
    [(url, number)] = written(rows, tmp_path_factory.mktemp("text"), kind, 100)
    assert number == len(rows)
    if kind == "csv":
        types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
        read = pa.csv.read_csv(
            url,
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(column_types=types),
        ).to_pylist()
        with open(url, encoding="utf-8", newline="") as file:
            assert [row["text"] for row in csv.DictReader(file)] == [row["text"] for row in rows]
    else:
        read = (
            rows_of(url)
            if kind != "jsonl"
            else [json.loads(line) for line in Path(url).read_bytes().split(b"\n") if line]
        )
    assert read == rows


def test_csv_quotes_text_and_has_null_as_an_empty_field(tmp_path: Path) -> None:
    rows = [{"a": "", "b": date(2020, 1, 2)}, {"a": None, "b": None}, {"a": 'q"\n', "b": date(2020, 1, 3)}]
    [(url, _)] = written(rows, tmp_path, "csv")
    assert Path(url).read_text() == '"a","b"\n"",2020-01-02\n,\n"q""\n",2020-01-03\n'


NOON, TEXT = datetime(2024, 8, 31, 12), "2024-08-31T12:00:00"
NANOSECOND = pa.array([1], pa.timestamp("ns", "UTC"))
HALVES = {
    "x": pa.array([np.float16(0.5), None], pa.float16()),
    "y": pa.array([[np.float16(1.5)], []], pa.list_(pa.float16())),
}
NESTED = [{"a": {"b": [1, 2], "c": None}, "d": [], "e": "ü"}, {"a": {"b": [], "c": "x"}, "d": [True], "e": None}]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (NESTED, NESTED),
        ([{"x": torch.arange(8).reshape(2, 2, 2)}], [{"x": [[0, 1], [2, 3]]}, {"x": [[4, 5], [6, 7]]}]),
        ([pa.record_batch(HALVES)], [{"x": 0.5, "y": [1.5]}, {"x": None, "y": []}]),
        (
            [{"day": NOON.date(), "time": time(12, 30), "all": [NOON, None], "in": {"at": NOON}, "no": None}],
            [{"day": "2024-08-31", "time": "12:30:00", "all": [TEXT, None], "in": {"at": TEXT}, "no": None}],
        ),
        ([pa.record_batch({"a": NANOSECOND})], [{"a": "1970-01-01T00:00:00.000000001+00:00"}]),
    ],
    ids=["nested", "tensors", "short floats", "times", "nanoseconds"],
)
def test_what_json_has_for_values(tmp_path: Path, source: list[Any], expected: list[Any]) -> None:
    [(url, _)] = written(source, tmp_path, "jsonl")
    assert rows_of(url) == expected


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_short_floats_are_read_back(tmp_path: Path, kind: str) -> None:
    [(url, _)] = written([{"x": torch.tensor([0.5, 1.5]).half(), "y": torch.ones(2)}], tmp_path, kind)
    assert rows_of(url) == [{"x": 0.5, "y": 1.0}, {"x": 1.5, "y": 1.0}]


def row_of(value: Any) -> list[Any]:
    return [{"id": 1, "x": value}]


TWICE = pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"])


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        *((kind, [3], "an item must be a batch.*or a row .*is of type int") for kind in KINDS),
        *((kind, [{}], "there are no columns") for kind in KINDS),
        *((kind, [TWICE], r"the same name: \['a', 'a'\]") for kind in KINDS),
        *((kind, [{1: torch.zeros(2)}], "the names of columns must be strings, and one is 1") for kind in KINDS),
        *((kind, [{"a": torch.zeros(2), "b": torch.zeros(3)}], "'a' has 2, 'b' has 3") for kind in KINDS),
        ("csv", row_of(b"a"), "the column 'x' is binary, and a field of CSV holds"),
        ("csv", row_of(torch.zeros(2, 2)), "the column 'x' is .*tensor.*write_parquet has a place for it"),
        ("jsonl", row_of(timedelta(1)), "the column 'x' is duration"),
        ("jsonl", row_of([{"a": b"a"}]), "the column 'x' is list<item: struct<a: binary>>"),
        ("jsonl", row_of([1.0, float("inf")]), "the column 'x' has a float that is infinite or not a number in row 0"),
        ("npz", row_of(b"a\0"), "the column 'x' has bytes"),
        ("npz", row_of({"a": 1}), "the column 'x' has values that NumPy could only pickle"),
        ("npz", row_of(torch.zeros(2, dtype=torch.bfloat16)), "the column 'x' has tensors of torch.bfloat16"),
        ("npz", [{"x": "a\0"}, {"x": "b"}], "the column 'x' has text that NumPy would cut short"),
        ("npz", [{"x": "a"}, {"x": 1}], "the column 'x' has text .* mixed with other values"),
        ("npz", [{"x": torch.zeros(2, 3)}, {"x": torch.zeros(2, 4)}], "the column 'x' is .*4.*, and before it was .*3"),
        ("parquet", [{"x": torch.zeros(2, 3)}, {"x": torch.zeros(2, 4)}], "the column 'x' is .*4.*, and before .*3"),
        ("parquet", row_of(object()), "column 'x'"),
        ("parquet", row_of(torch.zeros(2, dtype=torch.bfloat16)), "column 'x'"),
        ("parquet", [{"x": torch.zeros(2, 0)}], "the column 'x' is .* without elements cannot be read back"),
        ("parquet", [pa.record_batch({"x": pa.array([[]], pa.list_(pa.int8(), 0))})], "'x' is .* without elements"),
    ],
)
def test_what_a_file_cannot_hold_is_an_error(tmp_path: Path, kind: str, source: list[Any], message: str) -> None:
    batched = not isinstance(source[0], dict) or ("id" not in source[0] and may_be_batch(source[0]))
    with pytest.raises((TypeError, ValueError), match=message):
        written(source, tmp_path, kind, batched=batched)
    assert contents(tmp_path) == {}


def test_npy_files_are_the_array_of_one_column(tmp_path: Path) -> None:
    files = written([as_tensors(range(7))], tmp_path, "npy", column="id")
    assert [np.load(url).tolist() for url, _ in files] == [[0, 1, 2], [3, 4, 5], [6]]
    assert json.loads(contents(tmp_path)[".train-index.json"])["columns"] == {"id": "int64"}
    with pytest.raises(KeyError, match=r"there is no column 'idd': the columns are \['id', 'text'\]"):
        written([batch(range(2))], tmp_path, "npy", column="idd")


# Rows and batches


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npz"])
def test_the_chain_tells_whether_dicts_are_batches_or_rows(tmp_path: Path, kind: str) -> None:
    item = {"x": torch.arange(6).reshape(3, 2)}
    unknown = IterableWrapper([item, item])
    with pytest.raises(ValueError, match="may be a batch.*or a row.*give batched=True"):
        written(unknown, tmp_path, kind, 10)
    lists = IterableWrapper([{"x": [1, 2]}] * 2)
    assert [rows for _, rows in written(lists, tmp_path, kind, 10)] == [2]
    assert [rows for _, rows in written(lists, tmp_path, kind, 10, batched=True)] == [4]
    for source, rows in ((unknown.to_tensors().prefetch(1), 6), (ps.from_items([item, item]).map(dict), 2)):
        assert [rows for _, rows in written(source, tmp_path, kind, 10)] == [rows]
        assert [rows for _, rows in written(source, tmp_path, kind, 10, batched=True)] == [6]
        assert [rows for _, rows in written(source, tmp_path, kind, 10, batched=False)] == [2]


@pytest.mark.parametrize("rows_per_file", [10, 1])
def test_rows_and_batches_together_are_an_error(tmp_path: Path, rows_per_file: int) -> None:
    row, batch = {"x": 1.0}, pa.record_batch({"x": [1.0, 2.0]})
    for items, what in (([row, batch], "a batch comes among single rows"), ([batch, row], "a single row comes among")):
        with pytest.raises(TypeError, match=what):
            written(IterableWrapper(items), tmp_path, "parquet", rows_per_file)


# Columns that change


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("then", "message"),
    [
        ({"id": torch.zeros(2), "x": torch.zeros(2)}, "the column 'id' is float.*, and before it was int64"),
        ({"id": torch.arange(2)}, "there is no column 'x', and before it the columns were 'id', 'x'"),
        ({"id": torch.arange(2), "x": torch.zeros(2), "y": torch.zeros(2)}, "there is a column 'y'"),
    ],
    ids=["type", "missing", "new"],
)
def test_columns_that_change_are_an_error(tmp_path: Path, kind: str, then: dict[str, Any], message: str) -> None:
    first = {"id": torch.arange(2), "x": torch.zeros(2)}
    for rows_per_file in (100, 2):
        with pytest.raises(ValueError, match=message):
            written([first, then], tmp_path, kind, rows_per_file)
        assert len(contents(tmp_path)) == (rows_per_file == 2)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_other_columns_are_an_error_and_not_those_in_another_order(tmp_path: Path, kind: str) -> None:
    [(url, _)] = written([batch(range(1)), batch(range(1, 2)).select(["text", "id"])], tmp_path, kind)
    assert rows_of(url) == ids(range(2))
    for row, message in (({"id": 1}, "no column 'text'"), ({"id": 1, "text": "", "y": 0}, "a column 'y'")):
        with pytest.raises(ValueError, match=f"{message}, and before it .* 'id', 'text'(.|\n)*on {{'id': 1"):
            written([*ids(range(2)), row], tmp_path, kind)


def rows_of_values(values: list[Any]) -> list[dict[str, Any]]:
    """Rows with a value for as many as are looked at together."""
    return [{"x": value} for value in values for _ in range(256)]


@pytest.mark.parametrize(
    "values",
    [[1.5, None], [1.5, 2], ["a", None, "b"], [[1], []], [[1.5], [2]], [[[1]], [[]], [[None]]]],
    ids=str,
)
def test_rows_are_widened_to_the_types_of_others(tmp_path: Path, values: list[Any]) -> None:
    [(url, _)] = written(rows_of_values(values), tmp_path, "parquet", 10_000)
    assert rows_of(url) == rows_of_values(values)


@pytest.mark.parametrize("rows_per_file", [10_000, 100])
def test_integers_go_among_floats_in_numpy(tmp_path: Path, rows_per_file: int) -> None:
    values = [1.5, 2, -3, 2**53]
    files = written(rows_of_values(values), tmp_path, "npz", rows_per_file)
    assert [row for url, _ in files for row in rows_of(url)] == rows_of_values([1.5, 2.0, -3.0, float(2**53)])


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        *(("npz", rows_of_values(values)) for values in ([1.5, 2**53 + 1], [2**63 + 1, -1], [1, 1.5], [True, 1])),
        ("npz", rows_of_values([1.5, True])),
        ("npz", [{"x": 1.5}, {"x": 2**53 + 1}]),
        ("npz", [{"x": 2**63 + 1}, {"x": -1}]),
        ("npz", [{"x": [1, 2]}, {"x": [3]}]),
        *(("parquet", rows_of_values(values)) for values in ([1, 1.5], ["1", 1], [True, 1], [None, 1])),
        *(("parquet", rows_of_values(values)) for values in ([1.5, 2**53 + 1], [{"a": 1}, {"b": 1}])),
    ],
)
def test_rows_whose_values_would_change_are_an_error(tmp_path: Path, kind: str, rows: list[Any]) -> None:
    with pytest.raises(ValueError, match="the column 'x'" if kind == "npz" else "the column 'x' (is|was) "):
        written(rows, tmp_path, kind, 10_000)


# Row groups


def row_groups(url: str) -> list[int]:
    metadata = pq.read_metadata(url)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


@pytest.mark.parametrize("rows_in_batch", [1, 4, 10])
def test_row_groups_have_as_many_rows_as_asked_for(tmp_path: Path, rows_in_batch: int) -> None:
    batches = [batch(range(start, min(start + rows_in_batch, 25))) for start in range(0, 25, rows_in_batch)]
    files = written(batches, tmp_path, "parquet", 14, rows_per_group=4)
    assert [row_groups(url) for url, _ in files] == [[4, 4, 4, 2], [4, 4, 3]]
    assert [row for url, _ in files for row in rows_of(url)] == ids(range(25))


@pytest.mark.parametrize("rows_in_batch", [1, 40])
def test_without_a_number_row_groups_are_of_a_size_in_memory(tmp_path: Path, rows_in_batch: int) -> None:
    mebibytes = ({"x": torch.full((rows_in_batch, 2**18), float(number))} for number in range(200 // rows_in_batch))
    [(url, number)] = written([*mebibytes], tmp_path, "parquet", 1000)
    groups = row_groups(url)
    assert sum(groups) == number
    assert all(60 <= rows <= 70 for rows in groups[:-1])
    assert len(groups) > 2


def test_what_repeats_is_written_once_but_not_among_floats(tmp_path: Path) -> None:
    columns = {
        "x": pa.array([0.5, 0.5]),
        "features": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3))),
        "image": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3), np.uint8)),
        "more": pa.array([{"kind": "a", "score": 1.0}] * 2),
        "counts": pa.array([[("a", 1.0)]] * 2, pa.map_(pa.string(), pa.float32())),
    }
    [(url, _)] = written([pa.record_batch(columns)], tmp_path, "parquet", compression="zstd")
    group = pq.read_metadata(url).row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    repeating = {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}
    assert repeating == {"image.list.element", "more.kind", "counts.key_value.key"}
    assert {chunk.compression for chunk in chunks} == {"ZSTD"}


# Arguments and failures


def failing_at(number: int) -> Callable[[Any], Any]:
    def check(item: Any) -> Any:
        place = item["id"] if isinstance(item, dict) else item.column("id")[0].as_py()
        if place >= number:
            raise RuntimeError("no more")
        return item

    return check


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", [ids(range(7)), [batch(range(n, n + 1)) for n in range(7)]], ids=["rows", "batches"])
def test_a_failing_source_leaves_the_earlier_file(tmp_path: Path, kind: str, source: list[Any]) -> None:
    written([batch(range(10, 17))], tmp_path, kind)
    before = contents(tmp_path)
    iterator = iter(writing(IterableWrapper(source).map(failing_at(5)), tmp_path, kind, 3))
    assert next(iterator) == (f"{tmp_path}/train-0000.{kind}", 3)
    with pytest.raises(RuntimeError, match="no more"):
        next(iterator)
    after = contents(tmp_path)
    assert after.keys() == before.keys()
    assert [name for name in before if after[name] != before[name]] == [f"train-0000.{kind}"]


@given(
    sizes=st.lists(st.integers(0, 7), max_size=8),
    rows_per_file=st.integers(1, 8),
    kind=st.sampled_from(KINDS),
    rows=st.booleans(),
    stops=st.lists(st.integers(0, 4), max_size=3),
)
@settings(max_examples=50)
def test_each_row_is_written_once_however_often_it_stops(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    rows_per_file: int,
    kind: str,
    rows: bool,
    stops: list[int],
) -> None:
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    ranges = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    source = ids(range(sum(sizes))) if rows else [as_tensors(numbers) for numbers in ranges]
    folder = tmp_path_factory.mktemp("stopped")
    files: list[tuple[str, int]] = []
    state: dict[str, Any] | None = None
    finished: dict[str, int] = {}
    for stop in [*stops, None]:
        dp = writing(IterableWrapper(source).filter(lambda _: True), folder, kind, rows_per_file, batched=not rows)
        if state is not None:
            dp.load_state_dict(state)
        before = len(files)
        files += islice(iter(dp), stop)
        finished |= {url: os.stat(url).st_ino for url, _ in files[before:]}
        if stop is None or len(files) - before < stop:  # at its end, after which a state would be that of a new pass
            break
        state = passed_on(dp)
    assert [number for _, number in files] == [
        min(rows_per_file, sum(sizes) - start) for start in range(0, sum(sizes), rows_per_file)
    ]
    assert [row for url, _ in files for row in rows_of(url)] == ids(range(sum(sizes)))
    assert finished == {url: os.stat(url).st_ino for url, _ in files}  # no finished file is written again
    index = json.loads(contents(folder)[".train-index.json"])["shards"]
    assert [(shard["name"], shard["rows"]) for shard in index] == [(os.path.basename(url), n) for url, n in files]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_chain_knows_the_columns_of_before(tmp_path: Path, kind: str) -> None:
    def make() -> Any:
        return writing([{"x": torch.arange(2)}, {"x": torch.zeros(2)}], tmp_path, kind, 2)

    dp = make()
    next(iter(dp))
    resumed = make()
    resumed.load_state_dict(passed_on(dp))
    with pytest.raises(ValueError, match="the column 'x' is float"):
        list(resumed)


@pytest.mark.parametrize(("kind", "shape"), [("parquet", "dicts of tensors"), ("npz", "tables")])
def test_batches_of_all_kinds_hold_the_laws(tmp_path: Path, kind: str, shape: str) -> None:
    check_operator(lambda: writing(SHAPES[shape](), tmp_path, kind, 2))
