"""sharding_filter: the parts make the whole, at every level."""

from itertools import chain

import pytest
from torch.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe
from torch.utils.data.graph_settings import apply_sharding as torch_apply_sharding

import penstock as ps
from penstock.pipes.iter import MapToIterConverter
from penstock.pipes.map import SequenceWrapper
from penstock.registry import SHARDING_PRIORITIES, apply_sharding, walk
from resuming import assert_resumes_everywhere
from together import Together

numbers = ps.iter.IterableWrapper
LEVELS = SHARDING_PRIORITIES


@pytest.mark.parametrize("items", [0, 5, 16])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_the_parts_make_the_whole_and_know_their_length(items, parts):
    for part in range(parts):
        dp = numbers(range(items)).sharding_filter()
        dp.apply_sharding(parts, part)
        assert list(dp) == list(range(part, items, parts))
        assert len(dp) == len(range(part, items, parts))
        batched = dp.batch(2)
        assert len(batched) == len(list(batched))


def test_levels_multiply_as_in_torch_unless_one_is_named():
    parts = {}
    for rank in range(2):
        for worker in range(3):
            ours, torchs = numbers(range(12)).sharding_filter(), ShardingFilterIterDataPipe(numbers(range(12)))
            named = numbers(range(12)).sharding_filter(LEVELS.DISTRIBUTED)
            for dp in (ours, torchs, named):
                dp.apply_sharding(3, worker, LEVELS.MULTIPROCESSING)
                dp.apply_sharding(2, rank, LEVELS.DISTRIBUTED)
            parts[rank, worker] = list(ours)
            assert list(torchs) == parts[rank, worker]
            assert list(named) == list(range(rank, 12, 2))
    assert sorted(chain(*parts.values())) == list(range(12))


@pytest.mark.parametrize("apply", [apply_sharding, torch_apply_sharding], ids=["ours", "torch's"])
def test_points_side_by_side_are_all_told_and_two_on_one_path_are_an_error(apply):
    dp = numbers(range(4)).sharding_filter().zip(numbers("abcd").sharding_filter())
    apply(dp, 2, 1)
    assert list(dp) == [(1, "b"), (3, "d")]
    with pytest.raises(RuntimeError, match=r"(?i)shard.*twice"):
        apply(numbers(range(6)).sharding_filter().map(str).sharding_filter(), 2, 0)


@pytest.mark.parametrize(
    ("parts", "part", "message"),
    [
        (4, 0, "the state is that of one of 2 parts, and the chain is now read in 4"),
        (2, 1, "that of part 0 of 2, and this is part 1.*every rank needs its own state"),
    ],
)
def test_a_state_of_another_part_is_refused(parts, part, message):
    dp = numbers(range(20)).sharding_filter()
    dp.apply_sharding(2, 0)
    next(running := iter(dp))
    other = numbers(range(20)).sharding_filter()
    other.apply_sharding(parts, part)
    other.load_state_dict(dp.state_dict())
    with pytest.raises(ValueError, match=message):
        list(other)
    assert list(running) == list(range(2, 20, 2))


def test_a_point_that_keeps_one_level_refuses_two():
    class Mine(ps.IterDataPipe):
        def __init__(self, source):
            self.source, self.part = source, (1, 0)

        def apply_sharding(self, num_of_instances, instance_id):
            self.part = (num_of_instances, instance_id)

        def __iter__(self):
            parts, part = self.part
            yield from list(self.source)[part::parts]

    dp = Mine(numbers(range(6)))
    apply_sharding(dp, 2, 1, LEVELS.DISTRIBUTED)
    assert list(dp) == [1, 3, 5]
    with pytest.raises(RuntimeError, match="Mine is sharded over ranks and over workers, and keeps the last only"):
        apply_sharding(dp, 2, 1, LEVELS.MULTIPROCESSING)


def dispatched():
    return numbers(range(12)).sharding_filter().map(str).sharding_round_robin_dispatch(LEVELS.MULTIPROCESSING)


def test_a_dispatcher_shares_the_part_of_a_rank_among_workers():
    parts = {}
    for rank in range(2):
        for worker in range(3):
            dp = dispatched()
            apply_sharding(dp, 2, rank, LEVELS.DISTRIBUTED)
            apply_sharding(dp, 3, worker, LEVELS.MULTIPROCESSING)
            parts[rank, worker] = list(map(int, dp))
    assert parts[0, 0] == [0, 6]
    assert parts[1, 2] == [5, 11]
    assert sorted(chain(*parts.values())) == list(range(12)) == list(map(int, dispatched()))
    dp = dispatched().sharding_round_robin_dispatch(LEVELS.MULTIPROCESSING)  # of two on a path the last shares out
    apply_sharding(dp, 2, 0, LEVELS.MULTIPROCESSING)
    assert sorted(map(int, dp)) == list(range(0, 12, 2))


@pytest.mark.parametrize(
    ("name", "expanded"),
    [
        ("plain.tar", ["plain.tar"]),
        ("", [""]),
        ("a-{08..11}", ["a-08", "a-09", "a-10", "a-11"]),
        ("{9..11}", ["9", "10", "11"]),
        ("{0..1}/x-{5..6}.tar", ["0/x-5.tar", "0/x-6.tar", "1/x-5.tar", "1/x-6.tar"]),
        ("{3..3}{{", ["3{{"]),
        ("{a..c}{1,2}{-1..1}x@3{0..2", ["{a..c}{1,2}{-1..1}x@3{0..2"]),
    ],
)
def test_expanding_the_ranges_in_a_name(name, expanded):
    assert list(numbers([name]).shard_expand()) == expanded


# Shares of what is read by index


