"""prefetch: reads ahead by a thread, in order, bounded, and ends with the pass."""

import gc
import itertools
import threading
import time
import weakref
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
import penstock.workers.reading as ahead_family
from penstock.registry import IterDataPipe, Throttle, own
from resuming import NEVER, assert_resumes_everywhere

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


def test_items_come_in_order_by_a_thread_of_the_pass():
    dp = numbers(range(1000)).prefetch(7)
    running = iter(dp)
    assert reading_threads() == []
    assert next(running) == 0
    assert list(running) == list(range(1, 1000))
    assert reading_threads() == []


def test_at_most_the_buffer_is_pulled():
    pulled = []
    running = iter(numbers(range(100)).map(lambda x: pulled.append(x) or x).prefetch(5))
    next(running)
    wait_until(lambda: len(pulled) >= 6)
    time.sleep(0.05)
    assert len(pulled) == 6  # one handed out, five in the buffer
    del running


def test_an_error_of_the_pass_before_does_not_come_again():
    failing = [True]
    dp = numbers(range(3)).map(lambda x: 1 // (1 - failing[0] * (x == 1))).prefetch(5)
    with pytest.raises(ZeroDivisionError):
        list(dp)
    failing[0] = False
    assert list(dp) == [1, 1, 1]


def test_a_source_that_hangs_is_an_error_at_close(monkeypatch):
    monkeypatch.setattr(ahead_family, "PATIENCE", 0.2)
    hanging, release = threading.Event(), threading.Event()
    running = iter(numbers(range(3)).map(lambda x: x and (hanging.set(), release.wait(20))).prefetch(5))
    next(running)
    assert hanging.wait(10)
    with pytest.raises(RuntimeError, match=r"did not end for 0.2 s after reading was stopped"):
        running.close()
    release.set()
    wait_until(lambda: reading_threads() == [])


def test_a_pipe_that_is_dropped_is_freed_at_once():
    dp = numbers(range(9)).prefetch(2)
    running = iter(dp)
    next(running)
    freed = weakref.ref(dp)
    gc.disable()
    try:
        del dp, running
        assert freed() is None
    finally:
        gc.enable()


def test_a_state_taken_while_an_item_was_copied_ahead_serves_where_none_is(monkeypatch):
    """As when a run goes on, on the CPU, that an accelerator had begun."""

    class OneAhead(IterDataPipe):
        resumes_from_start = False
        reads_ahead: bool = own(False)

        def __init__(self, source):
            self.source = source

        def __iter__(self):
            self.reads_ahead = True
            items = self.read(self.source)
            for (number, item), _ in itertools.pairwise([*items, None]):
                items.keep_from(number + 1)
                yield item

    assert_resumes_everywhere(lambda: OneAhead(numbers(range(4))), passes=1)
    ahead = OneAhead(numbers(range(6)))
    monkeypatch.setattr(Throttle, "step", NEVER)
    assert list(islice(ahead, 3)) == [0, 1, 2]
    state = ahead.state_dict()
    state["chain"][0] = "DeviceMover"
    moved = numbers(range(6)).to_device("cpu")
    moved.load_state_dict(state)
    assert list(moved) == [3, 4, 5]


@pytest.mark.parametrize("name", ["penstock-prefetch", "penstock-columns"])
def test_an_interrupt_while_a_thread_is_being_started_leaves_no_thread(tmp_path, monkeypatch, name):
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        if thread.name == name:
            raise KeyboardInterrupt

    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    files = numbers([tmp_path / "a.parquet"])
    dp = files.prefetch() if name == "penstock-prefetch" else files.read_parquet()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(dp)
    assert [thread for thread in threading.enumerate() if thread.name == name] == []
    assert len(list(dp)) == 1
