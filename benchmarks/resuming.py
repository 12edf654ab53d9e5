"""What resuming costs: `python -m benchmarks.resuming`.

First, what it takes from throughput that a loader notes where its shards stand: each chain is read as it is by default
and with these snapshots switched off, in turns, in loaders that live side by side; ratios are taken within rounds. Two
figures more hold on a machine that is not idle: the ratio of the CPU time of all processes together, and the share of
it that goes by while snapshots are taken, as the code that takes them measures it for its own pace.

Then, what a state is: its bytes as JSON, what it takes to ask for one, to load it, and to get the first item after it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from unittest import mock

import numpy as np
import psutil  # type: ignore[import-untyped]
from numpy.typing import NDArray

import penstock as ps
from penstock import DataLoader2, InProcessReadingService, MultiProcessingReadingService, ReadingServiceInterface
from penstock.registry import Pace

from .harness import environment, rounds_of, share, table, verdict

WORKERS, IN_PROCESS = "2 workers", "in process, prefetching"
LEAST_OF_THROUGHPUT = 0.98
MOST_GROWTH = 1.2
"""More digits are no more numbers."""
NEVER = 10**9
PAYLOAD = "payload-payload-payload-payload"
"""What items are full of, and states are to be free of."""


def plus_one(x: int) -> int:
    return x + 1


def text_of(x: int) -> str:
    return f"{PAYLOAD} {x}"


def as_image(x: int) -> str:
    """Take 100 µs of CPU, as decoding a small image does."""
    until = time.perf_counter() + 100e-6
    while time.perf_counter() < until:
        pass
    return text_of(x)


def content(member: tuple[str, Any]) -> bytes:
    data: bytes = member[1].read()
    return data


def cheap(n: int, buffer_size: int = 1000) -> Any:
    return (
        ps.iter.IterableWrapper(range(n))
        .sharding_filter()
        .map(plus_one)
        .shuffle(buffer_size=buffer_size)
        .map(text_of)
        .batch(64)
    )


def branches(n: int, lag: int = 0) -> Any:
    left, right = ps.iter.IterableWrapper(range(n)).sharding_filter().map(text_of).fork(2, buffer_size=lag + 10)
    late = ps.iter.IterableWrapper([""] * lag).concat(left) if lag else left
    return late.zip(right.map(len)).batch(64)


def archives(n: int, folder: Path, members: int = 500) -> Any:
    paths = sorted(map(str, folder.glob("*.tar")))
    wanted = [paths[number % len(paths)] for number in range(math.ceil(n / members))]
    return ps.iter.IterableWrapper(wanted).sharding_filter().open_files("rb").load_from_tar().map(content).batch(64)


def items(n: int) -> Any:
    return ps.iter.IterableWrapper(range(n)).sharding_filter().map(text_of)


def images(n: int) -> Any:
    return ps.iter.IterableWrapper(range(n)).sharding_filter().map(as_image).batch(8)


def many_steps(n: int, steps: int = 64) -> Any:
    chain: Any = ps.iter.IterableWrapper(range(n)).sharding_filter()
    for _ in range(steps):
        chain = chain.map(plus_one)
    return chain.map(text_of).batch(64)


def make_archives(folder: Path, count: int = 4, members: int = 500) -> None:
    for number in range(count):
        with tarfile.open(folder / f"{number}.tar", "w") as archive:
            for member in range(members):
                header = tarfile.TarInfo(f"{member:05}.txt")
                data = PAYLOAD.encode() * 33
                header.size = len(data)
                archive.addfile(header, BytesIO(data))


@dataclass(frozen=True)
class Case:
    """A chain, and how much of it keeps a loader busy for about half a second."""

    make: Callable[[int], Any]
    items: int
    num_shards: int = 2


def cases(folder: Path) -> dict[str, Case]:
    return {
        "cheap: map, shuffle(1,000), map, batch": Case(cheap, 400_000),
        "branches: fork, zip, batch": Case(branches, 100_000),
        "archives: open, tar members, batch": Case(partial(archives, folder=folder), 12_000),
        "images-like: 100 µs an item, batch": Case(images, 6_000),
        "64 maps, batch": Case(many_steps, 120_000),
        "shuffle(10,000), batch": Case(partial(cheap, buffer_size=10_000), 400_000),
        "cheap, 12 shards": Case(cheap, 400_000, num_shards=12),
    }


# What snapshots cost


def without_snapshots(chain: Any, _: Any) -> Any:
    """Switch snapshots off in the process that this is called in: what a worker calls first."""
    mock.patch.object(Pace, "step", NEVER).start()
    return chain


class Count:
    """Count the snapshots that are taken, in any number of processes, and the seconds that they take."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self) -> None:
        """Begin to count in this process."""
        taken: Any = Pace.taken
        if hasattr(taken, "counts"):
            return
        counted = np.memmap(self.folder / str(os.getpid()), np.float64, "w+", shape=2)

        def counting(pace: Pace, started: float) -> None:
            counted[:] += 1, time.perf_counter() - started
            taken(pace, started)

        setattr(counting, "counts", True)  # noqa: B010
        mock.patch.object(Pace, "taken", counting).start()

    def in_worker(self, chain: Any, _: Any) -> Any:
        """Begin to count where a worker calls this first."""
        self.begin()
        return chain

    def read(self) -> NDArray[np.float64]:
        """Return how many were taken, and the seconds, in all processes together."""
        return sum((np.fromfile(file) for file in self.folder.iterdir()), np.zeros(2))


