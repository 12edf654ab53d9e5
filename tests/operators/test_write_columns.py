from __future__ import annotations

import csv
import hashlib
import json
import os
import pickle
import subprocess
import sys
import textwrap
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from functools import partial
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
from botocore.exceptions import BotoCoreError
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock import MultiProcessingReadingService
from penstock.pipes.bases.writing.write_shards import CountedFile
from penstock.pipes.columns.rows_or_batches import may_be_batch
from penstock.pipes.columns.tensors import tensor_of
from penstock.pipes.iter import IterableWrapper, ParquetWriter
from penstock.pipes.sources.columns import read_csv, read_json, read_parquet
from penstock.registry import SHARDING_PRIORITIES, apply_sharding
from penstock.testing import check_operator
from resuming import assert_resumes_everywhere, passed_on
from s3 import S3Server, uploads_under_way

OPTIONS: dict[str, Any] = {"config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 5}}
"""Of a client that gives up soon."""

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
    assert sorted(contents(tmp_path)) == ["_train-index.json", *map(os.path.basename, urls)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_index_tells_of_each_file_what_is_in_it(tmp_path: Path, kind: str) -> None:
    written(ids(range(7)), tmp_path, kind)
    files = contents(tmp_path)
    index = json.loads(files.pop("_train-index.json"))
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", [[], [batch(range(0))]], ids=["nothing", "a batch without rows"])
def test_no_rows_are_no_files_and_an_index_without_any(tmp_path: Path, kind: str, source: list[Any]) -> None:
    assert written(source, tmp_path, kind) == []
    assert [*contents(tmp_path)] == ["_train-index.json"]
    assert json.loads(contents(tmp_path)["_train-index.json"])["shards"] == []


def test_the_index_does_not_get_in_the_way_of_those_who_read_a_folder(tmp_path: Path) -> None:
    for kind, name in (("parquet", "parquet"), ("csv", "csv"), ("jsonl", "json")):
        written(ids(range(7)), tmp_path / kind, kind)
        table = pa.dataset.dataset(tmp_path / kind, format=name).to_table().sort_by("id")
        assert table.to_pylist() == ids(range(7))


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(1, 8), st.sampled_from(KINDS))
@settings(max_examples=60)
def test_however_batches_are_cut_files_have_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], rows_per_file: int, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    batches = [as_tensors(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    files = written(batches, folder, kind, rows_per_file)
    total = sum(sizes)
    assert [rows for _, rows in files] == [
        min(rows_per_file, total - start) for start in range(0, total, rows_per_file)
    ]
    assert [row for url, _ in files for row in rows_of(url)] == ids(range(total))


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
@settings(max_examples=100)
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


def test_a_tensor_column_says_in_the_file_what_a_row_is(tmp_path: Path) -> None:
    [(url, _)] = written([{"image": torch.zeros(2, 3, 4, dtype=torch.uint8)}], tmp_path, "parquet")
    kind = pq.read_table(url).column("image").type
    assert kind == pa.fixed_shape_tensor(pa.uint8(), [3, 4])
    index = json.loads(contents(tmp_path)["_train-index.json"])
    assert index["columns"] == {"image": str(kind)}


def test_tensors_that_require_gradients_and_parts_of_tensors_are_written(tmp_path: Path) -> None:
    whole = torch.arange(24.0).reshape(6, 4).requires_grad_()
    [(url, _)] = written([{"x": whole.T[:, ::2]}], tmp_path, "parquet", 9)
    assert _tensor(pq.read_table(url).column("x")).tolist() == whole.T[:, ::2].tolist()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npz"])
def test_tensors_on_a_gpu_are_brought_to_main_memory(tmp_path: Path, kind: str) -> None:
    [(url, _)] = written([{"x": torch.arange(6, device="cuda").reshape(3, 2)}], tmp_path, kind)
    assert [[*row["x"]] for row in rows_of(url)] == [[0, 1], [2, 3], [4, 5]]


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


def test_tensors_are_lists_in_json(tmp_path: Path) -> None:
    [(url, _)] = written([{"x": torch.arange(8).reshape(2, 2, 2)}], tmp_path, "jsonl")
    assert rows_of(url) == [{"x": [[0, 1], [2, 3]]}, {"x": [[4, 5], [6, 7]]}]


@pytest.mark.parametrize("value", [torch.zeros(2, 2), np.zeros((2, 1, 1))], ids=["tensor", "array"])
def test_tensors_in_csv_are_an_error(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TypeError, match=r"the column 'x' is .*tensor.*write_parquet has a place for it"):
        written([{"id": torch.arange(2), "x": value}], tmp_path, "csv")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    "values",
    [torch.zeros(2, 0), torch.zeros(2, 2, 0), pa.array([[], []], pa.list_(pa.int8(), 0))],
    ids=["tensor", "matrix", "list"],
)
def test_tensors_without_elements_are_an_error_in_parquet(tmp_path: Path, values: Any) -> None:
    with pytest.raises(TypeError, match="the column 'x' is .* without elements cannot be read back from Parquet"):
        written([{"id": torch.arange(2), "x": values}], tmp_path, "parquet", batched=True)
    assert contents(tmp_path) == {}


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


def test_numpy_takes_text_and_times_of_arrow(tmp_path: Path) -> None:
    times = pa.array([0, None], pa.timestamp("us"))
    [(url, _)] = written([pa.record_batch({"text": ["a", "bcd"], "time": times})], tmp_path, "npz")
    with np.load(url) as file:
        assert file["text"].tolist() == ["a", "bcd"]
        assert file["time"].dtype == "datetime64[us]"
        assert np.isnat(file["time"]).tolist() == [False, True]


def test_what_was_written_is_read_back_by_the_readers_of_the_package(tmp_path: Path) -> None:
    image = torch.arange(7 * 4).reshape(7, 2, 2).to(torch.uint8)
    written([as_tensors(range(7)) | {"image": image}], tmp_path / "parquet", "parquet")
    batches = [*read_parquet(tmp_path / "parquet").to_tensors()]
    assert torch.equal(torch.cat([part["image"] for part in batches]), image)
    again = written(read_parquet(tmp_path / "parquet").rows(), tmp_path / "again", "parquet", 10)
    assert [rows for _, rows in again] == [7]
    assert pq.read_table(again[0][0]).schema == pq.read_table(tmp_path / "parquet" / "train-0000.parquet").schema
    for kind, read in (("csv", read_csv), ("jsonl", read_json)):
        written(ids(range(7)), tmp_path / kind, kind)
        assert [*read(tmp_path / kind).rows()] == ids(range(7))


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
@settings(max_examples=100)
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


def test_null_is_an_empty_field_in_csv_and_empty_text_is_quoted(tmp_path: Path) -> None:
    [(url, _)] = written([{"a": "", "b": 1}, {"a": None, "b": None}, {"a": 'q"\n', "b": 2}], tmp_path, "csv")
    assert Path(url).read_text() == '"a","b"\n"",1\n,\n"q""\n",2\n'


def test_null_in_a_csv_of_one_column_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the column 'a' has null in row 1, and is the only column"):
        written([{"a": 1}, {"a": None}], tmp_path, "csv")


def test_times_are_written_to_csv(tmp_path: Path) -> None:
    rows = [{"day": date(2020, 1, 2), "time": datetime(2020, 1, 2, 3, 4, 5)}]
    [(url, _)] = written(rows, tmp_path, "csv")
    assert rows_of(url) == rows


def test_json_has_dicts_lists_and_null(tmp_path: Path) -> None:
    rows = [{"a": {"b": [1, 2], "c": None}, "d": [], "e": "ü"}, {"a": {"b": [], "c": "x"}, "d": [True], "e": None}]
    [(url, _)] = written(rows, tmp_path, "jsonl")
    assert rows_of(url) == rows
    assert pa.json.read_json(url).to_pylist() == rows


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "npz"])
def test_short_floats_are_read_back(tmp_path: Path, kind: str) -> None:
    [(url, _)] = written([{"x": torch.tensor([0.5, 1.5]).half(), "y": torch.ones(2)}], tmp_path, kind)
    assert rows_of(url) == [{"x": 0.5, "y": 1.0}, {"x": 1.5, "y": 1.0}]


