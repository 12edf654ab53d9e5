"""What a step costs: `python -m benchmarks.overhead`.

The chain is range → map → map → filter → batch(64). Its functions are as cheap as possible, so the figures show what a
library adds to them. Every contestant runs once a round. Ratios are computed within rounds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from statistics import correlation, linear_regression, median
from typing import Any

from .harness import environment, plot, rounds_of, share, table, verdict, with_bytecode

BATCH = 64
HAND, OURS, TORCH = "hand-written loop", "penstock", "torch DataPipes"
MOST_OF_HAND, LEAST_OF_TORCH = 1.6, 20.0
MOST_SECONDS_OF_IMPORT, MOST_SECONDS_OF_FIRST_BATCH = 0.1, 0.3
MOST_BEND = 1.5
MOST_NS_OF_PROFILE = 1500
STAGES = (1, 2, 4, 8, 16, 32)


def add_one(x: int) -> int:
    return x + 1


def double(x: int) -> int:
    return x * 2


def is_kept(x: int) -> bool:
    return x % 3 != 0


def is_every_second(x: int) -> bool:
    return x % 4 == 0  # of even numbers


def by_hand(n: int, keep: Callable[[int], bool] = is_kept) -> Iterator[list[int]]:
    batch = []
    for x in range(n):
        y = double(add_one(x))
        if keep(y):
            batch.append(y)
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def ours(n: int, keep: Callable[[int], bool] = is_kept) -> Any:
    import penstock as ps

    return ps.iter.IterableWrapper(range(n)).map(add_one).map(double).filter(keep).batch(BATCH)


def torch_own(n: int) -> Iterable[list[int]]:
    from torch.utils.data.datapipes import iter as pipes

    source = pipes.IterableWrapper(range(n))
    mapped = pipes.Mapper(pipes.Mapper(source, add_one), double)
    return pipes.Batcher(pipes.Filter(mapped, is_kept), BATCH)


def torch_beside_ours(n: int) -> Iterable[list[int]]:
    """Torch's chain in a process that has imported penstock, which adds methods to torch's pipes."""
    import penstock  # noqa: F401

    return torch_own(n)


def webdataset(n: int) -> Iterable[list[int]]:
    from webdataset import DataPipeline, filters

    return DataPipeline(
        lambda: iter(range(n)),
        filters.map(add_one),
        filters.map(double),
        filters.select(is_kept),
        filters.batched(BATCH, collation_fn=None),
    )


def nodes(n: int) -> Iterable[list[int]]:
    """The chain without its filter: torchdata.nodes has none."""
    from torchdata import nodes

    source = nodes.IterableWrapper(range(n))
    mapped = nodes.Mapper(nodes.Mapper(source, add_one), double)
    return nodes.Loader(nodes.Batcher(mapped, BATCH, drop_last=False))


def nodes_filtering(n: int) -> Iterable[list[int]]:
    """The chain with a filter as a user of torchdata.nodes writes it: a custom node."""
    from torchdata import nodes

    class Filter(nodes.BaseNode):
        def __init__(self, source: Any) -> None:
            super().__init__()
            self.source = source

        def reset(self, initial_state: dict[str, Any] | None = None) -> None:
            super().reset(initial_state)
            self.source.reset(initial_state and initial_state["source"])

        def next(self) -> int:
            while True:
                item: int = next(self.source)
                if is_kept(item):
                    return item

        def get_state(self) -> dict[str, Any]:
            return {"source": self.source.state_dict()}

    source = nodes.IterableWrapper(range(n))
    mapped = nodes.Mapper(nodes.Mapper(source, add_one), double)
    return nodes.Loader(nodes.Batcher(Filter(mapped), BATCH, drop_last=False))


CHAINS: dict[str, Callable[[int], Iterable[list[int]]]] = {
    HAND: by_hand,
    OURS: ours,
    "webdataset": webdataset,
    "torchdata.nodes, no filter": nodes,
    "torchdata.nodes, own filter node": nodes_filtering,
    TORCH: torch_own,
    "torch DataPipes, penstock imported": torch_beside_ours,
}


def check(chain: Callable[[int], Iterable[list[int]]]) -> None:
    if chain is not nodes and list(chain(1000)) != list(by_hand(1000)):
        raise AssertionError(f"{chain.__name__} gives other batches than the hand-written loop")


def nanoseconds(chain: Callable[[int], Iterable[object]], items: int) -> float:
    """Return the cost of one source item in a chain."""
    built = chain(items)
    began = time.perf_counter()
    deque(built, maxlen=0)
    return (time.perf_counter() - began) / items * 1e9


def compare(items: int, rounds: int) -> list[str]:
    # Each in its own process, so that no import changes another library.
    with ExitStack() as stack:
        contestants: dict[str, Callable[[], float]] = {}
        rows = {}
        for name, chain in CHAINS.items():
            process = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            try:
                process.submit(check, chain).result()
            except ImportError as error:
                rows[name] = [name, f"not installed: {error.name}", "", ""]
                continue
            contestants[name] = lambda p=process, c=chain: p.submit(nanoseconds, c, items).result()
        costs = rounds_of(contestants, rounds)
    for name, cost in costs.items():
        ratios = [f"{share(cost, costs[HAND]):.2f}", f"{share(costs[TORCH], cost):.1f}"]
        rows[name] = [name, f"{median(cost):,.0f}", *ratios]
    print(f"\nrange → map → map → filter → batch({BATCH}), {items:,} items, {rounds} rounds\n")
    print(table(["", "ns per item", "× the hand-written loop", "× faster than torch"], [rows[name] for name in CHAINS]))
    plot("overhead", "ns per item: range → map → map → filter → batch", {name: median(costs[name]) for name in costs})
    of_hand, of_torch = share(costs[OURS], costs[HAND]), share(costs[TORCH], costs[OURS])
    return [
        verdict(f"at most {MOST_OF_HAND} × the hand-written loop: {of_hand:.2f}", of_hand <= MOST_OF_HAND),
        verdict(f"at least {LEAST_OF_TORCH:.0f} × faster than torch: {of_torch:.1f}", of_torch >= LEAST_OF_TORCH),
    ]


def compare_halves(items: int, rounds: int) -> list[str]:
    """Compare chains whose filter keeps every second item: more items are made than batched."""
    chains: dict[str, Any] = {HAND: by_hand, OURS: ours}
    costs = rounds_of(
        {name: partial(nanoseconds, partial(chain, keep=is_every_second), items) for name, chain in chains.items()},
        rounds,
    )
    of_hand = share(costs[OURS], costs[HAND])
    what = "where the filter keeps every second item"
    return [verdict(f"at most {MOST_OF_HAND} × the hand-written loop {what}: {of_hand:.2f}", of_hand <= MOST_OF_HAND)]


def long_chain(stages: int, items: int) -> Any:
    import penstock as ps

    dp: Any = ps.iter.IterableWrapper(range(items))
    for _ in range(stages):
        dp = dp.map(add_one)
    return dp


def microseconds_of_state(dp: Any, times: int = 50) -> float:
    """Return the cost of taking a chain's state in the middle of a pass."""
    iterator = iter(dp)
    next(iterator)
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        dp.state_dict()
        taken.append(time.perf_counter() - began)
    return median(taken) * 1e6


