"""Any chain, stopped anywhere, goes on exactly: random chains of the operators, at random places, again and again."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.registry import apply_sharding, reading, seed_graph

Step = Callable[[Any], Any]
"""What adds operators to a chain."""


def size(item: Any) -> int:
    """A number that any item has, whatever the steps before made of it."""
    return len(repr(item))


class Twice(ps.IterDataPipe):
    """Each item twice; an operator that says nothing about its state."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Any:
        for item in self.source:
            yield item
            yield item


def step(name: str, make: Callable[..., Step], *arguments: Any) -> st.SearchStrategy[tuple[str, Step]]:
    return st.tuples(*arguments).map(lambda drawn: (f"{name}{drawn or ''}", make(*drawn)))


def small(least: int, most: int) -> st.SearchStrategy[int]:
    return st.integers(least, most)


ONE_SOURCE = st.one_of(
    step("map", lambda: lambda dp: dp.map(lambda x: ["mapped", x])),
    step("filter", lambda n: lambda dp: dp.filter(lambda x: size(x) % 3 != n), small(0, 2)),
    step("flatmap", lambda n: lambda dp: dp.flatmap(lambda x: [x] * (size(x) % n)), small(1, 3)),
    step("twice", lambda: Twice),
    step("batch", lambda n, drop: lambda dp: dp.batch(n, drop_last=drop), small(1, 4), st.booleans()),
    step("rebatch", lambda n: lambda dp: dp.batch(n).map(lambda batch: batch[::-1]).unbatch(), small(1, 4)),
    step("enumerate", lambda: lambda dp: dp.enumerate()),
    step("header", lambda n: lambda dp: dp.header(n), small(1, 9)),
    step("shuffle", lambda n: lambda dp: dp.shuffle(buffer_size=n), small(1, 6)),
    step("cycle", lambda n: lambda dp: dp.cycle(n), small(1, 3)),
    step("repeat", lambda n: lambda dp: dp.repeat(n), small(1, 3)),
    step("prefetch", lambda n: lambda dp: dp.prefetch(n), small(1, 3)),
    step("own", lambda: lambda dp: dp.pipe(lambda source: (item for item in source if size(item) % 5))),
)
ROOTS = st.one_of(
    step("range", lambda n: lambda: ps.iter.IterableWrapper(range(n)), small(0, 9)),
    step("iterator", lambda n: lambda: ps.iter.IterableWrapper(dict.fromkeys(range(n))), small(0, 9)),
    step("map-style", lambda n: lambda: ps.map.SequenceWrapper(range(n)).shuffle(), small(0, 9)),
)


def linear(root: tuple[str, Any], steps: list[tuple[str, Step]]) -> tuple[str, Callable[[], Any]]:
    def make() -> Any:
        dp = root[1]()
        for _, add in steps:
            dp = add(dp)
        return dp

    return ".".join([root[0], *(name for name, _ in steps)]), make


def joined(how: str, first: tuple[str, Any], second: tuple[str, Any]) -> tuple[str, Any]:
    return f"({first[0]}).{how}({second[0]})", lambda: getattr(first[1](), how)(second[1]())


CHAINS = st.recursive(
    st.builds(linear, ROOTS, st.lists(ONE_SOURCE, max_size=4)),
    lambda chains: st.builds(
        linear, st.builds(joined, st.sampled_from(["zip", "concat"]), chains, chains), st.lists(ONE_SOURCE, max_size=2)
    ),
    max_leaves=3,
)


def saved(dp: Any) -> str:
    return json.dumps(dp.state_dict())


def loaded(make: Callable[[], Any], text: str) -> Any:
    dp = make()
    seed_graph(dp, 99)  # what the state does not bring along would show
    dp.load_state_dict(json.loads(text))
    return dp


PROPERTY = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("share", [0.02, float("inf"), 1e-15], ids=["usual", "every time", "seldom"])
@PROPERTY
@given(chain=CHAINS, stops=st.lists(small(0, 30), min_size=1, max_size=5), passes=small(0, 2))
def test_any_chain_resumed_anywhere_goes_on_exactly(
    chain: tuple[str, Any], stops: list[int], passes: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass is read in legs, each by a fresh chain that goes on from the state after the leg before."""
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", share)
    _, make = chain
    uninterrupted = make()
    seed_graph(uninterrupted, 0)
    for _ in range(passes):
        list(uninterrupted)
    expected, next_pass = list(uninterrupted), list(uninterrupted)

    dp = make()
    seed_graph(dp, 0)
    for _ in range(passes):
        list(dp)
    seen: list[Any] = []
    for stop in stops:
        left = len(expected) - len(seen)
        seen += islice(dp, stop % (left + 1))
        dp = loaded(make, saved(dp))
    assert seen + list(dp) == expected
    assert list(loaded(make, saved(dp))) == next_pass
    assert list(dp) == next_pass


@PROPERTY
@given(chain=CHAINS, stop=small(0, 12), shards=small(1, 4))
def test_every_shard_of_any_chain_resumes_and_together_they_are_the_whole(
    chain: tuple[str, Any], stop: int, shards: int
) -> None:
    whole = chain[1]().sharding_filter()
    seed_graph(whole, 0)
    union: list[str] = []
    for shard in range(shards):

        def make(shard: int = shard) -> Any:
            dp = chain[1]().sharding_filter()
            apply_sharding(dp, shards, shard)
            return dp

        dp = make()
        seed_graph(dp, 0, shard)
        iterator = iter(dp)
        first = list(islice(iterator, stop))
        if len(first) == stop:
            resumed = loaded(make, saved(dp))
            assert list(resumed) == list(iterator)
        union += map(repr, first)
        dp = make()
        seed_graph(dp, 0, shard)
        union += map(repr, list(dp)[len(first) :])
    assert sorted(union) == sorted(map(repr, whole))
