"""shuffle, in_batch_shuffle and Sampler: which orders come out, and what their states hold."""

import json
from collections import Counter

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper
from torch.utils.data.distributed import DistributedSampler

import penstock as ps
from penstock.registry import DataChunk
from resuming import assert_resumes_everywhere, passed_on

numbers = ps.iter.IterableWrapper
Sampler, Shuffler = ps.iter.Sampler, ps.iter.Shuffler


def test_every_item_comes_once_whatever_the_size_of_the_buffer():
    for size in (1, 2, 7, 20, 1000):
        assert sorted(numbers(range(20)).shuffle(buffer_size=size)) == list(range(20))


def test_a_buffer_of_one_leaves_the_order():
    assert list(numbers(range(20)).shuffle(buffer_size=1)) == list(range(20))


def test_an_item_comes_at_most_a_buffer_early():
    order = list(numbers(range(1000)).shuffle(buffer_size=10).set_seed(0))
    assert max(item - place for place, item in enumerate(order)) <= 10
    assert order != sorted(order)


def test_all_orders_are_equally_likely_when_the_buffer_holds_the_stream():
    dp = numbers("abc").shuffle().set_seed(0)
    seen = Counter("".join(dp) for _ in range(6000))
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


def test_unbatching_before():
    dp = numbers([[1, 2], [3, 4]]).shuffle(unbatch_level=1)
    assert sorted(dp) == [1, 2, 3, 4]


def test_a_wrong_buffer_size_raises_at_construction():
    with pytest.raises(ValueError, match="buffer_size must be at least 1, and is 0"):
        numbers([]).shuffle(buffer_size=0)


def test_resuming_over_pipes_of_torch():
    assert_resumes_everywhere(lambda: Shuffler(TorchIterableWrapper(range(9)), buffer_size=3).set_seed(1))


@pytest.mark.parametrize("size", [1, 3, 100])
def test_resuming(size):
    assert_resumes_everywhere(lambda: numbers(range(25)).shuffle(buffer_size=size).set_seed(1))
    assert_resumes_everywhere(
        lambda: numbers(range(9)).flatmap(lambda n: [n] * (n % 3)).shuffle(buffer_size=size).set_seed(1).batch(2)
    )


def test_a_state_holds_numbers_and_no_items():
    dp = numbers(["secret payload"] * 50).shuffle(buffer_size=10).set_seed(1)
    running = iter(dp)
    next(running)
    assert "payload" not in json.dumps(dp.state_dict())


def test_resuming_over_a_source_that_has_become_shorter_is_an_error():
    dp = numbers(range(30)).shuffle(buffer_size=10).set_seed(1)
    running = iter(dp)
    for _ in range(15):
        next(running)
    shorter = numbers(range(5)).shuffle(buffer_size=10).set_seed(1)
    shorter.load_state_dict(dp.state_dict(), strict=False)
    with pytest.raises(RuntimeError, match="fewer items than when the state was taken"):
        list(shorter)


def test_states_of_a_long_pass_stay_bounded():
    dp = numbers(range(20_000)).shuffle(buffer_size=50).set_seed(1)
    sizes = [len(json.dumps(dp.state_dict())) for place, _ in enumerate(dp) if place % 1000 == 0]
    assert max(sizes) < 2 * sizes[0]


# in_batch_shuffle


def test_the_items_of_each_batch_come_in_another_order_as_a_new_list():
    items = [list(range(10)), list(range(10, 15)), [], [99]]
    dp = numbers(items, deepcopy=False).in_batch_shuffle().set_seed(1)
    batches = list(dp)
    assert [sorted(batch) for batch in batches] == items
    assert batches != items
    assert items == [list(range(10)), list(range(10, 15)), [], [99]]
    assert {type(batch) for batch in batches} == {DataChunk}
    assert all(batch is not item for batch, item in zip(batches, items, strict=True))
    assert len(dp) == 4


def test_all_orders_of_a_batch_are_equally_likely():
    seen = Counter("".join(batch) for batch in numbers(["abc"] * 6000).in_batch_shuffle().set_seed(0))
    assert len(seen) == 6
    assert sum((count - 1000) ** 2 / 1000 for count in seen.values()) < 25.7  # 5 degrees of freedom, one of 10,000


def test_each_batch_and_each_pass_has_an_order_of_its_own():
    dp = numbers([list(range(20))] * 3).in_batch_shuffle().set_seed(1)
    orders = [tuple(batch) for _ in range(2) for batch in dp]
    assert len({*orders}) == 6
    assert [tuple(batch) for batch in dp.set_seed(1)] == orders[:3]


def test_in_batch_shuffle_can_be_switched_off():
    dp = numbers(range(9)).batch(3).in_batch_shuffle()
    assert list(dp.set_shuffle(False)) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize("item", [3, iter([1]), {1, 2}])
