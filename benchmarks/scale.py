"""What very many ranks, shards and items cost, without very many machines: `python -m benchmarks.scale`.

1,024 ranks with 8 workers and 64 shards each, 65,536 shards in all, read 100 M paths. A rank's work depends only on its
number. So a few processes act as each rank in turn, with the same operators and loader. One of a rank's 8 workers is
measured, and one rank runs with all of them. Paths are represented by their numbers, as when a file of paths is read by
index. Lists of paths are measured with 1 M, as the table says.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from statistics import median
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import psutil  # type: ignore[import-untyped]
from numpy.typing import NDArray

import penstock as ps
from penstock import DataLoader2, MultiProcessingReadingService, ReadingServiceInterface, SequentialReadingService
from penstock.registry import SHARDING_PRIORITIES, PassPath, apply_sharding, seed_graph
from penstock.runner.options import Division, ReadOptions, WorkerInfo
from penstock.runner.positions import Epoch, ShardPosition
from penstock.runner.shards import Shards

from .harness import environment, table, verdict

RANKS, WORKERS, SHARDS, PATHS = 1024, 8, 64, 100_000_000
LISTED = 1_000_000
MOST_BYTES_OF_STATE, MOST_SECONDS_TO_BEGIN, MOST_GROWTH = 64 * 1024, 0.1, 1.3

Make = Callable[[int], Any]


def path(number: int) -> str:
    return f"s3://bucket/images/part-{number % 1000:03}/{number:09}.jpg"


def paths(n: int) -> list[str]:
    return [path(number) for number in range(n)]


def shuffled(n: int) -> Any:
    return ps.map.SequenceWrapper(range(n)).shuffle().sharding_filter()


def in_order(n: int) -> Any:
    return ps.map.SequenceWrapper(range(n)).to_iter_datapipe().sharding_filter()


def shuffled_list(n: int) -> Any:
    return ps.map.SequenceWrapper(paths(n), deepcopy=False).shuffle().sharding_filter()


def list_in_order(n: int) -> Any:
    return ps.iter.IterableWrapper(paths(n)).sharding_filter()


def list_not_copied(n: int) -> Any:
    return ps.iter.IterableWrapper(paths(n), deepcopy=False).sharding_filter()


def list_through_buffer(n: int) -> Any:
    return ps.iter.IterableWrapper(paths(n)).shuffle(buffer_size=10_000).sharding_filter()


CHAINS: dict[str, tuple[Make, int]] = {
    "SequenceWrapper(numbers).shuffle().sharding_filter()": (shuffled, PATHS),
    "SequenceWrapper(numbers).to_iter_datapipe().sharding_filter()": (in_order, PATHS),
    "SequenceWrapper(list).shuffle().sharding_filter()": (shuffled_list, LISTED),
    "IterableWrapper(list).sharding_filter()": (list_in_order, LISTED),
    "IterableWrapper(list, deepcopy=False).sharding_filter()": (list_not_copied, LISTED),
    "IterableWrapper(list).shuffle(10,000).sharding_filter()": (list_through_buffer, LISTED),
}


class OneRank(ReadingServiceInterface):
    """Does what DistributedReadingService does on one of many ranks, without waiting for the others."""

    def __init__(self, rank: int, ranks: int = RANKS) -> None:
        self.rank = rank
        self.ranks = ranks

    def initialize(self, datapipe: Any) -> Any:
        apply_sharding(datapipe, self.ranks, self.rank, SHARDING_PRIORITIES.DISTRIBUTED)
        self._end = datapipe
        return datapipe

    def initialize_iteration(self, seed_generator: Any, iter_reset_fn: Any = None) -> Any:
        seed_generator.spawn(self.rank, inplace=True)
        seed_graph(self._end, seed_generator.generate_shared_seed(), self.rank)
        return iter_reset_fn


def loader_of(chain: Any, rank: int, ranks: int = RANKS, shards: int = SHARDS, workers: int = 0) -> DataLoader2[Any]:
    """Return the loader of one rank. The order of its items does not depend on the number of its workers."""
    service = SequentialReadingService(OneRank(rank, ranks), MultiProcessingReadingService(workers, num_shards=shards))
    loader = DataLoader2(chain, reading_service=service)
    loader.seed(2026)
    return loader


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = function()
    return result, time.perf_counter() - began


def meaning() -> None:
    parts = RANKS * SHARDS
    longer = PATHS % parts
    per_rank = [SHARDS * (PATHS // parts) + min(max(longer - rank * SHARDS, 0), SHARDS) for rank in range(RANKS)]
    print(
        f"\nDistributedReadingService divides the chain among the ranks. num_shards is the number of shards into which "
        f"each rank divides its part. num_shards={SHARDS} on {RANKS:,} ranks gives {parts:,} shards in all: shard s of "
        f"rank r has every {parts:,}th item from number s + {SHARDS} r on, {PATHS // parts:,} or one more. Each of a "
        f"rank's {WORKERS} workers reads {SHARDS // WORKERS} shards. (num_shards={parts:,} on each rank would give "
        f"{RANKS * parts:,} shards of one or two paths.)\n"
        f"The ranks have {min(per_rank):,} to {max(per_rank):,} items. fullsync ends all ranks with the shortest, and "
        f"so drops {sum(per_rank) - RANKS * min(per_rank):,} of {PATHS:,} items in an epoch. It would drop "
        f"{PATHS % RANKS:,} if neighbours in the stream went to different ranks, not to different shards of a rank."
    )


# Exactness


def indices_of(rank: int) -> NDArray[np.int32]:
    """Read all shards of a rank."""
    loader = loader_of(shuffled(PATHS), rank)
    return np.fromiter(loader, dtype=np.int32)


def exactness(ranks: Sequence[int]) -> list[str]:
    """Read all shards of many ranks, and count every index."""
    seen = np.zeros(PATHS, dtype=np.uint8)
    lengths = []
    processes = min(os.cpu_count() or 1, 8)
    began = time.perf_counter()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for indices in pool.map(indices_of, ranks, chunksize=4):
            lengths.append(len(indices))
            seen[indices] += 1
    seconds = time.perf_counter() - began
    once, more = int((seen == 1).sum()), int((seen > 1).sum())
    print(
        f"\nExactness: {len(ranks):,} of {RANKS:,} ranks, {len(ranks) * SHARDS:,} shards, {sum(lengths):,} indices, "
        f"read by {processes} processes in {seconds:.0f} s; {min(lengths):,} to {max(lengths):,} on a rank; {once:,} "
        f"seen once, {more:,} more often, {PATHS - once - more:,} not at all"
    )
    if len(ranks) == RANKS:
        return [verdict(f"over {RANKS * SHARDS:,} shards, each of {PATHS:,} indices comes once", once == PATHS)]
    return [verdict(f"over {len(ranks) * SHARDS:,} shards, no index comes twice", once == sum(lengths))]


# What a worker and a rank cost


class FirstWorker:
    """Does what the first worker of a rank does."""

    def __init__(self, pickled: bytes, shards: int = SHARDS) -> None:
        self._own = range(0, shards, WORKERS)
        self._shards = Shards(
            lambda _: cloudpickle.loads(pickled), Division(shards), WorkerInfo(WORKERS, 0), ReadOptions()
        )
        self._epoch = 0

    def begin(self) -> None:
        """Begin an epoch, and get the first item of each shard."""
        self._epoch += 1
        epoch = Epoch(self._epoch, 2026 + self._epoch, PassPath(0))
        self._passes = [self._shards.begin(epoch, ShardPosition(shard)) for shard in self._own]
        for each in self._passes:
            next(each.items, None)

    def read(self, at_most: int = 100_000) -> int:
        """Read more items of each shard, and return their number."""
        return sum(sum(1 for _ in islice(each.items, at_most)) for each in self._passes)


def pickled_for_rank(chain: Any, ranks: int = RANKS) -> bytes:
    apply_sharding(chain, ranks, ranks // 2, SHARDING_PRIORITIES.DISTRIBUTED)
    return bytes(cloudpickle.dumps(chain))


def worker_row(make: Make, n: int) -> dict[str, float]:
    """Return the costs of one worker with its shards."""
    pickled = pickled_for_rank(make(n))
    worker = FirstWorker(pickled)
    _, first = timed(worker.begin)
    _, second = timed(worker.begin)
    items, rest = timed(worker.read)
    tracemalloc.start()
    worker = FirstWorker(pickled)
    worker.begin()
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    each = rest / max(items, 1)
    return {
        "sent": len(pickled),
        "first": first,
        "second": second,
        "memory": memory,
        "each": each,
        "epoch": second + rest,
    }


def state_row(chain: Any, shards: int = SHARDS, ranks: int = RANKS) -> dict[str, float]:
    """Return the costs of a rank's state in the middle of an epoch."""
    loader = loader_of(chain, ranks // 2, ranks, shards)
    items = iter(loader)
    deque(islice(items, shards * 5 + 3), maxlen=0)
    states = [timed(loader.state_dict) for _ in range(5)]
    text = json.dumps(states[0][0])
    expected = list(islice(items, 100))
    resumed = loader_of(chain, ranks // 2, ranks, shards)
    state = json.loads(text)
    _, loading = timed(lambda: resumed.load_state_dict(state))
    iterator = iter(resumed)
    found, first = timed(lambda: next(iterator))
    if [found, *islice(iterator, 99)] != expected:
        raise AssertionError("the resumed rank yields other items")
    return {"bytes": len(text), "asking": median(seconds for _, seconds in states), "loading": loading, "resume": first}


def costs() -> list[str]:
    rows, verdicts = [], []
    for name, (make, n) in CHAINS.items():
        worker, state = worker_row(make, n), state_row(make(n))
        rows.append(
            [
                name,
                f"{n:,}",
                f"{worker['sent']:,}",
                f"{worker['first'] * 1e3:,.1f}",
                f"{worker['second'] * 1e3:,.1f}",
                f"{worker['memory'] / 1e6:,.2f}",
                f"{worker['each'] * 1e9:,.0f}",
                f"{worker['epoch'] * PATHS / n:,.2f}",
                f"{state['bytes']:,}",
                f"{state['asking'] * 1e3:.2f}",
                f"{state['loading'] * 1e3:.2f}",
                f"{state['resume'] * 1e3:,.0f}",
            ]
        )
        if n == PATHS:
            verdicts += [
                verdict(
                    f"{name}: a rank's state has at most 64 KiB: {state['bytes']:,}",
                    state["bytes"] <= MOST_BYTES_OF_STATE,
                ),
                verdict(
                    f"{name}: a worker begins an epoch within {MOST_SECONDS_TO_BEGIN} s: {worker['first']:.3f} s",
                    worker["first"] <= MOST_SECONDS_TO_BEGIN,
                ),
            ]
    print(
        f"\nOne rank of {RANKS:,}, {SHARDS} shards; one of its {WORKERS} workers, {SHARDS // WORKERS} shards. "
        f"Lists are measured with {LISTED:,} paths. The seconds of an epoch are scaled to {PATHS:,} paths; "
        "the other costs of lists grow in the same way\n"
    )
    header = ["", "measured", "chain, B", "worker begins, ms", "2nd epoch, ms", "holds, MB", "ns an index"]
    header += ["s an epoch, at 100 M", "rank's state, B", "asked for, ms", "loaded, ms", "first after, ms"]
    print(table(header, rows))
    return verdicts


def growth() -> list[str]:
    settings = [
        *(("paths", n, n, RANKS, SHARDS) for n in (10**6, 10**8, 10**10)),
        *(("ranks", ranks, 10**10, ranks, SHARDS) for ranks in (8, 1024, 131_072)),
        *(("shards of a rank", shards, PATHS, RANKS, shards) for shards in (8, 64, 512)),
    ]
    rows, found = [], {}
    for what, size, n, ranks, shards in settings:
        state = state_row(shuffled(n), shards, ranks)
        pickled = pickled_for_rank(shuffled(n), ranks)
        workers = [FirstWorker(pickled, shards) for _ in range(3)]
        begins = median(timed(worker.begin)[1] for worker in workers)
        each = median(seconds / items for items, seconds in (timed(partial(each.read, 8192)) for each in workers))
        found[what, size] = {**state, "begins": begins, "each": each}
        rows.append(
            [
                what,
                f"{size:,}",
                f"{state['bytes']:,}",
                f"{state['bytes'] * ranks / 1e6:,.1f}",
                f"{state['asking'] * 1e3:.2f}",
                f"{state['loading'] * 1e3:.2f}",
                f"{state['resume'] * 1e3:.1f}",
                f"{begins * 1e3:.1f}",
                f"{each * 1e9:,.0f}",
            ]
        )
    print("\nHow costs grow: a keyed shuffle of numbers\n")
    header = ["number of", "", "rank's state, B", "of all ranks, MB", "asked for, ms", "loaded, ms", "first after, ms"]
    print(table([*header, "worker begins, ms", "ns an index"], rows))
    few, many = found["shards of a rank", 64], found["shards of a rank", 512]
    by_shard = {name: (many[name] - few[name]) / (512 - 64) for name in ("bytes", "asking")}
    begun = (many["begins"] - few["begins"]) / ((512 - 64) / WORKERS)
    print(
        f"\nA rank's state grows with the rank's shards, by {by_shard['bytes']:,.0f} bytes and "
        f"{by_shard['asking'] * 1e6:,.0f} µs for each. With more paths and ranks, only the digits of numbers grow.\n"
        "All states together grow with the shards of all ranks. No rank has, or sends, another's state.\n"
        f"The time to begin an epoch grows with the shards of a worker, by {begun * 1e3:,.2f} ms for each.\n"
        "The cost of an index grows with none of these, unless shards are so short that beginning them counts."
    )
    by_paths = found["paths", 10**10]["bytes"] / found["paths", 10**6]["bytes"]
    by_ranks = found["ranks", 131_072]["bytes"] / found["ranks", 8]["bytes"]
    return [
        verdict(f"a rank's state has {by_paths:.2f} × the bytes with 10,000 × the paths", by_paths <= MOST_GROWTH),
        verdict(f"a rank's state has {by_ranks:.2f} × the bytes with 16,384 × the ranks", by_ranks <= MOST_GROWTH),
    ]


# One rank, really run


def one_rank(rank: int = 517) -> list[str]:
    expected = list(loader_of(shuffled(PATHS), rank))
    with loader_of(shuffled(PATHS), rank, workers=WORKERS) as loader:
        began = time.perf_counter()
        items = iter(loader)
        found = [next(items)]
        first = time.perf_counter() - began
        processes = psutil.Process().children(recursive=True)
        found += islice(items, len(expected) // 2)
        memory = sum(process.memory_full_info().uss for process in processes) / 1e6
        state = json.loads(json.dumps(loader.state_dict()))
        with loader_of(shuffled(PATHS), rank, workers=3) as resumed:
            resumed.load_state_dict(state)
            rest, going_on = timed(lambda: list(resumed))
        found += items
        _, second = timed(lambda: next(iter(loader)))
    print(
        f"\nRank {rank} of {RANKS:,}, run with all {WORKERS} workers: the first item came after {first:.2f} s, with "
        f"the start of the workers, and after {second * 1e3:.0f} ms in the second epoch. The {len(processes)} "
        f"processes had {memory:,.0f} MB of private memory. A state of {len(json.dumps(state)):,} bytes, taken in the "
        f"middle, resumed with 3 workers, which read {len(rest):,} items in {going_on:.2f} s"
    )
    halves = expected[: len(expected) - len(rest)] + rest
    same = f"with {WORKERS} workers and with none, a rank yields the same {len(expected):,} items"
    return [
        verdict(same, found == expected),
        verdict("its state resumes with 3 workers, with the same items", halves == expected and len(rest) > 0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--ranks", type=int, default=RANKS, help="how many of the 1,024 ranks to read for exactness")
    options = parser.parse_args()
    print(environment("penstock", "torch"))
    meaning()
    verdicts = [
        *costs(),
        *growth(),
        *one_rank(),
        *exactness(range(0, RANKS, max(RANKS // options.ranks, 1))),
    ]
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
