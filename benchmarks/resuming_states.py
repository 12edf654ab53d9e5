"""States: their bytes as JSON, and the times to take one, to load it, and to get the first item after it."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from penstock import DataLoader2, MultiProcessingReadingService

from .harness import table, verdict
from .resuming_chains import PAYLOAD, Case, archives, branches, cheap, items, many_steps

MOST_GROWTH = 1.2
"""More digits are no more numbers."""


@dataclass(frozen=True)
class Point:
    """The figures of a state at one point of an epoch."""

    bytes: int
    has_payload: bool
    asking: float
    loading: float
    again: int
    first: float
    """Seconds to the first item of a new epoch."""
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
    """Read a part of an epoch with workers, and resume in this process, without starting any."""
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


def states(chosen: dict[str, Case], scale: float) -> list[str]:
    """Print the figures of states along an epoch, also with ten times as many items."""
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


def growth(folder: Path, scale: float) -> None:
    """Print how states grow."""
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