def cpu_seconds() -> float:
    """Return what this process and all that it started have used."""
    me = psutil.Process()
    times = [process.cpu_times() for process in [me, *me.children(recursive=True)]]
    return float(sum(each.user + each.system for each in times))


def read(loader: DataLoader2[Any], snapshots: bool, count: Count) -> NDArray[np.float64]:
    """Read an epoch, and return what it took: seconds, seconds of CPU, snapshots and the seconds of these."""
    with ExitStack() as stack:
        if not snapshots:
            stack.enter_context(mock.patch.object(Pace, "step", NEVER))
        before = [time.perf_counter(), cpu_seconds(), *count.read()]
        deque(loader, maxlen=0)
        return np.subtract([time.perf_counter(), cpu_seconds(), *count.read()], before)


def services(num_shards: int) -> dict[str, Callable[[Any], ReadingServiceInterface]]:
    """Return the ways to read, each of which is told what a worker is to call first, or None."""
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


def compare_all(chosen: dict[str, Case], rounds: int, scale: float) -> list[str]:
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


# What a state is


@dataclass(frozen=True)
class Point:
    """What a state is at one point of an epoch."""

    bytes: int
    has_payload: bool
    asking: float
    loading: float
    again: int
    first: float
    """Seconds to the first item of an epoch that is begun afresh."""
    first_resumed: float


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = function()
    return result, time.perf_counter() - began


def first_of(loader: DataLoader2[Any]) -> object:
    return next(iter(loader), None)


def items_again(node: Any) -> int:
    """Return how many items are read again on resuming: those after the last snapshot of each shard."""
    if isinstance(node, dict):
        own = sum(place[2] for place in node["places"]) if "places" in node else 0
        return own + sum(map(items_again, node.values()))
    return sum(map(items_again, node)) if isinstance(node, list) else 0


def look(make: Callable[[], Any], num_shards: int, part: float) -> Point:
    """Read a part of an epoch with workers, and go on in this process, where no process has to be started first."""
    whole = DataLoader2(make(), reading_service=MultiProcessingReadingService(0, num_shards=num_shards))
    try:
        batches = len(whole)
    except TypeError:  # of archives' members it is not known
        batches = sum(1 for _ in whole)
    with DataLoader2(make(), reading_service=MultiProcessingReadingService(2, num_shards=num_shards)) as loader:
        loader.seed(0)
        items = iter(loader)
        deque(islice(items, int(part * batches)), maxlen=0)
        states = [timed(loader.state_dict) for _ in range(5)]
        state = states[0][0]
    text = json.dumps(state)
    loads, firsts, firsts_resumed = [], [], []
    for _ in range(3):
        fresh = DataLoader2(make(), reading_service=MultiProcessingReadingService(0, num_shards=num_shards))
        firsts.append(timed(partial(first_of, fresh))[1])
        resumed = DataLoader2(make(), reading_service=MultiProcessingReadingService(0, num_shards=num_shards))
        given = json.loads(text)
        loads.append(timed(partial(resumed.load_state_dict, given))[1])
        firsts_resumed.append(timed(partial(first_of, resumed))[1])
    return Point(
        len(text),
        PAYLOAD in text,
        median(seconds for _, seconds in states),
        median(loads),
        items_again(state["state"]),
        median(firsts),
        median(firsts_resumed),
    )


