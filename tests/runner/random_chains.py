"""Random chains as plain data, so that any process can build the same, and where each stands is told in plain data."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import penstock as ps
from penstock.registry import SHARDING_PRIORITIES

__all__ = ["SPECS", "build", "is_unordered"]

Spec = list[Any]
"""A source and, after it, steps: each a name and its arguments."""


def mark(item: Any) -> int:
    """A number that any item has, the same in every process."""
    return zlib.crc32(repr(item).encode())


def last_digit(item: Any) -> int:
    return mark(item) % 3


def some_fail(item: Any) -> Any:
    if mark(item) % 4 == 0:
        raise ValueError("this one fails")
    return item


def several(item: Any) -> list[Any]:
    return [item] * (mark(item) % 3)


def numbers(n: int, first: int = 0) -> Any:
    return ps.iter.IterableWrapper(range(first, first + n))


def branched(dp: Any, how: str) -> Any:
    one, other = dp.fork(2, buffer_size=10_000)
    return getattr(one, how)(other.filter(lambda x: mark(x) % 2))


STEPS: dict[str, Callable[..., Any]] = {
    "sharding_filter": lambda dp: dp.sharding_filter(),
    "dispatch": lambda dp: dp.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING),
    "map": lambda dp: dp.map(lambda x: ("mapped", x)),
    "filter": lambda dp, n: dp.filter(lambda x: mark(x) % 3 != n),
    "flatmap": lambda dp: dp.flatmap(several),
    "skip": lambda dp: dp.map(some_fail, on_error="skip"),
    "shuffle": lambda dp, n: dp.shuffle(buffer_size=n),
    "batch": lambda dp, n: dp.batch(n).map(tuple),
    "rebatch": lambda dp, n: dp.batch(n).in_batch_shuffle().unbatch(),
    "prefetch": lambda dp, n: dp.prefetch(n),
    "threads": lambda dp, n: dp.threadpool_map(lambda x: x, scheduled_tasks=n, max_workers=2),
    "enumerate": lambda dp: dp.enumerate().map(tuple),
    "cycle": lambda dp: dp.cycle(2),
    "groupby": lambda dp, n: dp.groupby(
        lambda x: mark(x) % 3, buffer_size=n, group_size=2, guaranteed_group_size=1
    ).map(tuple),
    "buckets": lambda dp: dp.bucket_by_length([3, 6], 2, len_fn=lambda x: mark(x) % 9).map(tuple),
    "mix": lambda dp, n: dp.mix(numbers(n, 1000).shuffle(), weights=[2, 1], until="longest"),
    "concat": lambda dp, n: dp.concat(numbers(n, 2000).shuffle()),
    "zip": lambda dp: dp.zip(numbers(30, 3000).shuffle()),
    "fork": branched,
    "cache": lambda dp: dp.in_memory_cache(),
    "unordered": lambda dp, n: dp.threadpool_map(lambda x: x, scheduled_tasks=n, max_workers=2, ordered=False),
}


def step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Spec]:
    return st.tuples(*arguments).map(lambda drawn: [name, *drawn])


def small(least: int, most: int) -> st.SearchStrategy[int]:
    return st.integers(least, most)


DETERMINISTIC = [
    step("map"),
    step("filter", small(0, 2)),
    step("flatmap"),
    step("shuffle", small(1, 8)),
    step("batch", small(1, 4)),
    step("prefetch", small(1, 3)),
    step("enumerate"),
    step("concat", small(0, 5)),
    step("zip"),
    step("fork", st.sampled_from(["zip_longest", "mux_longest", "concat"])),
]
ABOVE = st.lists(st.one_of(DETERMINISTIC), max_size=2)
BELOW = st.lists(
    st.one_of(
        *DETERMINISTIC,
        step("skip"),
        step("rebatch", small(1, 4)),
        step("threads", small(1, 4)),
        step("cycle"),
        step("groupby", small(2, 6)),
        step("buckets"),
        step("mix", small(0, 5)),
        step("cache"),
    ),
    max_size=3,
)
LAST = st.one_of(st.just([]), st.just([]), st.just([]), step("unordered", small(1, 5)).map(lambda last: [last]))
SPECS = st.builds(
    lambda n, above, point, below, last: [n, *above, [point], *below, *last],
    small(0, 40),
    ABOVE,
    st.sampled_from(["sharding_filter", "sharding_filter", "dispatch"]),
    BELOW,
    LAST,
)


def build(spec: Spec) -> Any:
    """Build the chain that is meant."""
    dp = numbers(spec[0])
    for name, *arguments in spec[1:]:
        dp = STEPS[name](dp, *arguments)
    return dp


def is_unordered(spec: Spec) -> bool:
    """Say whether the chain gives its items in any order."""
    return spec[-1][0] == "unordered"
