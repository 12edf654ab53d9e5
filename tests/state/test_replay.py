"""Replay logs: what is read again on resuming, from the oldest item that is needed on, and little before it."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from passing import Passing
from penstock.pipes.iter import IterableWrapper, IterKeyZipper
from penstock.registry import Throttle, own
from penstock.state import replay as reading
from resuming import ALWAYS, assert_resumes_everywhere, passed_on, resumed_chain, seeded

EVERY = 10
"""After how many items a snapshot is taken here."""


def pairs(source: Any) -> Any:
    return source.map(lambda x: (x, x))


CHAINS: dict[str, Callable[[Any], Any]] = {
    "shuffle": lambda source: source.shuffle(buffer_size=20).set_seed(1),
    "groupby": lambda source: source.groupby(lambda x: x % 20, group_size=3),
    "bucket_by_length": lambda source: source.bucket_by_length([3, 5, 7], 8, len_fn=lambda x: x * 7 % 11),
    "max_token_bucketize": lambda source: source.max_token_bucketize(50, lambda x: 1 + x * 7 % 11, buffer_size=30),
    "pack": lambda source: source.map(lambda x: [x] * (x % 5)).pack(16),
    "pack, best fit": lambda source: source.map(lambda x: [x] * (1 + x % 5)).pack(16, "best_fit", buffer_size=5),
    "shuffled_flatmap": lambda source: source.shuffled_flatmap(lambda x: [x] * 3, buffer_size=5).set_seed(1),
    "shuffle_rows": lambda source: source.map(lambda x: {"id": torch.tensor([x])}).shuffle_rows(20).set_seed(1),
    "zip_with_iter": lambda source: IterableWrapper([x ^ 7 for x in range(1000)]).zip_with_iter(source, int),
}


def counted(numbers: range, pulled: list[int]) -> Any:
    return IterableWrapper(numbers).map(lambda x: pulled.append(x) or x)


def numbers_in(item: Any) -> Iterator[int]:
    if isinstance(item, dict):
        item = item["tokens"] if "tokens" in item else item["id"].tolist()
    if isinstance(item, int):
        yield item
    else:
        for part in item:
            yield from numbers_in(part)


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_what_is_read_again_begins_at_the_oldest_item_held(
    make: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Throttle, "step", EVERY)
    length = 1000
    pulled: list[int] = []
    dp = make(counted(range(length), pulled))
    iterator = iter(dp)
    while len(pulled) < length // 2:
        next(iterator)
    before, state = len(pulled), passed_on(dp)
    rest = list(iterator)
    # Packs end in zeros, which are no tokens of the item 0: that has long been handed out.
    held = {number for item in rest for number in numbers_in(item) if 0 < number < before}
    again: list[int] = []
    resumed = make(counted(range(length), again))
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    assert held
    assert min(held) - EVERY < again[0] <= min(held)


FAR = 103_456  # no multiple of what the steps hold, so that they hold something
LARGE: dict[str, Callable[[Any], Any]] = {
    "groupby": lambda source: source.groupby(lambda x: x % 1000, group_size=10),
    "bucketbatch": lambda source: source.bucketbatch(10, batch_num=20, bucket_num=2, sort_key=sorted),
    "demux": lambda source: ps.iter.Multiplexer(*source.demux(2, lambda x: x % 2)),
}


@pytest.mark.parametrize("make", LARGE.values(), ids=LARGE)
def test_little_more_is_read_again_than_what_is_kept(
    make: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read again is at most what lies behind the oldest item that is kept, and 2 % of what was read.

    What is counted passes a map: a source that only skips items does not compute them. An item takes 5 µs of this
    test's own clock, and a snapshot 10, whatever else the machine does. Chains that other tests left to the garbage
    collector would share the time for snapshots.
    """
    monkeypatch.setattr(reading, "_taking_snapshots", weakref.WeakSet())
    pulled: list[int] = []
    looks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: len(pulled) * 5e-6 + next(looks) * 1e-5)
    monkeypatch.setattr(reading, "time", clock)
    dp = seeded(lambda: make(counted(range(2 * FAR), pulled)))
    given: set[int] = set()
    iterator = iter(dp)
    while len(pulled) < FAR:
        given.update(numbers_in(next(iterator)))
    before = len(pulled)
    kept = [number for number in range(before) if number not in given]
    assert len(kept) < 11_000, "the step keeps more than it was to keep here"
    state = dp.state_dict()
    expected = [*numbers_in(islice(iterator, 3))]

    again: list[int] = []
    iterator = iter(resumed_chain(lambda: make(counted(range(2 * FAR), again)), state))
    first = [*numbers_in(next(iterator))]
    assert len(again) <= before - min(kept, default=before) + 0.02 * before
    assert [*first, *numbers_in(islice(iterator, 2))] == expected


