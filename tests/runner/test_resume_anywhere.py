"""Any chain, read by any number of workers and stopped anywhere in any way, goes on exactly on any other number.

How many cases are tried can be said by the environment: a fifth of PENSTOCK_CASES, 150 where it is not there. For every
thirty of them there is one of a program that is killed, with all its workers, at any moment.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock import DataLoader2, MultiProcessingReadingService, RayFleet, RayReadingService
from penstock.pipes.iter import IterableWrapper
from random_chains import WorkerCase, build, chain_of, is_refused, is_unordered, text
from resuming import always_due, as_json, from_json, loader_over, loader_resumed, states_along

CASES = int(os.environ.get("PENSTOCK_CASES", "150"))
FEW = 25
"""Enough items for an epoch of many shards to be stopped within, and for killing to come in time."""

pytestmark = pytest.mark.filterwarnings("ignore:the source of random_split")


def loader_of(
    spec: Any,
    workers: int | RayFleet,
    shards: int | None,
    prefetch: int,
    seed: int = 0,
    init_fn: Any = None,
) -> DataLoader2[Any]:
    on_ray = isinstance(workers, RayFleet)
    make: Any = RayReadingService if on_ray else MultiProcessingReadingService
    service = make(
        **{"fleet" if on_ray else "num_workers": workers},
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
    texts = [text(item) for item in items]
    return sorted(texts) if is_unordered(spec) else texts


def leg(case: WorkerCase, number: int, saved: str | None, workers: int | RayFleet) -> DataLoader2[Any]:
    """Return the loader of one leg: of the first, with the case's seed; of the others, from a state."""
    loader = loader_of(
        case.spec,
        workers,
        case.shards if saved is None else None,
        case.prefetch[number],
        case.seed if saved is None else 99,
        always_due if case.always_due else None,
    )
    if saved is not None:
        loader.load_state_dict(from_json(saved), strict=False)  # what it writes is elsewhere
    return loader


