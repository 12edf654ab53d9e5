"""Settings found while items are read, beside the best of given ones: `python -m benchmarks.tuning`.

Six chains each need other settings. Every setting reads a chain for as long; the rate of "auto" includes its search.
The second ratio is that of the second half of the run. Given numbers of processes stay within two processors, as those
found do: beside other programs, more processes would get more of the processors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count, takewhile
from statistics import median
from typing import Any

import penstock as ps

from .harness import environment, table, verdict

AUTO = "auto"
LEAST_OF_BEST = 0.9


def wait(item: int) -> int:
    time.sleep(0.01)
    return item


def wait_longer_now_and_then(item: int) -> int:
    time.sleep(0.2 if item % 50 == 0 else 0.005)
    return item


def compute(item: int) -> int:
    ends = time.thread_time() + 0.005
    while time.thread_time() < ends:
        pass
    return item


class Bursts(ps.IterDataPipe[int]):
    """Gives 50 items at once, and then none for 0.1 s, as a source of large files does."""

    def __iter__(self) -> Iterator[int]:
        for item in count():
            if item % 50 == 0:
                time.sleep(0.1)
            yield item


@dataclass
class Planted:
    """A chain, and the settings that it is read with."""

    chain: Callable[..., Any]
    given: list[tuple[Any, ...]]
    auto: tuple[Any, ...]
    consumer: float = 0.0
    """Seconds that an item is used for."""


def numbers() -> Any:
    return ps.iter.IterableWrapper(range(10**7))


def loader(num_workers: Any, prefetch: Any) -> Any:
    is_auto = num_workers == AUTO
    ahead = {} if is_auto else {"worker_prefetch_cnt": prefetch}
    service = ps.MultiProcessingReadingService(0 if is_auto else num_workers, num_shards=12, **ahead)
    return ps.DataLoader2(numbers().sharding_filter().map(compute), reading_service=service, autotune=is_auto)


CHAINS = {
    "waiting, in threads": Planted(
        lambda workers, tasks: numbers().threadpool_map(wait, max_workers=workers, scheduled_tasks=tasks),
        [(workers, 128) for workers in (2, 4, 8, 16, 32)],
        (AUTO, AUTO),
    ),
    "computing, in processes": Planted(
        lambda workers, ahead: numbers().processpool_map(compute, workers=workers, prefetch=ahead),
        [(1, 8), (2, 8), (2, 32), (2, 128)],
        (AUTO, AUTO),
    ),
    "a source in bursts": Planted(
        lambda buffer: Bursts().prefetch(buffer), [(2,), (8,), (32,), (128,)], (AUTO,), consumer=0.002
    ),
    "uneven items": Planted(
        lambda workers, tasks: numbers().threadpool_map(
            wait_longer_now_and_then, max_workers=workers, scheduled_tasks=tasks
        ),
        [(8, 16), (8, 128), (16, 64), (32, 128), (32, 512)],
        (AUTO, AUTO),
    ),
    "a slow consumer": Planted(
        lambda workers, tasks: numbers().threadpool_map(wait, max_workers=workers, scheduled_tasks=tasks),
        [(1, 8), (2, 8), (8, 32), (32, 128)],
        (AUTO, AUTO),
        consumer=0.006,
    ),
    "a loader": Planted(loader, [(1, 2), (1, 10), (2, 2), (2, 10), (2, 30)], (AUTO, AUTO)),
}


@dataclass
class Run:
    """How many items came a second, in all and in the second half; and what was found."""

    rate: float
    rate_later: float
    found: str


def run(planted: Planted, setting: tuple[Any, ...], seconds: float) -> Run:
    made = planted.chain(*setting)
    items = later = 0
    iterator = iter(made)
    began = time.perf_counter()
    for _ in takewhile(lambda _: time.perf_counter() - began < seconds, iterator):
        items += 1
        later += time.perf_counter() - began >= seconds / 2
        if planted.consumer:
            time.sleep(planted.consumer)
    took = time.perf_counter() - began
    found = ", ".join(text for step in made.stats().values() for text in step.get("tuned", ()))
    iterator.close()
    if isinstance(made, ps.DataLoader2):
        made.shutdown()
    return Run(items / took, later / (took - seconds / 2), found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=16.0, help="the search takes a few of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with closing(iter(loader(1, 1))) as warm:  # the fork server stays
        next(warm)
    rows, verdicts = [], []
    for name, planted in CHAINS.items():
        if options.only not in name:
            continue
        rates: dict[tuple[Any, ...], list[Run]] = {setting: [] for setting in [*planted.given, planted.auto]}
        for _ in range(options.rounds):
            for setting, runs in rates.items():
                runs.append(run(planted, setting, options.seconds))
        medians = {setting: median(each.rate for each in runs) for setting, runs in rates.items()}
        best = max(planted.given, key=medians.__getitem__)
        best_later = max(median(each.rate_later for each in rates[setting]) for setting in planted.given)
        whole = medians[planted.auto] / medians[best]
        later = median(each.rate_later for each in rates[planted.auto]) / best_later
        found = rates[planted.auto][-1].found
        rows.append(
            [
                name,
                "  ".join(f"{'/'.join(map(str, setting))}: {medians[setting]:,.0f}" for setting in planted.given),
                f"{medians[planted.auto]:,.0f}",
                f"{whole:.2f}",
                f"{later:.2f}",
                found,
            ]
        )
        verdicts.append(
            verdict(f"{name}: auto is at least {LEAST_OF_BEST} of the best given setting", whole >= LEAST_OF_BEST)
        )
        print(rows[-1], flush=True)
    print(environment("torch", "penstock"))
    print(f"items a second, medians of {options.rounds} rounds of {options.seconds:g} s\n")
    print(table(["chain", "given settings", AUTO, "of the best", "second half", "found"], rows))
    print("\n".join(["", *verdicts]))


if __name__ == "__main__":
    main()