def test_an_item_that_is_held_for_very_long_does_not_thin_out_the_snapshots_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So an item that becomes the oldest after it is not far from one."""
    monkeypatch.setattr(reading, "_MOST_SNAPSHOTS", 64)
    monkeypatch.setattr(Throttle, "step", EVERY)
    at = 15_000
    pulled: list[int] = []
    dp = counted(range(2 * at), pulled).groupby(lambda x: -1 if x in (1, at) else x // 2, buffer_size=at, group_size=2)
    iterator = iter(dp)
    while len(pulled) < at:
        next(iterator)
    (trail,) = (link.log for link in dp._pass._links.values())
    places = [place for place, _ in trail._snapshots]
    assert places[0] <= 1
    assert len(places) <= 64
    assert max(later - earlier for earlier, later in pairwise(places)) <= at * 4 / 64 + EVERY


def test_what_is_needed_is_asked_seldom_where_the_answer_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(reading, "time", clock)
    monkeypatch.setattr(reading, "_taking_snapshots", weakref.WeakSet())
    asked = []

    def node_of(saved: Any, source: Any) -> Any:
        clock.now += 1e-5
        return {}

    def oldest() -> int:
        clock.now += 1e-3
        asked.append(clock.now)
        return max(trail.pulled - 100_000, 0)

    monkeypatch.setattr(reading.SavedNodes, "node_of", node_of)
    trail = reading.ReplayLog(IterableWrapper(range(1_000_000), deepcopy=False), None, 0)
    trail.needed = oldest
    for _ in trail.items():
        clock.now += 1e-6
    asking = len(asked) * 1e-3
    assert len(asked) >= 1
    assert asking <= 1e-3 + 0.01 * clock.now
    # Snapshots come as often as without being asked: each costs 1e-5 s, and rests for 1e-3 s, or 1000 items.
    places = [place for place, _ in trail._snapshots]
    assert max(later - earlier for earlier, later in pairwise(places[-50:])) < 3000


def test_one_snapshot_that_takes_long_by_accident_does_not_put_off_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(reading, "time", clock)
    monkeypatch.setattr(reading, "_taking_snapshots", weakref.WeakSet())
    pace, taken = Throttle(), []
    for number in range(200_000):
        clock.now += 1e-6
        if pace.due():
            started = clock.now
            clock.now += 1.0 if len(taken) == 20 else 1e-5
            pace.record(started)
            taken.append(number)
    assert max(later - earlier for earlier, later in pairwise(taken)) <= 2000


def test_passes_that_have_ended_take_no_share_of_the_time_for_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_taking_snapshots", weakref.WeakSet())
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", float("inf"))
    chains = [IterableWrapper(range(100)).shuffle(buffer_size=3) for _ in range(3)]
    iterators = [iter(dp) for dp in chains]
    for iterator in iterators:
        list(islice(iterator, 50))
    assert len(reading._taking_snapshots) == 3
    list(iterators[0])
    iterators[1].close()
    assert len(reading._taking_snapshots) == 1


def test_what_is_read_again_stays_needed_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the operator has already said what it holds, which is not yet true."""
    monkeypatch.setattr(Throttle, "step", ALWAYS)

    class Delayer(Passing):
        """Yield each item with the one three before it."""

        resumes_from_start = False
        payload = ("held",)
        held: dict[int, Any] = own(dict, save=list)

        def __iter__(self) -> Any:
            items, numbers = self.read(self.source), [*self.held]
            held = self.held = {}
            items.keep_from(lambda: min(held, default=None))
            held.update(items.again(numbers))
            for number, item in items:
                held[number] = item
                yield item, held.pop(number - 3, None)

    assert_resumes_everywhere(lambda: Delayer(IterableWrapper(range(12)).shuffle(buffer_size=4).set_seed(1)))


