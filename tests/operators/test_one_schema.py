"""Readers of several files: all have the schema of the first file, also where other readers have it."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import penstock as ps

DAY = datetime.datetime(2024, 1, 1)
Write = Callable[[Path, int], None]


def parquet(*columns: dict[str, Any]) -> tuple[str, Write]:
    return "parquet", lambda path, number: pq.write_table(pa.table(columns[number]), path)


def text(kind: str, *contents: str) -> tuple[str, Write]:
    return kind, lambda path, number: path.write_text(contents[number]) and None


def numpy(*arrays: Any) -> tuple[str, Write]:
    def write(path: Path, number: int) -> None:
        with path.open("wb") as file:
            np.save(file, arrays[number])

    return "numpy", write


OTHERS = {
    "units": parquet({"t": pa.array([DAY], pa.timestamp("us"))}, {"t": pa.array([DAY], pa.timestamp("ns"))}),
    "widths": parquet({"n": pa.array([1], pa.int32())}, {"n": pa.array([1], pa.int64())}),
    "dates": parquet({"t": pa.array([DAY.date()])}, {"t": pa.array([DAY])}),
    "a column less": parquet({"a": [1], "b": [2]}, {"a": [1]}),
    "a column more": parquet({"a": [1]}, {"a": [1], "b": [2]}),
    "another order": parquet({"a": [1], "b": [2]}, {"b": [2], "a": [1]}),
    "fractions": text("csv", "t\n2024-01-01 00:00:00\n", "t\n2024-01-01 00:00:00.5\n"),
    "text": text("csv", "n\n1\n", "n\none\n"),
    "floats": text("json", '{"n": 1}\n', '{"n": 1.5}\n'),
    "units of arrays": numpy(np.array([DAY], "M8[s]"), np.array([DAY], "M8[ns]")),
    "dtypes": numpy(np.zeros((1, 2), np.float32), np.zeros((1, 2))),
}


def written(case: tuple[str, Write], folder: Path, number: int = 2) -> list[Path]:
    paths = [folder / f"{place}.{case[0]}" for place in range(number)]
    for place, path in enumerate(paths):
        case[1](path, place)
    return paths


def reading(case: tuple[str, Write], paths: list[Path], **options: Any) -> Any:
    files = ps.iter.IterableWrapper([*map(str, paths)]).sharding_filter()
    return getattr(files, f"read_{case[0]}")(**options)


def in_shards(chain: Any, number: int = 2) -> ps.DataLoader2[Any]:
    return ps.DataLoader2(chain, reading_service=ps.MultiProcessingReadingService(0, num_shards=number))


@pytest.mark.parametrize("case", [*OTHERS.values()], ids=OTHERS)
def test_a_file_with_another_schema_than_the_first_is_an_error_for_any_number_of_readers(
    case: tuple[str, Write], tmp_path: Path
) -> None:
    paths = written(case, tmp_path)
    said = r"as in .*0\..*, the first file: give columns that are the same"
    for number in (1, 2, 3):
        with pytest.raises(ValueError, match=said) as raised:
            list(in_shards(reading(case, paths).to_tensors(), number))
        assert any("1." in note for note in raised.value.__notes__)  # the file that differs
        assert "penstock-columns" not in {thread.name for thread in threading.enumerate()}
    dp = reading(case, paths)
    ps.registry.apply_sharding(dp, 2, 1)
    with pytest.raises(ValueError, match=said):
        list(dp)


@pytest.mark.parametrize("name", ["units", "units of arrays"])
def test_workers_and_torchs_workers_notice_another_schema(name: str, tmp_path: Path) -> None:
    case = OTHERS[name]
    paths = written(case, tmp_path)
    with (
        ps.DataLoader2(reading(case, paths), reading_service=ps.MultiProcessingReadingService(2)) as loader,
        pytest.raises(ValueError, match="the first file"),
    ):
        list(loader)
    with pytest.raises(ValueError, match="the first file"):
        list(DataLoader(reading(case, paths).to_tensors(), batch_size=None, num_workers=2))


@pytest.mark.parametrize("name", ["units", "units of arrays"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_resumed_pass_knows_the_schema_of_the_file_that_it_does_not_read(
    name: str, number: int, tmp_path: Path
) -> None:
    case = OTHERS[name]
    paths = written(case, tmp_path)
    paths = [paths[0], paths[0], paths[1]]
    loader = in_shards(reading(case, paths), number)
    assert len([*islice(loader, 2)]) == 2
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = in_shards(reading(case, paths), number)
    resumed.load_state_dict(state)
    with pytest.raises(ValueError, match="the first file"):
        list(resumed)


def test_the_first_file_may_be_gone_or_damaged(tmp_path: Path) -> None:
    case = OTHERS["widths"]
    first, second = written(case, tmp_path)
    first.write_bytes(b"damaged")
    with pytest.raises(pa.ArrowInvalid):
        list(in_shards(reading(case, [first, second])))
    skipping = in_shards(reading(case, [first, second], on_error="skip"))
    assert [batch.num_rows for batch in skipping] == [1]
    first.unlink()
    with pytest.raises(FileNotFoundError):
        list(in_shards(reading(case, [first, second])))


def test_a_file_with_another_schema_is_skipped_and_counted_on_request(tmp_path: Path) -> None:
    for name in ("units", "units of arrays"):
        paths = written(OTHERS[name], tmp_path)
        loader = in_shards(reading(OTHERS[name], paths, on_error="skip"))
        assert len(list(loader)) == 1
        assert sum(counts.get("skipped", 0) for counts in loader.stats().values()) == 1


def test_a_unified_schema_is_made_once_for_all_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = OTHERS["a column more"]
    paths = written(case, tmp_path)
    read: list[int] = []
    of_all = ps.pipes.iter.ParquetReader._unified

    def counted(self: Any, files: Any) -> Any:
        read.append(1)
        return of_all(self, files)

    monkeypatch.setattr(ps.pipes.iter.ParquetReader, "_unified", counted)
    batches = [batch.to_pydict() for batch in in_shards(reading(case, paths, unify=True))]
    assert batches == [{"a": [1], "b": [None]}, {"a": [1], "b": [2]}]
    assert len(read) == 1


def test_shapes_of_arrays_may_differ(tmp_path: Path) -> None:
    case = numpy(np.zeros((2, 3)), np.zeros((4, 5)))
    assert [batch.num_rows for batch in in_shards(reading(case, written(case, tmp_path)))] == [2, 4]


def test_files_on_both_sides_of_a_dispatched_stream_are_settled_where_they_are_read(tmp_path: Path) -> None:
    whole, divided = tmp_path / "whole", tmp_path / "divided"
    whole.mkdir()
    divided.mkdir()
    one = ps.read_parquet([str(path) for path in written(OTHERS["widths"], whole, 1)])
    dispatched = one.sharding_round_robin_dispatch(ps.registry.SHARDING_PRIORITIES.MULTIPROCESSING)
    paths = written(OTHERS["units"], divided)
    assert len(list(in_shards(dispatched.concat(reading(OTHERS["units"], paths[:1] * 3))))) == 4
    with pytest.raises(ValueError, match="timestamp.*the first file"):
        list(in_shards(dispatched.concat(reading(OTHERS["units"], paths))))


class Queue(ps.IterDataPipe[str]):
    """Takes each path off a list, as from a queue: what is looked at is gone."""

    waiting: ClassVar[list[str]] = []

    def __iter__(self) -> Iterator[str]:
        while self.waiting:
            yield self.waiting.pop(0)


def test_a_stream_that_can_be_read_once_is_not_looked_at(tmp_path: Path) -> None:
    case = parquet(*({"n": [number]} for number in range(6)))
    paths = [str(path) for path in written(case, tmp_path, 6)]
    level = ps.registry.SHARDING_PRIORITIES.MULTIPROCESSING

    def loader(**options: Any) -> ps.DataLoader2[Any]:
        Queue.waiting[:] = paths
        return in_shards(Queue().sharding_round_robin_dispatch(level).read_parquet(**options))

    assert [batch.to_pydict()["n"] for batch in loader()] == [[number] for number in range(6)]
    with pytest.raises(TypeError, match="a dispatched stream is read once only"):
        list(loader(unify=True))
    first = ps.iter.ParquetReader(Queue(), prefetch=1)
    Queue.waiting[:] = paths
    running = iter(first)
    next(running)
    state, left = first.state_dict(), len(Queue.waiting)
    running.close()
    resumed = ps.iter.ParquetReader(Queue(), prefetch=1)
    Queue.waiting.insert(0, paths[0])
    resumed.load_state_dict(state, strict=False)
    assert len(list(resumed)) == left


def test_the_first_file_of_shuffled_files_is_the_same_in_each_run(tmp_path: Path) -> None:
    case = parquet(*({"n": pa.array([number], (pa.int32(), pa.int64())[number % 2])} for number in range(8)))
    paths = [str(path) for path in written(case, tmp_path, 8)]

    def read() -> list[Any]:
        files = ps.iter.IterableWrapper(paths).shuffle().sharding_filter()
        loader = in_shards(files.read_parquet(on_error="skip"))
        loader.seed(7)
        return [batch.to_pydict()["n"] for _ in range(2) for batch in loader]

    before = torch.get_rng_state()
    found = read()
    assert [read() for _ in range(5)] == [found] * 5
    assert torch.equal(torch.get_rng_state(), before)


def test_a_reader_that_worker_init_fn_adds_has_a_first_file_of_its_own(tmp_path: Path) -> None:
    for name, case in {"one": parquet({"a": [1]}, {"a": [2]}), "other": parquet({"b": ["x"]}, {"b": ["y"]})}.items():
        (tmp_path / name).mkdir()
        written(case, tmp_path / name)
    paths = [str(tmp_path / "other" / f"{n}.parquet") for n in range(2)]

    def with_others(chain: Any, info: Any) -> Any:
        return ps.iter.IterableWrapper(paths).read_parquet().concat(chain)

    service = ps.MultiProcessingReadingService(0, num_shards=2, worker_init_fn=with_others)
    one = [tmp_path / "one" / f"{n}.parquet" for n in range(2)]
    loader = ps.DataLoader2(reading(("parquet", lambda path, number: None), one), reading_service=service)
    assert len(list(loader)) == 6


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_first_file_without_rows_says_nothing_of_types(number: int, tmp_path: Path) -> None:
    case = text("csv", "a,b\n", "a,b\n1,2\n", "a,b\n3,4\n")
    loader = in_shards(reading(case, written(case, tmp_path, 3)), number)
    assert sorted(batch.to_pydict()["a"][0] for batch in loader) == [1, 3]


@pytest.mark.parametrize("settled", [5, ["a"], {"0": 1}, [5, 6]])
def test_a_state_without_a_first_file_is_a_clear_error(settled: Any, tmp_path: Path) -> None:
    case = OTHERS["widths"]
    paths = written(case, tmp_path)
    loader = in_shards(reading(case, [paths[0]] * 4))
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    state["state"]["steps"][0]["own"]["settled"] = [settled]
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="the state has no first file and schema for ParquetReader"):
        list(loader)


@pytest.mark.parametrize("shards", [1, 2])
def test_no_files_give_no_rows_with_unify(shards: int) -> None:
    dp = ps.iter.IterableWrapper([]).sharding_filter().read_parquet(unify=True)
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_shards=shards)) as loader:
        assert list(loader) == []
    with pytest.raises(ValueError, match="there is no file, or only empty ones, so no schema"):
        dp.schema()