class Noting(SequenceWrapper):
    """Items of which it is known which were read."""

    def __init__(self, n):
        super().__init__(range(n), deepcopy=False)
        self.read = []

    def __getitem__(self, index):
        self.read.append(index)
        return super().__getitem__(index)


class Lengthless:
    def __iter__(self):
        return iter(range(10))


LENGTHLESS = Lengthless()
BY_INDEX = {
    "to_iter": lambda dp: dp.to_iter_datapipe(),
    "to_iter with indices": lambda dp: dp.to_iter_datapipe([3, 1, 4, 1, 5, 9, 2, 6, 5, 3]),
    "to_iter with lengthless indices": lambda dp: dp.to_iter_datapipe(LENGTHLESS),
    "shuffle": lambda dp: dp.shuffle().set_seed(1),
    "shuffle with indices": lambda dp: dp.shuffle(indices=[3, 1, 4, 1, 5, 9, 2, 6]).set_seed(1),
    "shuffle switched off": lambda dp: dp.shuffle().set_seed(1).set_shuffle(False),
}


@pytest.mark.parametrize("order", BY_INDEX.values(), ids=BY_INDEX)
@pytest.mark.parametrize("parts", [1, 3, 12])
def test_parts_by_index_read_their_own_items_only(order, parts):
    whole = list(order(Noting(10)))
    for part in range(parts):
        source = Noting(10)
        dp = order(source).sharding_filter()
        apply_sharding(dp, parts, part)
        assert list(dp) == source.read == whole[part::parts]


def read_in_full(dp):
    """Make a pipe one of a class with an `__iter__` of its own, of which all items are read."""

    class Own(type(dp)):
        resumes_from_start = False

        def __iter__(self):
            return super().__iter__()

    dp.__class__ = Own


@pytest.mark.parametrize("order", BY_INDEX.values(), ids=BY_INDEX)
@pytest.mark.parametrize("parts", [1, 3])
def test_parts_by_index_have_the_states_of_filtering(order, parts):
    for part in range(parts):
        by_index, filtering = order(Noting(10)), order(Noting(10))
        read_in_full(filtering)
        chains = by_index.sharding_filter(), filtering.sharding_filter()
        for dp in chains:
            apply_sharding(dp, parts, part)
        assert list(chains[0]) == list(chains[1])
        for items in zip(*chains, strict=True):
            assert items[0] == items[1]
            states = [dp.state_dict()["state"] for dp in chains]
            assert states[0] == states[1]
        assert parts == 1 or len(filtering.source.read) > len(by_index.source.read)  # or both would be read by index


def test_a_class_with_an_iter_of_its_own_is_not_passed_by():
    class Negative(MapToIterConverter):
        def __iter__(self):
            return (-item for item in super().__iter__())

    dp = Negative(Noting(7)).sharding_filter()
    apply_sharding(dp, 3, 1)
    assert list(dp) == [-1, -4]
    assert list(Negative(Noting(3)).batch(2)) == [[0, -1], [-2]]


def nested():
    return Noting(24).shuffle().set_seed(4).sharding_filter(LEVELS.DISTRIBUTED).sharding_filter(LEVELS.MULTIPROCESSING)


@pytest.mark.parametrize(
    ("chain", "share"),
    [
        (nested, lambda items, rank, worker: items[rank::2][worker::3]),
        (
            lambda: Noting(24).shuffle().set_seed(4).sharding_filter(),
            lambda items, rank, worker: items[worker::3][rank::2],
        ),
    ],
    ids=["two filters", "one of two levels"],
)
def test_two_levels_of_parts_read_their_own_items_only(chain, share):
    whole = list(chain())
    for rank in range(2):
        for worker in range(3):
            dp = chain()
            apply_sharding(dp, 2, rank, LEVELS.DISTRIBUTED)
            apply_sharding(dp, 3, worker, LEVELS.MULTIPROCESSING)
            expected = share(whole, rank, worker)
            assert list(dp) == expected
            (source,) = [pipe for pipe in walk(dp) if isinstance(pipe, Noting)]
            assert source.read == expected
    for level, parts in ((LEVELS.DISTRIBUTED, 2), (LEVELS.MULTIPROCESSING, 3)):  # a filter not in use passes them on
        dp = chain()
        apply_sharding(dp, parts, 1, level)
        assert list(dp) == whole[1::parts]


@pytest.mark.parametrize("chain", [lambda dp: dp.sharding_filter(), lambda dp: dp.sharding_filter().sharding_filter()])
def test_batches_of_a_part_are_read_by_one_call_each(chain):
    def make(part):
        data = Together(15)
        dp = chain(SequenceWrapper(data, deepcopy=False).shuffle().set_seed(2)).batch(2)
        list(walk(dp))[1].apply_sharding(3, part)
        return data, dp

    items = []
    for part in range(3):
        data, dp = make(part)
        batches = list(dp)
        assert data.calls == batches
        assert [len(batch) for batch in batches] == [2, 2, 1]
        items += [item for batch in batches for item in batch]
        dp.take(1)
        data, resumed = make(part)
        resumed.load_state_dict(dp.state_dict())
        assert list(resumed) == data.calls
        assert [len(call) for call in data.calls] == [2, 1]
    assert sorted(items) == list(range(15))


@pytest.mark.parametrize("kind", [list, range, set, iter], ids=["list", "range", "set", "iterator"])
def test_parts_of_a_list_are_those_of_any_iterable_and_resume(kind):
    def make(part=1):
        dp = numbers(range(11) if kind is range else kind(range(11)), deepcopy=kind is not iter)
        dp = dp.sharding_filter().map(lambda x: x)
        apply_sharding(dp, 3, part)
        return dp

    for part in range(3):
        assert list(make(part)) == list(range(11))[part::3]
    if kind is not iter:  # which one pass exhausts
        assert_resumes_everywhere(make, passes=2)
