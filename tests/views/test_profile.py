"""Profiles of chains: what is measured, and the sentence that names a planted bottleneck."""

import functools
import json
import random
import time

import numpy as np
import pytest
import torch

import penstock as ps
from penstock.views.profiles.profile import Profile
from penstock.views.profiles.times import Consumer, StepTimes, WorkerTimes, measure, reading_threads


def by_name(profile):
    return {step.name: step for step in profile.steps}


class Slow:
    """Numbers that take a while to come."""

    def __init__(self, n, seconds, every=1):
        self.n, self.seconds, self.every = n, seconds, every

    def __iter__(self):
        for number in range(self.n):
            if number % self.every == 0:
                time.sleep(self.seconds)
            yield number


def sleep_for(seconds):
    def sleep(x):
        time.sleep(seconds)
        return x

    return sleep


def step_of(name, **times):
    return StepTimes(name=name, label=name, items=9, **times)


# What is measured


def test_items_and_times_of_each_step():
    dp = ps.iter.IterableWrapper(range(40)).map(sleep_for(0.002)).batch(4).map(sleep_for(0.001))
    profile = dp.profile()
    wrapper, first, batch, last = profile.steps
    assert [step.name for step in profile.steps] == ["IterableWrapper", "map", "batch", "map"]
    assert [wrapper.items, first.items, batch.items, last.items] == [40, 40, 10, 10]
    assert first.own >= 0.08
    assert 0.01 <= last.own < first.own
    assert profile.consumer.items == 10
    assert wrapper.own + batch.own < first.own
    data = profile.to_dict()
    assert [step["items_in"] for step in data["steps"]] == [None, 40, 40, 10]
    assert sum(step["share"] for step in data["steps"]) == pytest.approx(1)
    json.dumps(data)


def test_a_live_pass_goes_on_and_the_chain_is_not_measured_afterwards():
    dp = ps.iter.IterableWrapper(range(5)).map(str)
    iterator = iter(dp)
    assert next(iterator) == "0"
    dp.profile()
    assert next(iterator) == "1"
    assert dp._observer is None


def test_a_look_leaves_the_random_generators_alone():
    def draw(x):
        return x, random.random(), np.random.random(), torch.rand(1).item()

    dp = ps.iter.IterableWrapper(range(9)).shuffle().map(draw)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    for look in (dp.profile, dp.peek, functools.partial(dp.show, 1), functools.partial(ps.schema, dp)):
        look()
        after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        assert after == before, look


def test_a_chain_without_an_end_is_read_only_with_a_number():
    dp = ps.iter.IterableWrapper(range(3)).cycle()
    with pytest.raises(ValueError, match="the chain never ends: give the number of items"):
        dp.profile()
    assert dp.profile(7).consumer.items == 7


def test_a_number_of_items_is_checked():
    dp = ps.iter.IterableWrapper(range(3))
    for method in (dp.take, dp.peek, dp.show, dp.profile):
        with pytest.raises(ValueError, match="n must be at least 0"):
            method(-1)
        with pytest.raises(TypeError, match="n must be a whole number"):
            method("x")


def test_a_chain_of_another_library_is_explained_and_profiled():
    from torch.utils.data.datapipes.iter import IterableWrapper

    dp = IterableWrapper(range(3))
    assert "3 items." in str(dp.explain())
    assert dp.profile().verdict.startswith("No step was measured")


def test_what_can_be_read_once_only_is_refused():
    with pytest.raises(TypeError, match="profile reads a copy"):
        ps.iter.IterableWrapper(iter([1, 2])).map(str).profile()


def test_items_are_the_same_when_measured():
    def chain():
        return ps.iter.IterableWrapper(range(3000)).shuffle().set_seed(3).map(str).batch(7)

    measured = chain()
    measure(measured)
    assert list(measured) == list(chain())
    assert measured.source._observer.items == 3000


def test_the_steps_of_a_map_style_chain_are_measured_each():
    dp = ps.map.SequenceWrapper(range(30)).map(sleep_for(0.001)).map(abs).batch(3)
    profile = dp.profile()
    assert [step.name for step in profile.steps] == ["SequenceWrapper", "map", "map", "batch"]
    assert [step.items for step in profile.steps] == [30, 30, 30, 10]
    assert "of the time is in `map(sleep)`" in profile.verdict
    steps = by_name(dp.to_iter_datapipe().profile(5))
    assert (steps["map"].items, steps["batch"].items) == (15, 5)


