"""What operators tell of their items, rows or batches, and what is asked where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import penstock as ps
from penstock.pipes.columns.rows_or_batches import gives_batches, is_batch
from penstock.pipes.iter import IterableWrapper
from penstock.registry import operators
from penstock.testing.examples import maker_of_example

ITEM = {"x": torch.ones(2)}


def unknown() -> Any:
    return IterableWrapper([ITEM, ITEM])


def batches() -> Any:
    return unknown().to_tensors()


def rows() -> Any:
    return ps.from_items([ITEM, ITEM])


TELLING: dict[str, Any] = {entry.name: entry.cls for entry in operators.values() if getattr(entry.cls, "gives", None)}


@pytest.mark.parametrize("name", sorted(name for name, cls in TELLING.items() if cls.gives != "same"))
def test_what_an_operator_gives_is_what_it_tells(name: str) -> None:
    cls = TELLING[name]
    dp = maker_of_example(cls)()
    assert gives_batches(dp) is (cls.gives == "batches")
    item = next(iter(dp))
    if isinstance(item, dict):
        lengths = {len(column) for column in item.values() if isinstance(column, (torch.Tensor, np.ndarray, list))}
        assert cls.gives == "rows" or len(lengths) == 1
    else:
        assert isinstance(item, (pa.RecordBatch, pa.Table)) == (cls.gives == "batches") or name == "collate"


class Silent(ps.IterDataPipe[Any]):
    def __init__(self, *sources: Any) -> None:
        self.sources = sources

    def __iter__(self) -> Iterator[Any]:
        for source in self.sources:
            yield from source


class OfRows(Silent):
    gives = "rows"


class OfBatches(Silent):
    gives = "batches"


class Passing(Silent):
    gives = "same"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (unknown, None),
        (lambda: unknown().map(dict).shuffle(), None),
        (lambda: ps.from_arrow(pa.table({"id": [1]})), True),
        (lambda: ps.from_numpy(np.ones(3)).sharding_filter(), True),
        (lambda: ps.from_torch(torch.utils.data.TensorDataset(torch.ones(3))).map(list), False),
        (lambda: ps.from_torch(torch.utils.data.ChainDataset([])), None),
        (lambda: ps.read_images("."), False),
        (lambda: ps.read_parquet(".").map(dict).prefetch(2).filter(bool), True),
        (lambda: batches().rows().map(dict), False),
        (lambda: rows().batch(2).map(dict), None),
        (lambda: rows().batch(2).collate().map(dict), True),
        (lambda: rows().flatmap(list), None),
        (lambda: batches().zip(batches()), None),
        (lambda: batches().concat(batches().map(dict)), True),
        (lambda: batches().concat(rows()), None),
        (lambda: batches().concat(unknown()), None),
        (lambda: batches().fork(2)[1], True),
        (lambda: rows().demux(2, len)[0], False),
        (lambda: unknown().unzip(2)[0], None),
        (lambda: rows().random_split({"a": 0.5, "b": 0.5}, seed=0)[1], False),
        (lambda: ps.map.SequenceWrapper([1]).map(str).to_iter_datapipe(), None),
        (lambda: rows().map_pool(lambda: dict), False),
        (lambda: unknown().map_pool(lambda: dict), None),
        (lambda: rows().map_pool(lambda: dict, batch_size=2), True),
        (lambda: Silent(rows()), None),
        (lambda: Silent(rows()).to_tensors(), True),
        (lambda: OfRows(unknown()), False),
        (lambda: OfBatches(rows()).map(dict).shuffle(), True),
        (lambda: Passing(batches().map(dict)).filter(bool), True),
        (lambda: Passing(), None),
        (lambda: Passing(rows(), rows().map(dict)), False),
        (lambda: Passing(Passing(batches(), batches()), Passing(batches(), rows())), None),
        (lambda: Passing(rows(), Passing()), None),
    ],
)
def test_a_chain_tells_what_its_operators_do(make: Any, expected: bool | None) -> None:
    assert gives_batches(make()) is expected


def test_what_an_operator_cannot_give_is_an_error_that_names_it() -> None:
    class Misspelt(Silent):
        gives = "batch"  # type: ignore[assignment]

    with pytest.raises(ValueError, match="Misspelt.gives is 'batch', and may be 'rows', 'batches', 'same' or None"):
        gives_batches(Misspelt(rows()).map(dict))


@pytest.mark.parametrize(
    ("item", "known"),
    [
        (pa.record_batch({"x": [1]}), True),
        (pa.table({"x": [1]}), True),
        ({"x": torch.tensor(1)}, False),
        ({"x": np.ones(2), "n": 1}, False),
        ({"x": torch.ones(2), "text": "ab"}, False),
        ({"x": [1, 2]}, False),
        ({}, False),
        ((torch.ones(2), torch.ones(2)), False),
        ({"x": torch.ones(2)}, None),
        ({"x": np.ones((2, 2)), "text": ["a", "b"]}, None),
    ],
)
def test_only_dicts_that_may_be_both_need_a_word(item: Any, known: bool | None) -> None:
    if known is not None:
        assert is_batch(item, None) is known
        return
    with pytest.raises(ValueError, match="may be a batch.*or a row.*batched=True, or batched=False for rows"):
        is_batch(item, None)
    assert is_batch(item, True)
    assert not is_batch(item, False)


@pytest.mark.parametrize("item", [{"mean": 3.0}, {"x": torch.ones(2), "y": torch.ones(3)}])
def test_a_row_where_the_chain_tells_of_batches_is_an_error(tmp_path: Path, item: Any) -> None:
    for read in (
        lambda dp: dp.map_pool(lambda: dict, batch_size=2),
        lambda dp: ps.iter_torch_batches(dp, 2),
        lambda dp: dp.write_parquet(f"{tmp_path}/{{shard}}.parquet", 2),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            list(read(batches().map(lambda batch: item)))
        assert any("for rows give batched=False" in note for note in caught.value.__notes__)
    assert len(list(batches().map(lambda batch: item).map_pool(lambda: list, batch_size=2, batched=False))) == 1


def test_what_the_chain_tells_travels_with_its_copies() -> None:
    with ps.iter_torch_batches(rows().sharding_filter(), 2, num_workers=2) as loader:
        assert [batch["x"].shape for batch in loader] == [(1, 2), (1, 2)]
    with ps.iter_torch_batches(rows(), 4, batched=True) as loader:
        assert [batch["x"].shape for batch in loader] == [(4,)]