class KeepsSome(Passing):
    """Keeps each third item until the end; reads again only where it has kept some."""

    resumes_from_start = False
    held: list[int] = ps.own(list)

    def __iter__(self) -> Iterator[Any]:
        items = self.read(self.source)
        held = self.held
        items.keep_from(lambda: held[0] if held else None)
        kept = items.again(held) if held else {}
        for number, item in items:
            if number % 3 == 1:
                kept[number] = item
                held.append(number)
            else:
                yield item
        while held:
            yield kept[held.pop(0)]


def test_kept_items_are_read_again_only_where_there_are_any() -> None:
    assert_resumes_everywhere(lambda: KeepsSome(IterableWrapper(range(10))))


class Turns(ps.IterDataPipe[Any]):
    """Three items of one source, then one of another, and so on: each is read by numbers."""

    resumes_from_start = False
    turn: int = ps.own(0)

    def __init__(self, source: Any, other: Any, needs: str) -> None:
        self.source, self.other, self.needs = source, other, needs

    def __iter__(self) -> Iterator[Any]:
        readings = self.read(self.source), self.read(self.other)
        while True:
            self.turn += 1
            reading = readings[self.turn % 4 == 0]
            number, item = next(iter(reading), (None, None))
            if number is None:
                return
            if self.needs == "of its own":
                reading.keep_from(number + 1)
            else:
                for each in readings:
                    each.keep_from(each.pulled)
            yield item


@pytest.mark.parametrize("needs", ["of its own", "of both"])
@pytest.mark.parametrize("share", [0, float("inf")], ids=["no snapshots", "snapshots"])
def test_a_source_unread_since_resuming_keeps_its_place(
    needs: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", share)

    def chain() -> Any:
        return Turns(IterableWrapper(range(12)), IterableWrapper("abcdef"), needs)

    expected = list(chain())
    for first in range(len(expected) + 1):
        for second in range(first, len(expected) + 1):
            dp, found = chain(), []
            for items in (first, second - first):
                found += islice(dp, items) if items else []
                state = passed_on(dp)
                dp = chain()
                dp.load_state_dict(state)
            assert found + list(dp) == expected, (first, second)


class Silent(Passing):
    """The items whose follower is larger; it does not say which items it needs."""

    resumes_from_start = False

    def __iter__(self) -> Iterator[int]:
        before = None
        for _, item in self.read(self.source):
            if before is not None and item > before:
                yield before
            before = item


def test_no_state_is_taken_where_needed_items_are_unknown() -> None:
    dp = Silent(IterableWrapper(range(9)))
    assert list(dp) == [*range(8)]
    next(iter(dp))
    with pytest.raises(TypeError, match=r"Silent\(\) has read items by numbers, and not said which it still needs"):
        dp.state_dict()


class Unpacked(ps.iter.Batcher[Any]):
    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            yield from batch


class Paired(ps.iter.Mapper[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from pairwise(super().__iter__())


class Twice(ps.iter.Shuffler[Any]):
    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            yield item
            yield item


@pytest.mark.parametrize(
    "make",
    [
        lambda: Unpacked(IterableWrapper(range(6)), 3),
        lambda: Paired(IterableWrapper(range(6)), str),
        lambda: Twice(IterableWrapper(range(6)), buffer_size=3).set_seed(1),
    ],
)
def test_a_subclass_that_changes_the_items_of_its_base_resumes(make: Callable[[], Any]) -> None:
    assert_resumes_everywhere(make)


def test_a_pipe_that_held_items_is_gone_when_nobody_has_it() -> None:
    """What is asked which items are needed knows no pipe, so no garbage needs to be collected."""
    source = IterableWrapper(range(100))
    iterators = [iter(make(source.map(int))) for make in CHAINS.values()]
    seen = [weakref.ref(iterator.gi_frame.f_locals["pipe"]) for iterator in iterators]
    for iterator in iterators:
        list(islice(iterator, 3))
    iterators.clear()
    del iterator
    assert [each() for each in seen] == [None] * len(seen)


def test_a_join_with_a_source_of_torchs_resumes() -> None:
    """Where that stands is not known: it is read again from its start."""
    assert_resumes_everywhere(
        lambda: IterKeyZipper(
            TorchIterableWrapper([2, 1, 3, 4]), IterableWrapper([4, 3, 2, 1]).map(lambda x: (x, str(x))), int, ref_key
        )
    )


def ref_key(pair: tuple[int, str]) -> int:
    return pair[0]
