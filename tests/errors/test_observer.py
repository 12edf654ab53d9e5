"""What is measured of a step, and where it is counted."""

import threading

import pytest

import penstock as ps
from penstock.errors.observer import Observer, acquire, count_bytes, here, pause_of_retry, wait_of


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [1_000]
    monkeypatch.setattr("penstock.errors.observer.perf_counter", lambda: now[0])

    def move(by):
        now[0] += by

    return move


def test_without_an_observer_nothing_is_measured():
    assert here.observer is None
    count_bytes(5)
    pause_of_retry(lambda: None)
    acquire(threading.Semaphore(1))
    assert wait_of(lambda: 3, lambda: pytest.fail("counted")) == 3


def test_a_step_is_not_charged_with_what_it_reads_nor_with_the_timing(clock):
    reader, source = Observer(cost=(1, 2)), Observer(cost=(1, 2))
    reader.enter()
    clock(8)
    source.enter()
    clock(71)
    source.leave(1)
    source.leave()  # at the end of a pass, no item is being made
    clock(1)
    reader.leave(1)
    assert (reader.own, source.own) == (6, 70)
    assert (reader.items, source.items) == (1, 1)
    assert here.observer is None


def test_what_a_step_waits_for_and_reads(clock):
    step = Observer()
    step.enter()
    count_bytes(7)
    wait_of(lambda: clock(30), lambda: 0)
    wait_of(lambda: clock(2), lambda: 4)
    pause_of_retry(lambda: clock(9))
    step.leave(1)
    assert (step.bytes, step.waiting, step.retrying, step.own) == (7, 30, 9, 11)
    assert (step.looks, step.ready) == (2, 4)


def test_waits_for_room_are_no_work_of_a_thread(clock):
    class MemoryBudget(threading.Semaphore):
        def acquire(self, *arguments):
            clock(50)

    step = Observer()
    worker = step.worker()

    def work(item):
        clock(3)
        acquire(MemoryBudget())
        count_bytes(2)
        return item + 1

    assert worker.call(work, 1) == 2
    assert (worker.own, worker.blocked, worker.bytes) == (3, 50, 2)
    assert step.helpers == [worker]
    assert step.helpers == [worker, worker.worker()]  # a thread of a thread works for the step, too
    assert here.observer is None


def test_an_error_ends_the_item_of_each_step():
    dp = ps.iter.IterableWrapper([1, 0]).map(lambda x: 1 / x).map(str)
    dp._observer, dp.source._observer = Observer(), Observer()
    with pytest.raises(ZeroDivisionError):
        list(dp)
    assert here.observer is None
    assert (dp._observer.items, dp.source._observer.items) == (1, 1)
