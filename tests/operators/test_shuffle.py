"""shuffle, in_batch_shuffle and Sampler: which orders come out, and what their states hold."""

from collections import Counter
from itertools import repeat

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

import penstock as ps
from penstock.registry import DataChunk
from resuming import assert_resumes_everywhere

numbers = ps.iter.IterableWrapper
Sampler, Shuffler = ps.iter.Sampler, ps.iter.Shuffler


def test_items_come_once_and_at_most_a_buffer_early():
    for size in (1, 10, 2000):
        order = list(numbers(range(1000)).shuffle(buffer_size=size).set_seed(0))
        assert max(item - place for place, item in enumerate(order)) <= (0 if size == 1 else size)
        assert (order == sorted(order)) == (size == 1)
        assert sorted(order) == list(range(1000))
    assert sorted(numbers([[1, 2], [3, 4]]).shuffle(unbatch_level=1)) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "orders",
    [
        lambda: map(list, repeat(numbers("abc").shuffle().set_seed(0), 6000)),
        lambda: numbers(["abc"] * 6000).in_batch_shuffle().set_seed(0),
    ],
    ids=["shuffle", "in_batch_shuffle"],
)
def test_all_orders_are_equally_likely(orders):
    seen = Counter(map("".join, orders()))
    assert len(seen) == 6
    # Chi-square of 6 equally likely orders, 5 degrees of freedom: above 25.7 in one of 10,000 runs; the seed is fixed.
    assert sum((count - 1000) ** 2 / 1000 for count in seen.values()) < 25.7


def test_the_first_item_is_drawn_evenly_from_the_buffer():
    dp = numbers(range(100)).shuffle(buffer_size=10).set_seed(1)
    seen = Counter(next(iter(dp)) for _ in range(5000))
    assert set(seen) == set(range(10))
    assert sum((count - 500) ** 2 / 500 for count in seen.values()) < 33.7  # 9 degrees of freedom, one of 10,000


def test_shuffling_can_be_switched_off_and_on():
    dp = numbers(range(50)).shuffle()
    assert list(dp.set_shuffle(False)) == list(range(50))
    assert list(dp.set_shuffle(True)) != list(range(50))
    dp = numbers(range(9)).batch(3).in_batch_shuffle()
    assert list(dp.set_shuffle(False)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


# in_batch_shuffle


def test_the_items_of_each_batch_come_in_another_order_as_a_new_list():
    items = [list(range(10)), list(range(10, 15)), [], [99]]
    dp = numbers(items, deepcopy=False).in_batch_shuffle().set_seed(1)
    batches = list(dp)
    assert [sorted(batch) for batch in batches] == items
    assert batches != items
    assert {type(batch) for batch in batches} == {DataChunk}
    assert all(batch is not item for batch, item in zip(batches, items, strict=True))
    for item in (3, {1, 2}):
        with pytest.raises(TypeError, match="in_batch_shuffle reads batches, such as lists, and this is a"):
            list(numbers([item]).in_batch_shuffle())


# Sampler


def test_a_sampler_gives_indices_and_takes_a_generator():
    assert list(Sampler([10, 20, 30])) == [0, 1, 2]
    assert list(Sampler(numbers([10, 20, 30]))) == [0, 1, 2]
    dp = Sampler(range(20), RandomSampler, sampler_kwargs={"generator": torch.Generator().manual_seed(5)})
    assert list(dp) == list(RandomSampler(range(20), generator=torch.Generator().manual_seed(5)))


@pytest.mark.parametrize(
    ("arguments", "kwargs", "length"),
    [
        ((RandomSampler,), {}, 9),
        ((RandomSampler, (True, 20)), {}, 20),
        ((RandomSampler,), {"num_samples": 4}, 4),
        ((RandomSampler(range(9)),), {}, 9),
        ((WeightedRandomSampler, None, {"weights": [1.0, 2.0, 3.0], "num_samples": 5}), {}, 5),
        ((SequentialSampler,), {}, 9),
        ((BatchSampler, (range(9), 2, False)), {}, 5),
        ((DistributedSampler, (), {"num_replicas": 2, "rank": 0}), {}, 5),
    ],
)
def test_samplers_of_torch_resume_and_have_another_order_each_pass(arguments, kwargs, length):
    dp = Sampler(range(9), *arguments, **kwargs).set_seed(1)
    assert len(dp) == length == len(list(dp))
    assert_resumes_everywhere(lambda: Sampler(range(9), *arguments, **kwargs).set_seed(1))
    kind = arguments[0]
    in_order = kind in (SequentialSampler, BatchSampler)
    assert (len({str([*dp]) for _ in range(4)}) > 1) != in_order
    assert getattr(kind, "generator", None) is None
