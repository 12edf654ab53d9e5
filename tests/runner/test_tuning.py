"""Numbers that are found while items are read: how the search goes, and that it changes no item."""

import logging
import pickle
import random
import threading
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.pipes.bases.ahead import tuning
from penstock.pipes.bases.ahead.tuning import Setting, Tuner
from penstock.pipes.iter import parallel
from penstock.testing import check_operator
from penstock.workers.processes import processors
from penstock.workers.threads import Threads


class Machine:
    """A pool whose pace follows from its settings, on a clock of its own; its reader waits but for `consumer` s."""

    def __init__(self, rate, consumer=0.0, idle=lambda workers, room: 0.0, size=8, **settings):
        self.now = 0.0
        self.idle = 0.0
        self.rate, self.consumer, self.idle_share, self.item = rate, consumer, idle, b"x" * size
        self.changes = []
        self.workers = settings.pop("workers", Setting("workers", 4, 32))
        self.room = settings.pop("room", Setting("prefetch", 8, 1024))
        self.tuner = Tuner("a step", self.workers, self.room, clock=lambda: self.now, **settings)

    def run(self, seconds):
        end = self.now + seconds
        for _ in self.tuner.follow(self._items(end), lambda: self.idle, lambda *found: self.changes.append(found)):
            self.now += self.consumer
        return self.workers.value

    def _items(self, end):
        while self.now < end:
            workers, room = self.workers.value, self.room.value
            took = 1 / self.rate(workers)
            self.idle += max(took, self.consumer) * workers * self.idle_share(workers, room)
            self.now += max(took - self.consumer, 0)
            yield self.item


def test_workers_are_added_while_the_rate_grows():
    assert Machine(lambda workers: 100 * min(workers, 8)).run(5) == 8
    assert Machine(lambda workers: 100 * min(workers, 24)).run(5) == 32
    assert Machine(lambda workers: 100 * workers).run(5) == 32


def test_workers_that_hinder_one_another_are_taken_back():
    assert Machine(lambda workers: 400 / workers).run(5) == 1
    assert Machine(lambda workers: 100 * workers if workers <= 8 else 700).run(5) == 8


def test_a_slow_consumer_needs_no_more_workers():
    slow = Machine(lambda workers: 100 * workers, consumer=1 / 150)
    assert slow.run(5) == 2
    assert max(workers for workers, _ in slow.changes) <= 4


def test_a_number_that_is_given_stays():
    given = Machine(lambda workers: 100 * workers, workers=Setting("workers", 4, 4, False))
    assert given.run(5) == 4
    assert given.tuner.found == "prefetch=8"


def test_workers_that_are_idle_although_the_reader_waits_get_more_room():
    uneven = Machine(lambda workers: 100, idle=lambda workers, room: 0.5 if room < 64 else 0.0)
    uneven.run(5)
    assert uneven.room.value == 128
    at_ease = Machine(lambda workers: 1000, consumer=0.01, idle=lambda workers, room: 0.9)
    at_ease.run(5)
    assert at_ease.room.value <= 8


def test_what_is_read_ahead_stays_within_the_memory(monkeypatch):
    monkeypatch.setattr(tuning, "free_memory", lambda: 1_000_000)
    large = Machine(lambda workers: 100 * workers, size=10_000)
    assert large.run(5) <= 9
    assert large.room.value <= 9
    each = Machine(lambda workers: 100 * workers, size=10_000, is_room_each=True)
    each.run(5)
    assert each.workers.value * each.room.value <= 9
    tiny = Machine(lambda workers: 100 * workers, size=10_000_000)
    assert (tiny.run(5), tiny.room.value) == (1, 1)


def test_more_workers_are_tried_again_now_and_then():
    shared = Machine(lambda workers: 200)  # by other programs
    assert shared.run(5) == 1
    shared.rate = lambda workers: 200 * workers
    assert shared.run(60) == 32
    useless = Machine(lambda workers: 200)
    useless.run(1000)
    assert len(useless.changes) < 30


