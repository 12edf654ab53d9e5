from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from penstock.registry import apply_sharding


def batches_of(*sizes: int) -> list[pa.RecordBatch]:
    starts = np.cumsum([0, *sizes])
    return [pa.record_batch({"id": range(start, start + size)}) for start, size in zip(starts, sizes, strict=False)]


def ids(dp: Any) -> list[int]:
    columns = [batch["id"] for batch in dp]
    return [number for column in columns for number in column.tolist()]


@pytest.fixture
def files(tmp_path: Any) -> Any:
    """Three files of 40 rows in row groups of 16, with the numbers 0 to 119."""
    for number in range(3):
        table = pa.table({"id": range(number * 40, number * 40 + 40)})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=16)
    return tmp_path


# limit


@pytest.mark.parametrize("n", [0, 3, 4, 5, 8, 20])
def test_rows_of_batches_are_counted_and_the_last_batch_is_cut(n: int) -> None:
    dp = ps.from_arrow(batches_of(4, 1, 3), batch_size=4).limit(n)
    assert ids(dp) == list(range(min(n, 8)))
    assert ids(IterableWrapper(batches_of(4, 1, 3)).to_tensors().limit(n)) == list(range(min(n, 8)))


def test_rows_and_other_items_are_counted() -> None:
    pulled: list[int] = []
    dp = IterableWrapper(range(10)).map(lambda x: pulled.append(x) or x).limit(3)
    assert list(dp) == pulled == [0, 1, 2]
    assert ps.from_items([{"x": torch.zeros(5)}] * 4).limit(2).count() == 2
    assert len(IterableWrapper(range(10)).limit(3)) == len(IterableWrapper(range(3)).limit(9)) == 3
    with pytest.raises(TypeError, match="number of batches"):
        len(ps.from_arrow(batches_of(4)).limit(2))


def test_the_rows_of_all_workers_are_limited_together(files: Any) -> None:
    def fail(batch: Any) -> None:
        raise ValueError("no")

    dp = ps.read_parquet(files).limit(50).map(lambda batch: batch)
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2, num_shards=3)) as loader:
        assert len(ids(loader)) == 50
        iterator = iter(loader)
        begun = ids([next(iterator), next(iterator)])
        state = loader.state_dict()
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(0, num_shards=3)) as loader:
        loader.load_state_dict(state)
        assert len(begun + ids(loader)) == 50
    with pytest.raises(ValueError, match="no") as caught:
        list(ps.read_parquet(files).limit(3).map(fail))
    assert "rows 0 to 2 of row group 0" in " ".join(caught.value.__notes__)


def test_a_limit_before_the_sharding_holds_for_all_workers_together() -> None:
    dp = ps.from_items([{"id": number} for number in range(20)]).limit(6).sharding_filter().map(dict)
    parts = []
    for worker in range(2):
        part = copy.deepcopy(dp)
        apply_sharding(part, 2, worker)
        parts += [row["id"] for row in part]
    assert sorted(parts) == [*range(6)]


# random_sample


def test_a_sample_and_its_complement_are_all_rows() -> None:
    dp = ps.from_arrow(batches_of(40, 1, 59), batch_size=7)
    drawn, rest = ids(dp.random_sample(0.3)), ids(dp.random_sample(0.3, complement=True))
    assert sorted(drawn + rest) == list(range(100))
    assert drawn == sorted(drawn)
    assert 15 < len(drawn) < 45
    assert ids(dp.random_sample(0.3, seed=1)) != drawn
    assert ids(dp.random_sample(0)) == []
    assert ids(dp.random_sample(1)) == list(range(100))
    rows = IterableWrapper([{"id": number} for number in range(100)])
    assert [row["id"] for row in rows.random_sample(0.3)] == drawn


def test_the_same_rows_are_drawn_by_any_number_of_workers(files: Any) -> None:
    expected = sorted(ids(ps.read_parquet(files).random_sample(0.3)))
    assert 20 < len(expected) < 52
    dp = ps.read_parquet(files, batch_size=5, shuffle_row_groups=True).random_sample(0.3)
    assert sorted(ids(dp)) == expected
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        assert sorted(ids(loader)) == sorted(ids(loader)) == expected
    rows = ps.read_parquet(files).rows().random_sample(0.3)
    assert sorted(row["id"] for row in rows) == expected
    assert sorted(ids(ps.read_parquet(files).rebatch(9).random_sample(0.3))) == expected


def test_files_are_known_however_their_path_is_spelt(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files.parent)
    spelt = [str(files), files.name, f"./{files.name}", f"file://{files}", f"local://{files}"]
    drawn = [sorted(ids(ps.read_parquet(path).random_sample(0.3))) for path in spelt]
    assert drawn == [drawn[0]] * 5


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda _: ps.from_items([1, 2]).cycle(2), "read again and again"),
        (lambda _: ps.from_items([1, 2]).threadpool_map(str, ordered=False), "in no fixed order"),
        (lambda _: ps.from_items(iter([1, 2])), "of an iterator or a set"),
        (lambda _: ps.from_items({"a", "b"}), "of an iterator or a set"),
        (lambda _: ps.from_items([1, 2]).sharding_filter(), "divided into shards.*Put .* right after the source"),
        (lambda _: ps.from_items([1, 2]).shuffle(), "shuffled before it.*Put .* right after the source"),
        (lambda files: ps.read_parquet(files, filter="id > 3"), "divided into shards"),
        (lambda files: ps.read_parquet(files).map(lambda batch: batch.slice(1)), "divided into shards"),
    ],
)
def test_a_stream_without_known_places_is_not_split(make: Any, told: str, files: Any) -> None:
    for part in make(files).train_test_split(0.5):
        with pytest.raises(ValueError, match=told):
            list(part)
