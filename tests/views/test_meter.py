"""What measures a step, and the hook by which it listens."""

import threading

import pytest

import penstock as ps
from penstock.errors.observer import acquire, count_bytes, here, pause_of_retry, wait_of
from penstock.views.profiles import meter
from penstock.views.profiles.meter import Meter, allow_for_timing


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved; timing takes no time."""
    now = [1_000]
    for name in ("views.profiles.meter", "errors.observer"):
        monkeypatch.setattr(f"penstock.{name}.perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(meter, "_in_step", 0)
    monkeypatch.setattr(meter, "_in_reader", 0)

    def move(by):
        now[0] += by

    return move


def test_without_an_observer_nothing_is_reported():
    assert here.observer is None
    count_bytes(5)
    pause_of_retry(lambda: None)
    acquire(threading.Semaphore(1))
    assert wait_of(lambda: 3, lambda: pytest.fail("counted")) == 3


def test_a_step_is_not_charged_with_what_it_reads(clock):
    reader, source = Meter(), Meter()
    reader.enter()
    clock(5)
    source.enter()
    clock(70)
    source.leave(1)
    source.leave()  # at the end of a pass, no item is being made
    clock(1)
    reader.leave(1)
    assert (reader.own, source.own) == (6, 70)
    assert (reader.items, source.items) == (1, 1)
    assert here.observer is None


def test_what_a_step_waits_for_and_reads(clock):
    step = Meter()
    step.enter()
    count_bytes(7)
    wait_of(lambda: clock(30), lambda: 0)
    wait_of(lambda: clock(2), lambda: 4)
    pause_of_retry(lambda: clock(9))
    step.leave(1)
    assert (step.bytes, step.waiting, step.retrying, step.own) == (7, 30, 9, 11)
    assert (step.looks, step.ready, step.empty) == (2, 4, 1)


def test_waits_for_room_are_no_work_of_a_thread(clock):
    class MemoryBudget(threading.Semaphore):
        def acquire(self, *arguments):
            clock(50)

    step = Meter()
    worker = step.worker()

    def work(item):
        clock(3)
        acquire(MemoryBudget())
        count_bytes(2)
        return item + 1

    assert worker.call(work, 1) == 2
    assert (worker.own, worker.blocked, worker.bytes) == (3, 50, 2)
    assert [*step.all_helpers()] == [worker]
    assert here.observer is None


def test_a_map_style_step_may_call_itself(clock):
    outer, inner = Meter(), Meter()

    def fetch(depth):
        clock(10)
        if depth:
            inner.time(outer.time, 1, fetch, 1, depth - 1)

    outer.time(fetch, 1, 2)
    assert (outer.own, inner.own) == (30, 0)
    assert (outer.items, inner.items) == (3, 2)
    assert outer.thread_of is inner.thread_of is here.observer is None


def test_the_thread_of_a_step_is_that_of_the_step_that_reads_ahead():
    prefetch, source, first = Meter(), Meter(), Meter()
    here.observer = prefetch.reader()
    try:
        source.enter()
        first.enter()
        first.leave(1)
        source.leave(1)
    finally:
        here.observer = None
    assert first.thread_of is source.thread_of is prefetch
    assert prefetch.thread_of is None


def test_an_error_ends_the_item_of_each_step():
    dp = ps.iter.IterableWrapper([1, 0]).map(lambda x: 1 / x).map(str)
    dp._observer, dp.source._observer = Meter(), Meter()
    with pytest.raises(ZeroDivisionError):
        list(dp)
    assert here.observer is None
    assert (dp._observer.items, dp.source._observer.items) == (1, 1)


def test_the_time_of_timing_is_found():
    allow_for_timing()
    assert meter._in_step > 0
    assert meter._in_reader > 0
    assert here.observer is None