def test_short_floats_in_lists_and_beside_null_are_read_back_from_json(tmp_path: Path) -> None:
    half = pa.float16()
    columns = {"x": pa.array([np.float16(0.5), None], half), "y": pa.array([[np.float16(1.5)], []], pa.list_(half))}
    [(url, _)] = written([pa.record_batch(columns)], tmp_path, "jsonl")
    assert rows_of(url) == [{"x": 0.5, "y": [1.5]}, {"x": None, "y": []}]


def test_times_in_json_are_text_of_iso_8601(tmp_path: Path) -> None:
    noon = datetime(2024, 8, 31, 12)
    row = {"a": noon, "b": date(2024, 8, 31), "c": time(12, 30), "d": [noon, None], "e": {"at": noon}, "f": None}
    [(url, _)] = written([row], tmp_path, "jsonl")
    text = noon.isoformat()
    expected = {"a": text, "b": "2024-08-31", "c": "12:30:00", "d": [text, None], "e": {"at": text}, "f": None}
    assert rows_of(url) == [expected]
    nanos = pa.array([1], pa.timestamp("ns", "UTC"))
    [(url, _)] = written([pa.record_batch({"a": nanos})], tmp_path / "nanos", "jsonl")
    assert rows_of(url) == [{"a": "1970-01-01T00:00:00.000000001+00:00"}]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1.0, float("nan")]])