def test_in_batch_shuffle_of_what_is_no_batch_is_an_error(item):
    with pytest.raises(
        TypeError, match=f"in_batch_shuffle reads batches, such as lists, and this is a {type(item).__name__}"
    ):
        list(numbers([item]).in_batch_shuffle())


def test_in_batch_shuffle_resumes():
    assert_resumes_everywhere(
        lambda: numbers(range(11)).shuffle(buffer_size=3).set_seed(2).batch(3).in_batch_shuffle().set_seed(1)
    )
    assert_resumes_everywhere(lambda: numbers(range(11)).batch(3).in_batch_shuffle().set_seed(1).unbatch().batch(2))


# Sampler


def test_a_sampler_gives_indices():
    assert list(Sampler([10, 20, 30])) == [0, 1, 2]
    assert list(Sampler(numbers([10, 20, 30]))) == [0, 1, 2]
    letters = ps.map.SequenceWrapper("abc")
    dp = Sampler(letters, RandomSampler).map(letters.__getitem__)
    assert sorted(dp) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("sampler", "args", "kwargs", "length"),
    [
        (RandomSampler, None, None, 9),
        (RandomSampler, (True, 20), None, 20),
        (RandomSampler, None, {"num_samples": 4}, 4),
        (RandomSampler, (), {"replacement": True}, 9),
        (SubsetRandomSampler, ([3, 5, 7],), None, 3),
        (WeightedRandomSampler, None, {"weights": [1.0, 2.0, 3.0], "num_samples": 5}, 5),
        (SequentialSampler, None, None, 9),
        (BatchSampler, (range(9), 2, False), None, 5),
        (DistributedSampler, (), {"num_replicas": 2, "rank": 0}, 5),
    ],
)
def test_samplers_of_torch_go_on_exactly(sampler, args, kwargs, length):
    dp = Sampler(range(9), sampler, args, kwargs)
    assert len(dp) == length == len(list(dp))
    assert_resumes_everywhere(lambda: Sampler(range(9), sampler, args, kwargs).set_seed(1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sampler(range(9), RandomSampler, num_samples=4),
        lambda: Sampler(range(9), RandomSampler(range(9))),
        lambda: Sampler(range(9), BatchSampler(RandomSampler(range(9)), 2, False)),
        lambda: Sampler(range(9), DistributedSampler(range(9), num_replicas=2, rank=1)),
    ],
)
def test_samplers_with_keywords_and_made_samplers_go_on_exactly_in_another_order_each_pass(make):
    assert_resumes_everywhere(lambda: make().set_seed(1))
    dp = make().set_seed(1)
    assert len(dp) == len(list(dp))
    assert len({str([*dp]) for _ in range(4)}) > 1


def test_a_made_sampler_stays_as_it_is():
    made = RandomSampler(range(9))
    list(Sampler(range(9), made))
    assert made.generator is None


def test_a_seed_governs_the_order_and_each_pass_has_another():
    dp = Sampler(range(20), RandomSampler).set_seed(3)
    first, second = list(dp), list(dp)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    torch.manual_seed(99)
    assert list(dp.set_seed(3)) == first


def test_a_generator_of_the_users_own_is_used():
    dp = Sampler(range(20), RandomSampler, sampler_kwargs={"generator": torch.Generator().manual_seed(5)})
    assert list(dp) == list(RandomSampler(range(20), generator=torch.Generator().manual_seed(5)))


def test_nothing_is_sampled_of_an_empty_source():
    assert list(Sampler([], RandomSampler)) == []
    assert len(Sampler([], RandomSampler)) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((iter([1, 2]),), "Sampler needs a source with a length, and list_iterator has none"),
        ((range(3), RandomSampler, (True, 2, None, 4)), "too many positional"),
        ((range(3), RandomSampler, None, {"nonsense": 1}), "unexpected keyword argument 'nonsense'"),
        ((range(3), SubsetRandomSampler), "missing a required argument: 'indices'.*called data_source or dataset"),
        ((range(3), RandomSampler(range(3)), (True,)), "this RandomSampler is made already: give its class"),
        ((range(3), iter([1])), "sampler must be a sampler or its class"),
    ],
)
def test_a_sampler_that_cannot_be_made_is_an_error_at_construction(arguments, message):
    with pytest.raises(TypeError, match=message):
        Sampler(*arguments)


def test_a_sampler_that_does_not_read_its_source_leaves_it_alone():
    pulled = []
    source = numbers(range(5)).map(pulled.append)
    assert list(Sampler(source)) == [0, 1, 2, 3, 4]
    assert not pulled


def test_a_sampler_goes_on_where_another_stood():
    dp = Sampler(range(100), RandomSampler)
    iterator = iter(dp)
    begun = [next(iterator) for _ in range(60)]
    resumed = Sampler(range(100), RandomSampler)
    resumed.load_state_dict(passed_on(dp))
    assert sorted(begun + list(resumed)) == list(range(100))
