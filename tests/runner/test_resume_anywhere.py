"""Any chain, read by any number of workers and stopped anywhere in any way, goes on exactly on any other number.

How many cases are tried can be said by the environment: PENSTOCK_CASES, 100 where it is not there. For every twenty of
them there is one of a program that is killed, with all its workers, at any moment.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_chains import SPECS, build, is_unordered

from penstock import DataLoader2, MultiProcessingReadingService
from penstock.registry import Pace

CASES = int(os.environ.get("PENSTOCK_CASES", "100"))
FEW = 25
"""Enough items for an epoch of many shards to be stopped within, and for killing to come in time."""


def property_of(cases: int) -> Any:
    """How a property is tried: with the cases that are always the same, or with many more that are not."""
    return settings(
        max_examples=max(cases, 1),
        deadline=None,
        derandomize=CASES <= 100,
        phases=(Phase.generate,),  # making a failing case smaller would take minutes
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )


def always_due(chain: Any, _: Any) -> Any:
    """Let a worker tell where it stands after each item; usually it does where that costs little of the time."""
    if multiprocessing.parent_process() is not None:
        mock.patch.object(Pace, "step", 1).start()
    return chain


def loader_of(
    spec: Any, workers: int, shards: int | None, prefetch: int, seed: int = 0, init_fn: Any = None
) -> DataLoader2[Any]:
    service = MultiProcessingReadingService(
        workers,
        num_shards=shards,
        worker_prefetch_cnt=prefetch,
        main_prefetch_cnt=prefetch,
        worker_init_fn=init_fn,
    )
    loader: DataLoader2[Any] = DataLoader2(build(spec), reading_service=service)
    loader.seed(seed)
    return loader


def told(items: Any, spec: Any) -> list[str]:
    """Items as texts, sorted where they come in any order."""
    texts = [repr(item) for item in items]
    return sorted(texts) if is_unordered(spec) else texts


READERS = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 5]))
"""A number of workers, and how far they and the main process read ahead."""


@pytest.mark.timeout(60 + CASES * 3)
@property_of(CASES)
@given(
    spec=SPECS,
    seed=st.integers(0, 3),
    shards=st.sampled_from([1, 2, 3, 5, 12]),
    before=READERS,
    after=READERS,
    init_fn=st.sampled_from([None, always_due]),
    epoch=st.integers(0, 1),
    stop=st.integers(0, 30),
)
def test_a_loader_that_was_stopped_goes_on_exactly_with_other_workers(
    spec: Any, seed: int, shards: int, before: Any, after: Any, init_fn: Any, epoch: int, stop: int
) -> None:
    with loader_of(spec, 0, shards, 0, seed) as whole:
        epochs = [told(whole, spec) for _ in range(3)]
    with loader_of(spec, before[0], shards, before[1], seed, init_fn) as stopped:
        for number in range(epoch):
            assert told(stopped, spec) == epochs[number]
        running = iter(stopped)
        begun = list(islice(running, stop % (len(epochs[epoch]) + 1)))
        state = json.loads(json.dumps(stopped.state_dict()))
    with loader_of(spec, after[0], None, after[1], seed=99) as resumed:
        resumed.load_state_dict(state)
        if begun or epoch == 0:
            assert told([*begun, *resumed], spec) == epochs[epoch]
        else:  # nothing of the epoch was asked for: the state is that after the one before
            assert told(resumed, spec) == epochs[epoch]
        assert told(resumed, spec) == epochs[epoch + 1]


PROGRAM = """
import json, os, sys
sys.path.insert(0, {folder!r})
from test_resume_anywhere import loader_of
spec, workers, shards, prefetch, seed = json.loads(sys.argv[1])
with loader_of(spec, workers, shards, prefetch, seed) as loader:
    for epoch in range(3):
        for item in loader:
            print(json.dumps([epoch, repr(item), loader.state_dict()]), flush=True)
    print("null", flush=True)
"""


def killed_at(spec: Any, workers: int, shards: int, prefetch: int, seed: int, items: int) -> list[Any]:
    """Run a program that reads a loader; kill it and its workers when it has told of so many items, or at the end."""
    program = PROGRAM.format(folder=str(Path(__file__).parent))
    command = [sys.executable, "-c", program, json.dumps([spec, workers, shards, prefetch, seed])]
    records: list[Any] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if (record := json.loads(line)) is None:
                break
            records.append(record)
            if len(records) == items:
                break
        os.killpg(process.pid, signal.SIGKILL)
        # What it had written before it died is true as well.
        records += [json.loads(line) for line in process.stdout if line.endswith("\n") and line != "null\n"]
    return records


@pytest.mark.timeout(60 + CASES)
@property_of(CASES // 20)
@given(
    spec=SPECS.filter(lambda spec: spec[0] > FEW),
    seed=st.integers(0, 3),
    shards=st.sampled_from([1, 3, 8]),
    before=READERS,
    after=READERS,
    items=st.integers(1, 60),
)
def test_a_program_that_was_killed_goes_on_exactly_with_other_workers(
    spec: Any, seed: int, shards: int, before: Any, after: Any, items: int
) -> None:
    with loader_of(spec, 0, shards, 0, seed) as whole:
        epochs = [told(whole, spec) for _ in range(4)]
    records = killed_at(spec, before[0], shards, before[1], seed, items)
    if not records:
        assert epochs[:3] == [[], [], []]
        return
    epoch, _, state = records[-1]
    with loader_of(spec, after[0], None, after[1], seed=99) as resumed:
        resumed.load_state_dict(state)
        begun = [text for number, text, _ in records if number == epoch]
        whole_epoch = [*begun, *map(repr, resumed)]
        assert (sorted(whole_epoch) if is_unordered(spec) else whole_epoch) == epochs[epoch]
        assert told(resumed, spec) == epochs[epoch + 1]


def test_workers_end_when_the_main_process_alone_is_killed() -> None:
    program = """
import time, penstock as ps
dp = ps.iter.IterableWrapper(range(10**9)).sharding_filter().map(lambda x: time.sleep(0.01) or x)
loader = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2))
for item in loader:
    print(item, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        children = psutil.Process(process.pid).children(recursive=True)
        workers = [child for child in children if child.is_running()]
        assert len(workers) >= 3  # the fork server, and two that it started
        process.kill()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
