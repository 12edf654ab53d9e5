"""Methods by the names of Ray Data, each a spelling of what stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import penstock as ps

TABLE = pa.table({"x": np.arange(10, dtype=np.float32), "name": [f"n{number}" for number in range(10)]})


def rows() -> Any:
    return ps.from_items([{"x": np.float32(number), "name": f"n{number}"} for number in range(10)])


def test_random_shuffle_shuffles_rows_of_either_kind() -> None:
    for dp in (ps.from_arrow(TABLE).rows(), rows(), ps.from_arrow(TABLE, batch_size=4)):
        shuffled = dp.random_shuffle(seed=3)
        first = [*shuffled.rows()] if "shuffle_rows" in repr(shuffled) else [*shuffled]
        values = [float(row["x"]) for row in first]
        assert sorted(values) == list(range(10)) != values


def test_a_split_has_each_row_once() -> None:
    train, test = ps.from_arrow(TABLE, batch_size=3).train_test_split(0.3)
    names = [[name for batch in part for name in batch["name"].to_pylist()] for part in (train, test, train, test)]
    assert names[:2] == names[2:]
    assert sorted(names[0] + names[1]) == TABLE["name"].to_pylist()
    train, test = rows().train_test_split(test_size=0.3, shuffle=True, seed=5)
    assert {row["name"] for row in train}.isdisjoint(row["name"] for row in test)
    train, test = ps.map.SequenceWrapper(range(10)).train_test_split(0.5)
    assert sorted([*train, *test]) == list(range(10))


def test_iter_torch_batches_takes_the_arguments_of_the_guide() -> None:
    dp = ps.from_arrow(TABLE).select_columns(["x"])
    batches = dp.iter_torch_batches(
        batch_size=3, dtypes=torch.float64, local_shuffle_buffer_size=8, drop_last=True, prefetch_batches=2
    )
    found = [*batches]
    assert [batch["x"].dtype for batch in found] == [torch.float64] * 3
    collated = dp.iter_torch_batches(batch_size=5, collate_fn=lambda batch: len(batch["x"]))
    assert list(collated) == [5, 5]

    def order(seed: int) -> list[Any]:
        batches = rows().iter_torch_batches(batch_size=10, local_shuffle_buffer_size=10, local_shuffle_seed=seed)
        return [batch["x"].tolist() for batch in batches]

    assert order(1) == order(1) != order(2)
    with pytest.raises(ValueError, match="batch_format must be one of 'torch', 'numpy'"):
        rows().iter_batches(batch_format="json")
    with pytest.raises(TypeError, match="rows must be dicts, which name their columns, and one is of type int"):
        list(ps.from_items([1, 2]).iter_batches())


@pytest.mark.parametrize("make", [rows, lambda: ps.from_arrow(TABLE)])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("default", dict),
        ("torch", dict),
        ("pandas", pd.DataFrame),
        ("pyarrow", pa.RecordBatch),
    ],
)
def test_iter_batches_gives_each_format(make: Any, name: str, kind: type) -> None:
    batches = [*make().iter_batches(batch_size=6, batch_format=name)]
    assert [type(batch) for batch in batches] == [kind, kind]
    assert [len(batch["x"]) for batch in batches] == [6, 4]
    if kind is dict:
        assert isinstance(batches[0]["x"], torch.Tensor if name == "torch" else np.ndarray)
        assert [*batches[1]["name"]] == ["n6", "n7", "n8", "n9"]
