"""from_items, from_arrow, from_pandas, from_numpy and from_torch: chains that begin in memory."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from penstock import IterDataPipe
from penstock.pipes.iter import IterableWrapper
from penstock.pipes.sources.tables import from_arrow, from_items, from_numpy, from_pandas, from_torch


def rows(dp: IterDataPipe[pa.RecordBatch]) -> list[list[Any]]:
    return [batch.column(0).to_pylist() for batch in dp]


def test_tables_come_in_batches_that_share_their_memory() -> None:
    table = pa.table({"id": range(5)})
    assert rows(from_arrow(table, 2)) == [[0, 1], [2, 3], [4]]
    assert rows(from_arrow([table.slice(0, 3), table.to_batches()[0].slice(3)], 4)) == [[0, 1, 2, 3], [4]]
    [whole] = from_arrow(table)
    assert whole.column(0).buffers()[1].address == table.column(0).chunk(0).buffers()[1].address
    assert list(from_arrow([])) == []
    assert len(pickle.dumps(from_arrow(pa.table({"id": np.arange(10_000)}), 10))) < 100_000  # the table travels once


def test_data_frames_come_without_their_index() -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "text": ["a", None, "c"]}, index=[5, 6, 7])
    batches = list(from_pandas(frame, 2))
    assert [batch.to_pydict() for batch in batches] == [{"id": [1, 2], "text": ["a", None]}, {"id": [3], "text": ["c"]}]
    assert rows(from_pandas(pd.concat([frame, frame]))) == rows(from_pandas([frame, frame])) == [[1, 2, 3, 1, 2, 3]]


def test_an_index_with_a_name_is_left_out_with_a_warning() -> None:
    frame = pd.DataFrame({"city": ["x", "y", "x"], "n": [1, 2, 3]})
    for indexed, name in ((frame.set_index("n"), "n"), (frame.groupby("city").n.mean().to_frame("m"), "city")):
        with pytest.warns(UserWarning, match=rf"the index '{name}' of .* is left out: .*reset_index\(\)") as told:
            from_pandas(indexed)
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_pandas([frame, frame[frame.n > 1], indexed.reset_index()])


def test_arrays_come_as_columns_of_their_shape() -> None:
    [batch] = from_numpy(np.arange(12).reshape(2, 2, 3)).to_tensors()
    assert torch.equal(batch["data"], torch.arange(12).reshape(2, 2, 3))
    made = list(from_numpy({"x": np.zeros((3, 2), np.float32), "y": torch.arange(3)}, 2).to_tensors())
    assert [(part["x"].shape, part["y"].tolist()) for part in made] == [((2, 2), [0, 1]), ((1, 2), [2])]
    assert rows(from_numpy([np.arange(2), np.arange(2)])) == [[0, 1, 0, 1]]


class Letters(IterableDataset[str]):
    def __iter__(self) -> Iterator[str]:
        return iter("abc")


class Squares(Dataset[int]):
    def __init__(self) -> None:
        self.read: list[int] = []

    def __getitem__(self, index: int) -> int:
        self.read.append(index)
        return index * index

    def __len__(self) -> int:
        return 4


def test_data_sets_of_torch_are_read_by_index_or_iterated() -> None:
    assert [number.item() for (number,) in from_torch(TensorDataset(torch.arange(3)))] == [0, 1, 2]
    assert list(from_torch(Letters())) == ["a", "b", "c"]
    squares = Squares()
    dp = from_torch(squares).sharding_filter()
    dp.apply_sharding(2, 1)
    assert list(dp) == [1, 9]
    assert squares.read == [1, 3]


def test_pandas_is_needed_for_its_frames_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'pandas is needed for this: pip install "penstock\[pandas\]"'):
        from_pandas(3)  # type: ignore[arg-type]
    assert list(from_items([1])) == [1]


@pytest.mark.parametrize(
    ("table", "items", "told"),
    [
        (pd.DataFrame({"id": [1]}), ["id"], r"the names of the columns of a data frame: ps.from_pandas\(frame\)"),
        (pa.table({"id": [1]}), [pa.chunked_array([[1]])], r"the columns of a table: ps.from_arrow\(table\)"),
        (pa.record_batch({"id": [1]}), [pa.array([1])], "the columns of a table"),
    ],
)
def test_a_table_that_is_iterated_over_by_its_columns_is_a_warning(table: Any, items: list[Any], told: str) -> None:
    with pytest.warns(UserWarning, match=told) as caught:
        dp = IterableWrapper(table)
    assert caught[0].filename == __file__
    assert list(dp) == items