def grow(items: int, rounds: int) -> list[str]:
    measured = rounds_of({str(n): partial(nanoseconds, partial(long_chain, n), items) for n in STAGES}, rounds)
    costs = [median(measured[str(n)]) for n in STAGES]
    slope, intercept = linear_regression(STAGES, costs)
    r_squared = correlation(STAGES, costs) ** 2
    print(f"\nrange → map × n, {items:,} items, {rounds} rounds\n")
    states = [microseconds_of_state(long_chain(n, items)) for n in STAGES]
    rows = [
        [str(n), f"{cost:,.0f}", f"{cost / n:.0f}", f"{state:,.0f}"]
        for n, cost, state in zip(STAGES, costs, states, strict=True)
    ]
    print(table(["maps", "ns per item", "ns per item and map", "state_dict(), µs"], rows))
    print(f"\nfitted: {intercept:.0f} + {slope:.1f} ns per map, R² {r_squared:.4f}")
    print(f"state_dict() of the chain above: {microseconds_of_state(ours(items)):,.0f} µs")
    return [
        verdict(
            f"{what} grows linearly with the steps: maps 17 to 32 add {found:.2f} × as much as maps 2 to 16",
            found < MOST_BEND,
        )
        for what, found in (("an item", bend(costs)), ("state_dict()", bend(states)))
    ]