def test_what_json_has_no_number_for_is_an_error_that_names_the_column(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match="the column 'x' has a float that is infinite or not a number in row 0"):
        written([{"id": 1, "x": value}], tmp_path, "jsonl")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("csv", b"a", "the column 'x' is binary, and a field of CSV holds"),
        ("csv", [1], "the column 'x' is list<item: int64>"),
        ("csv", {"a": 1}, "the column 'x' is struct<a: int64>"),
        ("jsonl", b"a", "the column 'x' is binary, and JSON holds"),
        ("jsonl", timedelta(1), "the column 'x' is duration"),
        ("jsonl", [{"a": b"a"}], "the column 'x' is list<item: struct<a: binary>>"),
        ("npz", b"a\0", "the column 'x' has bytes"),
        ("npz", None, "the column 'x' has values that NumPy could only pickle"),
        ("npz", {"a": 1}, "the column 'x' has values that NumPy could only pickle"),
        ("npz", torch.zeros(2, dtype=torch.bfloat16), "the column 'x' has tensors of torch.bfloat16"),
        ("parquet", object(), "column 'x'"),
        ("parquet", torch.zeros(2, dtype=torch.bfloat16), "column 'x'"),
        ("parquet", torch.zeros(2, dtype=torch.complex64), "column 'x'"),
    ],
)
def test_what_a_file_cannot_hold_is_an_error_that_names_the_column(
    tmp_path: Path, kind: str, value: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        written([{"id": 1, "x": value}], tmp_path, kind)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("values", [["a\0", "b"], ["a", 1]], ids=["a trailing NUL", "a number"])
def test_text_that_numpy_would_change_is_an_error(tmp_path: Path, values: list[Any]) -> None:
    with pytest.raises(
        ValueError, match="the column 'x' has text that NumPy would cut short, or is mixed with other values"
    ):
        written([{"x": value} for value in values], tmp_path, "npz")


def test_rows_of_different_shapes_are_an_error_in_numpy_that_names_column_and_row(tmp_path: Path) -> None:
    rows = [{"id": number, "x": torch.zeros(2 if number < 2 else 3)} for number in range(3)]
    with pytest.raises(ValueError, match=r"the column 'x' has the shape \(3,\) in row 2 of those .* \(2,\) in row 0"):
        written(rows, tmp_path, "npz")


def test_npy_files_are_the_array_of_one_column(tmp_path: Path) -> None:
    files = written([as_tensors(range(7))], tmp_path, "npy", column="id")
    assert [np.load(url).tolist() for url, _ in files] == [[0, 1, 2], [3, 4, 5], [6]]
    assert json.loads(contents(tmp_path)["_train-index.json"])["columns"] == {"id": "int64"}
    with pytest.raises(KeyError, match=r"there is no column 'idd': the columns are \['id', 'text'\]"):
        written([batch(range(2))], tmp_path, "npy", column="idd")
    for kind, column in (("npy", None), ("npz", "id")):
        with pytest.raises(ValueError, match="an .npy file has one array, which column names, and an .npz file all"):
            writing([], tmp_path, kind, 3, column=column)


# Rows and batches


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "npz"])
def test_the_chain_tells_whether_dicts_of_tensors_are_batches_or_rows(tmp_path: Path, kind: str) -> None:
    item = {"x": torch.arange(6).reshape(3, 2)}
    unknown = IterableWrapper([item, item])
    for source, rows in ((unknown.to_tensors().prefetch(1), 6), (ps.from_items([item, item]).map(dict), 2)):
        assert [rows for _, rows in written(source, tmp_path, kind, 10)] == [rows]
        assert [rows for _, rows in written(source, tmp_path, kind, 10, batched=True)] == [6]
        assert [rows for _, rows in written(source, tmp_path, kind, 10, batched=False)] == [2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("item", [{"x": torch.zeros(2)}, {"x": np.zeros(2), "text": ["a", "b"]}])
def test_a_dict_of_tensors_of_which_the_chain_does_not_tell_is_an_error(tmp_path: Path, kind: str, item: Any) -> None:
    with pytest.raises(ValueError, match="may be a batch.*or a row.*give batched=True") as caught:
        written(IterableWrapper([item]), tmp_path, kind)
    assert "Writer(" in caught.value.__notes__[0]
    assert contents(tmp_path) == {}


def test_images_that_are_read_are_rows(tmp_path: Path) -> None:
    for number in range(2):
        Image.new("L", (3, 3)).save(tmp_path / f"{number}.png")
    images = ps.iter.FileLister(str(tmp_path)).read_images()
    assert [rows for _, rows in written(images, tmp_path / "out", "parquet", 10)] == [2]


def test_a_dict_of_lists_alone_is_a_row_and_can_be_called_a_batch(tmp_path: Path) -> None:
    item = {"x": [1, 2, 3]}
    assert [rows for _, rows in written([item], tmp_path, "parquet", 10)] == [1]
    assert [rows for _, rows in written([item], tmp_path, "parquet", 10, batched=True)] == [3]


@pytest.mark.parametrize("rows_per_file", [10, 1])
def test_batches_among_rows_and_rows_among_batches_are_errors(tmp_path: Path, rows_per_file: int) -> None:
    row, batch = {"x": 1.0}, pa.record_batch({"x": [1.0, 2.0]})
    with pytest.raises(TypeError, match="a batch comes among single rows: batched="):
        written(IterableWrapper([row, batch]), tmp_path, "parquet", rows_per_file)
    with pytest.raises(TypeError, match="a single row comes among batches: batched="):
        written(IterableWrapper([batch, row]), tmp_path, "parquet", rows_per_file)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        (3, TypeError, "an item must be a batch.*or a row .*is of type int"),
        ({}, ValueError, "there are no columns"),
        (pa.record_batch([pa.array([1]), pa.array([2])], names=["a", "a"]), ValueError, r"the same name: \['a', 'a'\]"),
        ({1: torch.zeros(2)}, TypeError, "the names of columns must be strings, and one is 1"),
        ({"a": torch.zeros(2), "b": torch.zeros(3)}, ValueError, "'a' has 2, 'b' has 3"),
    ],
    ids=["number", "empty", "twice", "name", "lengths"],
)
def test_what_is_neither_batch_nor_row_is_an_error(
    tmp_path: Path, kind: str, item: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        written([item], tmp_path, kind)
    assert contents(tmp_path) == {}


# Columns that change


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_per_file", [100, 2], ids=["in a file", "in the next file"])
@pytest.mark.parametrize(
    ("then", "message"),
    [
        ({"id": torch.zeros(2), "x": torch.zeros(2)}, "the column 'id' is float.*, and before it was int64"),
        ({"id": torch.arange(2)}, "there is no column 'x', and before it the columns were 'id', 'x'"),
        ({"id": torch.arange(2), "x": torch.zeros(2), "y": torch.zeros(2)}, "there is a column 'y'"),
    ],
    ids=["type", "missing", "new"],
)
def test_columns_that_change_between_batches_are_an_error_that_names_the_column(
    tmp_path: Path, kind: str, rows_per_file: int, then: dict[str, Any], message: str
) -> None:
    first = {"id": torch.arange(2), "x": torch.zeros(2)}
    with pytest.raises(ValueError, match=message):
        written([first, then], tmp_path, kind, rows_per_file)
    assert len(contents(tmp_path)) == (rows_per_file == 2)


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_the_shape_of_a_tensor_is_part_of_its_column(tmp_path: Path, kind: str) -> None:
    batches = [{"x": torch.zeros(2, 3)}, {"x": torch.zeros(2, 4)}]
    with pytest.raises(ValueError, match=r"the column 'x' is .*4.*, and before it was .*3"):
        written(batches, tmp_path, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_in_another_order_are_the_same(tmp_path: Path, kind: str) -> None:
    [(url, _)] = written([batch(range(1)), batch(range(1, 2)).select(["text", "id"])], tmp_path, kind)
    assert rows_of(url) == ids(range(2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("row", "message"), [({"id": 1}, "no column 'text'"), ({"id": 1, "text": "", "y": 0}, "a column 'y'")]
)
def test_a_row_with_other_columns_is_an_error_that_names_the_column(
    tmp_path: Path, kind: str, row: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"{message}, and before it the columns were 'id', 'text'(.|\n)*on {{'id': 1"):
        written([*ids(range(2)), row], tmp_path, kind)


def rows_of_values(values: list[Any]) -> list[dict[str, Any]]:
    """Rows with a value for as many as are looked at together."""
    return [{"x": value} for value in values for _ in range(256)]


@pytest.mark.parametrize(
    "values",
    [[1.5, None], [1.5, 2], ["a", None, "b"], [[1], []], [[1.5], [2]], [[[1]], [[]], [[None]]]],
    ids=str,
)
def test_rows_may_have_null_no_elements_and_integers_where_others_have_more(tmp_path: Path, values: list[Any]) -> None:
    [(url, _)] = written(rows_of_values(values), tmp_path, "parquet", 10_000)
    assert rows_of(url) == rows_of_values(values)


@pytest.mark.parametrize("rows_per_file", [10_000, 100])
def test_integers_go_among_floats_in_numpy(tmp_path: Path, rows_per_file: int) -> None:
    values = [1.5, 2, -3, 2**53]
    files = written(rows_of_values(values), tmp_path, "npz", rows_per_file)
    assert [row for url, _ in files for row in rows_of(url)] == rows_of_values([1.5, 2.0, -3.0, float(2**53)])


@pytest.mark.parametrize(
    "values", [[1.5, 2**53 + 1], [2**63 + 1, 1], [2**63 + 1, -1], [1, 1.5], [True, 1], [1.5, True]]
)
@pytest.mark.parametrize("together", [True, False])
def test_numbers_that_would_change_are_an_error_in_numpy(tmp_path: Path, values: list[Any], together: bool) -> None:
    rows = [{"x": value} for value in values] if together else rows_of_values(values)
    if together and values in ([1, 1.5], [True, 1], [1.5, True]):
        assert len(written(rows, tmp_path, "npz")) == 1  # the types of these are found out from all of them
        return
    with pytest.raises(ValueError, match="the column 'x' "):
        written(rows, tmp_path, "npz", 10_000)


@pytest.mark.parametrize(
    "values",
    [[1, 1.5], [1, "1"], ["1", 1], [True, 1], [1, True], [None, 1], [1.5, 2**53 + 1], [{"a": 1}, {"b": 1}]],
    ids=str,
)
def test_rows_whose_values_would_change_are_an_error_that_names_the_column(tmp_path: Path, values: list[Any]) -> None:
    with pytest.raises(ValueError, match="the column 'x' (is|was) "):
        written(rows_of_values(values), tmp_path, "parquet", 10_000)


def test_rows_that_were_given_a_type_are_written_as_that(tmp_path: Path) -> None:
    rows = IterableWrapper(rows_of_values([None, 1, 1.5])).dataframe(dtype=pa.schema([("x", pa.float32())]))
    [(url, _)] = written(rows, tmp_path, "parquet", 10_000)
    assert rows_of(url) == rows_of_values([None, 1, 1.5])


# Row groups


def row_groups(url: str) -> list[int]:
    metadata = pq.read_metadata(url)
    return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]


@pytest.mark.parametrize("rows_in_batch", [1, 3, 4, 10, 25])
def test_row_groups_have_as_many_rows_as_asked_for(tmp_path: Path, rows_in_batch: int) -> None:
    batches = [batch(range(start, min(start + rows_in_batch, 25))) for start in range(0, 25, rows_in_batch)]
    files = written(batches, tmp_path, "parquet", 14, rows_per_group=4)
    assert [row_groups(url) for url, _ in files] == [[4, 4, 4, 2], [4, 4, 3]]
    assert [row for url, _ in files for row in rows_of(url)] == ids(range(25))


@pytest.mark.parametrize("rows_in_batch", [1, 7, 40])
def test_without_a_number_row_groups_are_of_a_size_in_memory(tmp_path: Path, rows_in_batch: int) -> None:
    mebibytes = ({"x": torch.full((rows_in_batch, 2**18), float(number))} for number in range(200 // rows_in_batch))
    [(url, number)] = written([*mebibytes], tmp_path, "parquet", 1000)
    groups = row_groups(url)
    assert sum(groups) == number
    assert all(60 <= rows <= 70 for rows in groups[:-1])
    assert len(groups) > 2


def test_what_repeats_is_written_once_but_not_among_floats(tmp_path: Path) -> None:
    columns = {
        "id": pa.array([1, 2]),
        "x": pa.array([0.5, 0.5]),
        "features": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3))),
        "image": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3), np.uint8)),
        "tags": pa.array([["a"], ["b"]]),
        "more": pa.array([{"kind": "a", "score": 1.0}] * 2),
        "counts": pa.array([[("a", 1.0)]] * 2, pa.map_(pa.string(), pa.float32())),
        "pairs": pa.array([["a", "b"]] * 2, pa.list_(pa.string(), 2)),
    }
    [(url, _)] = written([pa.record_batch(columns)], tmp_path, "parquet")
    group = pq.read_metadata(url).row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    assert {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page} == {
        "id",
        "image.list.element",
        "tags.list.element",
        "more.kind",
        "counts.key_value.key",
        "pairs.list.element",
    }


