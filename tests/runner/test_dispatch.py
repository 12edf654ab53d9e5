"""What stands before a sharding_round_robin_dispatch is read once, in one process, for all workers."""

import csv
import io
import multiprocessing
import os
import re
import signal
from itertools import islice

import pytest

import penstock as ps
from penstock import DataLoader2, MultiProcessingReadingService
from penstock.registry import SHARDING_PRIORITIES

pytestmark = pytest.mark.timeout(60)

WORKERS = pytest.mark.parametrize("workers", [0, 1, 2, 3])


def dispatched(dp):
    return dp.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)


def loader_of(dp, workers, **options):
    return DataLoader2(dp, reading_service=MultiProcessingReadingService(workers, **options))


class Once(ps.IterDataPipe):
    """A source that writes down which process reads it, and that may be read but once in each."""

    def __init__(self, folder, items):
        self.folder, self.items = folder, items

    def __iter__(self):
        path = self.folder / str(os.getpid())
        path.write_text(path.read_text() + "x" if path.exists() else "x")
        yield from range(self.items)


@WORKERS
def test_one_process_reads_the_stream_once_in_each_epoch_for_all(tmp_path, workers):
    dp = dispatched(Once(tmp_path, 20).shuffle(buffer_size=5)).map(lambda x: (x, os.getpid()))
    with loader_of(dp, workers, num_shards=4) as loader:
        for epoch in (1, 2):
            items = list(loader)
            assert sorted(x for x, _ in items) == [*range(20)]
            (reader,) = tmp_path.iterdir()
            assert reader.read_text() == "x" * epoch
    processes = {process for _, process in items}
    assert len(processes) == max(workers, 1)
    assert (int(reader.name) in processes) == (workers == 0)


def shuffled_and_dispatched(workers, num_shards=4):
    loader = loader_of(dispatched(ps.iter.IterableWrapper(range(600)).shuffle()), workers, num_shards=num_shards)
    loader.seed(0)
    return loader


def test_a_state_of_shards_is_plain_data_as_it_is():
    with shuffled_and_dispatched(0) as loader, shuffled_and_dispatched(0) as other:
        whole = list(loader)
        items = iter(other)
        for count in range(1, 10):
            next(items)
            with shuffled_and_dispatched(0) as resumed:
                resumed.load_state_dict(other.state_dict())
                assert list(resumed) == whole[count:]


def test_there_may_be_more_shards_than_descriptors_of_a_fork_server():
    with shuffled_and_dispatched(0, num_shards=300) as loader:
        whole = list(loader)
    with shuffled_and_dispatched(2, num_shards=300) as loader:
        assert list(loader) == whole


@WORKERS
def test_shards_of_very_uneven_appetite_get_all(workers):
    dp = dispatched(ps.iter.IterableWrapper(range(2000))).filter(lambda x: x % 2 == 0 or x > 1990)
    with loader_of(dp, workers, num_shards=2, worker_prefetch_cnt=2) as loader:
        assert sorted(loader) == sorted(x for x in range(2000) if x % 2 == 0 or x > 1990)


@WORKERS
def test_epochs_that_are_given_up_leave_the_next_whole(workers):
    dp = dispatched(ps.iter.IterableWrapper(range(300))).map(lambda x: x)
    with loader_of(dp, workers, num_shards=3) as loader:
        for taken in (0, 1, 50, 2):
            assert list(islice(loader, taken)) == [*range(taken)]
        assert list(loader) == [*range(300)]


def test_an_epoch_is_given_up_before_every_shard_has_begun():
    dp = dispatched(ps.iter.IterableWrapper(range(30))).to_device("cpu").prefetch(3)
    for _ in range(5):
        with loader_of(dp, 0, num_shards=10) as loader:
            assert next(iter(loader)) == 0


def test_what_is_read_ahead_in_the_main_process_has_a_state_from_its_first_item():
    dp = ps.iter.IterableWrapper(range(50)).sharding_filter().to_device("cpu").map(abs).prefetch(3)
    for _ in range(20):
        with loader_of(dp, 0, num_shards=2) as loader:
            seen = []
            for item in loader:
                seen.append(item)
                state = loader.state_dict()
                if len(seen) == 9:
                    break
        with loader_of(dp, 0) as resumed:
            resumed.load_state_dict(state)
            assert [*seen, *resumed] == [*range(50)]


