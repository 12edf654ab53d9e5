from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from penstock.pipes.iter import IterableWrapper
from resuming import assert_resumes_everywhere

SCHEMA = pa.schema([("id", pa.int16()), pa.field("text", pa.large_string(), metadata={"kind": "x"})], {"from": "tests"})


def table(rows: Any, **arguments: Any) -> pa.Table:
    [made] = IterableWrapper(rows, deepcopy=False).dataframe(**arguments)
    made.validate(full=True)
    return made


def written(path: Path, rows: int = 10, group: int = 4, **columns: Any) -> str:
    content = {"id": [*range(rows)], "text": [f"row {n}" for n in range(rows)], **columns}
    pq.write_table(pa.table(content), path, row_group_size=group)
    return str(path)


def loaded(*paths: Any, **arguments: Any) -> list[dict[str, list[Any]]]:
    return [each.to_pydict() for each in IterableWrapper(paths).load_parquet_as_df(**arguments)]


# dataframe


def test_rows_come_in_tables_of_a_size() -> None:
    dp = IterableWrapper([(n, str(n)) for n in range(5)]).dataframe(2, columns=["id", "text"])
    assert [each.to_pydict() for each in dp] == [
        {"id": [0, 1], "text": ["0", "1"]},
        {"id": [2, 3], "text": ["2", "3"]},
        {"id": [4], "text": ["4"]},
    ]
    assert [len(IterableWrapper([(0,)] * n).dataframe(2, columns=["x"])) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]


NUMBERS_AND_TEXT = [pa.int64(), pa.string()]


@pytest.mark.parametrize(
    ("rows", "arguments", "types"),
    [
        ([[1, "a"], (2, "b")], {"columns": ("id", "text")}, NUMBERS_AND_TEXT),
        ([(1, "a"), (2, "b")], {"dtype": SCHEMA}, SCHEMA.types),
        ([(1, "a"), (2, "b")], {"dtype": pa.struct([*SCHEMA])}, SCHEMA.types),
        ([(1, "a"), (2, "b")], {"dtype_generator": lambda: SCHEMA, "columns": ["id", "text"]}, SCHEMA.types),
        ([namedtuple("Row", "id text")(1, "a"), (2, "b")], {}, NUMBERS_AND_TEXT),
        ([{"id": 1, "text": "a"}, {"text": "b", "id": 2}], {}, NUMBERS_AND_TEXT),
        ([{"text": "a", "id": 1, "more": 1}, {"text": "b", "id": 2}], {"dtype": SCHEMA}, SCHEMA.types),
    ],
)
def test_rows_of_every_make_become_a_table(rows: Any, arguments: Any, types: list[Any]) -> None:
    made = table(rows, **arguments)
    assert made.to_pydict() == {"id": [1, 2], "text": ["a", "b"]}
    assert (made.column_names, made.schema.types) == (["id", "text"], types)


def test_values_nulls_and_one_type_for_all_columns() -> None:
    assert table(["ab", None], columns=["x"]).to_pydict() == {"x": ["ab", None]}
    assert table([{"a": 1}, {"b": 2}]).to_pydict() == {"a": [1, None], "b": [None, 2]}
    assert table([{"a": 1}], columns=["a", "b"]).schema.types == [pa.int64(), pa.null()]
    assert table([(1, 2)], dtype=pa.float32(), columns=["x", "y"]).schema.types == [pa.float32()] * 2


def test_a_schema_is_kept_with_its_metadata_in_the_order_of_columns() -> None:
    assert table([(1, "a")], dtype=SCHEMA).schema.equals(SCHEMA, check_metadata=True)
    turned = table([("a", 1)], dtype=SCHEMA, columns=["text", "id"])
    assert turned.schema.equals(pa.schema([SCHEMA.field("text"), SCHEMA.field("id")], SCHEMA.metadata), True)
    assert turned.to_pydict() == {"text": ["a"], "id": [1]}


