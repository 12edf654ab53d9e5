"""How much throughput the snapshots of a loader's shards cost.

Each chain is read with and without these snapshots, in turns, in loaders that live side by side. Ratios are computed
within rounds. Two more figures are reliable on a busy machine: the ratio of the CPU times of all processes, and the
share of CPU time spent on snapshots, as the code that takes them measures it for its own pace.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest import mock

import numpy as np
import psutil  # type: ignore[import-untyped]
from numpy.typing import NDArray

from penstock import DataLoader2, InProcessReadingService, MultiProcessingReadingService, ReadingServiceInterface
from penstock.registry import Throttle

from .harness import rounds_of, share, table, verdict
from .resuming_chains import Case

WORKERS, IN_PROCESS = "2 workers", "in process, prefetching"
LEAST_OF_THROUGHPUT = 0.98
NEVER = 10**9


def without_snapshots(chain: Any, _: Any) -> Any:
    """Switch snapshots off in this process; workers call this first."""
    mock.patch.object(Throttle, "step", NEVER).start()
    return chain


class Count:
    """Counts snapshots and their seconds, in any number of processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self) -> None:
        """Begin to count in this process."""
        taken: Any = Throttle.record
        if hasattr(taken, "counts"):
            return
        counted = np.memmap(self.folder / str(os.getpid()), np.float64, "w+", shape=2)

        def counting(pace: Throttle, started: float) -> None:
            counted[:] += 1, time.perf_counter() - started
            taken(pace, started)

        setattr(counting, "counts", True)  # noqa: B010
        mock.patch.object(Throttle, "record", counting).start()

    def in_worker(self, chain: Any, _: Any) -> Any:
        """Begin to count in a worker, which calls this first."""
        self.begin()
        return chain

    def read(self) -> NDArray[np.float64]:
        """Return the number of snapshots, and their seconds, over all processes."""
        return sum((np.fromfile(file) for file in self.folder.iterdir()), np.zeros(2))


def cpu_seconds() -> float:
    """Return the CPU time of this process and its descendants."""
    me = psutil.Process()
    times = [process.cpu_times() for process in [me, *me.children(recursive=True)]]
    return float(sum(each.user + each.system for each in times))


def read(loader: DataLoader2[Any], snapshots: bool, count: Count) -> NDArray[np.float64]:
    """Read an epoch, and return its seconds, CPU seconds, snapshots and seconds of snapshots."""
    with ExitStack() as stack:
        if not snapshots:
            stack.enter_context(mock.patch.object(Throttle, "step", NEVER))
        before = [time.perf_counter(), cpu_seconds(), *count.read()]
        deque(loader, maxlen=0)
        return np.subtract([time.perf_counter(), cpu_seconds(), *count.read()], before)


def services(num_shards: int) -> dict[str, Callable[[Any], ReadingServiceInterface]]:
    """Return the ways to read; each takes the function that workers call first, or None."""
    return {
        WORKERS: lambda first: MultiProcessingReadingService(2, worker_init_fn=first, num_shards=num_shards),
        IN_PROCESS: lambda _: InProcessReadingService(prefetch_cnt=10),
    }


def compare(name: str, case: Case, rounds: int, scale: float, count: Count) -> tuple[list[list[str]], list[str]]:
    rows, verdicts = [], []
    for way, service in services(case.num_shards).items():
        if way == IN_PROCESS and case.num_shards != 2:
            continue  # shards are for workers
        items = int(case.items * scale)
        with (
            DataLoader2(case.make(items), reading_service=service(count.in_worker)) as usual,
            DataLoader2(case.make(items), reading_service=service(without_snapshots)) as bare,
        ):
            contestants = {"usual": partial(read, usual, True, count), "bare": partial(read, bare, False, count)}
            rounds_of(contestants, 1)  # starts the workers
            taken = rounds_of(contestants, rounds)
        walls, cpus, counts, seconds = (
            {who: [each[part] for each in taken[who]] for who in taken} for part in range(4)
        )
        throughput = share(walls["bare"], walls["usual"])
        low, _, high = quantiles([one / other for one, other in zip(walls["bare"], walls["usual"], strict=True)], n=4)
        cpu, own = sum(cpus["usual"]) / sum(cpus["bare"]), sum(seconds["usual"]) / sum(cpus["usual"])
        rows.append(
            [
                name,
                way,
                f"{items / median(walls['bare']):,.0f}",
                f"{items / median(walls['usual']):,.0f}",
                f"{throughput:.3f}",
                f"{low:.3f} … {high:.3f}",
                f"{cpu:.3f}",
                f"{median(counts['usual']):,.0f}",
                f"{own:.1%}",
            ]
        )
        goal = f"{name}, {way}: at least {LEAST_OF_THROUGHPUT} of the throughput without snapshots: {throughput:.3f}"
        verdicts.append(
            verdict(f"{goal} ({cpu:.3f} × the CPU time; snapshots {own:.1%})", throughput >= LEAST_OF_THROUGHPUT)
        )
    return rows, verdicts


def throughput(chosen: dict[str, Case], rounds: int, scale: float) -> list[str]:
    rows, verdicts = [], []
    with tempfile.TemporaryDirectory() as folder:
        count = Count(Path(folder))
        count.begin()
        for name, case in chosen.items():
            of_case = compare(name, case, rounds, scale, count)
            rows += of_case[0]
            verdicts += of_case[1]
    print(f"\nThroughput with snapshots and without, {rounds} rounds\n")
    print(
        table(
            [
                "",
                "",
                "items/s without",
                "with",
                "ratio",
                "half of the rounds",
                "CPU, ratio",
                "snapshots",
                "take of CPU",
            ],
            rows,
        )
    )
    return verdicts
