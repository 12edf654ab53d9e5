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
