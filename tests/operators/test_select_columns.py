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


@pytest.mark.parametrize(
    ("method", "columns", "names"),
    [
        ("select_columns", ["url", "id"], ["url", "id"]),
        ("select_columns", "text", ["text"]),
        ("drop_columns", ["url", "id"], ["text"]),
        ("drop_columns", "text", ["id", "url"]),
        ("rename_columns", {"text": "words"}, ["id", "words", "url"]),
        ("rename_columns", ["a", "b", "c"], ["a", "b", "c"]),
        ("rename_columns", {"id": "text", "text": "id"}, ["text", "id", "url"]),
    ],
)
def test_columns_are_selected_in_order_dropped_or_renamed(dp: Any, method: str, columns: Any, names: Any) -> None:
    assert next(names_of(item) for item in getattr(dp, method)(columns)) == names


@pytest.mark.parametrize(
    ("method", "columns", "error", "message"),
    [
        ("select_columns", ["id", "ID"], KeyError, r"no column 'ID': its columns are \['id', 'text', 'url'\]"),
        ("drop_columns", ["id", "ID"], KeyError, r"no column 'ID': its columns are \['id', 'text', 'url'\]"),
        ("rename_columns", {"words": "text"}, KeyError, "no column 'words'"),
        ("rename_columns", ["a", "b"], ValueError, "names has 2 names, and the item has 3 columns"),
        ("rename_columns", {"id": "text"}, ValueError, "two columns would have one name"),
        *(("select_columns", wrong, (TypeError, ValueError), "columns") for wrong in ([], 3, [1], ["a", "a"], None)),
    ],
)
def test_names_that_do_not_fit_are_an_error(dp: Any, method: str, columns: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        list(getattr(dp, method)(columns))


def test_errors_name_the_item_and_behind_it_the_row(tmp_path: Any) -> None:
    with pytest.raises(TypeError, match="column batches are needed") as caught:
        list(IterableWrapper([(1, 2)]).select_columns("id"))
    assert "ColumnSelector" in caught.value.__notes__[0]
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b\n")
    dp = ps.read_csv(tmp_path).select_columns("id").rename_columns({"id": "n"}).map(lambda batch: 1 / 0)
    with pytest.raises(ZeroDivisionError) as failed:
        list(dp)
    assert "rows 0 to 1 of block 0 of" in " ".join(failed.value.__notes__)
