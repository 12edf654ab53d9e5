"""Taking the state of a chain, and going on from it. Every operator's own resuming is checked by the laws."""

from __future__ import annotations

import copy
import json
import pickle
import weakref
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import Any

import pytest
import torch
from torch.utils.data import IterDataPipe as TorchIterDataPipe

import penstock as ps
from passing import Passing
from penstock.registry import Seeded, Throttle, seed_graph, walk
from penstock.state import replay as reading
from penstock.state.header import chain_shape
from penstock.state.replay import ReplayLog, check_value


class Source(ps.IterDataPipe):
    """The numbers below `n`; how many were handed out in all passes is in `pulled`."""

    resumes_from_start = False
    position: int = ps.own(0)

    def __init__(self, n: int = 10) -> None:
        self.n = n
        self.pulled = 0

    def __iter__(self) -> Iterator[int]:
        while self.position < self.n:
            self.position += 1
            self.pulled += 1
            yield self.position - 1


class Twice(Passing):
    """Each item twice; without a line about state."""

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            yield item
            yield item


class TwiceMarked(Twice):
    """Each item twice; the base knows when it holds none."""

    def __iter__(self) -> Iterator[Any]:
        return self.outputs_of_each(lambda item: [item, item], self.source)


class TwiceCounted(Twice):
    """Each item twice; says what it still needs."""

    resumes_from_start = False
    given: int = ps.own(0)

    def __iter__(self) -> Iterator[Any]:
        items = self.read(self.source)
        for number, item in items:
            items.keep_from(number)
            while self.given < 2:
                self.given += 1
                yield item
            self.given = 0


def begin(dp: Any, taken: int) -> Any:
    iterator = iter(dp)
    for _ in range(taken):
        next(iterator)
    return iterator


def resume(dp: Any, from_: Any) -> Any:
    dp.load_state_dict(json.loads(json.dumps(from_.state_dict())))
    return dp