# Arguments


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "npz"])
@pytest.mark.parametrize("template", ["train-{shard}", "train.{kind}", "{shard}{shard}.{kind}", "{x}.{kind}"])
def test_a_template_without_the_number_of_the_file_is_an_error(kind: str, template: str) -> None:
    write = getattr(IterableWrapper([]), WRITERS.get(kind, "write_numpy"))
    with pytest.raises(ValueError, match=rf"url_template must have the number of a shard once, as in .*\.{kind}'"):
        write(template.replace("{kind}", kind), 3)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_numbers_are_errors_at_construction(kind: str) -> None:
    with pytest.raises(ValueError, match="rows_per_file must be"):
        writing([], "x", kind, 0)
    with pytest.raises(TypeError, match="rows_per_file must be"):
        writing([], "x", kind, "many")  # type: ignore[arg-type]


def test_a_compression_that_there_is_not_is_an_error_at_construction(tmp_path: Path) -> None:
    for wrong in ("fast", 3):
        with pytest.raises(ValueError, match="compression must be one that Parquet has"):
            writing([], tmp_path, "parquet", 3, compression=wrong)
    [(url, _)] = written(ids(range(3)), tmp_path, "parquet", compression="zstd")
    assert pq.read_metadata(url).row_group(0).column(0).compression == "ZSTD"


