"""Profiles of loaders: of their workers, and of who waits for whom."""

import re
import time

import pytest
import torch

import penstock as ps
from penstock import DataLoader2, InProcessReadingService, MultiProcessingReadingService
from penstock.registry import SHARDING_PRIORITIES
from penstock.runner.loading.profiles import _workers_of
from penstock.runner.positions import Report
from penstock.views.profiles.times import WorkerTimes


def sleep_for(seconds):
    def sleep(x):
        time.sleep(seconds)
        return x

    return sleep


def profile_of(dp, service=None, consumer_sleeps=0.0):
    with DataLoader2(dp, reading_service=service, profile=True) as loader:
        for _ in loader:
            time.sleep(consumer_sleeps)
        return loader.profile()


def numbers(n):
    return ps.iter.IterableWrapper(range(n)).sharding_filter()


def test_without_profile_nothing_is_measured():
    loader = DataLoader2(numbers(3))
    assert list(loader) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="make the loader with profile=True"):
        loader.profile()


def test_before_anything_is_read_no_share_is_told():
    text = str(DataLoader2(numbers(3), profile=True).profile())
    assert "Too few items were read" in text
    assert "the program itself" not in text


def test_workers_are_told_by_their_numbers_and_processes():
    profile = profile_of(numbers(4), MultiProcessingReadingService(2))
    names = [worker.name for worker in profile.workers]
    assert [re.sub(r"\d{2,}", "…", name) for name in names] == [f"worker {n} (worker process …)" for n in (0, 1)]


def test_the_times_of_a_worker_are_those_of_its_last_report_in_each_reading():
    reports = [
        Report(0, (reading, 0), [], {}, [], WorkerTimes("a", items=items, busy=0.1 * items))
        for reading, items in ((1, 5), (1, 7), (2, 3))
    ]
    (worker,) = _workers_of(reports)
    assert (worker.name, worker.items, worker.busy) == ("a", 10, pytest.approx(1.0))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_steps_in_workers_are_measured(workers):
    dp = numbers(60).map(sleep_for(0.001)).batch(2)
    profile = profile_of(dp, MultiProcessingReadingService(workers, num_shards=2))
    steps = {step.name: step for step in profile.in_workers}
    assert [*steps] == ["IterableWrapper", "sharding_filter", "map", "batch"]
    assert steps["map"].items == 60
    assert steps["map"].own >= 0.06
    assert [step.name for step in profile.main] == ["workers"]
    assert sum(worker.items for worker in profile.workers) == 30
    assert len(profile.workers) == workers
    assert profile.consumer.items == 30


def test_the_steps_of_the_main_process_come_after_those_of_the_workers():
    dp = numbers(20).map(str).to_device("cpu")
    profile = profile_of(dp, MultiProcessingReadingService(1))
    assert [step.name for step in profile.steps][1:] == ["sharding_filter", "map", "workers", "to_device"]


@pytest.mark.parametrize("service", [None, InProcessReadingService(prefetch_cnt=2), MultiProcessingReadingService(0)])
def test_in_this_process_the_steps_are_those_of_the_chain(service):
    # Long enough that one pause of this process, of some 20 ms, is no share of the time.
    profile = profile_of(numbers(240).map(sleep_for(0.001)).batch(4), service)
    assert [step.name for step in profile.steps][:4] == ["IterableWrapper", "sharding_filter", "map", "batch"]
    assert profile.workers == []
    assert "in `map(sleep)`" in profile.verdict


def test_a_map_style_chain_in_workers():
    dp = ps.map.SequenceWrapper(range(40)).map(sleep_for(0.02)).map(abs)
    profile = profile_of(dp, MultiProcessingReadingService(2))
    assert [step.items for step in profile.in_workers if step.name == "map"] == [40, 40]
    assert "in `map(sleep)`" in profile.verdict


