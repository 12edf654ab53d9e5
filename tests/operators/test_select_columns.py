from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper

COLUMNS = {"id": [1, 2], "text": ["a", "b"], "url": ["x", "y"]}
KINDS: dict[str, Any] = {
    "rows": lambda: [{"id": 1, "text": "a", "url": "x"}, {"id": 2, "text": "b", "url": "y"}],
    "record batch": lambda: [pa.record_batch(COLUMNS)],
    "table": lambda: [pa.table(COLUMNS)],
    "frame": lambda: [pd.DataFrame(COLUMNS)],
    "lists": lambda: [COLUMNS],
    "tensors": lambda: [{**COLUMNS, "id": torch.tensor([1, 2])}],
    "arrays": lambda: [{**COLUMNS, "id": np.array([1, 2])}],
}


def names_of(item: Any) -> list[str]:
    return [*item] if isinstance(item, dict) else item.schema.names


@pytest.fixture(params=KINDS)
def dp(request: pytest.FixtureRequest) -> Any:
    return IterableWrapper(KINDS[request.param]())


def test_columns_are_selected_in_order_or_dropped(dp: Any) -> None:
    assert next(names_of(item) for item in dp.select_columns(["url", "id"])) == ["url", "id"]
    assert next(names_of(item) for item in dp.select_columns("text")) == ["text"]
    assert next(names_of(item) for item in dp.drop_columns(["url", "id"])) == ["text"]
    assert next(names_of(item) for item in dp.drop_columns("text")) == ["id", "url"]


def test_columns_are_renamed_in_their_places(dp: Any) -> None:
    assert next(names_of(item) for item in dp.rename_columns({"text": "words"})) == ["id", "words", "url"]
    assert next(names_of(item) for item in dp.rename_columns(["a", "b", "c"])) == ["a", "b", "c"]
    assert next(names_of(item) for item in dp.rename_columns({"id": "text", "text": "id"})) == ["text", "id", "url"]


@pytest.mark.parametrize("method", ["select_columns", "drop_columns"])
def test_a_column_that_is_missing_is_named(dp: Any, method: str) -> None:
    with pytest.raises(KeyError, match=r"an item has no column 'ID': its columns are \['id', 'text', 'url'\]"):
        list(getattr(dp, method)(["id", "ID"]))


def test_names_that_do_not_fit_are_an_error(dp: Any) -> None:
    with pytest.raises(KeyError, match="no column 'words'"):
        list(dp.rename_columns({"words": "text"}))
    with pytest.raises(ValueError, match="names has 2 names, and the item has 3 columns"):
        list(dp.rename_columns(["a", "b"]))
    with pytest.raises(ValueError, match="two columns would have one name"):
        list(dp.rename_columns({"id": "text"}))


@pytest.mark.parametrize("columns", [[], 3, [1], ["a", "a"], None])
def test_wrong_names_are_an_error_at_once(columns: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="columns"):
        IterableWrapper([]).select_columns(columns)


def test_an_item_without_columns_is_an_error_that_names_the_item() -> None:
    with pytest.raises(TypeError, match="column batches are needed") as caught:
        list(IterableWrapper([(1, 2)]).select_columns("id"))
    assert "ColumnSelector" in caught.value.__notes__[0]


def test_the_row_of_an_error_behind_it_is_still_known(tmp_path: Any) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b\n")

    def fail(batch: Any) -> None:
        raise ValueError("no")

    dp = ps.read_csv(tmp_path).select_columns("id").rename_columns({"id": "n"}).map(fail)
    with pytest.raises(ValueError, match="no") as caught:
        list(dp)
    assert "rows 0 to 1 of block 0 of" in " ".join(caught.value.__notes__)