HEADER = ["bytes", "asked for, µs", "loaded, µs", "items again", "first, ms", "first after it, ms"]


def cells(point: Point) -> list[str]:
    return [
        f"{point.bytes:,}",
        f"{point.asking * 1e6:,.0f}",
        f"{point.loading * 1e6:,.0f}",
        f"{point.again:,}",
        f"{point.first * 1e3:,.1f}",
        f"{point.first_resumed * 1e3:,.1f}",
    ]


def along(chosen: dict[str, Case], scale: float) -> list[str]:
    """Print what states are along an epoch, and how they are with ten times as many items."""
    rows, verdicts = [], []
    for name, case in chosen.items():
        few, some, many = (int(case.items * scale * times) for times in (0.25, 0.5, 2.5))
        points = {
            (items, part): look(partial(case.make, items), case.num_shards, part)
            for items, part in [*((some, part) for part in (0.0, 0.1, 0.5, 0.95, 1.0)), (few, 0.5), (many, 0.5)]
        }
        rows += [[name, f"{items:,}", f"{part:.0%}", *cells(point)] for (items, part), point in points.items()]
        growth = points[many, 0.5].bytes / points[few, 0.5].bytes
        clean = not any(point.has_payload for point in points.values())
        verdicts += [
            verdict(
                f"{name}: a state has at most {MOST_GROWTH} × the bytes with 10 × the items: {growth:.2f}",
                growth <= MOST_GROWTH,
            ),
            verdict(f"{name}: no state holds items", clean),
        ]
    print("\nStates along an epoch, taken with 2 workers, loaded in process\n")
    print(table(["", "items", "at", *HEADER], rows))
    return verdicts


def growing(folder: Path, scale: float) -> None:
    """Print what states grow with."""
    n = int(80_000 * scale)
    grown: dict[str, dict[int, tuple[Callable[[], Any], int]]] = {
        "shards, of map": {s: (partial(items, n // 10), s) for s in (1, 4, 16, 64, 256)},
        "shards, of shuffle(1,000)": {s: (partial(cheap, n), s) for s in (1, 4, 16)},
        "buffer_size of shuffle, 2 shards": {b: (partial(cheap, n, buffer_size=b), 2) for b in (10, 100, 1000, 10_000)},
        "steps, 2 shards": {s: (partial(many_steps, n, steps=s), 2) for s in (1, 4, 16, 64, 128)},
        "lag between branches, 2 shards": {lag: (partial(branches, n, lag=lag), 2) for lag in (0, 10, 100, 1000)},
        "archives, 2 shards": {c: (partial(archives, c * 500, folder=folder), 2) for c in (2, 8, 32)},
    }
    rows = []
    for what, sizes in grown.items():
        smallest: Point | None = None
        for size, (make, num_shards) in sizes.items():
            point = look(make, num_shards, 0.5)
            smallest = smallest or point
            each = (point.bytes - smallest.bytes) / (size - min(sizes)) if size > min(sizes) else math.nan
            rows.append([what, f"{size:,}", "" if math.isnan(each) else f"{each:,.1f}", *cells(point)])
    print("\nWhat states grow with, in the middle of an epoch\n")
    print(table(["", "", "bytes for each", *HEADER], rows))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resuming", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the items")
    parser.add_argument("--only", nargs="*", default=[""], metavar="CHAIN", help="such as cheap: how its name begins")
    parser.add_argument("--parts", nargs="*", default=["throughput", "states", "growth"])
    options = parser.parse_args()
    print(environment("penstock", "torch"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_archives(folder)
        chosen = {
            name: case for name, case in cases(folder).items() if any(name.startswith(begin) for begin in options.only)
        }
        verdicts = []
        if "throughput" in options.parts:
            verdicts += compare_all(chosen, options.rounds, options.scale)
        if "states" in options.parts:
            verdicts += along(chosen, options.scale)
        if "growth" in options.parts:
            growing(folder, options.scale)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
