"""The costs of a step besides its items: taking a chain's place, and beginning and ending a pass over it.

Chains are measured in turns, in rounds. Each figure is a median of CPU times. Ratios are computed within rounds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from multiprocessing import get_context
from statistics import median
from typing import Any

from .harness import rounds_of, share, table, verdict

OURS, TORCH = "penstock", "torch DataPipes"
LENGTHS = (5, 20, 100)
STEPS = (1, 5, 20)
ITEMS, MORE_ITEMS = 3, 203
MOST_OF_A_PASS = 20.0
"""Microseconds of a pass for each step, without its items."""
SECONDS = 0.1
"""Seconds of measuring per figure and round."""


def as_it_is(x: Any) -> Any:
    return x


def in_a_list(x: Any) -> list[Any]:
    return [x]


def is_a_number(x: Any) -> bool:
    return isinstance(x, int)


def maps(steps: int, items: int) -> Any:
    import penstock as ps

    dp: Any = ps.iter.IterableWrapper(range(items))
    for _ in range(steps):
        dp = dp.map(as_it_is)
    return dp


def mixture(steps: int, items: int) -> Any:
    """Return a chain of steps with and without their own state."""
    import penstock as ps

    dp: Any = ps.iter.IterableWrapper(range(items))
    kinds: list[Callable[[Any], Any]] = [
        lambda dp: dp.map(as_it_is),
        lambda dp: dp.filter(is_a_number),
        lambda dp: dp.flatmap(in_a_list),
        lambda dp: dp.shuffle(buffer_size=10),
        lambda dp: dp.header(items),
    ]
    for step in islice(cycle(kinds), steps):
        dp = step(dp)
    return dp


def torch_maps(steps: int, items: int) -> Any:
    from torch.utils.data.datapipes import iter as pipes

    dp: Any = pipes.IterableWrapper(range(items))
    for _ in range(steps):
        dp = pipes.Mapper(dp, as_it_is)
    return dp


CHAINS: dict[str, Callable[[int, int], Any]] = {"maps": maps, "map, filter, flatmap, shuffle, header": mixture}
LIBRARIES: dict[str, Callable[[int, int], Any]] = {OURS: maps, TORCH: torch_maps}


def microseconds(function: Callable[[], Any]) -> float:
    """Return the CPU time of a call; wall time would include waiting for other processes.

    It is the median over runs of calls; each run is long enough for the clock.
    """
    calls = 1
    while (taken := cpu_seconds_of(function, calls)) < SECONDS / 50:
        calls *= 2
    runs = [taken, *(cpu_seconds_of(function, calls) for _ in range(math.ceil(SECONDS / taken)))]
    return median(runs) / calls * 1e6


def cpu_seconds_of(function: Callable[[], Any], calls: int) -> float:
    began = time.thread_time()
    for _ in range(calls):
        function()
    return time.thread_time() - began


# A chain's position


def state(rounds: int) -> list[str]:
    """Print the cost of taking a chain's place in the middle of a pass."""
    from penstock import registry

    # A step that reads ahead takes its source's place: a state without the chain's description.
    capture: Callable[[Any], Any] | None = getattr(registry, "capture", None)
    rows = []
    for name, make in CHAINS.items():
        contestants, reading = {}, []
        for steps in LENGTHS:
            dp = make(steps, 10_000)
            reading.append(iter(dp))
            list(islice(reading[-1], 100))
            contestants[f"{steps} state"] = partial(microseconds, dp.state_dict)
            if capture is not None:
                contestants[f"{steps} snapshot"] = partial(microseconds, partial(capture, dp))
        taken = rounds_of(contestants, rounds)
        for steps in LENGTHS:
            asked, taken_apart = taken[f"{steps} state"], taken.get(f"{steps} snapshot")
            rows.append(
                [
                    name,
                    str(steps),
                    f"{median(asked):,.0f}",
                    f"{median(asked) / steps:.1f}",
                    f"{median(taken_apart):,.0f}" if taken_apart else "",
                    f"{median(taken_apart) / steps:.1f}" if taken_apart else "",
                ]
            )
    print(f"\nThe position of a chain, in the middle of a pass, {rounds} rounds\n")
    print(table(["", "steps", "state_dict(), µs", "a step", "snapshot, µs", "a step"], rows))
    return []


# A pass


def passes_of(make: Callable[[int, int], Any]) -> dict[str, float]:
    """Return the microseconds of reading a chain, by its steps and items; building it is not timed."""
    return {
        f"{steps} {items}": microseconds(partial(list, make(steps, items)))
        for steps in (0, *STEPS)
        for items in (ITEMS, MORE_ITEMS)
    }


def per_step(costs: dict[str, float], steps: int) -> float:
    """Return the cost that a step adds to a pass, with its items."""
    return (costs[f"{steps} {ITEMS}"] - costs[f"0 {ITEMS}"]) / steps


def of_items(costs: dict[str, float], steps: int) -> float:
    """Return the part of that cost that items cause, from a pass with many more of them."""
    more = costs[f"{steps} {MORE_ITEMS}"] - costs[f"0 {MORE_ITEMS}"]
    few = costs[f"{steps} {ITEMS}"] - costs[f"0 {ITEMS}"]
    return (more - few) / (MORE_ITEMS - ITEMS) * ITEMS / steps


def passes(rounds: int) -> list[str]:
    """Print the cost per step of beginning and ending a pass, compared with torch's pipes; return the verdict."""
    with ExitStack() as stack:  # each in its own process, so that neither library changes the other
        contestants = {}
        for name, make in LIBRARIES.items():
            process = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            contestants[name] = lambda p=process, m=make: p.submit(passes_of, m).result()
        taken = rounds_of(contestants, rounds)
    rows, worst = [], 0.0
    for name, costs in taken.items():
        for steps in STEPS:
            whole = [per_step(each, steps) for each in costs]
            items = [of_items(each, steps) for each in costs]
            alone = median(one - other for one, other in zip(whole, items, strict=True))
            of_torch = share(whole, [per_step(each, steps) for each in taken[TORCH]])
            rows.append(
                [
                    name,
                    str(steps),
                    f"{median(each[f'{steps} {ITEMS}'] for each in costs):,.1f}",
                    f"{median(whole):.1f}",
                    f"{median(items):.2f}",
                    f"{alone:.1f}",
                    f"{of_torch:.1f}",
                ]
            )
            worst = max(worst, alone) if name == OURS else worst
    print(f"\nA pass over {ITEMS} items, range → map × steps, {rounds} rounds; µs\n")
    header = ["", "steps", "list(dp)", "more for each step", "its items", "without them", "× torch's"]
    print(table(header, rows))
    goal = f"a pass costs at most {MOST_OF_A_PASS:.0f} µs a step beside its items: {worst:.1f}"
    return [verdict(goal, worst <= MOST_OF_A_PASS)]