def test_options_of_the_file_system_are_not_shown() -> None:
    dp = IterableWrapper([]).write_parquet("s3://b/{shard}.parquet", 1, storage_options={"secret": "hunter2"})
    assert "hunter2" not in repr(dp)
    assert "hunter2" not in str(vars(dp).keys())


# Failing and going on


def failing_at(number: int) -> Callable[[Any], Any]:
    def check(item: Any) -> Any:
        place = item["id"] if isinstance(item, dict) else item.column("id")[0].as_py()
        if place >= number:
            raise RuntimeError("no more")
        return item

    return check


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", [ids(range(7)), [batch(range(n, n + 1)) for n in range(7)]], ids=["rows", "batches"])
def test_a_source_that_fails_in_a_file_leaves_the_earlier_one_and_nothing_else(
    tmp_path: Path, kind: str, source: list[Any]
) -> None:
    written([batch(range(10, 17))], tmp_path, kind)
    before = contents(tmp_path)
    iterator = iter(writing(IterableWrapper(source).map(failing_at(5)), tmp_path, kind, 3))
    assert next(iterator) == (f"{tmp_path}/train-0000.{kind}", 3)
    with pytest.raises(RuntimeError, match="no more"):
        next(iterator)
    after = contents(tmp_path)
    assert after.keys() == before.keys()
    assert [name for name in before if after[name] != before[name]] == [f"train-0000.{kind}"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_writing_resumes_after_each_file_and_writes_no_finished_one_again(
    tmp_path: Path, kind: str, shape: str
) -> None:
    written(SHAPES[shape](), tmp_path / "whole", kind, 2)
    expected = contents(tmp_path / "whole")
    for finished in range(5):
        folder = tmp_path / str(finished)
        interrupted = writing(SHAPES[shape](), folder, kind, 2)
        iterator = iter(interrupted)
        list(islice(iterator, finished))
        state = passed_on(interrupted)
        files = sorted(contents(folder)) if folder.exists() else []
        assert files == [f"train-000{number}.{kind}" for number in range(finished)]
        for name in files:
            (folder / name).write_bytes(b"as it was")
        resumed = writing(SHAPES[shape](), folder, kind, 2)
        resumed.load_state_dict(state)
        assert len(list(resumed)) == 4 - finished
        assert contents(folder) == expected | dict.fromkeys(files, b"as it was")


@given(
    sizes=st.lists(st.integers(0, 7), max_size=8),
    rows_per_file=st.integers(1, 8),
    rows=st.booleans(),
    stops=st.lists(st.integers(0, 4), max_size=3),
)
@settings(max_examples=100)
def test_however_often_writing_is_stopped_each_row_is_written_once(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], rows_per_file: int, rows: bool, stops: list[int]
) -> None:
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    ranges = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    source = ids(range(sum(sizes))) if rows else [batch(numbers) for numbers in ranges]
    folder = tmp_path_factory.mktemp("stopped")
    files: list[tuple[str, int]] = []
    state: dict[str, Any] | None = None
    for stop in [*stops, None]:
        dp = writing(IterableWrapper(source).filter(lambda _: True), folder, "parquet", rows_per_file)
        if state is not None:
            dp.load_state_dict(state)
        iterator = iter(dp)
        before = len(files)
        files += islice(iterator, stop)
        if stop is None or len(files) - before < stop:  # at its end, after which a state would be that of a new pass
            break
        state = passed_on(dp)
        if next(iterator, None) is not None:
            os.unlink(f"{folder}/train-{len(files):04d}.parquet")  # as if it had not been finished
    assert [row for url, _ in files for row in rows_of(url)] == ids(range(sum(sizes)))
    index = json.loads(contents(folder)["_train-index.json"])["shards"]
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