def test_processes_are_not_taken_back():
    assert Machine(lambda workers: 400 / workers, may_shrink=False).run(5) == 4


def test_trials_have_a_bound():
    bounded = Machine(lambda workers: 100 * workers, workers=Setting("workers", 1, 64), most_trials=3)
    assert bounded.run(20) == 8
    assert len(bounded.changes) == 3


def test_many_short_passes_are_measured_as_one():
    machine = Machine(lambda workers: 100 * workers)
    for _ in range(200):
        machine.run(0.3)
        machine.now += 100
    assert machine.workers.value == 32


@pytest.mark.parametrize("best", [1, 2, 4, 8, 16, 32])
def test_noise_does_not_mislead(best):
    def rate_of(workers):
        return 100 * min(workers, best) / max(workers / best, 1) ** 0.3

    for seed in range(20):
        draws = random.Random(seed)
        noisy = Machine(lambda workers, draws=draws: rate_of(workers) * draws.uniform(0.7, 1.4))
        assert rate_of(noisy.run(20)) >= 0.9 * rate_of(best)


def test_what_was_found_is_told_once(caplog):
    with caplog.at_level(logging.INFO, "penstock"):
        Machine(lambda workers: 100 * min(workers, 8)).run(60)
    assert [record.getMessage() for record in caplog.records] == [
        "a step found workers=8, prefetch=16: write them down"
    ]


def test_the_memory_of_a_container_counts(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("4500\n")
    (tmp_path / "memory.stat").write_text("anon 2000\ninactive_file 2400\n")
    monkeypatch.setattr(tuning, "_CONTAINER", tmp_path)
    assert tuning.free_memory() == 2900
    (tmp_path / "memory.max").write_text("max\n")
    assert tuning.free_memory() > 5000


def double(number):
    return number * 2


class Doubler:
    def __call__(self, number):
        return number * 2


STEPS = {
    "threads": (
        lambda dp: dp.threadpool_map(double, max_workers="auto", scheduled_tasks="auto"),
        lambda dp: dp.threadpool_map(double),
    ),
    "tasks are given": (
        lambda dp: dp.threadpool_map(double, max_workers="auto", scheduled_tasks=3),
        lambda dp: dp.threadpool_map(double),
    ),
    "workers are given": (
        lambda dp: dp.threadpool_map(double, max_workers=3, scheduled_tasks="auto"),
        lambda dp: dp.threadpool_map(double),
    ),
    "models": (
        lambda dp: dp.map_pool(Doubler, workers="auto", engine="threads"),
        lambda dp: dp.map_pool(Doubler, workers=1, engine="threads"),
    ),
    "prefetch": (lambda dp: dp.map(double).prefetch("auto"), lambda dp: dp.map(double).prefetch(3)),
}
"""Each step with what is found, and with what is given."""


def restless(dp, seed):
    """Let the settings of the last step change after each few items, whatever is measured."""
    tuner, draws = dp.tuner, random.Random(seed)

    def look(item, idle):
        for each in (tuner.workers, tuner.room):
            if each.is_open:
                each.value = draws.randint(1, 6)
        tuner._begin_window()
        return True

    tuner._span = 0.0
    tuner._look = look
    return dp


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=20, database=None)
@given(items=st.integers(0, 100), stop=st.integers(0, 100), seed=st.integers(0, 1000))
def test_settings_that_change_at_any_moment_change_no_item(step, items, stop, seed):
    auto, fixed = STEPS[step]
    source = ps.iter.IterableWrapper(range(items))
    expected = [2 * number for number in range(items)]
    assert [*restless(auto(source), seed)] == expected
    stopped = restless(auto(source), seed)
    running = iter(stopped)
    begun = [*islice(running, stop)]
    state = stopped.state_dict()
    rest = expected[stop:] if stop <= items else expected  # after the end, a new pass begins
    for resumed in (restless(auto(source), seed), fixed(source)):
        resumed.load_state_dict(state)
        assert [*resumed] == rest
    assert begun == expected[:stop]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_finds_its_numbers_keeps_the_laws(step):
    auto, _ = STEPS[step]
    check_operator(lambda: auto(ps.iter.IterableWrapper(range(12))))


