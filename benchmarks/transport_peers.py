"""The contestants of `benchmarks.transport`: what is sent, and how each brings it from two processes to one.

Making the items costs almost nothing: a process fills memory once, and yields new tensors or arrays over it. The
consumer reads one number of each page. Of 1, 2, 4, 8, 16 and 64 items read ahead, the number used was best for torch's
DataLoader, and for the others not worse.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import cycle
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from .harness import cpu_seconds

if TYPE_CHECKING:
    import numpy as np

WORKERS, SECONDS_AT_LEAST = 2, 1.0
SHAPE, NUMBERS_OF_PAGE = (32, 3, 224, 224), mmap.PAGESIZE // 4


@cache
def ones() -> np.ndarray[Any, Any]:
    """The memory of all tensors and arrays of a process."""
    import numpy as np

    return np.ones(SHAPE, np.float32)


def tensor(_: int) -> Any:
    import torch

    return torch.from_numpy(
        ones()
    )  # a new tensor each time: sending the same one again would cost the DataLoader nothing


def array(_: int) -> Any:
    return ones()


def both(number: int) -> dict[str, Any]:
    return {"tensor": tensor(number), "array": array(number)}


def small(number: int) -> dict[str, Any]:
    return {"index": number, "label": number % 10, "score": number / 7, "name": f"sample-{number:06}"}


@cache
def thousand() -> list[dict[str, Any]]:
    return [*map(small, range(1000))]


def list_of_small(_: int) -> list[dict[str, Any]]:
    return thousand()


def touched(item: Any) -> int:
    """Read one number of each page of an item, or one entry of one small dict, and return how many pages or dicts."""
    match item:
        case {"tensor": one, "array": other}:
            return touched(one) + touched(other)
        case [*_, {"label": label}]:
            return len(item) if label < 10 else 0
        case {"label": label}:
            return 1 if label < 10 else 0
    return int(item.reshape(-1)[::NUMBERS_OF_PAGE].sum())


@dataclass(frozen=True)
class Kind:
    """One sort of items."""

    make: Callable[[int], Any]
    count: int
    """How many are an epoch."""
    ahead: int = 4
    """The number of items that a worker may make ahead."""


KINDS = {
    "tensors": Kind(tensor, 100),
    "NumPy": Kind(array, 100),
    "dict of both": Kind(both, 50),
    "lists of 1,000 small dicts": Kind(list_of_small, 1000),
    "small dicts, one by one": Kind(small, 40_000, ahead=64),
}
IN_MEMORY = ("tensors", "NumPy", "dict of both")
"""The kinds that can be copied to shared memory as they are."""

Epoch = Callable[[], int]
"""Read all items once, and return the sum of `touched` over them."""


@contextmanager
def penstock(kind: Kind) -> Iterator[Epoch]:
    import penstock as ps

    dp = ps.iter.IterableWrapper(range(kind.count)).sharding_filter().map(kind.make)
    service = ps.MultiProcessingReadingService(WORKERS, worker_prefetch_cnt=kind.ahead, main_prefetch_cnt=kind.ahead)
    with ps.DataLoader2(dp, reading_service=service) as loader:
        yield lambda: sum(map(touched, loader))


@contextmanager
def dataloader(kind: Kind) -> Iterator[Epoch]:
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    class Items(IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            info: Any = get_worker_info()
            return map(kind.make, range(info.id, kind.count, WORKERS))

    loader: Any = DataLoader(
        Items(),
        batch_size=None,
        collate_fn=as_it_is,  # its own would make tensors of arrays
        num_workers=WORKERS,
        prefetch_factor=kind.ahead,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    yield lambda: sum(map(touched, loader))


def as_it_is(item: Any) -> Any:
    return item


@contextmanager
def queue(kind: Kind) -> Iterator[Epoch]:
    """Hand-written code; since torch is imported, tensors go through shared memory here, too."""
    items: Any = get_context("fork").Queue(WORKERS * kind.ahead)

    def put_all(worker: int) -> None:
        for number in range(worker, kind.count, WORKERS):
            items.put(kind.make(number))

    with on_demand(put_all) as start:

        def epoch() -> int:
            start()
            return sum(touched(items.get()) for _ in range(kind.count))

        yield epoch


@contextmanager
def copying(kind: Kind) -> Iterator[Epoch]:
    """The limit: each process copies its items to blocks of shared memory, in turn, and reads them itself."""
    import numpy as np

    size = sum(part.nbytes for part in parts_of(kind.make(0)))
    blocks = [np.frombuffer(mmap.mmap(-1, size), np.float32).reshape(-1, *SHAPE) for _ in range(WORKERS * kind.ahead)]
    done: Any = get_context("fork").SimpleQueue()

    def copy_all(worker: int) -> None:
        read = 0
        for number, block in zip(range(worker, kind.count, WORKERS), cycle(blocks[worker::WORKERS]), strict=False):
            for part, target in zip(parts_of(kind.make(number)), block, strict=True):
                np.copyto(target, part)
            read += touched(block)
        done.put(read)

    with on_demand(copy_all) as start:

        def epoch() -> int:
            start()
            return sum(done.get() for _ in range(WORKERS))

        yield epoch


def parts_of(item: Any) -> list[Any]:
    return [*item.values()] if isinstance(item, dict) else [item]


@contextmanager
def on_demand(work: Callable[[int], None]) -> Iterator[Callable[[], None]]:
    """Yield a function that starts one round of work in all processes; each knows its number."""
    context = get_context("fork")
    starts = [context.SimpleQueue() for _ in range(WORKERS)]

    def serve(worker: int) -> None:
        while starts[worker].get():
            work(worker)

    processes = [context.Process(target=serve, args=(worker,)) for worker in range(WORKERS)]
    for process in processes:
        process.start()

    def start_all() -> None:
        for start in starts:
            start.put(True)

    yield start_all
    for start, process in zip(starts, processes, strict=True):
        start.put(False)
        process.join()


PEERS: Mapping[str, Callable[[Kind], AbstractContextManager[Epoch]]] = {
    "penstock DataLoader2": penstock,
    "torch DataLoader": dataloader,
    "multiprocessing.Queue": queue,
    "one copy, no hand-over": copying,
}
OURS, TORCH, QUEUE, LIMIT = PEERS


def measure(peer: str, kind: Kind) -> dict[str, float]:
    """Read epochs with one contestant, and return the figures of one, after the first."""
    for module in ("torch", "penstock" if peer == OURS else "torch.utils.data"):
        import_module(module)
    with PEERS[peer](kind) as epoch:
        read = [epoch()]
        cpu_before, began, seconds = cpu_seconds(), time.perf_counter(), 0.0
        while seconds < SECONDS_AT_LEAST:
            read.append(epoch())
            seconds = time.perf_counter() - began
        cpu = cpu_seconds() - cpu_before
    if set(read) != {kind.count * touched(kind.make(0))}:
        raise AssertionError(f"{peer} gave {read} pages or dicts")
    epochs = len(read) - 1
    return {"seconds": seconds / epochs, "cpu": cpu / epochs}