def test_rows_are_widened_to_the_types_of_before_when_resumed(tmp_path: Path) -> None:
    def make() -> Any:
        return writing([{"x": 1.5}, {"x": 2}, {"x": None}], tmp_path, "parquet", 1)

    dp = make()
    next(iter(dp))
    resumed = make()
    resumed.load_state_dict(passed_on(dp))
    assert [pq.read_table(url).schema.field("x").type for url, _ in resumed] == [pa.float64()] * 2


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "npz"])
@pytest.mark.parametrize("shape", SHAPES)
def test_states_hold_everywhere_and_after_copies(tmp_path: Path, kind: str, shape: str) -> None:
    def make(rows_per_file: int) -> Any:
        return writing(SHAPES[shape](), tmp_path, kind, rows_per_file)

    for rows_per_file in (1, 2, 10):
        assert_resumes_everywhere(partial(make, rows_per_file), passes=2)
    assert list(pickle.loads(pickle.dumps(make(2)))) == list(make(2))


@pytest.mark.parametrize("kind", ["parquet", "npz"])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_kinds_of_items_hold_the_laws(tmp_path: Path, kind: str, shape: str) -> None:
    check_operator(lambda: writing(SHAPES[shape](), tmp_path, kind, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_files_have_the_same_bytes_when_they_are_written_again(tmp_path: Path, kind: str) -> None:
    for folder in ("one", "two"):
        written(SHAPES["batches of Arrow"](), tmp_path / folder, kind)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    if kind == "npz":
        with zipfile.ZipFile(tmp_path / "one" / "train-0000.npz") as file:
            assert {entry.date_time[0] for entry in file.infolist()} == {1980}


def test_a_source_is_closed_when_a_file_cannot_be_written(tmp_path: Path) -> None:
    class Source(ps.IterDataPipe[Any]):
        closed = False

        def __iter__(self) -> Iterator[Any]:
            try:
                for number in range(7):
                    yield batch(range(number, number + 1))
            finally:
                self.closed = True

    source = Source()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="while writing") as caught:
        written(source, tmp_path / "file", "parquet")
    assert source.closed
    del caught


def test_a_file_that_failed_is_given_no_more() -> None:
    class Full:
        tried = 0

        def write(self, content: bytes) -> int:
            self.tried += 1
            raise OSError("no space left")

    file: Any = Full()
    sizes: list[int] = []
    counted = CountedFile(file, sizes.append)
    with pytest.raises(OSError, match="no space left"):
        counted.write(b"the beginning")
    assert counted.write(b"the end") == 7
    assert (file.tried, sizes) == (1, [])


# Several readers


def check_parts(folder: Path, parts: int) -> None:
    """All rows must be in the files once, each file in one index, with its digest."""
    files = contents(folder)
    indices = {name: json.loads(content) for name, content in files.items() if name.endswith(".json")}
    assert indices.keys() == {f"_train-index-{part}-of-{parts}.json" for part in range(parts)}
    told = {shard["name"]: shard["sha256"] for index in indices.values() for shard in index["shards"]}
    assert told == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name.endswith(".parquet")
    }
    rows = pa.dataset.dataset(folder, format="parquet").to_table().sort_by("id").to_pylist()
    assert rows == ids(range(7))


