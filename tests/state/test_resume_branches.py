"""Branches of one stream, resumed: ended ones, unread ones, divided ones, and those that are far apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import Any

import pytest

import penstock as ps
from passing import Passing
from penstock.state import replay
from resuming import (
    assert_resumes_everywhere,
    passed_on,
    snapshots,
)

numbers = ps.iter.IterableWrapper

pytestmark = pytest.mark.timeout(60)


def rest_from(chain: Callable[[], Any], stop: int) -> tuple[list[Any], list[Any]]:
    """Return what is left of a pass after so many items, and what a fresh chain gives from the state there."""
    dp = chain()
    iterator = iter(dp)
    list(islice(iterator, stop))
    resumed = chain()
    resumed.load_state_dict(passed_on(dp))
    return list(iterator), list(resumed)


def one_after_the_other(read: Callable[[Any], Any]) -> Any:
    most, few = numbers(range(6000)).demux(2, lambda x: int(x % 10 == 9))
    return most.concat(read(few))


def ended_and_read_on_beside() -> Any:
    longer, shorter = numbers(range(1800)).fork(2)
    return longer.pipe(iter).repeat(2).mux_longest(shorter)


def only_the_head_of_one(join: str) -> Any:
    head, whole = numbers(range(3000)).fork(2)
    return getattr(head.header(2), join)(whole)


ENDED: dict[str, tuple[Callable[[], Any], Any]] = {
    "ended": (lambda: one_after_the_other(lambda dp: dp), (5399, 5401, 5700)),
    "ended, shuffled": (lambda: one_after_the_other(lambda dp: dp.shuffle().set_seed(1)), (5399, 5401, 5700)),
    "ended, in a function": (lambda: one_after_the_other(lambda dp: dp.pipe(iter)), (5399, 5401, 5700)),
    "ended, forked": (lambda: one_after_the_other(lambda dp: dp.fork(1)[0]), (5399, 5401, 5700)),
    "ended and asked on": (ended_and_read_on_beside, (3601, 3650, 4000)),
    "no more is wanted of it": (lambda: only_the_head_of_one("concat"), range(5)),
    "no more is wanted of it, beside": (lambda: only_the_head_of_one("zip_longest"), range(5)),
}


@pytest.mark.parametrize(("chain", "stops"), ENDED.values(), ids=ENDED)
def test_nothing_waits_for_a_branch_that_has_ended(chain: Callable[[], Any], stops: Any) -> None:
    for stop in stops:
        rest, resumed = rest_from(chain, stop)
        assert resumed == rest, stop


def test_nothing_waits_for_a_branch_whose_iterator_was_closed_unread() -> None:
    unread, read = numbers(range(50)).fork(2, buffer_size=3)
    iterator: Any = iter(unread)
    iterator.close()
    assert len(list(read)) == 50


def of_two_kinds() -> Any:
    raw, rest = numbers(range(40)).fork(2)
    kept = rest.demux(2, lambda x: int(x % 5 == 0))[0]
    small, large = kept.demux(2, lambda x: int(x < 20))
    return raw.zip_longest(large.concat(small))


def joined_again() -> Any:
    first, second, third = numbers(range(9)).fork(3)
    left, right = third.fork(1)[0].mux_longest(second).fork(2)
    return first.zip_longest(left.header(5).zip(right.pipe(iter)))


@pytest.mark.parametrize("chain", [of_two_kinds, joined_again])
def test_branches_of_branches_resume_everywhere(chain: Callable[[], Any]) -> None:
    assert_resumes_everywhere(chain)


def test_a_branch_goes_back_while_another_thread_reads_ahead_before_the_fork() -> None:
    def slow(x: int) -> int:
        time.sleep(0.002)
        return x

    def chain() -> Any:
        before = numbers(range(12)).map(slow).fork(1)[0]
        left, right = before.prefetch(4).fork(2)
        return left.zip(right.pipe(iter))

    for stop in range(13):
        rest, resumed = rest_from(chain, stop)
        assert resumed == rest


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_branches_are_loaded_each_from_its_own_state_in_any_order(order: tuple[int, int]) -> None:
    branches = [dp.map(abs) for dp in numbers(range(5000)).fork(2)]
    iterators = [iter(dp) for dp in branches]
    for iterator, stop in zip(iterators, (1, 900), strict=True):
        list(islice(iterator, stop))
    states = [dp.state_dict() for dp in branches]
    resumed = [dp.map(abs) for dp in numbers(range(5000)).fork(2)]
    for number in order:
        resumed[number].load_state_dict(states[number])
    behind, ahead = map(iter, resumed)
    assert list(islice(behind, 1500)) == [*range(1, 1501)]
    assert next(ahead) == 900


def test_ends_that_were_not_begun_are_read_from_their_start() -> None:
    def ends() -> list[Any]:
        first, second = numbers(range(12)).fork(2)
        return [first, *second.fork(1)[0].demux(3, lambda x: x % 3)]

    before = ends()
    begun = [iter(dp) for dp in (before[0], before[2])]
    assert [[*islice(iterator, 2)] for iterator in begun] == [[0, 1], [1, 4]]
    states = [dp.state_dict() for dp in before]
    after = ends()
    for dp, state in zip(after, states, strict=True):
        dp.load_state_dict(state)
    iterators = [iter(dp) for dp in after]
    assert [[*iterators[number]] for number in (2, 3, 0, 1)] == [[7, 10], [2, 5, 8, 11], [*range(2, 12)], [0, 3, 6, 9]]


class Pairs(Passing):
    """Each two neighbours; a resumed pass runs again from a mark."""

    def __iter__(self) -> Iterator[Any]:
        yield from pairwise(self.source)


SPLIT: dict[str, Callable[[], list[Any]]] = {
    "fork": lambda: numbers(range(6000)).fork(2),
    "demux": lambda: numbers(range(12000)).demux(2, lambda x: x % 2),
    "unzip": lambda: numbers([(number, -number) for number in range(6000)]).unzip(2),
}
GOES_BACK: dict[str, Callable[[Any], Any]] = {
    "its own": Pairs,
    "flatmap": lambda dp: dp.flatmap(lambda x: [x, x]),
    "shuffle": lambda dp: dp.shuffle(buffer_size=100).set_seed(1).batch(4),
    "threads": lambda dp: dp.threadpool_map(abs),
    "a thread": lambda dp: dp.prefetch(),
    "pipe": lambda dp: dp.pipe(iter),
}


@pytest.mark.parametrize(
    ("split", "step", "stop"),
    [
        *[("fork", step, stop) for step in GOES_BACK for stop in (900, 1100)],
        *[(split, step, 1400) for split in ("demux", "unzip") for step in ("its own", "shuffle", "a thread")],
    ],
)
def test_a_resumed_pass_needs_no_more_room_than_a_fresh_one(split: str, step: str, stop: int) -> None:
    def chain() -> Any:
        first, second = SPLIT[split]()
        return GOES_BACK[step](first).zip(GOES_BACK[step](second))

    rest, resumed = rest_from(chain, stop)
    assert len(rest) > 20
    assert resumed == rest


def test_of_branches_that_go_back_at_once_each_reads_what_it_needs() -> None:
    def chain() -> Any:
        branches = numbers(range(2000)).fork(3, buffer_size=3)
        return ps.iter.Zipper(*(Pairs(branch) for branch in branches))

    dp = chain()
    iterator = iter(dp)
    for _ in range(5):
        list(islice(iterator, 300))
        state = dp.state_dict()
        rest = [*iterator]
        dp = chain()
        dp.load_state_dict(state)
        iterator = iter(dp)
        assert [next(iterator) for _ in range(50)] == rest[:50]


@pytest.mark.parametrize(("number", "head"), [(3, 2), (1000, 500)])
def test_a_position_is_never_beyond_what_was_read(number: int, head: int) -> None:
    def chain() -> Any:
        first, second = numbers(range(number)).fork(2)
        return ps.iter.ZipperLongest(first, *second.header(head).fork(2))

    for stop in (head, head + number // 3):
        dp = chain()
        iterator = iter(dp)
        list(islice(iterator, stop))
        for _ in range(2):
            state = dp.state_dict()
            rest = [*iterator]
            dp = chain()
            dp.load_state_dict(state)
            iterator = iter(dp)
            assert [*islice(iterator, 1)] == rest[:1]
            if not rest:
                break


def test_a_fork_whose_source_ended_reads_little_again() -> None:
    pulled = []

    def chain() -> Any:
        first, second = numbers(range(3000)).map(lambda item: pulled.append(item) or item).fork(2, buffer_size=10**6)
        return first.concat(second)

    dp, resumed = chain(), chain()
    with snapshots(float("inf")):  # by the clock, a busy machine takes too few
        iterator = iter(dp)
        for _ in range(5990):
            next(iterator)
        resumed.load_state_dict(passed_on(dp))
    pulled.clear()
    assert list(resumed) == list(range(2990, 3000))
    assert len(pulled) < 100


@pytest.mark.parametrize("again", [False, True], ids=["next epoch", "next round of a cycle"])
def test_a_fork_left_unread_after_resuming_begins_anew_next_time(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "SNAPSHOT_SHARE", float("inf"))

    def chain() -> Any:
        first, second = numbers(range(7)).round_robin_demux(2)
        third, fourth = second.fork(2)
        zipped = first.zip(third.mux(fourth))
        return zipped.cycle(2) if again else zipped

    items = list(chain())
    for number in range(len(items) + 1):
        dp, resumed = chain(), chain()
        iterator = iter(dp)
        list(islice(iterator, number))
        resumed.load_state_dict(passed_on(dp))
        assert list(resumed) == items[number:]
        assert list(resumed) == items