@WORKERS
def test_two_streams_meet_after_they_were_dispatched(workers):
    one = dispatched(ps.iter.IterableWrapper(range(9)))
    other = dispatched(ps.iter.IterableWrapper("abcdefghi"))
    with loader_of(one.zip(other), workers, num_shards=2) as loader:
        assert sorted(loader) == [*enumerate("abcdefghi")]


@WORKERS
def test_an_error_in_the_stream_says_where_and_the_next_epoch_begins_anew(workers):
    dp = dispatched(ps.iter.IterableWrapper(range(9)).map(lambda x: 1 // (x - 5))).map(lambda x: x)
    with loader_of(dp, workers, num_shards=2) as loader:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError) as caught:
                list(loader)
            assert "penstock: raised in Mapper(<lambda>), on 5" in caught.value.__notes__


def test_the_death_of_the_process_that_reads_the_stream_is_an_error_and_the_next_epoch_has_a_new_one():
    dp = dispatched(ps.iter.IterableWrapper(range(10_000))).map(lambda x: x)
    with loader_of(dp, 2) as loader:
        running = iter(loader)
        next(running)
        (victim,) = [each for each in multiprocessing.active_children() if each.name == "penstock-dispatcher"]
        pid = victim.pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="the process that reads the dispatched stream has ended") as caught:
            list(running)
        said = rf"penstock: the process that reads the dispatched stream \(process {pid}\) was killed by SIGKILL"
        assert re.fullmatch(said, caught.value.__notes__[-1])
        assert next(iter(loader)) == 0


@WORKERS
def test_a_shard_that_reads_its_part_again_gets_it_again(workers):
    dp = dispatched(ps.iter.IterableWrapper(range(6)).shuffle()).cycle(2)
    with loader_of(dp, workers, num_shards=2) as loader:
        items = list(loader)
    assert sorted(items[:6]) == [*range(6)]
    assert items == [*items[:6], *items[:6]]


def test_two_dispatched_streams_cannot_read_from_the_same():
    one, other = ps.iter.IterableWrapper(range(9)).shuffle().fork(2)
    dp = dispatched(one).zip(dispatched(other.map(str)))
    with loader_of(dp, 2) as loader, pytest.raises(RuntimeError, match="part of two streams that are dispatched.*meet"):
        list(loader)


def test_two_dispatched_streams_may_read_by_index_from_the_same():
    numbers = ps.map.SequenceWrapper(range(9))
    dp = dispatched(numbers.to_iter_datapipe()).zip(dispatched(numbers.to_iter_datapipe()))
    with loader_of(dp, 2) as loader:
        assert list(loader) == [(number, number) for number in range(9)]


def test_a_stream_of_a_dispatched_stream_cannot_be_dispatched():
    dp = dispatched(dispatched(ps.iter.IterableWrapper(range(9))).map(str))
    with loader_of(dp, 2) as loader, pytest.raises(RuntimeError, match="dispatched, and what is made of it once more"):
        list(loader)


READ_ONCE = {
    "generator": lambda: (number for number in range(9)),
    "lines": lambda: io.StringIO("a\nb\nc\n"),
    "csv.reader": lambda: csv.reader(io.StringIO("a\nb\nc\n")),
    "iterator": lambda: iter([*range(9)]),
}


@pytest.mark.parametrize("make", READ_ONCE.values(), ids=READ_ONCE)
def test_an_iterator_cannot_be_shared_by_the_shards_of_a_process(make):
    items = [*make()]
    shared = loader_of(ps.iter.IterableWrapper(make()).sharding_filter(), 0, num_shards=2)
    with shared as loader, pytest.raises(TypeError, match=r"IterableWrapper\(.*can be read once only: .*num_shards=1"):
        list(loader)
    for dp, shards in ((dispatched(ps.iter.IterableWrapper(make())), 2), (ps.iter.IterableWrapper(make()), 1)):
        with loader_of(dp, 0, num_shards=shards, require_sharding=False) as loader:
            assert list(loader) == items


def test_an_iterator_cannot_be_shared_by_the_shards_of_a_worker():
    def chain():
        return ps.iter.IterableWrapper(iter([*range(9)])).sharding_filter()

    with loader_of(chain(), 2, num_shards=2) as loader:
        assert list(loader) == [*range(9)]
    with loader_of(chain(), 2, num_shards=4) as loader, pytest.raises(TypeError, match="can be read once only"):
        list(loader)