def test_the_parts_of_all_levels_write_files_of_their_own(tmp_path: Path) -> None:
    for rank in range(2):
        for worker in range(2):
            dp = writing(IterableWrapper(ids(range(7))).sharding_filter(), tmp_path, "parquet", 1)
            apply_sharding(dp, 2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
            apply_sharding(dp, 2, worker, SHARDING_PRIORITIES.MULTIPROCESSING)
            list(dp)
    check_parts(tmp_path, 4)
    assert rows_of(tmp_path / "train-0005.parquet") == ids(range(5, 6))


def test_workers_write_the_same_however_many_there_are(tmp_path: Path) -> None:
    seen = []
    for workers in (0, 2):
        folder = tmp_path / str(workers)
        dp = writing(IterableWrapper(ids(range(7))).sharding_filter(), folder, "parquet", 2)
        service = MultiProcessingReadingService(workers, num_shards=3)
        with ps.DataLoader2(dp, reading_service=service) as loader:
            seen.append(sorted((os.path.basename(url), number) for url, number in loader))
        check_parts(folder, 3)
    assert seen[0] == seen[1]
    assert contents(tmp_path / "0") == contents(tmp_path / "2")


def test_a_loader_resumes_in_the_middle_and_all_is_there_once(tmp_path: Path) -> None:
    def make() -> Any:
        dp = writing(IterableWrapper(ids(range(7))).sharding_filter(), tmp_path, "parquet", 1)
        return ps.DataLoader2(dp, reading_service=MultiProcessingReadingService(2, num_shards=2))

    with make() as loader:
        first = list(islice(loader, 3))
        state = json.loads(json.dumps(loader.state_dict()))
    with make() as loader:
        loader.load_state_dict(state)
        rest = list(loader)
    assert len(first + rest) == 7
    check_parts(tmp_path, 2)


def test_a_stream_whose_parts_are_not_known_is_refused() -> None:
    divided = IterableWrapper(ids(range(7))).sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    for kind in KINDS:
        with pytest.raises(ValueError, match="the parts would overwrite each other's shards: divide the stream by"):
            writing(divided.map(lambda row: row), "x", kind, 1)


# Object stores


@pytest.fixture
def bucket(s3_server: S3Server) -> Path:
    """The folder behind the bucket `columns`, which is empty."""
    return s3_server.empty_bucket("columns")


def large(number: int, mebibytes: int = 4) -> Iterator[dict[str, Any]]:
    """Batches of one row, of so many mebibytes that do not compress."""
    generator = torch.Generator().manual_seed(0)
    for place in range(number):
        noise = torch.randint(256, (1, mebibytes, 2**20), generator=generator, dtype=torch.uint8)
        yield {"id": torch.tensor([place]), "x": noise}


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_written_to_s3(bucket: Path, kind: str, tmp_path: Path) -> None:
    files = written(ids(range(7)), "s3://columns", kind)
    assert files[0] == (f"s3://columns/train-0000.{kind}", 3)
    written(ids(range(7)), tmp_path, kind)
    assert contents(bucket) == contents(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_large_files_go_in_parts_and_are_the_same_as_local_ones(
    bucket: Path, fault_proxy: FaultProxy, tmp_path: Path, kind: str
) -> None:
    for folder in (tmp_path, "s3://columns"):
        written(large(9), folder, kind, 9, batched=True)
    assert contents(bucket) == contents(tmp_path)
    start = f"PUT /columns/train-0000.{kind}?partNumber="
    assert len([request for request in fault_proxy.requests() if request.startswith(start)]) == 3
    assert uploads_under_way("columns") == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", "PUT /columns/train-0001.parquet?partNumber=2", status=500, code="InternalError"),
        Fault("reset", "PUT /columns/train-0001.parquet?partNumber=1", at=None),
        Fault("status", "POST /columns/train-0001.parquet?uploadId=", status=503, code="SlowDown"),
        Fault("status", "POST /columns/train-0001.parquet?uploads", status=403, code="AccessDenied"),
    ],
    ids=["a part", "a connection", "the completion", "the beginning"],
)
def test_an_upload_that_fails_leaves_the_earlier_file_and_is_aborted(
    bucket: Path, fault_proxy: FaultProxy, fault: Fault
) -> None:
    (bucket / "train-0001.parquet").write_bytes(b"earlier")
    fault_proxy.play(fault)
    dp = writing([*large(12)], "s3://columns", "parquet", 6, rows_per_group=1, storage_options=OPTIONS)
    iterator = iter(dp)
    assert next(iterator)[1] == 6
    state = passed_on(dp)
    with pytest.raises((OSError, BotoCoreError), match=r"while writing s3://columns/train-0001\.parquet") as caught:
        next(iterator)
    assert fault_proxy.played()[fault.kind] > 0
    del caught, iterator
    assert contents(bucket).keys() == {"train-0000.parquet", "train-0001.parquet"}
    assert (bucket / "train-0001.parquet").read_bytes() == b"earlier"
    assert uploads_under_way("columns") == []
    fault_proxy.play()
    dp.load_state_dict(state)
    assert list(dp) == [("s3://columns/train-0001.parquet", 6)]
    assert pq.read_table(bucket / "train-0001.parquet").column("id").to_pylist() == [*range(6, 12)]
    assert len(json.loads((bucket / "_train-index.json").read_bytes())["shards"]) == 2


