"""The contestants of `benchmarks.clusters`: two workers of each library read the same images and columns.

Each is measured in a process of its own. Ray has two CPUs for what it runs, as there are two local processes.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from .columns_peers import COLUMNS, ROWS
from .image_peers import BATCH, SIDE, load

WORKERS = 2
EPOCHS = 3
PROCESSES, ACTORS = "two local processes", "two actors of Ray"
OTHERS = ["Ray Data", "Ray Data, with our tasks"]

Epoch = Callable[[], Iterable[Any]]
"""Read all once, and yield it in batches."""


def begin_ray(cpus: int = WORKERS) -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    ray.init(num_cpus=cpus, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray


def service_of(peer: str) -> Any:
    import penstock as ps

    if peer == PROCESSES:
        return ps.MultiProcessingReadingService(WORKERS)
    begin_ray()
    return ps.RayReadingService(WORKERS)


def images(peer: str, paths: Sequence[str]) -> Epoch:
    import penstock as ps

    if peer == "Ray Data":
        data = begin_ray().data.read_images(str(Path(paths[0]).parent), size=(SIDE, SIDE), mode="RGB")
        return lambda: (batch["image"] for batch in data.iter_torch_batches(batch_size=BATCH, prefetch_batches=4))
    if peer == "Ray Data, with our tasks":
        data = begin_ray().data.from_items([*paths], override_num_blocks=16)
        data = data.map(lambda row: {"image": load(row["item"]).numpy()})
        return lambda: (batch["image"] for batch in data.iter_torch_batches(batch_size=BATCH, prefetch_batches=4))
    dp = ps.iter.IterableWrapper(paths).sharding_filter().map(load).batch(BATCH).collate()
    loader = ps.DataLoader2(dp, reading_service=service_of(peer))
    return lambda: loader


def columns(peer: str, folder: str) -> Epoch:
    import penstock as ps

    if peer == "Ray Data":
        data = begin_ray().data.read_parquet(folder, columns=COLUMNS)
        return lambda: (batch["label"] for batch in data.iter_torch_batches(batch_size=ROWS, prefetch_batches=4))
    loader = ps.iter_torch_batches(ps.read_parquet(folder, COLUMNS), ROWS, reading_service=service_of(peer))
    return lambda: (batch["label"] for batch in loader)


PEERS: dict[str, tuple[Callable[[str, Any], Epoch], list[str]]] = {
    "images": (images, [PROCESSES, ACTORS, *OTHERS]),
    "columns": (columns, [PROCESSES, ACTORS, "Ray Data"]),
}


def measure(kind: str, peer: str, of: Any) -> dict[str, Any]:
    """Return the seconds from the start to the first batch, and the rows per second after the first epoch."""
    began = time.perf_counter()
    epoch = PEERS[kind][0](peer, of)
    batches = iter(epoch())
    rows = len(next(batches))
    first = time.perf_counter() - began
    rows += sum(map(len, batches))
    began, again = time.perf_counter(), 0
    for _ in range(EPOCHS):
        again += sum(map(len, epoch()))
    seconds = time.perf_counter() - began
    if again != EPOCHS * rows:
        raise AssertionError(f"{peer} gave {rows} rows, and then {again} in {EPOCHS} epochs")
    return {"first": first, "rate": again / seconds, "rows": rows}


def grow(actors: Sequence[int], items: int = 20_000) -> list[dict[str, float]]:
    """Return the seconds to begin with each number of actors, and this process's CPU time per small item."""
    import penstock as ps

    begin_ray(max(actors))
    found = []
    for number in actors:
        dp = ps.iter.IterableWrapper(range(items)).sharding_filter().map(abs)
        began = time.perf_counter()
        with ps.DataLoader2(dp, reading_service=ps.RayReadingService(number)) as loader:
            iterator = iter(loader)
            next(iterator)
            first = time.perf_counter() - began
            began_cpu = time.process_time()
            rest = sum(1 for _ in iterator)
            found.append({"actors": number, "first": first, "cpu": (time.process_time() - began_cpu) / rest * 1e6})
    return found
