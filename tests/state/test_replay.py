"""What operators that hold items back read again on resuming: from the oldest item held on, and little before it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import islice, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import IterableWrapper, IterKeyZipper
from penstock.registry import Throttle, own
from penstock.state import replay as reading
from resuming import ALWAYS, assert_resumes_everywhere, passed_on

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
    "zip_with_iter": lambda source: IterableWrapper([x ^ 7 for x in range(1000)]).zip_with_iter(source, int),
}


def counted(numbers: range, pulled: list[int]) -> Any:
    return IterableWrapper(numbers).map(lambda x: pulled.append(x) or x)


def numbers_in(item: Any) -> set[int]:
    if isinstance(item, dict):
        item = item["tokens"]
    return {item} if isinstance(item, int) else {*item}


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
    (trail,) = dp._pass._logs.values()
    places = [place for place, _ in trail._snapshots]
    assert places[0] <= 1
    assert len(places) <= 64
    assert max(later - earlier for earlier, later in pairwise(places)) <= at * 4 / 64 + EVERY


def test_what_is_needed_is_asked_seldom_where_the_answer_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(reading, "time", clock)
    monkeypatch.setattr(reading, "_taking_snapshots", weakref.WeakSet())
    asked = []

    def collect(saving: Any) -> Any:
        clock.now += 1e-5
        return {}

    def oldest() -> int:
        clock.now += 1e-3
        asked.append(clock.now)
        return max(trail.pulled - 100_000, 0)

    monkeypatch.setattr(reading, "collect", collect)
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

    class Delayer(ps.IterDataPipe[Any]):
        """Yield each item with the one three before it."""

        holds_items = False
        payload = ("held",)
        held: dict[int, Any] = own(dict, save=list)

        def __init__(self, source: Any) -> None:
            self.source = source

        def __iter__(self) -> Any:
            items, numbers = self.read(self.source), [*self.held]
            held = self.held = {}
            items.keep_from(lambda: min(held, default=None))
            held.update(items.again(numbers))
            for number, item in items:
                held[number] = item
                yield item, held.pop(number - 3, None)

    assert_resumes_everywhere(lambda: Delayer(IterableWrapper(range(12)).shuffle(buffer_size=4).set_seed(1)))


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
