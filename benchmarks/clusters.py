"""What it costs that several ranks read together: `python -m benchmarks.clusters`.

Ranks are processes of this machine, with gloo. They read a chain of numbers, which costs next to nothing, so that what
is left is what the ranks say to each other: agreeing before each item, and taking a state together. Where there are
more ranks than cores, they also wait for each other to be given one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch.distributed as dist

import penstock as ps

from .harness import table, verdict

MOST_MS = 20.0
"""That taking a state may take on four ranks."""
STATES, ITEMS = 30, 2000
SHARDS = 12
MANY_SHARDS = 10_000


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
    """Read for a while on this rank, and return what it took."""
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
    """Return what the slowest of several ranks measured."""
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
    """Return the bytes of a state of so many shards, of each of which an item was handed out."""
    with loader_of(shards, 1) as loader:
        iterator = iter(loader)
        for _ in range(shards):
            next(iterator)
        return len(json.dumps(loader.state_dict()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--store")
    given = parser.parse_args()
    if given.rank is not None:
        if given.ranks > 1:
            dist.init_process_group(
                "gloo", init_method=f"file://{given.store}", rank=given.rank, world_size=given.ranks
            )
        print(json.dumps(measured(given.ranks)))
        if given.ranks > 1:
            dist.destroy_process_group()
        return
    found = {ranks: on_ranks(ranks) for ranks in (1, 2, 4)}
    header = ["ranks", "first item, s", "a state, ms", "an item, µs", "bytes of the state"]
    rows = [
        [str(ranks), f"{each['first']:.2f}", f"{each['state']:.1f}", f"{each['item']:,.0f}", f"{each['bytes']:,}"]
        for ranks, each in found.items()
    ]
    print(f"{SHARDS} shards, {os.cpu_count()} cores; of each rank the slowest\n\n{table(header, rows)}\n")
    small, many = size_of_state(100), size_of_state(1000)
    print(f"bytes of a state: 100 shards {small:,}, 1,000 shards {many:,}, so {MANY_SHARDS:,} {10 * many:,}\n")
    print(verdict(f"a state of 4 ranks takes {found[4]['state']:.1f} ms, of {MOST_MS:g}", found[4]["state"] <= MOST_MS))


if __name__ == "__main__":
    main()
