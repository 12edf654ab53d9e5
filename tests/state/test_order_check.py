"""Changed sources: a resumed pass notices one that gives its items in another order, or fewer of them."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from resuming import passed_on

ANOTHER_ORDER = "the state was taken after another item than"

Make = Callable[[Any], Any]


class Iterated:
    """Can be read again and again, and only by `iter`."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class Reader(ps.IterDataPipe[Any]):
    """An operator that says nothing of resuming."""

    def __init__(self, items: Any) -> None:
        self.items = [items]

    def __iter__(self) -> Iterator[Any]:
        yield from self.items[0]


MAKERS: dict[str, Make] = {
    "list": lambda items: ps.iter.IterableWrapper([*items]),
    "dict": lambda items: ps.iter.IterableWrapper(dict.fromkeys(items)),
    "an object with __iter__": lambda items: ps.iter.IterableWrapper(Iterated(items), deepcopy=False),
    "generator": lambda items: ps.iter.IterableWrapper(item for item in items),
    "an operator of one's own": Reader,
    "behind others": lambda items: ps.iter.IterableWrapper([*items]).map(str.upper).batch(1),
    "tuples": lambda items: ps.iter.IterableWrapper([(item, {}) for item in items]),
    "sampler": lambda items: ps.iter.Sampler("abcdef", Iterated(["abcdef".index(item) for item in items])),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_another_order_is_an_error_when_a_pass_goes_on(make: Make) -> None:
    expected = list(make("abcdef"))[3:]
    running = iter(dp := make("abcdef"))
    head = [*islice(running, 3)]
    states = [passed_on(dp)]
    del running
    states.append(passed_on(dp))  # after the pass was given up
    for state in states:
        resumed = make("abcdef")
        resumed.load_state_dict(state)
        assert list(resumed) == expected
        other = make("fabcde")
        other.load_state_dict(state)
        with pytest.raises(RuntimeError, match=ANOTHER_ORDER):
            next(iter(other))
        other = make("fabcde")
        other.load_state_dict(state, strict=False)
        assert len(list(other)) == len(expected) == len(head)


def test_a_folder_with_a_new_file_is_noticed(tmp_path: Path) -> None:
    for name in "bcd":
        (tmp_path / name).touch()
    dp = ps.iter.FileLister(tmp_path)
    running = iter(dp)
    assert next(running).endswith("b")
    state = dp.state_dict()
    resumed = ps.iter.FileLister(tmp_path)
    (tmp_path / "e").touch()  # after the place of the state: no item comes twice or never
    resumed.load_state_dict(state)
    assert [path[-1] for path in resumed] == ["c", "d", "e"]
    (tmp_path / "a").touch()
    resumed.load_state_dict(state)
    with pytest.raises(RuntimeError, match=ANOTHER_ORDER):
        next(iter(resumed))


def test_every_shard_of_a_loader_notices() -> None:
    def loader(items: str) -> Any:
        return ps.DataLoader2(ps.iter.IterableWrapper([*items]).sharding_filter())

    one = loader("abcdefgh")
    running = iter(one)
    next(running)
    state = one.state_dict()
    other = loader("habcdefg")
    other.load_state_dict(state)
    with pytest.raises(RuntimeError, match=ANOTHER_ORDER):
        list(other)
    other.load_state_dict(state, strict=False)
    assert list(other) == [*"abcdefg"]


def test_items_that_the_program_changes_are_not_compared() -> None:
    def chain() -> Any:
        return ps.iter.IterableWrapper([[n] for n in range(4)], deepcopy=False)

    dp = chain()
    running = iter(dp)
    next(running).append("changed")
    resumed = chain()
    resumed.load_state_dict(dp.state_dict())
    assert list(resumed) == [[1], [2], [3]]


@pytest.mark.parametrize("how", [lambda dp: dp.pipe(iter), lambda dp: dp.shuffle(buffer_size=3), lambda dp: dp])
def test_a_source_with_fewer_items_is_an_error(how: Callable[[Any], Any]) -> None:
    def loader(length: int) -> Any:
        source = how(ps.iter.IterableWrapper([0]).flatmap(lambda _: range(length)))
        return ps.DataLoader2(source.sharding_filter().pipe(iter))

    longer, shorter = loader(9), loader(4)
    assert len([*islice(longer, 6)]) == 6
    shorter.load_state_dict(longer.state_dict())
    with pytest.raises(RuntimeError, match="the source gave fewer items than when the state was taken"):
        list(shorter)


def _lines(path: Path, length: int) -> Any:
    path.write_text("".join(f"{n}\n" for n in range(length)))
    return ps.iter.IterableWrapper([path]).open_files().readlines()


def _tar(path: Path, length: int) -> Any:
    with tarfile.open(path, "w") as archive:
        for number in range(length):
            archive.addfile(tarfile.TarInfo(f"{number}.txt"))
    return ps.iter.IterableWrapper([path]).open_files("b").load_from_tar()


def _parquet(path: Path, length: int) -> Any:
    pq.write_table(pa.table({"n": range(length)}), path, row_group_size=2)
    return ps.read_parquet(path, batch_size=1)


def _row_groups_of_parquet(path: Path, length: int) -> Any:
    pq.write_table(pa.table({"n": range(length)}), path, row_group_size=1)
    return ps.read_parquet(path)


FILES = [_lines, _tar, _parquet, _row_groups_of_parquet]


@pytest.mark.parametrize("make", [*FILES, lambda _, length: ps.iter.IterableWrapper(n for n in range(length))])
def test_a_file_with_fewer_items_is_an_error(make: Callable[[Path, int], Any], tmp_path: Path) -> None:
    longer = make(tmp_path / "file", 8)
    running = iter(longer)
    assert len([*islice(running, 5)]) == 5
    state = longer.state_dict()
    running.close()
    shorter = make(tmp_path / "file", 5)
    shorter.load_state_dict(state)
    assert list(shorter) == []
    shorter = make(tmp_path / "file", 3)
    shorter.load_state_dict(state)
    with pytest.raises(RuntimeError, match="the source gave fewer items than when the state was taken"):
        list(shorter)


def test_workers_notice_another_order_in_each_epoch() -> None:
    def loader(items: str) -> Any:
        service = ps.MultiProcessingReadingService(2)
        return ps.DataLoader2(ps.iter.IterableWrapper([*items]).sharding_filter(), reading_service=service)

    states = []
    with loader("abcdefgh") as one:
        for _ in range(3):
            running = iter(one)
            assert [*islice(running, 4)] == [*"abcd"]
            states.append(one.state_dict())
            list(running)
    with loader("habcdefg") as other:
        for state in states:
            other.load_state_dict(state)
            with pytest.raises(RuntimeError, match=ANOTHER_ORDER):
                list(other)