@pytest.mark.parametrize(
    ("make", "taken", "reads"),
    [
        (lambda: Source(50), 45, 5),  # goes on where the source stands
        (lambda: Twice(Source(50)), 90, 50),  # all of it once more
        (lambda: TwiceMarked(Source(50)), 90, 6),  # from the last mark: before the item that it is still on
        (lambda: TwiceCounted(Source(50)), 90, 6),  # with the item that it has given twice
        (lambda: TwiceMarked(Source(50)).map(str).batch(2), 45, 6),
    ],
)
def test_how_much_is_read_again_is_what_the_operator_said(
    make: Callable[[], Any], taken: int, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", float("inf"))
    dp, resumed = make(), make()
    _iterator = begin(dp, taken)
    list(resume(resumed, dp))
    *_, source = walk(resumed)
    assert source.pulled == reads


def test_loading_a_state_replaces_the_live_iterator() -> None:
    dp = Source()
    saved = dp.state_dict()
    iterator = begin(dp, 3)
    dp.load_state_dict(saved)
    with pytest.raises(RuntimeError, match="replaced by a newer one"):
        next(iterator)
    assert list(dp) == list(range(10))


def test_a_state_is_not_taken_while_an_item_is_made() -> None:
    def callback(item: int) -> int:
        with pytest.raises(RuntimeError, match="a state is taken between two items, and .* is making one"):
            dp.state_dict()
        return item

    dp = Source(3).map(callback)
    assert list(dp) == [0, 1, 2]


@pytest.mark.parametrize(
    "lose",
    [
        lambda dp: next(iter(dp.map(str))),
        lambda dp: next(iter(dp.fork(2)[0])),
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        lambda dp: next(iter(ps.DataLoader2(dp))),
        lambda dp: next(iter(dp.prefetch(2))),
        lambda dp: next(iter(torch.utils.data.DataLoader(dp, num_workers=1, multiprocessing_context="spawn"))),
    ],
)
def test_losing_a_loaded_state_is_an_error(lose: Callable[[Any], Any]) -> None:
    def chain() -> Any:
        return Source().shuffle(buffer_size=4).batch(2)

    dp = chain()
    iterator = begin(dp, 1)
    resumed = resume(chain(), dp)
    with pytest.raises(RuntimeError, match="a state was loaded into Batcher.2., from which nothing was read yet"):
        lose(resumed)
    assert [*resumed] == [*iterator]


def test_asking_for_a_schema_keeps_a_loaded_state() -> None:
    dp = ps.iter.IterableWrapper([{"a": 1}] * 3).map(dict)
    next(iter(dp))
    dp.load_state_dict(dp.state_dict())
    assert ps.schema(dp).fields[0].name == "a"
    assert len([*dp]) == 2


def test_a_chain_without_memory_writes_no_state_of_its_own() -> None:
    dp = Source().map(str).filter(len)
    _iterator = begin(dp, 2)
    assert dp.state_dict() == {
        "version": 5,
        "chain": ["Filter", "Mapper", "Source"],
        "arguments": [{"on_error": "raise"}, {"rng": False, "on_error": "raise"}, {"n": 10}],
        "state": {
            "epoch": 0,
            "random": [],
            "steps": [{"own": {"position": 2}, "last_given": check_value(1)}, {"sources": [0]}, {"sources": [1]}],
            "counts": [],
        },
    }


# States that do not fit


def test_a_state_of_another_chain_is_an_error_that_shows_the_difference() -> None:
    with pytest.raises(ValueError, match="the state is of another chain") as caught:
        Source().filter(len).load_state_dict(Source().map(str).state_dict())
    assert str(caught.value).splitlines()[1:] == ["- Mapper", "+ Filter", "  Source"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        *[
            ({**Source().state_dict(), "version": version}, f"version {version}, .* reads version 5")
            for version in (4, 99)
        ],
        *[(nonsense, "not a state of a chain") for nonsense in ({}, None, [1], {"version": 5, "chain": []})],
    ],
)
def test_what_is_no_state_of_this_version_is_an_error(state: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Source().load_state_dict(state)


def test_a_pass_that_ended_in_an_error_has_no_state_until_the_next_one_begins() -> None:
    dp = Source().map(lambda x: 1 // (2 - x))
    with pytest.raises(ZeroDivisionError):
        list(dp)
    with pytest.raises(RuntimeError, match=r"the last pass over Mapper\(<lambda>\) ended in ZeroDivisionError\("):
        dp.state_dict()
    _iterator = begin(dp, 1)
    assert list(islice(resume(Source().map(str), dp), 1)) == ["1"]


# Sources that are not ours


def test_a_source_with_states_of_its_own_goes_on_from_them() -> None:
    class Theirs(TorchIterDataPipe):  # type: ignore[type-arg]
        position = 0

        def __iter__(self) -> Iterator[int]:
            while self.position < 10:
                self.position += 1
                yield self.position - 1

        def state_dict(self) -> dict[str, int]:
            return {"theirs": self.position}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.position = state["theirs"]

    dp: Any = Theirs()
    dp = dp.header(8)
    _iterator = begin(dp, 3)
    assert dp.state_dict()["state"]["steps"][0] == {"state": {"theirs": 3}}
    fresh: Any = Theirs()
    assert list(resume(fresh.header(8), dp)) == [3, 4, 5, 6, 7]


# Seeds


class Ordered(Seeded, Twice):
    """The seed of the pass, for each item."""

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            yield item, self.pass_seed


@pytest.mark.parametrize("passes", [0, 1, 2])
@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("begun", [True, False])
def test_the_seeds_of_this_pass_and_of_those_to_come_are_in_the_state(passes: int, seeded: bool, begun: bool) -> None:
    dp = Ordered(Source(4))
    if seeded:
        seed_graph(dp, 7)
    for _ in range(passes):
        list(dp)
    read = begin(dp, 2) if begun else dp
    resumed = resume(Ordered(Source(4)), dp)
    assert list(resumed) == list(read)
    if seeded:  # without a seed, those of later passes are drawn from torch's generator, here and there
        assert [list(resumed), list(resumed)] == [list(dp), list(dp)]


@pytest.mark.parametrize("ahead", [Twice, lambda dp: dp.prefetch(2), lambda dp: dp.shuffle(buffer_size=3)])
def test_a_pass_that_is_not_read_on_after_resuming_counts_for_the_seeds_all_the_same(ahead: Any) -> None:
    def chain() -> Any:
        dp = ahead(Ordered(Source(9))).header(2)
        seed_graph(dp, 7)
        return dp

    dp = chain()
    iterator = begin(dp, 2)
    resumed = resume(chain(), dp)
    assert list(resumed) == list(iterator) == []
    assert list(resumed) == list(dp)


# What the states rest on


class Clock:
    """A clock that each snapshot and each item moves on by so many seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)
        monkeypatch.setattr(reading, "_taking_snapshots", weakref.WeakSet())  # nobody else shares its time

    def snapshots(self, items: int, seconds_per_item: float, seconds_per_snapshot: float) -> list[int]:
        """The numbers of the items after which a snapshot was taken."""
        pace = Throttle()
        taken = []
        for number in range(1, items + 1):
            self.now += seconds_per_item
            if pace.due():
                started = self.now
                self.now += seconds_per_snapshot
                pace.record(started)
                taken.append(number)
        return taken


def test_snapshots_that_cost_nothing_are_taken_at_every_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Clock(monkeypatch).snapshots(5, 1.0, 0.0) == [1, 2, 3, 4, 5]


def test_snapshots_cost_about_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    items, seconds_per_item, seconds_per_snapshot = 10_000, 1e-3, 1e-2
    taken = Clock(monkeypatch).snapshots(items, seconds_per_item, seconds_per_snapshot)
    # None before it can be paid but the first two: it takes two to know that the first was not slow by accident.
    for number, after in enumerate(taken, -1):
        assert number * seconds_per_snapshot <= after * seconds_per_item * reading.SNAPSHOT_SHARE
    # Not much later than it can be paid either: that much is read again on resuming.
    paid_after = seconds_per_snapshot / reading.SNAPSHOT_SHARE / seconds_per_item
    assert all(later - earlier <= 1.1 * paid_after for earlier, later in pairwise([0, *taken, items]))


def test_items_that_become_slow_are_soon_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pace, quick = Clock(monkeypatch), Throttle(), 1
    for _ in range(quick):  # some of the 0.5 ms that there are to be before the first snapshot
        clock.now += 1e-5
        assert not pace.due()
    slow = 1
    clock.now += 1.0
    while not pace.due():
        slow += 1
        clock.now += 1.0
    assert slow <= 2 * quick


def test_a_trail_forgets_what_lies_before_the_oldest_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", float("inf"))
    monkeypatch.setattr(reading, "_SHARE_OF_PRUNING", float("inf"))
    handed_out = 0
    trail = ReplayLog(Source(1000), None, 0)
    trail.needed = lambda: max(handed_out - 3, 0)
    for _ in trail.items():
        handed_out += 1
        assert len(trail._snapshots) <= 6


# What stands in several places of a state


def test_a_source_of_several_pipes_is_in_the_shape_of_a_chain_once() -> None:
    shared = Source().map(str)
    assert chain_shape(shared.filter(len).zip(shared)) == [
        "Zipper",
        "  Filter",
        "  Mapper",
        "  Source",
        "  Mapper, the same",
    ]
