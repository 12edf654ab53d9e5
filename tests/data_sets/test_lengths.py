"""The length of streams of which each reader has a part, and nobody knows how much is in it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

import penstock as ps
from penstock.datasets import Dataset, check_dataset
from penstock.registry import apply_sharding
from ranks import run_ranks

UNEQUAL = [5, 1, 2]


def _unequal(resources: Any, split: str) -> Any:
    """Numbers of files."""
    return ps.iter.IterableWrapper(UNEQUAL).shuffle().sharding_filter().flatmap(range)


def defined(pipe: Any = _unequal, count: int | None = 8, **arguments: Any) -> Any:
    return Dataset("unequal", pipe, splits={"all": count}, title="Unequal", register=False)(**arguments)


@pytest.fixture
def tables(tmp_path: Path) -> Any:
    """The rows of files that are divided."""
    for number, rows in enumerate(UNEQUAL):
        pq.write_table(pa.table({"x": range(rows)}), tmp_path / f"{number}.parquet")
    return lambda resources, split: ps.read_parquet(str(tmp_path)).rows()


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "This DataLoader will create")  # of more workers than processors
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
        yield


def chains(tables: Any) -> list[Any]:
    numbers = ps.iter.IterableWrapper(UNEQUAL)
    return [
        defined(),
        defined(tables),
        defined().map(str),
        numbers.sharding_filter().flatmap(range).set_length(8),
        numbers.flatmap(range).set_length(8).sharding_filter(),
        numbers.flatmap(range).sharding_filter().set_length(8).map(str),
    ]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_a_declared_length_is_that_of_all_readers_together(workers: int, tables: Any) -> None:
    for chain in chains(tables):
        assert len(chain) == 8
        with ps.DataLoader2(chain, reading_service=ps.MultiProcessingReadingService(workers)) as loader:
            assert len(loader) == len(list(loader)) == 8, chain
            running = iter(loader)
            next(running)
            state = loader.state_dict()
        with ps.DataLoader2(chain, reading_service=ps.MultiProcessingReadingService(workers)) as resumed:
            resumed.load_state_dict(state)
            assert len(resumed) == 8
            assert len(list(resumed)) == 7
            assert len(resumed) == 8
        by_torch: Any = DataLoader(chain, batch_size=None, num_workers=workers)
        assert len(by_torch) == len(list(by_torch)) == 8


def test_the_length_of_a_part_is_unknown() -> None:
    chain = defined()
    apply_sharding(chain, 2, 1)
    assert list(chain) == [0]
    with pytest.raises(TypeError, match=r"part 1 of 2 is unknown: set_length\(8\) counts the items of all parts"):
        len(chain)
    before = ps.iter.IterableWrapper(UNEQUAL).flatmap(range).set_length(8).sharding_filter().batch(3)
    apply_sharding(before, 3, 0)
    assert len(before) == len(list(before)) == 1


@pytest.mark.parametrize(
    "step", [lambda dp: dp.batch(3), lambda dp: dp.shuffle(), lambda dp: dp.map(str, on_error="skip")]
)
def test_what_steps_behind_it_make_of_the_parts_is_unknown(step: Any) -> None:
    """Three and one batches of parts of 7 and 1, and not the three of 8 items."""
    with ps.DataLoader2(step(defined()), reading_service=ps.MultiProcessingReadingService(2)) as loader:
        with pytest.raises(TypeError, match="unknown"):
            len(loader)
        assert len(list(loader)) in (4, 8)


def test_a_length_for_ranks_is_that_of_one_rank(tmp_path: Path) -> None:
    code = """
    for chain in (
        ps.iter.IterableWrapper([5, 1, 2]).sharding_filter().flatmap(range).set_length(8),
        ps.iter.IterableWrapper([5, 1, 2]).flatmap(range).set_length(8).sharding_filter(),
    ):
        for steps in None, 6:
            service = ps.DistributedReadingService(steps_per_epoch=steps, timeout=20)
            workers = ps.MultiProcessingReadingService(0, num_shards=2)
            with ps.DataLoader2(chain, reading_service=ps.SequentialReadingService(service, workers)) as loader:
                try:
                    length = len(loader)
                except TypeError as error:
                    length = str(error)
                say([length, len(list(loader))])
    """
    unknown = "of 2 is unknown: set_length(8) counts the items of all parts"
    for [(behind, items), told, *before] in run_ranks(tmp_path, code):
        assert unknown in behind
        assert "give steps_per_epoch" in behind
        assert items == 7
        assert told == [6, 6]
        assert before == [[4, 4], [6, 6]]
    (alone,) = run_ranks(tmp_path, code, ranks=1)
    assert alone == [[8, 8], [6, 6], [8, 8], [6, 6]]


@pytest.mark.parametrize("pipe", ["flatmap", "rows"])
def test_a_data_set_that_is_divided_before_items_are_made_many_holds_its_laws(pipe: str, tables: Any) -> None:
    """They are those of three files, whose order may stay."""
    with pytest.warns(UserWarning, match="of Unequal, two ranks have 7 and 1 samples.*whose ranks end together"):
        check_dataset(lambda **arguments: defined(tables if pipe == "rows" else _unequal, **arguments))


@pytest.mark.parametrize("files", [[3, 3], [3, 2], [2, 1, 1, 1]])
def test_nothing_is_said_of_ranks_that_have_equally_much_or_one_sample_more(files: list[int]) -> None:
    def pipe(resources: Any, split: str) -> Any:
        return ps.iter.IterableWrapper(files).shuffle().sharding_filter().flatmap(range)

    check_dataset(lambda **arguments: defined(pipe, sum(files), **arguments), laws=["two_ranks_read_it"])


def test_ranks_of_torchs_loader_end_apart_and_those_of_dataloader2_together(tmp_path: Path) -> None:
    code = """
    from torch.utils.data import DataLoader
    def chain():
        return ps.iter.IterableWrapper([5, 1, 2]).sharding_filter().flatmap(range)
    say([len(list(DataLoader(chain(), batch_size=2, num_workers=workers))) for workers in (0, 1)])
    for ends in "pad", "stop", "drop":
        service = ps.DistributedReadingService(timeout=20, ends=ends)
        with ps.DataLoader2(chain().batch(2), reading_service=service) as loader:
            say(len(list(loader)))
    """
    first, second = run_ranks(tmp_path, code)
    assert (first[0], second[0]) == ([4, 4], [1, 1])
    assert first[1:] == second[1:] == [4, 1, 1]


def test_a_definition_without_a_count_has_no_length_there() -> None:
    with pytest.raises(TypeError, match="has no len"):
        len(defined(count=None))