def bend(costs: list[float]) -> float:
    """Return the cost of a late step relative to an early one: 1 for linear growth, 2.8 for quadratic."""
    late = (costs[-1] - costs[-2]) / (STAGES[-1] - STAGES[-2])
    early = (costs[-2] - costs[0]) / (STAGES[-2] - STAGES[0])
    return late / early


def compute(x: int) -> int:
    """Take about 10 µs, whatever else the machine does."""
    return sum(range(x % 7, 1000)) and x + 1


def profiled(items: int, rounds: int) -> list[str]:
    """Measure what being profiled costs: all steps together take about 10 µs an item."""
    from penstock.views.profiles.times import measure

    def chain(n: int) -> Any:
        import penstock as ps

        return ps.iter.IterableWrapper(range(n)).map(compute).map(double).filter(is_kept).batch(BATCH)

    def measured(n: int) -> Any:
        dp = chain(n)
        measure(dp)
        return dp

    costs = rounds_of({"off": partial(nanoseconds, chain, items), "on": partial(nanoseconds, measured, items)}, rounds)
    print(f"\nrange → map → map → filter → batch({BATCH}), {items:,} items, {rounds} rounds: profiled or not\n")
    print(table(["profiled", "ns per item"], [[name, f"{median(cost):,.0f}"] for name, cost in costs.items()]))
    more = share(costs["on"], costs["off"]) - 1
    of_step = median(on - off for on, off in zip(costs["on"], costs["off"], strict=True)) / 5
    print(f"\nprofiled, an item takes {more:.0%} more")
    most = f"being profiled costs at most {MOST_NS_OF_PROFILE:,} ns for each item of a step: {of_step:,.0f} ns"
    return [verdict(most, of_step <= MOST_NS_OF_PROFILE)]


IMPORT = "import time, torch; began = time.perf_counter(); import penstock; print(time.perf_counter() - began)"
FIRST_BATCH = """
import time
import penstock as ps
dp = ps.iter.IterableWrapper(range(1000)).shuffle().sharding_filter().batch(10)
with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_workers=2)) as loader:
    time.sleep(1)  # as a program does, which goes on to make a model
    began = time.perf_counter()
    next(iter(loader))
    print(time.perf_counter() - began)
"""


def fresh(rounds: int) -> list[str]:
    """Measure a fresh process: the import, and the first batch."""

    def seconds(script: str) -> float:
        command = [sys.executable, "-c", script]
        outputs = [subprocess.check_output(command, env=with_bytecode(), text=True) for _ in range(rounds)]
        return median(map(float, outputs))

    imported, first = seconds(IMPORT), seconds(FIRST_BATCH)
    return [
        verdict(
            f"imports in under {MOST_SECONDS_OF_IMPORT} s more than torch: {imported:.3f} s",
            imported < MOST_SECONDS_OF_IMPORT,
        ),
        verdict(
            f"the first batch of 2 workers comes in {MOST_SECONDS_OF_FIRST_BATCH} s, from a loader made a second ago: "
            f"{first:.2f} s",
            first <= MOST_SECONDS_OF_FIRST_BATCH,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--items", type=int, default=100_000, help="source items of a pass")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    print(environment("penstock", "torch", "torchdata", "webdataset"))
    verdicts = [
        *compare(options.items, options.rounds),
        *compare_halves(options.items, options.rounds),
        *grow(options.items, options.rounds),
        *profiled(options.items // 5, options.rounds),
        *fresh(options.rounds),
    ]
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
