"""shuffled_flatmap: the outputs of several items mixed at random, resumed without reading everything again."""

import json
from itertools import islice
from unittest import mock

import pytest

import penstock as ps
from penstock.registry import Throttle
from resuming import ALWAYS

numbers = ps.iter.IterableWrapper


def runs(n):
    return [(n, k) for k in range(n)]


def fails_at_three(n):
    yield n
    if n == 3:
        raise ValueError("three")
    yield n


@pytest.mark.parametrize("buffer_size", [1, 2, 100])
def test_all_outputs_come_and_those_of_one_item_in_their_order(buffer_size):
    dp = numbers([3, 0, 5, 2, 4]).shuffled_flatmap(runs, buffer_size=buffer_size).set_seed(3)
    seen = list(dp)
    assert sorted(seen) == sorted(output for n in (3, 0, 5, 2, 4) for output in runs(n))
    for n in (3, 5, 2, 4):
        assert [output for output in seen if output[0] == n] == runs(n)
    assert (seen == [output for n in (3, 0, 5, 2, 4) for output in runs(n)]) == (buffer_size == 1)
    assert list(dp) != seen or buffer_size == 1  # the next pass is another order


def test_functions_and_columns_are_as_for_flatmap():
    assert sorted(numbers([[1, 2], (), "ab"]).shuffled_flatmap(), key=str) == [1, 2, "a", "b"]
    assert sorted(numbers([("a", [1, 2]), ("b", [3])]).shuffled_flatmap(input_col=1)) == [1, 2, 3]
    repeated = numbers([("a", 2)]).shuffled_flatmap(lambda name, n: [name] * n, input_col=[0, 1])
    assert list(repeated) == ["a", "a"]


def test_no_more_items_are_open_than_there_is_room_for():
    open_now, peaks = [], []

    def outputs(n):
        open_now.append(n)
        peaks.append(len(open_now))
        try:
            yield from range(30)
        finally:
            open_now.remove(n)
            if n == 11:
                raise OSError("cannot close")

    dp = numbers(range(9)).shuffled_flatmap(outputs, buffer_size=4).set_seed(0)
    assert len(list(dp)) == 270
    assert max(peaks) == 4
    running = iter(numbers(range(10, 14)).shuffled_flatmap(outputs).set_seed(0))
    list(islice(running, 30))
    assert len(open_now) == 4
    with pytest.raises(OSError, match="cannot close"):
        running.close()
    assert open_now == []


def test_an_error_names_the_item_or_the_item_is_left_out():
    with pytest.raises(ValueError, match="three") as caught:
        list(numbers(range(9)).shuffled_flatmap(fails_at_three))
    assert caught.value.__notes__ == ["penstock: raised in ShuffledFlatMapper(fails_at_three), on 3"]
    with pytest.raises(TypeError, match="not iterable") as caught:
        list(numbers([7, 8]).shuffled_flatmap(abs))
    assert caught.value.__notes__[0].endswith(", on 7")
    dp = numbers(range(6)).shuffled_flatmap(fails_at_three, on_error="skip")
    assert sorted(dp) == [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5]
    assert dp.stats()["shuffled_flatmap"]["skipped"] == 1
    assert list(dp.set_shuffle(False)) == [0, 0, 1, 1, 2, 2, 3, 4, 4, 5, 5]


def test_resuming_opens_only_what_was_open():
    opened = []

    def outputs(n):
        opened.append(n)
        return [n] * 5

    def make():
        return numbers(range(50)).shuffled_flatmap(outputs, buffer_size=3).set_seed(1)

    with mock.patch.object(Throttle, "step", ALWAYS):
        dp = make()
        running = iter(dp)
        seen = list(islice(running, 200))
        state = json.loads(json.dumps(dp.state_dict()))
        opened.clear()
        resumed = make()
        resumed.load_state_dict(state)
        assert len(list(resumed)) == 50
    assert len(seen) == 200
    assert set(opened).isdisjoint(range(30))