def test_a_data_set_is_one_step():
    data, batch = ps.datasets.load("digits", split="train").batch(4).profile(2).steps
    assert (data.label, data.items, data.sources) == ("Digits('train')", 8, [])
    assert data.bytes > 0
    assert batch.sources == [0]


def fails_once(tried):
    """A function that fails for each item the first time, and for 0 always."""

    def fail(x):
        if x not in tried:
            tried.add(x)
            raise ConnectionError("not yet")
        return 10 // x

    return fail


def test_skipped_and_retried_items_are_counted():
    step = by_name(ps.iter.IterableWrapper(range(5)).map(fails_once(set()), on_error="skip").profile())["map"]
    assert (step.skipped, step.retried) == (5, 0)
    retry = ps.Retry(2, backoff=0.05, errors=ConnectionError, then=ps.Skip(errors=ZeroDivisionError))
    profile = ps.iter.IterableWrapper(range(1, 13)).map(fails_once(set()), on_error=retry).batch(2).profile()
    step = by_name(profile)["map"]
    assert (step.skipped, step.retried) == (0, 12)
    assert profile.verdict.startswith("`map` waits before another attempt")
    assert "12 attempts failed" in profile.verdict


def test_bytes_are_counted_where_they_are_read(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(bytes(5000))
    paths = ps.iter.IterableWrapper([str(tmp_path / "a"), str(tmp_path / "b")])
    profile = paths.open_files_by_fsspec("rb").map(lambda pair: pair[1].read()).profile()
    assert sum(step.bytes for step in profile.steps) == 10_000


def test_the_threads_of_a_pool_and_the_thread_of_a_prefetch_are_measured():
    dp = ps.iter.IterableWrapper(range(40)).threadpool_map(sleep_for(0.005), max_workers=4).prefetch(3)
    profile = dp.profile()
    steps = by_name(profile)
    assert steps["threadpool_map"].busy >= 0.2
    assert steps["threadpool_map"].threads == 4
    assert steps["threadpool_map"].cpu < 0.1
    assert steps["prefetch"].capacity == 3
    assert steps["prefetch"].waiting > 0
    assert reading_threads(profile.steps) == [2, 2, None]


def test_a_time_line_has_the_steps_and_their_threads(tmp_path):
    dp = ps.iter.IterableWrapper(range(20)).threadpool_map(sleep_for(0.001), max_workers=2).prefetch(2).batch(2)
    dp.profile().save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    calls = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in calls} >= {"threadpool_map", "prefetch", "batch"}
    assert all(event["dur"] > 0 and event["ts"] > 0 for event in calls)
    lines = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"reader", "thread of prefetch", "threadpool_map 1"} <= lines


