"""The contestants of `benchmarks.images`: how each library reads the same images on two processes.

Each runs in its own process, so imports are inside the functions. The settings gave the best second epochs of those
tried: reading 2 to 8 batches ahead, batching before or after the workers, 0 to 2 threads per worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from .harness import cpu_seconds, version_of

if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["PEERS", "Peer", "measure"]

BATCH, WORKERS, SIDE = 32, 2, 224

Epoch = Callable[[], Iterable[Any]]
"""Reads all images once, and yields them in batches."""


def read(path: str) -> np.ndarray[Any, Any]:
    """Read, decode, and resize an image to 224 × 224 × 3 bytes."""
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        return np.array(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def load(path: str) -> torch.Tensor:
    import torch

    return torch.from_numpy(read(path))


def load_batch(paths: Sequence[str]) -> torch.Tensor:
    import torch

    return torch.stack([load(path) for path in paths])


def batches_of(paths: Sequence[str]) -> list[Sequence[str]]:
    return [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]


@contextmanager
def hand_loop(paths: Sequence[str]) -> Iterator[Epoch]:
    yield lambda: map(load_batch, batches_of(paths))


@contextmanager
def two_hand_loops(paths: Sequence[str]) -> Iterator[Epoch]:
    """Two processes with half of the images each, which hand nothing over: the upper limit for two processes."""
    context = get_context("spawn")
    starts, done = [context.SimpleQueue() for _ in range(WORKERS)], context.SimpleQueue()
    loops = [
        context.Process(target=loop_on_demand, args=(paths[number::WORKERS], start, done))
        for number, start in enumerate(starts)
    ]
    for loop in loops:
        loop.start()
    for _ in loops:
        done.get()

    def epoch() -> Iterator[Any]:
        for start in starts:
            start.put(True)
        for _ in range(sum(len(batches_of(paths[number::WORKERS])) for number in range(WORKERS))):
            yield range(done.get())

    yield epoch
    for start, loop in zip(starts, loops, strict=True):
        start.put(False)
        loop.join()


def loop_on_demand(paths: Sequence[str], start: Any, done: Any) -> None:
    load_batch(paths[:BATCH])  # for the imports
    done.put(None)
    while start.get():
        for batch in batches_of(paths):
            done.put(len(load_batch(batch)))


@contextmanager
def penstock(paths: Sequence[str]) -> Iterator[Epoch]:
    import penstock as ps

    dp = ps.iter.IterableWrapper(paths).sharding_filter().map(load).batch(BATCH).collate()
    loader = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_workers=WORKERS))
    yield lambda: loader
    loader.shutdown()


@contextmanager
def dataloader2(paths: Sequence[str]) -> Iterator[Epoch]:
    from torchdata.dataloader2 import DataLoader2, MultiProcessingReadingService
    from torchdata.datapipes.iter import IterableWrapper

    dp = IterableWrapper(paths).sharding_filter().map(load).batch(BATCH).collate()
    loader = DataLoader2(dp, reading_service=MultiProcessingReadingService(num_workers=WORKERS))
    yield lambda: loader
    loader.shutdown()


class Images:
    """A map-style data set for torch's DataLoader."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return load(self.paths[index])


@contextmanager
def dataloader(paths: Sequence[str]) -> Iterator[Epoch]:
    from torch.utils.data import DataLoader

    loader = DataLoader(
        Images(paths), batch_size=BATCH, num_workers=WORKERS, prefetch_factor=4, persistent_workers=True
    )
    yield lambda: loader


@contextmanager
def nodes(paths: Sequence[str]) -> Iterator[Epoch]:
    from torchdata import nodes

    # The workers get whole batches of paths: sending images one by one costs more than twice as much.
    source = nodes.IterableWrapper(batches_of(paths))
    loader = nodes.Loader(nodes.ParallelMapper(source, load_batch, num_workers=WORKERS, method="process"))
    yield lambda: loader


