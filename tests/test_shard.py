"""sharding_filter: the parts make the whole, at every level."""

from itertools import chain

import pytest
from torch.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe
from torch.utils.data.graph_settings import apply_sharding as torch_apply_sharding

import penstock as ps
from penstock.registry import SHARDING_PRIORITIES, apply_sharding
from resuming import assert_resumes_everywhere

numbers = ps.iter.IterableWrapper


@pytest.mark.parametrize("items", [0, 1, 5, 15, 16])
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_the_parts_make_the_whole_and_know_their_length(items, parts):
    together = []
    for part in range(parts):
        dp = numbers(range(items)).sharding_filter()
        dp.apply_sharding(parts, part)
        shard = list(dp)
        assert shard == list(range(part, items, parts))
        assert len(dp) == len(shard)
        together += shard
    assert sorted(together) == list(range(items))


def test_levels_multiply_and_neighbours_in_the_stream_go_to_different_ranks():
    parts = {}
    for rank in range(2):
        for worker in range(3):
            dp = numbers(range(12)).sharding_filter()
            dp.apply_sharding(3, worker, SHARDING_PRIORITIES.MULTIPROCESSING)
            dp.apply_sharding(2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
            parts[rank, worker] = list(dp)
    assert sorted(chain(*parts.values())) == list(range(12))
    for (rank, worker), mine in parts.items():
        torchs = ShardingFilterIterDataPipe(numbers(range(12)))
        torchs.apply_sharding(3, worker, SHARDING_PRIORITIES.MULTIPROCESSING)
        torchs.apply_sharding(2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
        assert list(torchs) == mine


def test_only_the_named_level_counts():
    dp = numbers(range(6)).sharding_filter(SHARDING_PRIORITIES.DISTRIBUTED)
    dp.apply_sharding(3, 1, SHARDING_PRIORITIES.MULTIPROCESSING)
    dp.apply_sharding(2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    assert list(dp) == [1, 3, 5]


def test_mixing_the_default_level_with_others_is_an_error():
    dp = numbers(range(6)).sharding_filter()
    dp.apply_sharding(2, 0)
    with pytest.raises(RuntimeError, match="level by level"):
        dp.apply_sharding(2, 0, SHARDING_PRIORITIES.DISTRIBUTED)


@pytest.mark.parametrize("part", [-1, 2])
def test_a_part_that_is_none_is_an_error(part):
    with pytest.raises(ValueError, match=f"instance_id must be in 0 … 1, and is {part}"):
        numbers([]).sharding_filter().apply_sharding(2, part)


@pytest.mark.parametrize("apply", [apply_sharding, torch_apply_sharding], ids=["ours", "torch's"])
def test_sharding_twice_on_one_path_is_an_error(apply):
    with pytest.raises(RuntimeError, match=r"(?i)shard.*twice"):
        apply(numbers(range(6)).sharding_filter().map(str).sharding_filter(), 2, 0)


@pytest.mark.parametrize("apply", [apply_sharding, torch_apply_sharding], ids=["ours", "torch's"])
def test_sharding_points_side_by_side_are_all_told(apply):
    dp = numbers(range(4)).sharding_filter().zip(numbers("abcd").sharding_filter())
    apply(dp, 2, 1)
    assert list(dp) == [(1, "b"), (3, "d")]


@pytest.mark.parametrize("part", [0, 1, 2])
def test_resuming(part):
    def sharded():
        dp = numbers(range(11)).shuffle(buffer_size=3).set_seed(1).sharding_filter()
        dp.apply_sharding(3, part)
        return dp

    assert_resumes_everywhere(sharded)


def test_a_state_of_another_number_of_parts_is_refused():
    def part(parts):
        dp = numbers(range(20)).sharding_filter()
        dp.apply_sharding(parts, 0)
        return dp

    dp = part(2)
    next(running := iter(dp))
    other = part(4)
    other.load_state_dict(dp.state_dict())
    with pytest.raises(ValueError, match="the state is that of one of 2 parts, and the chain is now read in 4"):
        list(other)
    assert list(running) == list(range(2, 20, 2))


def sharded(make, parts):
    shards = []
    for part in range(parts):
        dp = make()
        apply_sharding(dp, parts, part)
        shards.append(list(dp))
    return shards


def test_batches_of_a_part_and_parts_of_batches():
    assert sharded(lambda: numbers(range(15)).sharding_filter().batch(5), 2) == [
        [[0, 2, 4, 6, 8], [10, 12, 14]],
        [[1, 3, 5, 7, 9], [11, 13]],
    ]
    assert sharded(lambda: numbers(range(15)).batch(5).sharding_filter(), 2) == [
        [[0, 1, 2, 3, 4], [10, 11, 12, 13, 14]],
        [[5, 6, 7, 8, 9]],
    ]


def test_the_length_is_that_of_the_part_even_where_it_was_asked_for_before():
    dp = numbers(range(15)).sharding_filter().batch(5)
    assert len(dp) == 3
    apply_sharding(dp, 2, 1)
    assert len(dp) == 2
    assert len(list(dp)) == 2


def test_a_state_of_another_part_is_refused():
    first, second = numbers(range(6)).sharding_filter(), numbers(range(6)).sharding_filter()
    first.apply_sharding(2, 0)
    second.apply_sharding(2, 1)
    next(iter(running := iter(first)))
    second.load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match=r"that of part 0 of 2, and this is part 1.*the state that it saved itself"):
        list(second)
    del running


def test_a_point_of_ones_own_that_keeps_one_level_is_not_sharded_at_two():
    class Mine(ps.IterDataPipe):
        def __init__(self, source):
            self.source, self.part = source, (1, 0)

        def apply_sharding(self, num_of_instances, instance_id):
            self.part = (num_of_instances, instance_id)

        def __iter__(self):
            parts, part = self.part
            yield from list(self.source)[part::parts]

    dp = Mine(numbers(range(6)))
    apply_sharding(dp, 2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    assert list(dp) == [1, 3, 5]
    with pytest.raises(RuntimeError, match="Mine is sharded over ranks and over workers, and keeps the last only"):
        apply_sharding(dp, 2, 1, SHARDING_PRIORITIES.MULTIPROCESSING)


LEVELS = SHARDING_PRIORITIES


def dispatched():
    return numbers(range(12)).sharding_filter().map(str).sharding_round_robin_dispatch(LEVELS.MULTIPROCESSING)


def test_a_dispatcher_shares_among_workers_what_the_filter_before_it_shares_among_ranks():
    parts = {}
    for rank in range(2):
        for worker in range(3):
            dp = dispatched()
            apply_sharding(dp, 2, rank, LEVELS.DISTRIBUTED)
            apply_sharding(dp, 3, worker, LEVELS.MULTIPROCESSING)
            parts[rank, worker] = list(map(int, dp))
    assert parts[0, 0] == [0, 6]
    assert parts[1, 2] == [5, 11]
    assert sorted(chain(*parts.values())) == list(range(12))


def test_a_dispatcher_passes_all_where_there_are_no_workers_and_resumes_where_there_are():
    assert list(map(int, dispatched())) == list(range(12))

    def part():
        dp = dispatched()
        apply_sharding(dp, 3, 1, LEVELS.MULTIPROCESSING)
        return dp

    assert_resumes_everywhere(part)


@pytest.mark.parametrize("level", [None, LEVELS.DEFAULT, LEVELS.DISTRIBUTED])
def test_a_dispatcher_is_for_workers_only(level):
    with pytest.raises(NotImplementedError, match="for ranks and all other levels use sharding_filter"):
        numbers([]).sharding_round_robin_dispatch(level)


def test_of_two_dispatchers_on_one_path_the_last_shares_out():
    dp = dispatched().sharding_round_robin_dispatch(LEVELS.MULTIPROCESSING)
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


def test_expanding_resumes_and_tells_what_it_cannot_expand():
    assert_resumes_everywhere(lambda: numbers(["a-{0..2}", "b", "c-{00..01}"]).shard_expand(), passes=3)
    with pytest.raises(ValueError, match=r"the range \{5\.\.3\} runs backwards: write it as \{3\.\.5\}"):
        list(numbers(["x-{5..3}"]).shard_expand())
    with pytest.raises(TypeError, match="names are expanded, and this is of type int"):
        list(numbers([3]).shard_expand())