def check(case: WorkerCase, *workers: int | RayFleet) -> None:
    """Read epochs whole; then one in three legs, each by a fresh loader from the state before, and the next epoch.

    Every other leg ends by an interrupt.
    """
    workers = workers or (*case.workers,)
    with loader_of(case.spec, 0, case.shards, 0, case.seed) as whole:
        epochs = [told(whole, case.spec) for _ in range(case.epoch + 2)]
    expected, following = epochs[-2:]
    seen: list[Any] = []
    saved = None
    for number, stop in enumerate([case.first, case.second]):
        with leg(case, number, saved, workers[number]) as loader:
            if not number:
                for epoch in range(case.epoch):
                    assert told(loader, case.spec) == epochs[epoch], f"epoch {epoch}"
            iterator = iter(loader)
            items = [text(item) for item in islice(iterator, stop % (len(expected) - len(seen) + 1))]
            if items and (case.first + case.second + number) % 2:  # while the last item is in use
                with pytest.raises(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
                items.pop()
            seen += items
            saved = as_json(loader.state_dict())
    with leg(case, 2, saved, workers[2]) as loader:
        where = f"after {len(seen)} items"
        seen += [text(item) for item in loader]
        assert (sorted(seen) if is_unordered(case.spec) else seen) == expected, where
        assert told(loader, case.spec) == following, "the next epoch"


@pytest.mark.parametrize(("first", "third"), [(1, 0), (2, 0), (3, 0), (2, 2)])
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_states_after_every_item_go_on_with_other_workers(first: int, third: int, shuffled: bool) -> None:
    def make() -> Any:
        source = IterableWrapper(range(12))
        return (source.shuffle(buffer_size=4) if shuffled else source).sharding_filter().map(abs)

    with loader_over(make, 0, 3) as whole:
        expected, following = [*whole], [*whole]
    with loader_over(make, first, 3) as loader:
        items, states = states_along(loader)
    assert items == expected
    for read, state in enumerate(states[:-1]):
        with loader_resumed(make, 0, state) as loader:
            more, later_states = states_along(loader)
        assert more == expected[read:], f"after {read} items"
        for read_later, later in enumerate(later_states[:-1], read):
            if third and (read, read_later) not in [(0, 0), (0, 2), (4, 5), (7, 7), (5, 11)]:
                continue  # to start processes for each would take a minute
            with loader_resumed(make, third, later) as loader:
                where = f"after {read} items, and after {read_later}"
                assert [*loader] == expected[read_later:], where
                assert [*loader] == following, f"the epoch after {where}"


@pytest.mark.timeout(90)
@pytest.mark.parametrize("seed", range(max(CASES // 5, 1)))
def test_a_loader_stopped_anywhere_twice_goes_on_exactly_with_other_workers(seed: int) -> None:
    case = WorkerCase.drawn(seed)
    try:
        check(case)
    except Exception as error:
        if is_refused(case.spec, error):
            pytest.skip("the chain is refused: an error")
        raise AssertionError(f"it fails with check({case!r})") from error


@pytest.fixture(scope="module")
def fleet(local_ray: None) -> Iterator[RayFleet]:
    with RayFleet(2) as actors:
        yield actors


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(max(CASES // 10, 1)))
def test_what_actors_of_ray_begin_others_end(seed: int, fleet: RayFleet) -> None:
    case = WorkerCase.drawn(1000 + seed)
    legs = random.Random(seed).sample([fleet, fleet, 2], 3)
    try:
        check(case, *legs)
    except Exception as error:
        if is_refused(case.spec, error):
            pytest.skip("the chain is refused: an error")
        raise AssertionError(f"it fails with check({case!r}, *{legs!r})") from error


PROGRAM = """
import json, os, sys
sys.path[:0] = {folders!r}
from test_resume_anywhere import as_json, loader_of, text
spec, workers, shards, prefetch, seed = json.loads(sys.argv[1])
with loader_of(spec, workers, shards, prefetch, seed) as loader:
    for epoch in range(3):
        for item in loader:
            print(json.dumps([epoch, text(item), as_json(loader.state_dict())]), flush=True)
    print("null", flush=True)
"""


def killed_at(spec: Any, workers: int, shards: int, prefetch: int, seed: int, items: int) -> list[Any]:
    """Run a program that reads a loader; kill it and its workers when it has told of so many items, or at the end."""
    folder = Path(__file__).parent
    program = PROGRAM.format(folders=[str(folder), str(folder.parent / "support")])
    command = [sys.executable, "-c", program, json.dumps([spec, workers, shards, prefetch, seed])]
    records: list[Any] = []
    environment = {**os.environ, "PYTHONHASHSEED": "7"}  # sets of strings have another order in this process
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if (record := json.loads(line)) is None:
                break
            records.append(record)
            if len(records) == items:
                break
        os.killpg(process.pid, signal.SIGKILL)  # its workers too
        # What it had written before it died is true as well.
        records += [json.loads(line) for line in process.stdout if line.endswith("\n") and line != "null\n"]
    return records


@pytest.mark.timeout(90)
@pytest.mark.parametrize("number", range(max(CASES // 30, 1)))
def test_a_program_that_was_killed_goes_on_exactly_with_other_workers(number: int) -> None:
    generator = random.Random(f"killed {number}")
    shards, items, seed = generator.choice([1, 3, 8]), generator.randint(1, 60), generator.randint(0, 3)
    before, after = (generator.randint(0, 3), generator.choice([0, 1, 5])), generator.randint(0, 3)
    while True:
        spec = chain_of(generator, elsewhere=True)
        try:
            with loader_of(spec, 0, shards, 0, seed) as whole:
                epochs = [told(whole, spec) for _ in range(4)]
        except (RuntimeError, TypeError) as error:
            if not is_refused(spec, error):
                raise
            continue
        if len(epochs[0]) > FEW:
            break
    records = killed_at(spec, before[0], shards, before[1], seed, items)
    epoch, _, state = records[-1]
    with loader_of(spec, after, None, 1, seed=99) as resumed:
        resumed.load_state_dict(from_json(state), strict=False)
        begun = [item for number, item, _ in records if number == epoch]
        whole_epoch = [*begun, *map(text, resumed)]
        assert (sorted(whole_epoch) if is_unordered(spec) else whole_epoch) == epochs[epoch], spec
        assert told(resumed, spec) == epochs[epoch + 1], spec


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
        main = psutil.Process(process.pid)
        children = main.children(recursive=True)
        workers = [child for child in children if child.is_running()]
        assert len(workers) >= 3  # the fork server, and two that it started
        main.kill()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