@contextmanager
def grain(paths: Sequence[str]) -> Iterator[Epoch]:
    import torch
    from absl import flags
    from grain import MapDataset, MultiprocessingOptions, ReadOptions

    flags.FLAGS(["benchmarks.images"])  # its workers want absl's flags to be parsed
    dataset = (
        MapDataset.source(paths)
        .map(read)
        .batch(BATCH)
        .to_iter_dataset(ReadOptions(num_threads=0, prefetch_buffer_size=0))
        .mp_prefetch(MultiprocessingOptions(num_workers=WORKERS, per_worker_buffer_size=8))
    )
    yield lambda: map(torch.from_numpy, dataset)


@contextmanager
def spdl(paths: Sequence[str]) -> Iterator[Epoch]:
    """Threads of one process, as SPDL intends; Pillow releases the GIL for most of its work."""
    from spdl.pipeline import PipelineBuilder

    def epoch() -> Iterator[Any]:
        builder = PipelineBuilder().add_source(batches_of(paths))
        builder.pipe(load_batch, concurrency=WORKERS, output_order="input").add_sink(4)
        with (pipeline := builder.build(num_threads=2 * WORKERS)).auto_stop():
            yield from pipeline

    yield epoch


@contextmanager
def spdl_processes(paths: Sequence[str]) -> Iterator[Epoch]:
    from concurrent.futures import ProcessPoolExecutor

    from spdl.pipeline import PipelineBuilder

    with ProcessPoolExecutor(WORKERS, mp_context=get_context("forkserver")) as pool:

        def epoch() -> Iterator[Any]:
            builder = PipelineBuilder().add_source(batches_of(paths))
            builder.pipe(load_batch, executor=pool, concurrency=2 * WORKERS, output_order="input").add_sink(4)
            with (pipeline := builder.build(num_threads=2 * WORKERS)).auto_stop():
                yield from pipeline

        yield epoch


@dataclass(frozen=True)
class Peer:
    """One contestant: its function, module and package."""

    open: Callable[[Sequence[str]], AbstractContextManager[Epoch]]
    module: str
    package: str


PEERS = {
    "hand loop, one process": Peer(hand_loop, "PIL.Image", "Pillow"),
    "hand loops, two processes at once": Peer(two_hand_loops, "PIL.Image", "Pillow"),
    "penstock DataLoader2": Peer(penstock, "penstock", "penstock"),
    "torch DataLoader": Peer(dataloader, "torch.utils.data", "torch"),
    "torchdata.nodes": Peer(nodes, "torchdata.nodes", "torchdata"),
    "Grain": Peer(grain, "grain", "grain"),
    "SPDL, two threads": Peer(spdl, "spdl.pipeline", "spdl"),
    "SPDL, two processes": Peer(spdl_processes, "spdl.pipeline", "spdl"),
    "torchdata 0.9 DataLoader2": Peer(dataloader2, "torchdata.dataloader2", "torchdata"),
}


def measure(name: str, paths: Sequence[str]) -> dict[str, Any]:
    """Read the images twice with one contestant, and return the figures."""
    peer = PEERS[name]
    for module in ("torch", "PIL.Image", peer.module):
        import_module(module)
    cpu_before, began = cpu_seconds(), time.perf_counter()
    with peer.open(paths) as epoch:
        batches = iter(epoch())
        first = len(next(batches))
        first_came = time.perf_counter()
        others = sum(map(len, batches))
        ended = time.perf_counter()
        again = sum(map(len, epoch()))
        ended_again = time.perf_counter()
        cpu = cpu_seconds() - cpu_before
    if not first + others == again == len(paths):
        raise AssertionError(f"{name} gave {first + others} and {again} images of {len(paths)}")
    return {
        "version": version_of(peer.package),
        "first": first_came - began,
        "rate": others / (ended - first_came),
        "rate_again": again / (ended_again - ended),
        "cpu": cpu,
    }
