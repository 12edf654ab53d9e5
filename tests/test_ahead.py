"""prefetch: reads ahead by a thread, in order, bounded, and ends with the pass."""

import gc
import threading
import time

import pytest

import penstock as ps
from resuming import assert_resumes_everywhere

numbers = ps.iter.IterableWrapper


def reading_threads():
    return [thread for thread in threading.enumerate() if thread.name == "penstock-prefetch"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    assert reading_threads() == []


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_items_come_in_order():
    assert list(numbers(range(1000)).prefetch(7)) == list(range(1000))


def test_no_thread_before_the_first_item_and_none_after_the_last():
    dp = numbers(range(3)).prefetch()
    running = iter(dp)
    assert reading_threads() == []
    next(running)
    assert list(running) == [1, 2]
    assert reading_threads() == []


def test_at_most_the_buffer_and_one_item_in_hand_are_pulled():
    pulled = []
    running = iter(numbers(range(100)).map(lambda x: pulled.append(x) or x).prefetch(5))
    next(running)
    wait_until(lambda: len(pulled) >= 7)
    time.sleep(0.05)
    assert len(pulled) == 7  # one handed out, five in the buffer, one in the thread's hand
    del running


@pytest.mark.parametrize("end", ["break", "replace", "close"])
def test_giving_up_a_pass_closes_the_source(end):
    closed = []

    def source(items):
        try:
            yield from items
        finally:
            closed.append(True)

    dp = numbers(range(100)).pipe(source).prefetch(2)
    running = iter(dp)
    next(running)
    if end == "close":
        running.close()
    elif end == "replace":
        assert next(iter(dp)) == 0
    del running
    assert closed


def test_an_error_comes_in_its_turn_with_its_note():
    running = iter(numbers(range(10)).map(lambda x: 1 // (3 - x)).prefetch(5))
    assert [next(running) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError) as caught:
        next(running)
    assert caught.value.__notes__ == ["penstock: raised in Mapper(<lambda>), on 3"]


def test_two_passes_one_after_the_other():
    dp = numbers(range(20)).shuffle().prefetch(3)
    assert sorted(dp) == sorted(dp) == list(range(20))


def test_a_wrong_buffer_size_raises_at_construction():
    with pytest.raises(ValueError, match="buffer_size must be at least 1"):
        numbers([]).prefetch(0)


def test_resuming():
    assert_resumes_everywhere(lambda: numbers(range(12)).prefetch(3))
    assert_resumes_everywhere(
        lambda: numbers(range(12)).shuffle(buffer_size=4).set_seed(1).prefetch(2).flatmap(lambda x: [x, x]).prefetch(9)
    )
