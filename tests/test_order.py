"""shuffle: which orders come out, and what its states hold."""

import json
from collections import Counter

import pytest

import penstock as ps
from resuming import assert_resumes_everywhere

numbers = ps.iter.IterableWrapper


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
    shorter.load_state_dict(dp.state_dict())
    with pytest.raises(RuntimeError, match="fewer items than when the state was taken"):
        list(shorter)


def test_states_of_a_long_pass_stay_bounded():
    dp = numbers(range(20_000)).shuffle(buffer_size=50).set_seed(1)
    sizes = [len(json.dumps(dp.state_dict())) for place, _ in enumerate(dp) if place % 1000 == 0]
    assert max(sizes) < 2 * sizes[0]