def test_processes_are_added_and_taken_back_without_a_change_to_the_items(monkeypatch):
    monkeypatch.setattr(parallel, "processors", lambda: 3)
    dp = ps.iter.IterableWrapper(range(60)).processpool_map(double, workers="auto", prefetch="auto")
    assert dp.tuner.workers.most == 3
    assert [*restless(dp, 0)] == [2 * number for number in range(60)]


def test_threads_beyond_the_number_wait_after_their_item():
    begun, gate = threading.Semaphore(0), threading.Semaphore(0)

    def work(_):
        begun.release()
        assert gate.acquire(timeout=10)
        return threading.current_thread().name

    threads = Threads(lambda: work, 4, "crew")
    for number in range(12):
        threads.submit(number, number)
    assert all(begun.acquire(timeout=10) for _ in range(4))
    threads.resize(1)
    gate.release(12)
    names = [name for _, name, _ in (threads.arrivals.get(timeout=10) for _ in range(12))]
    assert sorted(names) == ["crew_0"] * 9 + ["crew_1", "crew_2", "crew_3"]
    threads.resize(3)
    for number in range(3):
        threads.submit(number, number)
    assert all(begun.acquire(timeout=10) for _ in range(8 + 3))  # at once, since none may end
    gate.release(3)
    threads.stop()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("crew")]


def test_what_was_found_stays_for_the_next_pass_and_travels_with_the_pipe():
    dp = ps.iter.IterableWrapper(range(10)).threadpool_map(double, max_workers="auto")
    dp.tuner.workers.value = 7
    assert [*dp] == [2 * number for number in range(10)]
    assert dp.stats()["threadpool_map"]["tuned"] == ["max_workers=7"]
    assert pickle.loads(pickle.dumps(dp)).tuned == "max_workers=7"
    assert ps.iter.IterableWrapper(range(10)).threadpool_map(double).tuned is None


def test_readers_of_files_find_their_threads(tmp_path):
    paths = []
    for number in range(30):
        paths.append(str(tmp_path / f"{number}.npy"))
        np.save(paths[-1], np.arange(number))
    source = ps.iter.IterableWrapper(paths)
    expected = [len(np.load(path)) for path in paths]
    readers = {
        "read_numpy": source.read_numpy(workers="auto"),
        "load_files_by_s3": source.load_files_by_s3(workers="auto"),
        "cache_files": source.cache_files(tmp_path / "kept", max_bytes=10**7, workers="auto"),
    }
    for name, dp in readers.items():
        assert dp.tuned == f"workers={min(4, processors())}"
        items = [*restless(dp, 0)]
        lengths = [item.num_rows if name == "read_numpy" else len(np.load(item[1])) for item in items]
        assert lengths == expected
        assert dp.stats()[name]["tuned"] == [dp.tuned]


@pytest.mark.parametrize("value", ["aut", "3", "", 1.5, True])
def test_what_is_neither_a_number_nor_auto_is_an_error(value):
    source = ps.iter.IterableWrapper([])
    calls = {
        "max_workers": lambda: source.threadpool_map(double, max_workers=value),
        "scheduled_tasks": lambda: source.threadpool_map(double, scheduled_tasks=value),
        "workers": lambda: source.processpool_map(double, workers=value),
        "prefetch": lambda: source.map_pool(Doubler, prefetch=value),
        "buffer_size": lambda: source.prefetch(value),
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f'{name} must be a whole number, or "auto", and is {value!r}'):
            call()


def test_a_number_that_is_too_small_is_an_error():
    source = ps.iter.IterableWrapper([])
    with pytest.raises(ValueError, match='max_workers must be at least 1, or "auto", and is 0'):
        source.threadpool_map(double, max_workers=0)
    with pytest.raises(ValueError, match='actors of Ray take a number of workers and of items to prefetch, not "auto"'):
        source.map_pool(Doubler, workers="auto", engine="ray")
