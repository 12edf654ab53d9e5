"""join: the columns of a table beside batches and rows, found by key."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper

LABELS = {"id": [3, 1, 2], "label": ["c", "a", "b"], "weight": [0.3, 0.1, 0.2]}
SOME = {"id": [1, 2], "label": [10, 20]}


def batches() -> Any:
    return ps.from_arrow(pa.table({"id": pa.array([1, 2, 3, 1], pa.int32()), "x": [1, 2, 3, 4]}), 2)


def columns(dp: Any, name: str) -> list[Any]:
    return [value for batch in dp for value in batch[name].to_pylist()]


@pytest.mark.parametrize(
    "table",
    [LABELS, pa.table(LABELS), pa.record_batch(LABELS), pd.DataFrame(LABELS), pa.table(LABELS).to_pylist()],
    ids=lambda table: type(table).__name__,
)
def test_a_table_of_any_kind_joins_batches_and_rows_in_their_order(table: Any) -> None:
    dp = batches().join(table, on="id")
    assert [batch.num_rows for batch in dp] == [2, 2]
    assert [[*row.values()] for batch in dp for row in batch.to_pylist()] == [
        [1, 1, "a", 0.1],
        [2, 2, "b", 0.2],
        [3, 3, "c", 0.3],
        [1, 4, "a", 0.1],
    ]
    assert [row["label"] for row in batches().rows().join(table, on="id")] == ["a", "b", "c", "a"]
    assert len(IterableWrapper([{"id": 1}] * 3).join(table, "id")) == 3


def test_a_batch_gets_columns_of_its_own_kind() -> None:
    first, _ = batches().to_tensors().join(LABELS, "id")
    assert torch.equal(first["weight"], torch.tensor([0.1, 0.2], dtype=torch.float64))
    assert first["label"] == ["a", "b"]
    first, _ = batches().with_format("numpy").join(LABELS, "id")
    assert isinstance(first["weight"], np.ndarray)
    lists = IterableWrapper([[{"id": 1}, {"id": 2}]]).rows2columnar().join(LABELS, "id")
    assert list(lists) == [{"id": [1, 2], "label": ["a", "b"], "weight": [0.1, 0.2]}]
    [frame] = IterableWrapper([pd.DataFrame({"id": [2]})], deepcopy=False).join(LABELS, "id")
    assert frame.to_pydict() == {"id": [2], "label": ["b"], "weight": [0.2]}
    [row] = IterableWrapper([{"id": torch.tensor(2)}]).join(LABELS, "id", batched=False)
    assert row["label"] == "b"
    with pytest.raises(ValueError, match="give batched=True, or batched=False for rows"):
        list(IterableWrapper([{"id": torch.tensor([1])}]).join(LABELS, "id"))


def test_how_says_what_becomes_of_rows_without_a_match() -> None:
    for dp, row in ((batches(), "row 0 of the batch: "), (batches().rows(), "")):
        with pytest.raises(KeyError, match=f"{row}the table has no row with id 3, and its 'id' is int64: how='inner'"):
            list(dp.join(SOME, "id"))
    assert columns(batches().join(SOME, "id", how="inner"), "label") == [10, 20, 10]
    assert columns(batches().join(SOME, "id", how="left"), "label") == [10, 20, None, 10]
    assert columns(batches().join(SOME, "id", on_error="skip"), "label") == [10, 20]  # the batch, not the row
    assert [row["label"] for row in batches().rows().join(SOME, "id", how="inner")] == [10, 20, 10]
    assert [row["label"] for row in batches().rows().join(SOME, "id", how="left")] == [10, 20, None, 10]
    last = batches().to_tensors().join(SOME, "id", how="inner").take(2)[1]
    assert (last["id"].tolist(), last["label"].tolist()) == ([1], [10])
    with pytest.raises(ValueError, match="column 'label', row 0 is null"):
        list(batches().to_tensors().join(SOME, "id", how="left"))
    assert list(batches().join({"id": [7], "label": [1]}, "id", how="inner")) == []
    with pytest.raises(TypeError, match="leaves out rows without a match"):
        len(IterableWrapper([]).join(SOME, "id", how="inner"))


def test_a_null_is_no_key() -> None:
    source = ps.from_arrow(pa.table({"id": [1, None]}))
    table = {"id": [None, 1, None], "label": [5, 6, 7]}
    assert columns(source.join(table, "id", how="left"), "label") == [6, None]
    assert [row["label"] for row in source.rows().join(table, "id", how="left")] == [6, None]
    with pytest.raises(KeyError, match="row 1 of the batch: the table has no row with id None"):
        list(source.join(table, "id"))


def test_keys_are_several_columns_and_of_any_type() -> None:
    source = ps.from_arrow(pa.table({"shop": ["x", "y", "x"], "day": [1, 2, 2]}))
    table = {"shop": ["x", "x", "y"], "day": [2, 1, 2], "sold": [7, 8, 9]}
    on = ["shop", "day"]
    assert columns(source.join(table, on), "sold") == [8, 9, 7]
    assert [row["sold"] for row in source.rows().join(table, on)] == [8, 9, 7]
    with pytest.raises(KeyError, match="no row with shop 'x', day 1"):
        list(source.join({"shop": ["x", "y"], "day": [2, 1], "sold": [7, 8]}, on))
    for kind, key in ((pa.large_string(), "a"), (pa.dictionary(pa.int8(), pa.string()), "a"), (pa.uint8(), 7)):
        one = ps.from_arrow(pa.table({"key": pa.array([key], kind)}))
        table_of_one = {"key": [key], "n": [1]}
        assert columns(one.join(table_of_one, "key"), "n") == [1]
        assert [row["n"] for row in one.rows().join(table_of_one, "key")] == [1]


def test_the_schema_is_known_and_errors_name_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 3]}), tmp_path / "0.parquet")
    told = ps.schema(ps.read_parquet(tmp_path).join(pa.table(LABELS), "id").rebatch(2))
    expected = [("id", pa.int64()), ("label", pa.string()), ("weight", pa.float64())]
    assert [(field.name, field.dtype) for field in told] == expected
    with pytest.raises(KeyError, match="no row with id 3") as raised:
        list(ps.read_parquet(tmp_path).join(SOME, "id"))
    assert "rows 0 to 1 of row group 0 of" in "".join(raised.value.__notes__)


NOON = datetime(2024, 9, 1, 12, tzinfo=UTC)
TWICE = datetime(2024, 11, 3, 1, 30, tzinfo=ZoneInfo("America/New_York"))


@pytest.mark.parametrize(
    ("keys", "of_table", "found"),
    [
        ([-0.0, 0.0], [0.0], [0, 0]),
        ([0.0], [-0.0], [0]),
        ([math.nan, 1.0], [math.nan, 1.0, math.nan], [None, 1]),
        ([1, 2], [2.0, 1.0], [1, 0]),
        ([2**53 + 1, 2**53], [float(2**53)], [None, 0]),
        ([float(2**53), 0.5], [2**53 + 1, 2**53], [1, None]),
        (np.array([2**63 + 1, 2], np.uint64), [1, 2], [None, 1]),
        ([Decimal("1.50")], [Decimal("1.5")], [0]),
        ([0.1], [Decimal("0.1")], [0]),
        ([b"a"], ["b", "a"], [1]),
        ([NOON], [NOON.astimezone(ZoneInfo("Asia/Tokyo"))], [0]),
        ([TWICE], [TWICE.replace(fold=1).astimezone(UTC), TWICE.astimezone(UTC)], [1]),
        (np.array(["2024-09-01T12"], "datetime64[s]"), np.array(["2024-09-01T12"], "datetime64[ns]"), [0]),
        (np.array(["2024-09-01"], "datetime64[D]"), [NOON.date()], [0]),
        ([None], ["a"], [None]),
    ],
)
def test_rows_and_batches_find_the_same(keys: Any, of_table: Any, found: list[Any]) -> None:
    table = {"k": of_table, "v": [*range(len(of_table))]}
    of_rows = ps.from_items([{"k": key} for key in keys]).join(table, "k", how="left")
    of_batches = ps.from_arrow(pa.table({"k": keys})).join(table, "k", how="left")
    assert [row["v"] for row in of_rows] == columns(of_batches, "v") == found


@pytest.mark.parametrize(
    ("key", "of_table", "types"),
    [
        ("1", 1, "string, and in the table int64"),
        (1, "1", "int64, and in the table string"),
        (True, 1, "bool, and in the table int64"),
        ("2024-09-01", NOON, "string, and in the table timestamp"),
        (NOON.date(), NOON, "date32.*, and in the table timestamp"),
    ],
)
def test_keys_of_types_that_do_not_compare_are_an_error(key: Any, of_table: Any, types: str) -> None:
    table = {"k": [of_table], "v": [1]}
    for dp in (ps.from_items([{"k": key}]), ps.from_arrow(pa.table({"k": [key]}))):
        with pytest.raises(TypeError, match=f"the column 'k' is {types}.*: cast one of them, so that they compare"):
            list(dp.join(table, "k", how="inner"))


def test_a_key_that_the_common_type_cannot_hold_names_its_column() -> None:
    far = pa.table({"k": pa.array([datetime(9999, 1, 1)], pa.timestamp("us"))})
    table = pa.table({"k": pa.array([datetime(2024, 9, 1)], pa.timestamp("ns")), "v": [1]})
    for dp in (ps.from_arrow(far), ps.from_arrow(far).rows()):
        with pytest.raises(ValueError, match=r"the column 'k' is compared with the table's as timestamp\[ns\]"):
            list(dp.join(table, "k", how="left"))


def test_each_row_has_nested_values_of_its_own() -> None:
    table = {"id": [1], "tags": [["a"]], "image": torch.zeros(1, 2, 2)}
    first, second = IterableWrapper([{"id": 1}, {"id": 1}]).join(table, "id", batched=False)
    first["tags"].append("b")
    first["image"] += 1
    assert (second["tags"], second["image"].tolist()) == (["a"], [[0, 0], [0, 0]])


def test_a_key_in_the_index_of_a_frame_says_how_to_make_it_a_column() -> None:
    labels = pd.DataFrame({"file": ["a"], "label": [1]}).set_index("file")
    with pytest.raises(KeyError, match=r"'file' is in the index of the data frame: give frame\.reset_index\(\)"):
        ps.from_items([{"file": "a"}]).join(labels, on="file")
    with pytest.warns(UserWarning, match=r"the index 'file' .*frame\.reset_index\(\)"):
        ps.from_items([{"label": 1}]).join(labels, on="label")
