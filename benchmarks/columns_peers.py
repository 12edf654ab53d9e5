"""The contestants of `benchmarks.columns`: how each makes batches of tensors from Parquet files, and calls a model.

Each yields its batches, and the number of rows is counted. Another Python, without penstock, runs Ray's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

COLUMNS = [f"x{number}" for number in range(8)] + ["label"]
FEATURES = [f"x{number}" for number in range(16)]
ROWS, BUFFER, ROWS_OF_MODEL, WORKERS = 1024, 65_536, 8192, 2
LEAST_SECONDS = 1.0
"""Seconds to read for: disturbances of the machine may last longer than one epoch."""

Epoch = Callable[[], int]
"""Read all once, and return the number of rows."""


def rows_in(batches: Iterable[Mapping[str, Any]], column: str = "label") -> int:
    return sum(len(batch[column]) for batch in batches)


def by_hand(folder: str) -> Epoch:
    import pyarrow.parquet as pq
    import torch

    def batches() -> Iterable[dict[str, Any]]:
        for path in sorted(Path(folder).iterdir()):
            with pq.ParquetFile(path, memory_map=True) as file:
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, columns=COLUMNS).combine_chunks()
                    whole = [torch.from_numpy(table[name].chunk(0).to_numpy(zero_copy_only=False)) for name in COLUMNS]
                    for parts in zip(*(tensor.split(ROWS) for tensor in whole), strict=True):
                        yield dict(zip(COLUMNS, parts, strict=True))

    return lambda: rows_in(batches())


def ours(folder: str, workers: int = 0, **options: Any) -> Epoch:
    import penstock as ps

    dp = ps.read_parquet(folder, COLUMNS, shuffle_row_groups="local_shuffle_buffer_size" in options)
    loader = ps.iter_torch_batches(dp, ROWS, num_workers=workers, **options)
    return lambda: rows_in(loader)


def ours_in_workers(folder: str) -> Epoch:
    return ours(folder, WORKERS)


def ours_shuffled(folder: str) -> Epoch:
    return ours(folder, local_shuffle_buffer_size=BUFFER)


def ours_shuffled_in_workers(folder: str) -> Epoch:
    return ours(folder, WORKERS, local_shuffle_buffer_size=BUFFER)


def tensors_first(folder: str) -> Epoch:
    import penstock as ps

    dp: Any = ps.read_parquet(folder, COLUMNS).to_tensors().rebatch(ROWS)
    return lambda: rows_in(dp)


def batches_first(folder: str) -> Epoch:
    import penstock as ps

    dp: Any = ps.read_parquet(folder, COLUMNS).rebatch(ROWS).to_tensors()
    return lambda: rows_in(dp)


def batches_when_read(folder: str) -> Epoch:
    import penstock as ps

    dp: Any = ps.read_parquet(folder, COLUMNS, batch_size=ROWS).to_tensors()
    return lambda: rows_in(dp)


def hugging_face(folder: str, shuffled: bool = False) -> Epoch:
    import datasets

    files = sorted(str(path) for path in Path(folder).iterdir())
    dataset = datasets.load_dataset("parquet", data_files=files, streaming=True, columns=COLUMNS, split="train")
    if shuffled:
        dataset = dataset.shuffle(seed=0, buffer_size=BUFFER)
    dataset = dataset.with_format("torch")
    return lambda: rows_in(dataset.iter(batch_size=ROWS))


def hugging_face_shuffled(folder: str) -> Epoch:
    return hugging_face(folder, shuffled=True)


def ray(folder: str, **options: Any) -> Epoch:
    dataset = _ray().read_parquet(folder, columns=COLUMNS)
    return lambda: rows_in(dataset.iter_torch_batches(batch_size=ROWS, prefetch_batches=4, **options))


def ray_shuffled(folder: str) -> Epoch:
    return ray(folder, local_shuffle_buffer_size=BUFFER)


def _ray() -> Any:
    import logging

    import ray

    ray.init(num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    with suppress(AttributeError):
        ray.data.DataContext.get_current().execution_options.verbose_progress = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray.data


class Model:
    """A small model, made once in each process; a batch is a dict of tensors or of arrays."""

    def __init__(self) -> None:
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).eval()

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        with torch.inference_mode():
            rows = torch.stack([torch.as_tensor(batch[name]) for name in FEATURES], dim=1)
            return {"id": batch["id"], "score": self.network(rows).squeeze(1).numpy()}


def one_process_by_hand(folder: str) -> Epoch:
    import pyarrow.parquet as pq

    model = Model()

    def scores() -> Iterable[dict[str, Any]]:
        for path in sorted(Path(folder).iterdir()):
            with pq.ParquetFile(path, memory_map=True) as file:
                for batch in file.iter_batches(ROWS_OF_MODEL, columns=["id", *FEATURES]):
                    yield model({name: batch[name].to_numpy() for name in batch.schema.names})

    return lambda: rows_in(scores(), "id")


def ours_of_model(folder: str, **options: Any) -> Epoch:
    import penstock as ps

    dp: Any = ps.read_parquet(folder, ["id", *FEATURES], batch_size=ROWS_OF_MODEL).to_tensors()
    scores = dp.map_pool(Model, workers=WORKERS, **options)
    return lambda: rows_in(scores, "id")


def ours_of_model_in_threads(folder: str) -> Epoch:
    return ours_of_model(folder, engine="threads")


def ray_of_model(folder: str) -> Epoch:
    data = _ray()
    import ray as actors

    strategy = actors.data.ActorPoolStrategy(size=WORKERS)
    dataset = data.read_parquet(folder, columns=["id", *FEATURES]).map_batches(
        Model, batch_size=ROWS_OF_MODEL, batch_format="numpy", compute=strategy
    )
    return lambda: rows_in(dataset.iter_batches(batch_size=None, batch_format="numpy"), "id")


Peer = Callable[[str], Epoch]
BATCHES: dict[str, Peer] = {
    "pyarrow by hand": by_hand,
    "penstock": ours,
    "penstock in two workers": ours_in_workers,
    "Hugging Face datasets, streamed": hugging_face,
    "Ray Data": ray,
}
ORDERS: dict[str, Peer] = {
    f"to_tensors().rebatch({ROWS})": tensors_first,
    f"rebatch({ROWS}).to_tensors()": batches_first,
    f"read_parquet(batch_size={ROWS}).to_tensors()": batches_when_read,
}
SHUFFLED: dict[str, Peer] = {
    "penstock": ours_shuffled,
    "penstock in two workers": ours_shuffled_in_workers,
    "Hugging Face datasets, streamed": hugging_face_shuffled,
    "Ray Data": ray_shuffled,
}
INFERENCE: dict[str, Peer] = {
    "one process by hand": one_process_by_hand,
    "penstock, two processes": ours_of_model,
    "penstock, two threads": ours_of_model_in_threads,
    "Ray Data, two actors": ray_of_model,
}
BY_HAND, OURS, OF_RAY = "pyarrow by hand", "penstock", ("Ray Data", "Ray Data, two actors")
OURS_OF_MODELS = ("penstock, two processes", "penstock, two threads")


def measure(peer: Peer, folder: str) -> dict[str, float]:
    """Read all once to warm up, and then for a second; return the average figures of an epoch."""
    from .harness import cpu_seconds

    epoch = peer(folder)
    epoch()
    cpu_before, began = cpu_seconds(), time.perf_counter()
    seconds, rows, epochs = 0.0, 0, 0
    while seconds < LEAST_SECONDS:
        rows += epoch()
        epochs += 1
        seconds = time.perf_counter() - began
    return {"seconds": seconds / epochs, "cpu": (cpu_seconds() - cpu_before) / epochs, "rows": rows / epochs}