@pytest.mark.parametrize(("kind", "mebibytes"), [("parquet", 4), ("jsonl", 1)])
def test_a_source_that_fails_takes_the_upload_back(
    bucket: Path, fault_proxy: FaultProxy, kind: str, mebibytes: int
) -> None:
    more = {"rows_per_group": 1} if kind == "parquet" else {}
    source = IterableWrapper([*large(8, mebibytes)]).map(failing_at(7))
    with pytest.raises(RuntimeError, match="no more"):
        list(writing(source, "s3://columns", kind, 8, batched=True, **more))
    assert f"PUT /columns/train-0000.{kind}?partNumber=1" in "".join(fault_proxy.requests())
    assert contents(bucket) == {}
    assert uploads_under_way("columns") == []


def test_of_arrays_nothing_is_sent_before_the_file_is_whole(bucket: Path, fault_proxy: FaultProxy) -> None:
    source = IterableWrapper([*large(8)]).map(failing_at(7))
    with pytest.raises(RuntimeError, match="no more"):
        list(writing(source, "s3://columns", "npz", 8, batched=True))
    assert not [request for request in fault_proxy.requests() if request.startswith(("PUT", "POST"))]
    assert contents(bucket) == {}


@pytest.mark.usefixtures("bucket")
def test_what_is_in_memory_does_not_grow_with_the_file() -> None:
    peaks = []
    for rows in (20, 60):
        before = pa.total_allocated_bytes()
        pool = pa.default_memory_pool()
        tracemalloc.start()
        written(large(rows), "s3://columns", "parquet", rows, rows_per_group=4, batched=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert pool.bytes_allocated() - before < 50_000_000
    assert peaks[1] < peaks[0] * 1.2
    assert peaks[1] < 150_000_000


@pytest.mark.parametrize("place", ["s3://columns", "local"])
def test_a_process_that_is_killed_leaves_nothing_to_be_seen(bucket: Path, tmp_path: Path, place: str) -> None:
    folder = str(tmp_path) if place == "local" else place
    program = f"""
        import itertools, torch, penstock as ps
        def batches():
            for number in itertools.count():
                print(number, flush=True)
                yield {{"x": torch.randint(256, (1, 5_000_000), dtype=torch.uint8)}}
        source = ps.iter.IterableWrapper(batches(), deepcopy=False)
        list(source.write_parquet({folder!r} "/{{shard}}.parquet", 1000, rows_per_group=1, batched=True))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if int(line) >= 8:  # two parts were sent
                    break
        finally:
            process.kill()
            process.wait(20)
    seen = [*contents(bucket), *contents(tmp_path)]
    assert [name for name in seen if not name.startswith(".")] == []  # the server and the writer keep parts under these
    for root in (bucket, tmp_path):
        assert pa.dataset.dataset(root, format="parquet").files == []


def test_the_class_is_what_the_method_makes() -> None:
    assert isinstance(IterableWrapper([]).write_parquet("{shard}.parquet", 1), ParquetWriter)