@pytest.mark.parametrize(
    ("value", "kind", "as_python"),
    [
        (torch.tensor(1.5), pa.float32(), 1.5),
        (torch.ones(2, 1, requires_grad=True), pa.list_(pa.list_(pa.float32())), [[1.0], [1.0]]),
        (np.float16(2), pa.float16(), 2.0),
        (np.array(True), pa.bool_(), True),
        (np.arange(6, dtype=np.int16)[::2], pa.list_(pa.int16()), [0, 2, 4]),
        ([torch.tensor([1]), np.array([2])], pa.list_(pa.list_(pa.int64())), [[1], [2]]),
        ((1, 2), pa.list_(pa.int64()), [1, 2]),
        ({"x": torch.tensor(1), "y": "z"}, pa.struct({"x": pa.int64(), "y": pa.string()}), {"x": 1, "y": "z"}),
        (b"bytes", pa.binary(), b"bytes"),
    ],
)
def test_nested_values_and_tensors_keep_their_dtype(value: Any, kind: Any, as_python: Any) -> None:
    made = table([(value,), (None,)], columns=["x"])
    assert made.schema.field("x").type == kind
    assert made.to_pydict() == {"x": [as_python, None]}


def test_values_are_converted_to_the_types_of_the_schema() -> None:
    tensors = [(torch.tensor([1.0, 2.0], dtype=torch.float64),), (torch.tensor([3.0, 4.0]),)]
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.fixed_shape_tensor(pa.float32(), [2])):
        made = table(tensors, dtype=pa.schema([("x", kind)]))
        assert made.schema.field("x").type == kind
        assert [[*each] for each in made.to_pydict()["x"]] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("rows", "arguments", "text"),
    [
        ([(1, 2)], {}, "a row is of type tuple, which does not name its values: give columns"),
        ([(1, 2), (1,)], {"columns": ["x", "y"]}, "a row has 1 values, and there are 2 columns: x, y"),
        ([1], {"columns": ["x", "y"]}, "a row has 1 values, and there are 2 columns: x, y"),
        ([("a",)], {"dtype": pa.schema([("x", pa.int8())])}, "Could not convert 'a' with type str"),
        ([(1,), ("a",)], {"columns": ["x"]}, "Could not convert 'a' with type str"),
        ([(object(),)], {"columns": ["x"]}, "did not recognize Python value type"),
    ],
)
def test_rows_that_make_no_table_are_errors_that_say_why(rows: Any, arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        table(rows, **arguments)
    assert "raised in DataFrameMaker" in caught.value.__notes__[-1]


def test_the_generator_is_called_when_a_pass_begins() -> None:
    calls: list[int] = []

    def generate() -> pa.Schema:
        calls.append(1)
        return SCHEMA

    dp = IterableWrapper([(1, "a")] * 3).dataframe(1, dtype_generator=generate, device="cpu")
    assert calls == []
    assert len(list(dp)) == 3
    assert calls == [1]


# load_parquet_as_df


def test_each_row_group_of_each_file_is_a_table(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a.parquet", 5, 2), written(tmp_path / "b.parquet", 1)
    assert [each["id"] for each in loaded(first, Path(second))] == [[0, 1], [2, 3], [4], [0]]
    assert loaded(first)[0] == {"id": [0, 1], "text": ["row 0", "row 1"]}
    assert loaded(first, use_threads=True, device="cpu") == loaded(first)


def test_columns_are_chosen_in_their_order_also_nested_ones(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", 2, point=[{"x": 1, "y": 2}, {"x": 3, "y": 4}], more=[[1], [2, 3]])
    assert [[*each] for each in loaded(path, columns=["text", "id"])] == [["text", "id"]]
    assert loaded(path, columns=["point.y", "more"]) == [{"point": [{"y": 2}, {"y": 4}], "more": [[1], [2, 3]]}]
    assert loaded(path, columns=["point"]) == [{"point": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}]


def test_tables_are_converted_to_a_schema(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", 2, more=[1, 300])
    turned = pa.schema([("text", pa.large_string()), ("id", pa.float32())])
    [made] = IterableWrapper([path]).load_parquet_as_df(turned)
    assert made.schema.equals(turned)
    [made] = IterableWrapper([path]).load_parquet_as_df(pa.struct([*turned]), columns=["id"])
    assert made.schema.equals(pa.schema([("id", pa.float32())]))
    [made] = IterableWrapper([path]).load_parquet_as_df(pa.int16(), ["more", "id"])
    assert made.schema.equals(pa.schema([("more", pa.int16()), ("id", pa.int16())]))
    with pytest.raises(pa.ArrowInvalid, match="not in range") as caught:
        loaded(path, dtype=pa.int8(), columns=["more"])
    assert "in row group 0 of the file" in caught.value.__notes__


def test_urls_are_read_through_fsspec(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet")
    memory = fsspec.filesystem("memory")
    memory.pipe("/tables/a.parquet", Path(path).read_bytes())
    assert loaded("memory://tables/a.parquet") == loaded(path) == loaded(f"file://{path}")


@pytest.mark.parametrize(
    ("make", "arguments", "error", "text"),
    [
        (lambda path: None, {}, FileNotFoundError, "a.parquet"),
        (lambda path: path.write_bytes(b"no table"), {}, pa.ArrowInvalid, "Parquet"),
        (written, {"columns": ["id", "x", "te", "y"]}, KeyError, r"no column 'x', 'te', 'y': its .* \['id'"),
        (written, {"dtype": pa.schema([("x", pa.int8())])}, KeyError, "the file has no column 'x'"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: Path, make: Callable[[Path], Any], arguments: Any, error: Any, text: str
) -> None:
    path = tmp_path / "a.parquet"
    make(path)
    with pytest.raises(error, match=text) as caught:
        loaded(str(path), **arguments)
    assert f"on {str(path)!r}" in caught.value.__notes__[-1]
    good = written(tmp_path / "good.parquet", 2, x=[1, 2], y=[3, 4], te=[5, 6])
    dp = IterableWrapper([str(path), good]).load_parquet_as_df(**arguments, on_error="skip")
    assert len(list(dp)) == 1
    assert dp.stats()["load_parquet_as_df"]["skipped"] == 1


def test_a_row_group_that_cannot_be_read_can_be_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", 300, 100)
    content = bytearray(Path(path).read_bytes())
    start = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    content[start : start + 40] = b"\xff" * 40
    Path(path).write_bytes(content)
    with pytest.raises(OSError) as caught:  # noqa: PT011  the text is pyarrow's
        loaded(path)
    assert caught.value.__notes__[0] == "in row group 1 of the file"
    dp = IterableWrapper([path]).load_parquet_as_df(on_error="skip")
    assert [each["id"][0].as_py() for each in dp] == [0, 200]
    assert dp.stats()["load_parquet_as_df"]["last_errors"][0].endswith(f"on ({path!r}, 1)")
    assert_resumes_everywhere(lambda: IterableWrapper([path, path]).load_parquet_as_df(on_error="skip"))


def test_a_row_group_is_read_when_it_is_asked_for_and_not_again_on_resuming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups_read: list[int] = []
    right = pq.ParquetFile.read_row_group

    def counted(self: Any, number: int, *args: Any, **kwargs: Any) -> Any:
        groups_read.append(number)
        return right(self, number, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    paths = [written(tmp_path / f"{n}.parquet", 3, 1) for n in range(3)]
    dp = IterableWrapper(paths).load_parquet_as_df()
    iterator = iter(dp)
    for number in range(5):
        next(iterator)
        assert groups_read == [0, 1, 2, 0, 1][: number + 1]
    state = dp.state_dict()
    groups_read.clear()
    resumed = IterableWrapper(paths).load_parquet_as_df()
    resumed.load_state_dict(state)
    assert [each["id"][0].as_py() for each in resumed] == [2, 0, 1, 2]
    assert groups_read == [2, 0, 1, 2]