def test_several_shards_in_this_process_are_summed():
    service = MultiProcessingReadingService(0, num_shards=3)
    profile = profile_of(numbers(30).map(sleep_for(0.001)), service)
    items = {step.name: step.items for step in profile.steps}
    assert (items["sharding_filter"], items["map"], items["loader"]) == (30, 30, 30)
    assert (
        0.03
        <= next(step.own for step in profile.steps if step.name == "map")
        < profile.seconds + profile.consumer.first
    )


@pytest.mark.parametrize("service", [None, MultiProcessingReadingService(1)])
def test_each_epoch_is_measured_by_itself_and_states_are_the_same(service):
    dp = numbers(20).map(str)
    with DataLoader2(dp, reading_service=service, profile=True) as loader:
        assert list(loader) == list(loader)
        assert {step.name: step.items for step in loader.profile().steps}["map"] == 20
        assert loader.profile().consumer.items == 20
        if service is not None:
            return
        state = loader.state_dict()
    other = DataLoader2(numbers(20).map(str))
    other.load_state_dict(state)
    assert list(other) == [str(n) for n in range(20)]


def test_items_of_workers_are_the_same_when_measured():
    def items(profile):
        dp = ps.iter.IterableWrapper(range(50)).shuffle().sharding_filter().map(str).batch(3)
        with DataLoader2(dp, reading_service=MultiProcessingReadingService(2), profile=profile) as loader:
            loader.seed(5)
            return list(loader)

    assert items(True) == items(False)


# The sentence


def test_a_slow_consumer():
    profile = profile_of(numbers(40).map(str).batch(2), MultiProcessingReadingService(1), consumer_sleeps=0.03)
    assert profile.verdict.startswith("The input keeps up: the program waits for it")


def test_a_slow_map_in_workers():
    dp = numbers(120).map(sleep_for(0.004)).batch(2)
    verdict = profile_of(dp, MultiProcessingReadingService(2), consumer_sleeps=0.001).verdict
    assert verdict.startswith("The input is the bottleneck: ")
    assert "of the time is in `map(sleep)`. 2 workers read, busy " in verdict
    assert "workers would keep up, on as many processors" in verdict


def test_a_slow_process_that_reads_for_all_workers():
    dp = ps.iter.IterableWrapper(range(40)).map(sleep_for(0.002))
    dp = dp.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING).batch(4)
    verdict = profile_of(dp, MultiProcessingReadingService(1), consumer_sleeps=0.001).verdict
    assert "is waiting for the one process that reads what comes before sharding_round_robin_dispatch" in verdict
    assert "would keep up" not in verdict


def test_one_slow_worker():
    def uneven(x):
        time.sleep(0.012 if x % 2 else 0.002)
        return x

    verdict = profile_of(numbers(80).map(uneven), MultiProcessingReadingService(2)).verdict
    assert "one worker is slow: worker " in verdict
    assert "num_shards=8" in verdict


def test_a_worker_without_work(tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text('{"id": 1}\n' * 60)
    files = ps.iter.IterableWrapper([str(path)]).sharding_filter().read_json()
    verdict = profile_of(files.rows().map(sleep_for(0.002)), MultiProcessingReadingService(2)).verdict
    assert "1 of 2 workers reads nearly all: worker 1 (worker process " in verdict
    assert ".shard_files(kind, min_bytes=…)" in verdict
    assert "workers read, busy" not in verdict


def test_large_items():
    tensors = [torch.zeros(1)] * 2

    def large(x):
        return tensors[0].expand(4_000_000)

    verdict = profile_of(numbers(24).map(large), MultiProcessingReadingService(1)).verdict
    assert "of the workers' time: the items are large" in verdict


def test_a_slow_step_after_the_workers():
    dp = numbers(30).to_device("cpu").map(sleep_for(0.005))
    verdict = profile_of(dp, MultiProcessingReadingService(1)).verdict
    assert "of the time is in `map(sleep)`" in verdict