def test_it_prints_a_table_and_a_sentence(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    profile = ps.iter.IterableWrapper(["<b>"] * 3).map(sleep_for(0.001)).profile()
    rate, header, source, row, empty, *sentence = str(profile).splitlines()
    assert rate.startswith("3 items in ")
    assert header.split() == ["step", "items", "in", "per", "item", "time", "share"]
    assert source.startswith("IterableWrapper(['<b>', '<b>', '<b>'])      3     ")
    assert row.startswith("map(sleep)                                  3   3  ")
    assert empty == ""
    assert " ".join(sentence) == profile.verdict
    assert max(map(len, sentence)) <= 60
    html = profile._repr_html_()
    assert "<b>" not in html
    assert "<code>map" in html[html.index("</pre>") :]  # outside, where a browser wraps it


@pytest.mark.parametrize("items", [[], [1]])
def test_of_no_items_nothing_is_said(items):
    profile = ps.iter.IterableWrapper(items).map(str).profile()
    assert str(profile)
    assert (profile.consumer.items == 0) == profile.verdict.startswith("Too few items")


# The sentence


def test_a_slow_source():
    profile = ps.iter.IterableWrapper(Slow(40, 0.003), deepcopy=False).map(sleep_for(0.0001)).batch(4).profile()
    assert "It is the source: read ahead" in profile.verdict


def test_a_slow_map():
    profile = ps.iter.IterableWrapper(range(40)).map(sleep_for(0.003)).prefetch(4).map(sleep_for(0.0001)).profile()
    assert "of the time is in `map(sleep)`" in profile.verdict
    assert int(profile.verdict.partition("%")[0]) > 50


def test_a_small_prefetch():
    bursts = ps.iter.IterableWrapper(Slow(120, 0.06, every=20), deepcopy=False)
    profile = bursts.prefetch(2).map(sleep_for(0.003)).profile()
    assert profile.verdict.startswith("the buffer of `prefetch(2)` is small")
    assert "prefetch(16)" in profile.verdict


def test_a_thread_blocked_for_longer_than_its_reader_works_waits_for_the_gil():
    slow = step_of("map", own=0.7)
    prefetch = step_of("prefetch", sources=[0], waiting=0.9, blocked=0.3, capacity=4, reads_ahead=True)
    consumer = Consumer(items=9, waited=1.0)
    assert Profile(1.0, consumer, [slow, prefetch]).verdict.startswith("100% of the time is in `map`")
    prefetch.waiting = 0.6
    assert Profile(1.0, consumer, [slow, prefetch]).verdict.startswith("the buffer of `prefetch` is small")


@pytest.mark.parametrize(
    ("name", "cpu", "waits"),
    [("threadpool_map", 1.0, True), ("threadpool_map", 1.6, False), ("threadpool_map", 0.1, False), ("s3", 1.0, False)],
)
def test_threads_hold_the_gil_on_one_processor_in_a_function(name, cpu, waits):
    times = {"waiting": 1.0, "busy": 4.0, "cpu": cpu, "threads": 4, "capacity": 9}
    pool = step_of(name, works_in="threads", **times)
    verdict = Profile(1.0, Consumer(items=9, waited=1.0), [pool]).verdict
    assert ("whose 4 threads wait for one another, if its function computes in Python" in verdict) == waits


def test_threads_that_wait_for_something_outside():
    profile = ps.iter.IterableWrapper(range(100)).threadpool_map(sleep_for(0.01), max_workers=3).profile()
    assert "`threadpool_map(sleep, max_workers=3)`, whose threads are busy" in profile.verdict
    assert "more threads would help" in profile.verdict


def test_a_full_pool():
    profile = ps.iter.IterableWrapper(range(40)).processpool_map(sleep_for(0.02), workers=1).profile()
    assert "`processpool_map(sleep, workers=1)`, whose processes are busy" in profile.verdict


def test_a_pool_that_is_tuning_itself():
    dp = ps.iter.IterableWrapper(range(40)).threadpool_map(sleep_for(0.002), max_workers="auto")
    assert "which finds its numbers while it is read, so far max_workers=" in dp.profile().verdict


def test_workers_that_have_not_reported():
    workers = step_of("workers", works_in="workers")
    profile = Profile(1.0, Consumer(items=3, waited=1.0), [workers], is_loader=True)
    assert profile.verdict.endswith("in which step is unknown, since no worker has reported yet.")


def test_many_small_items():
    reading = step_of("workers", works_in="workers", waiting=1.0)
    workers = [
        WorkerTimes(name, items=500, busy=0.05, sending=sent, idle=0.6) for name, sent in (("a", 0.1), ("b", 0.3))
    ]
    profile = Profile(1.0, Consumer(items=1000, waited=1.0), [reading], [], workers, is_loader=True)
    assert "each item costs some 1000 µs, however small" in profile.verdict
    assert "large:" not in profile.verdict


def test_a_cold_cache(tmp_path):
    dp = ps.iter.IterableWrapper(range(40)).map(sleep_for(0.003)).in_memory_cache().batch(4)
    assert "This pass fills the cache of `in_memory_cache()`" in dp.profile().verdict
    warm = dp.profile(passes=2)
    assert by_name(warm)["in_memory_cache"].items == 40
    assert "map" not in by_name(warm) or by_name(warm)["map"].items == 0


def test_a_slow_decoder(tmp_path):
    pillow = pytest.importorskip("PIL.Image")
    pillow.effect_noise((1200, 900), 60).convert("RGB").save(tmp_path / "noise.jpg", quality=95)
    paths = ps.iter.IterableWrapper([str(tmp_path / "noise.jpg")] * 24)
    by_pillow = paths.open_files("rb").routed_decode("rgb8", decoder="pil", key_fn=lambda path: "jpg")
    assert 'decoder="auto"' in by_pillow.batch(4).profile().verdict
    assert "size=(height, width)" in paths.read_images(workers=2).batch(4).profile(passes=2).verdict
    assert "JPEGs" not in paths.read_images(size=(64, 64), workers=2).batch(4).profile(passes=2).verdict
