"""What reading together costs ranks, and how fast Ray actors read: `python -m benchmarks.clusters`.

Ranks are processes of this machine, with gloo. They read a chain of numbers, whose own cost is negligible. So the
figures show the messages between ranks: agreeing before each item, and taking a state together. With more ranks than
cores, they also show waiting for a core.

Actors read JPEGs to tensors, in batches of 32, and columns of Parquet, in batches of 1,024 rows. They are compared with
Ray Data and with as many local processes. Each contestant runs in its own process, once a round. Shares are computed
within rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch.distributed as dist

import penstock as ps

from .cluster_peers import ACTORS, OTHERS, PEERS, PROCESSES, grow, measure
from .columns import lay_out
from .harness import environment, measured_apart, rounds_of, share, table, verdict
from .images import make_images

MOST_MS = 20.0
"""The goal for taking a state on four ranks, in milliseconds."""
STATES, ITEMS = 30, 2000
SHARDS = 12
MANY_SHARDS = 10_000
IMAGES, TABLE_ROWS = 600, 1_000_000
LEAST_OF_RAY_DATA, LEAST_OF_PROCESSES = 2.0, 0.8
ACTORS_IN_ALL = [1, 2, 4, 8]


def chain() -> Any:
    return ps.iter.IterableWrapper(range(10**7)).shuffle(buffer_size=100).sharding_filter().map(abs).batch(8)


def loader_of(shards: int, ranks: int) -> Any:
    service: Any = ps.MultiProcessingReadingService(0, num_shards=shards)
    if ranks > 1:
        service = ps.SequentialReadingService(ps.DistributedReadingService(timeout=60), service)
    loader: Any = ps.DataLoader2(chain(), reading_service=service)
    loader.seed(0)
    return loader


def measured(ranks: int) -> dict[str, float]:
    """Read for a while on this rank, and return the times."""
    loader = loader_of(SHARDS, ranks)
    began = time.perf_counter()
    iterator = iter(loader)
    next(iterator)
    first = time.perf_counter() - began
    states: list[float] = []
    size = 0
    for _ in range(STATES):
        next(iterator)
        began = time.perf_counter()
        size = len(json.dumps(loader.state_dict()))
        states.append(time.perf_counter() - began)
    began = time.perf_counter()
    for _ in range(ITEMS):
        next(iterator)
    item = (time.perf_counter() - began) / ITEMS
    loader.shutdown()
    return {"first": first, "state": median(states) * 1e3, "item": item * 1e6, "bytes": size}


def on_ranks(ranks: int) -> dict[str, float]:
    """Return the measurements of the slowest of several ranks."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", __spec__.name, "--ranks", str(ranks), "--store", str(Path(folder) / "store")]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        processes = [
            subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True, env=environment)
            for rank in range(ranks)
        ]
        found = [json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) for process in processes]
    return {name: max(each[name] for each in found) for name in found[0]}


def size_of_state(shards: int) -> int:
    """Return the bytes of a state of this many shards, after one item of each."""
    with loader_of(shards, 1) as loader:
        iterator = iter(loader)
        for _ in range(shards):
            next(iterator)
        return len(json.dumps(loader.state_dict()))


def of_ranks() -> None:
    """Print what ranks cost."""
    found = {ranks: on_ranks(ranks) for ranks in (1, 2, 4)}
    header = ["ranks", "first item, s", "a state, ms", "an item, µs", "bytes of the state"]
    rows = [
        [str(ranks), f"{each['first']:.2f}", f"{each['state']:.1f}", f"{each['item']:,.0f}", f"{each['bytes']:,}"]
        for ranks, each in found.items()
    ]
    print(f"{SHARDS} shards, {os.cpu_count()} cores; figures of the slowest rank\n\n{table(header, rows)}\n")
    small, many = size_of_state(100), size_of_state(1000)
    print(f"bytes of a state: 100 shards {small:,}, 1,000 shards {many:,}, so {MANY_SHARDS:,} {10 * many:,}\n")
    print(verdict(f"a state of 4 ranks takes {found[4]['state']:.1f} ms, of {MOST_MS:g}", found[4]["state"] <= MOST_MS))


def apart(*measured: str) -> dict[str, Any]:
    return measured_apart([sys.executable, "-m", __spec__.name, "--measure", *measured])


def of_actors(kind: str, of: str, rounds: int) -> None:
    """Print how fast actors are, compared with others."""
    names = PEERS[kind][1]
    trial = {name: apart(kind, name, of) for name in names}  # also reads all files into memory
    for name, found in trial.items():
        if "error" in found:
            print(f"{name}: not measured: {found['error']}")
    able = [name for name in names if "error" not in trial[name]]
    results = rounds_of({name: partial(apart, kind, name, of) for name in able}, rounds)

    def rates(name: str) -> list[float]:
        return [found["rate"] for found in results[name]]

    rows = [
        [
            name,
            f"{median(rates(name)):,.0f}",
            f"{share(rates(name), rates(PROCESSES)):.2f}",
            f"{median(found['first'] for found in results[name]):.1f}",
        ]
        for name in able
    ]
    header = [kind, "a second", "of local processes", "first batch, s"]
    print(f"\n{trial[able[0]]['rows']:,} {kind}, medians of {rounds}\n\n{table(header, rows)}\n")
    others = [name for name in able if name in OTHERS]
    if ACTORS in able and others:
        best = max(others, key=lambda name: median(rates(name)))
        times = share(rates(ACTORS), rates(best))
        goal = f"{kind} by actors: {times:.1f} × {best}, of {LEAST_OF_RAY_DATA:g}"
        print(verdict(goal, times >= LEAST_OF_RAY_DATA))
    if ACTORS in able and kind == "images":
        reached = share(rates(ACTORS), rates(PROCESSES))
        goal = f"{kind} by actors: {reached:.2f} of local processes, of {LEAST_OF_PROCESSES:g}"
        print(verdict(goal, reached >= LEAST_OF_PROCESSES))


def of_many_actors() -> None:
    """Print the costs that grow with the number of actors."""
    found = apart("growth", "", "")
    rows = [[str(each["actors"]), f"{each['first']:.1f}", f"{each['cpu']:.0f}"] for each in found["growth"]]
    print(f"\nnumbers from actors\n\n{table(['actors', 'first item, s', 'CPU an item here, µs'], rows)}\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clusters", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=["ranks", "images", "columns", "growth"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help="measure this one only, here, and print the figures as JSON")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--store")
    given = parser.parse_args()
    if given.measure:
        kind, peer, of = given.measure
        if kind == "growth":
            print(json.dumps({"growth": grow(ACTORS_IN_ALL)}))
        else:
            print(json.dumps(measure(kind, peer, make_images(int(of)) if kind == "images" else of)))
        return
    if given.rank is not None:
        if given.ranks > 1:
            dist.init_process_group(
                "gloo", init_method=f"file://{given.store}", rank=given.rank, world_size=given.ranks
            )
        print(json.dumps(measured(given.ranks)))
        if given.ranks > 1:
            dist.destroy_process_group()
        return
    parts = given.parts or ["ranks", "images", "columns", "growth"]
    print(environment("penstock", "torch", "ray"))
    if "ranks" in parts:
        of_ranks()
    if "images" in parts:
        make_images(IMAGES)
        of_actors("images", str(IMAGES), given.rounds)
    if "columns" in parts:
        with tempfile.TemporaryDirectory() as folder:
            lay_out(Path(folder), TABLE_ROWS)
            of_actors("columns", folder, given.rounds)
    if "growth" in parts:
        of_many_actors()


if __name__ == "__main__":
    main()
