"""Operators that give several pipes: what each yields, how far apart they may be read, what becomes of dropped ones."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from types import SimpleNamespace
from typing import Any
from unittest import mock

import cloudpickle
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import Demultiplexer, Forker, IterableWrapper, RoundRobinDemultiplexer, UnZipper
from penstock.registry import Throttle, seed_graph, walk
from penstock.state import replay as reading
from penstock.state.seeds import FIRST_PASS
from penstock.state.sources import SourceLink, capture
from penstock.testing import check_operator
from resuming import ALWAYS, NEVER, assert_resumes_everywhere, passed_on


def numbers(n: int, start: int = 0) -> Any:
    return IterableWrapper(range(start, start + n))


def shuffled(n: int, seed: int = 5) -> Any:
    return numbers(n).shuffle(buffer_size=3).set_seed(seed)


def odd(x: int) -> int:
    return x % 2


class Recording(ps.IterDataPipe[int]):
    """Counts up, and knows how many items were taken and whether it is open."""

    resumes_from_start = False
    _position: int = ps.own(0)

    def __init__(self, n: int) -> None:
        self.n = n
        self.pulled = 0
        self.open = 0
        self.passes = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        self.open += 1
        try:
            while self._position < self.n:
                self._position += 1
                self.pulled += 1
                yield self._position - 1
        finally:
            self.open -= 1


class Item:
    """Something that a weak reference can point to."""


# What comes out


def test_every_fork_yields_all_items_in_any_order_of_reading() -> None:
    first, second, third = numbers(5).fork(3)
    assert list(third) == list(first) == list(second) == [0, 1, 2, 3, 4]


def test_a_source_is_read_once_for_all_forks() -> None:
    source = Recording(5)
    for branch in source.fork(3):
        assert list(branch) == [0, 1, 2, 3, 4]
    assert (source.pulled, source.passes, source.open) == (5, 1, 0)


def test_demux_gives_each_item_to_the_pipe_that_the_classifier_says() -> None:
    branches = numbers(8).demux(3, lambda x: None if x > 5 else x % 3, drop_none=True)
    assert [list(branch) for branch in branches] == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("number", [True, 1.0])
def test_what_equals_a_number_is_one_for_demux(number: Any) -> None:
    assert [list(branch) for branch in numbers(2).demux(2, lambda _: number)] == [[], [0, 1]]


def test_unzip_gives_the_columns_that_are_not_skipped() -> None:
    rows = IterableWrapper([(1, "a", 10), (2, "b", 20)])
    assert [list(column) for column in rows.unzip(3)] == [[1, 2], ["a", "b"], [10, 20]]
    assert [list(column) for column in rows.unzip(3, columns_to_skip=[1])] == [[1, 2], [10, 20]]


def test_round_robin_deals_in_turn() -> None:
    branches = numbers(7).round_robin_demux(3)
    assert [list(branch) for branch in branches] == [[0, 3, 6], [1, 4], [2, 5]]
    assert [len(branch) for branch in branches] == [3, 2, 2]


def test_one_branch_is_a_list_of_one() -> None:
    for branches in (numbers(3).fork(1), numbers(3).round_robin_demux(1), numbers(3).demux(1, lambda _: 0)):
        assert [list(branch) for branch in branches] == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("copies", "same", "same_inside"), [(None, True, True), ("shallow", False, True), ("deep", False, False)]
)
def test_forks_yield_copies_when_asked_to(copies: Any, same: bool, same_inside: bool) -> None:
    first, second = IterableWrapper([[[1]]], deepcopy=False).fork(2, copy=copies)
    ((one,), (other,)) = list(first), list(second)
    assert one == other
    assert (one is other, one[0] is other[0]) == (same, same_inside)


def test_lengths() -> None:
    first, second = numbers(5).fork(2)
    assert (len(first), len(second)) == (5, 5)
    assert [len(column) for column in IterableWrapper([(1, 2)] * 4).unzip(2)] == [4, 4]
    with pytest.raises(TypeError, match="the length of a branch of demux is unknown before its items are read"):
        len(numbers(5).demux(2, odd)[0])
    with pytest.raises(TypeError):
        len(numbers(5).filter(bool).fork(2)[0])


def test_what_is_made_shows_itself_as_it_was_written() -> None:
    first, second = numbers(3).fork(2)
    assert repr(second) == "IterableWrapper(range(0, 3)).fork(2)[1]"
    assert repr(first.zip(second.map(str))) == "IterableWrapper(range(0, 3)).fork(2)[0].zip(….fork(2)[1].map(str))"


def test_the_chain_is_walked_from_a_branch_and_the_other_branch_is_not_in_it() -> None:
    first, _ = numbers(3).fork(2)
    assert [type(part).__name__ for part in walk(first)] == ["Branch", "Forker", "IterableWrapper"]


def test_torchs_own_pipes_are_forked() -> None:
    first, second = TorchIterableWrapper(range(4)).map(str).fork(2)
    ours = Forker(TorchIterableWrapper(range(4)), 2)
    assert [list(first), list(second)] == [["0", "1", "2", "3"]] * 2
    assert [list(branch) for branch in ours] == [[0, 1, 2, 3]] * 2


# Wrong arguments and items


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: numbers(3).fork(0), ValueError, "num_instances must be at least 1, and is 0"),
        (lambda: numbers(3).demux(0, odd), ValueError, "num_instances must be at least 1"),
        (lambda: numbers(3).round_robin_demux(0), ValueError, "num_instances must be at least 1"),
        (lambda: numbers(3).fork(2, -2), ValueError, "buffer_size must be at least -1, and is -2"),
        (lambda: numbers(3).fork(2, copy="some"), ValueError, "copy must be None, 'shallow' or 'deep', and is 'some'"),
        (lambda: numbers(3).demux(2, 7), TypeError, "classifier_fn must be a function"),
        (lambda: numbers(3).unzip(2, columns_to_skip=[0, 1]), ValueError, "no column is left"),
        (lambda: numbers(3).unzip(2, columns_to_skip=[2]), ValueError, "columns_to_skip must be in 0 … 1, and has"),
        (lambda: Forker(iter([1, 2]), 2), TypeError, "it can be read only once"),
    ],
)
def test_wrong_arguments_are_refused_at_once(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("method", ["fork", "round_robin_demux"])
def test_an_unlimited_buffer_is_warned_of(method: str) -> None:
    with pytest.warns(UserWarning, match="any number of items may wait .* until memory runs out") as seen:
        branches = getattr(numbers(5000), method)(2, buffer_size=-1)
    assert seen[0].filename == __file__
    assert [len(list(branch)) for branch in branches] in ([5000, 5000], [2500, 2500])


@pytest.mark.parametrize("number", [2, -1, None, "a", 0.5])
def test_a_number_that_is_no_pipes_is_an_error_that_shows_it_and_the_item(number: Any) -> None:
    first, second = numbers(5).demux(2, lambda x: number if x == 3 else 0)
    with pytest.raises(ValueError, match="there are pipes 0 … 1") as caught:
        list(first)
    assert f"classifier_fn returned {number!r}" in str(caught.value)
    assert "demux" in caught.value.__notes__[0].lower() or "Demultiplexer" in caught.value.__notes__[0]
    assert "on 3" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="there are pipes 0 … 1"):
        list(second)


def test_what_cannot_be_classified_is_skipped_when_asked_to() -> None:
    first, second = IterableWrapper([0, 1, "x", 5, 2]).demux(2, lambda x: x % 3, on_error="skip")
    dp = first.zip_longest(second)
    assert list(dp) == [(0, 1), (None, None)][:1]
    assert dp.stats()["demux"]["skipped"] == 3


@pytest.mark.parametrize("share", [float("inf"), 1e-15])
def test_what_was_skipped_is_counted_once_though_it_is_read_again_after_resuming(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", share)

    def make() -> Any:
        return ps.iter.ZipperLongest(*numbers(12).demux(2, lambda x: x % 3, on_error="skip"))

    for taken in range(5):
        dp, resumed = make(), make()
        iterator = iter(dp)
        list(islice(iterator, taken))
        resumed.load_state_dict(passed_on(dp))
        list(resumed)
        assert resumed.stats()["demux"]["skipped"] == 4


def test_an_item_that_is_too_short_is_named() -> None:
    first, second = IterableWrapper([(1, 2), (3,)]).unzip(2)
    assert list(first) == [1, 3]
    with pytest.raises(IndexError) as caught:
        list(second)
    assert "UnZipper" in caught.value.__notes__[0]
    assert "(3,)" in caught.value.__notes__[0]


def test_an_error_of_the_source_reaches_every_branch_after_the_items_before_it() -> None:
    first, second = numbers(5).map(lambda x: 1 // (3 - x)).fork(2)
    for branch in (first, second):
        iterator = iter(branch)
        assert list(islice(iterator, 3)) == [0, 0, 1]
        with pytest.raises(ZeroDivisionError):
            next(iterator)
    assert list(islice(first, 1)) == [0]  # a new pass begins anew


# Passes that belong together


@pytest.mark.parametrize("make", [lambda: numbers(6).fork(2), lambda: numbers(6).demux(2, odd)])
def test_a_second_pass_over_one_branch_begins_anew_for_all(make: Callable[[], Any]) -> None:
    first, second = make()
    one, other = iter(first), iter(second)
    next(one), next(other)
    again = iter(first)
    with pytest.raises(RuntimeError, match="replaced by a newer one"):
        next(one)
    with pytest.raises(RuntimeError, match="branch 1 of .* was replaced: a pass over another branch began anew"):
        next(other)
    expected = list(make()[1])
    assert list(second) == expected  # which joins the pass of `again`, and leaves it alone
    assert next(again) == 0


def test_an_iterator_that_was_made_counts_as_a_pass_though_nothing_was_read() -> None:
    first, second = numbers(3).fork(2)
    one, other = iter(first), iter(second)
    again = iter(first)
    for old in (one, other):
        with pytest.raises(RuntimeError, match="replaced"):
            next(old)
    assert list(again) == [0, 1, 2]


def test_a_branch_that_has_not_been_read_joins_at_the_start() -> None:
    source = Recording(4)
    first, second = source.fork(2)
    iterator = iter(first)
    assert list(islice(iterator, 3)) == [0, 1, 2]
    assert list(second) == [0, 1, 2, 3]
    assert list(iterator) == [3]
    assert source.passes == 1


def test_every_epoch_has_one_order_for_all_branches_and_another_than_the_epoch_before() -> None:
    first, second = shuffled(20).fork(2)
    dp = first.zip(second)
    epochs = [list(dp) for _ in range(3)]
    assert all(one == other for epoch in epochs for one, other in epoch)
    source = shuffled(20)
    assert [[one for one, _ in epoch] for epoch in epochs] == [list(source) for _ in range(3)]


def test_an_epoch_that_was_given_up_after_one_branch_was_read_does_not_reach_into_the_next() -> None:
    order = [1, 0]

    class FromOneThenTheOther(ps.IterDataPipe[Any]):
        def __init__(self, *sources: Any) -> None:
            self.sources = sources

        def __iter__(self) -> Iterator[Any]:
            order.reverse()
            for number in order:
                yield from self.sources[number]

    first, second = shuffled(4).demux(2, odd)
    dp = FromOneThenTheOther(first.map(str), second.map(str))
    seed_graph(dp, 3)
    iterator = iter(dp)
    next(iterator)
    del iterator
    assert sorted(dp) == ["0", "1", "2", "3"]


# How far apart


@pytest.mark.parametrize("size", [1, 4])
def test_a_fork_that_runs_ahead_of_the_buffer_is_told_which_one_is_slow(size: int) -> None:
    first, second, third = numbers(10).fork(3, buffer_size=size)
    slow, iterator = iter(third), iter(second)
    next(slow)
    assert list(islice(iterator, size)) == list(range(size))
    with pytest.raises(BufferError) as caught:
        next(iterator)
    assert f"branch 0 of fork has not read {size + 1} items that wait for it, while branch 1 reads" in str(caught.value)
    assert f"buffer_size is {size}" in str(caught.value)
    del first, iterator
    assert list(slow) == list(range(1, 10))


def test_a_demux_holds_so_many_items_for_all_branches_together() -> None:
    first, _second, _third = numbers(10).demux(3, lambda x: min(x, 2) if x < 5 else 0, buffer_size=3)
    iterator = iter(first)
    assert next(iterator) == 0
    with pytest.raises(BufferError, match="branch 2 of demux has not read 3 items"):
        next(iterator)  # of 1, 2, 3 and 4 there is no room for the last


def test_an_item_that_found_no_room_is_not_lost() -> None:
    first, second = numbers(6).demux(2, lambda x: int(x > 0), buffer_size=2)
    with pytest.raises(BufferError):
        list(first)
    assert list(second) == [1, 2, 3, 4, 5]


def test_branches_that_are_read_in_step_need_room_for_one_item() -> None:
    first, second = numbers(100).fork(2, buffer_size=1)
    assert list(first.zip(second)) == [(x, x) for x in range(100)]
    first, second = numbers(100).round_robin_demux(2, buffer_size=1)
    assert len(list(second.zip(first))) == 50


def test_a_branch_that_is_read_ahead_needs_room_for_what_is_read_ahead() -> None:
    first, second = numbers(50).fork(2, buffer_size=10)
    assert list(first.prefetch(5).zip(second)) == [(x, x) for x in range(50)]
    first, second = numbers(50).fork(2, buffer_size=10)
    with pytest.raises(BufferError, match="branch 1 of fork .* needs room for what is read ahead"):
        list(first.shuffle(buffer_size=20).zip(second))


# Dropped ones


def held(objects: list[Any]) -> int:
    gc.collect()
    return sum(reference() is not None for reference in objects)


def counting(references: list[Any], n: int) -> Any:
    def make(_: int) -> Item:
        item = Item()
        references.append(weakref.ref(item))
        return item

    return numbers(n).map(make)


@pytest.mark.parametrize("how", ["dropped unread", "dropped in a pass", "closed", "iterator dropped", "at its end"])
@pytest.mark.parametrize("method", ["fork", "round_robin_demux"])
def test_nothing_waits_for_a_branch_that_is_gone(method: str, how: str) -> None:
    references: list[Any] = []
    first, second = getattr(counting(references, 500), method)(2, buffer_size=20)
    iterator = iter(first)
    next(iterator)
    if how != "dropped unread":
        other = iter(second)
        next(other)
        if how == "closed":
            other.close()
        elif how in ("iterator dropped", "dropped in a pass"):
            del other
        else:
            for _ in range(30):
                next(iterator)
                next(other)
            other.close()
    if "dropped" in how and how != "iterator dropped":
        del second
    for _ in range(200):
        next(iterator)
    assert held(references) <= 3


def test_an_unread_branch_that_is_alive_keeps_what_waits_for_it_and_gives_it_back_when_dropped() -> None:
    references: list[Any] = []
    first, second = counting(references, 100).fork(2)
    iterator = iter(first)
    deque_of = list(islice(iterator, 50))
    del deque_of
    assert held(references) >= 50
    del second
    assert held(references) <= 2
    assert len(list(iterator)) == 50


@pytest.mark.parametrize("dropped", ["iterators", "pipes too"])
def test_the_source_is_closed_at_once_when_no_branch_is_left(dropped: str) -> None:
    gc.collect()
    gc.disable()
    try:
        source = Recording(10)
        first, second = source.fork(2)
        one, other = iter(first), iter(second)
        next(one), next(other)
        if dropped == "pipes too":
            del first, second
        del one
        assert source.open == 1
        del other
        assert source.open == 0
    finally:
        gc.enable()


def test_a_chain_with_branches_is_freed_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        first, second = Recording(10).fork(2)
        iterator = iter(first)
        next(iterator)
        gone = [weakref.ref(part) for part in (*walk(first), second)]
        del first, second, iterator
        assert [reference() for reference in gone] == [None] * len(gone)
    finally:
        gc.enable()


# Copies


@pytest.mark.parametrize("way", [copy.deepcopy, lambda dp: cloudpickle.loads(cloudpickle.dumps(dp))])
@pytest.mark.parametrize("taken", [0, 2, 9])
def test_branches_copied_together_stay_together(way: Callable[[Any], Any], taken: int) -> None:
    source = Recording(4)
    first, second = source.fork(2)
    dp = first.zip(second.map(str))
    iterator = iter(dp)
    begun = list(islice(iterator, taken))
    copied = way(dp)
    expected = [(x, str(x)) for x in range(4)]
    assert list(copied) == expected
    (copied_source,) = (part for part in walk(copied) if isinstance(part, Recording))
    assert copied_source.passes == source.passes + 1
    assert begun + list(iterator) == expected


def test_a_branch_copied_alone_does_not_wait_for_the_one_that_was_left_behind() -> None:
    first, _ = numbers(100).fork(2, buffer_size=3)
    assert list(pickle.loads(pickle.dumps(first))) == list(range(100))


# Threads


def test_two_branches_read_by_two_threads_get_all_items_in_order() -> None:
    for _ in range(20):
        first, second = numbers(3000).fork(2, buffer_size=3000)
        seen: dict[int, list[int]] = {}

        def read(key: int, dp: Any, seen: dict[int, list[int]] = seen) -> None:
            seen[key] = list(dp)

        threads = [threading.Thread(target=read, args=pair, daemon=True) for pair in enumerate((first, second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert seen == {0: list(range(3000)), 1: list(range(3000))}


@pytest.mark.parametrize("ahead", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", ["fork", "demux"])
def test_prefetching_branches_has_no_race(kind: str, ahead: tuple[bool, bool]) -> None:
    for _ in range(30):
        branches = numbers(400).fork(2) if kind == "fork" else numbers(400).demux(2, odd)
        expected = [(x, x) for x in range(400)] if kind == "fork" else [(x, x + 1) for x in range(0, 400, 2)]
        first, second = (dp.prefetch(7) if threaded else dp for dp, threaded in zip(branches, ahead, strict=True))
        dp = first.zip(second)
        assert list(dp) == expected
        iterator = iter(dp)
        assert list(islice(iterator, 5)) == expected[:5]
        assert list(dp) == expected  # though the one before was given up in its middle


def test_giving_up_prefetched_branches_ends_their_threads() -> None:
    def alive() -> int:
        return sum(thread.name.startswith("penstock") for thread in threading.enumerate())

    first, second = numbers(10_000).fork(2)
    before = alive()
    iterator = iter(first.prefetch(5).zip(second.prefetch(5)))
    next(iterator)
    assert alive() == before + 2
    del iterator
    assert alive() == before


def test_a_source_that_reads_from_its_own_branch_is_an_error_and_no_deadlock() -> None:
    branches: list[Any] = []
    first, second = numbers(5).map(lambda x: next(branches[0])).fork(2)
    branches.append(iter(second))
    with pytest.raises((RuntimeError, ValueError)):
        list(first)


# Going on from a state


def load(dp: Any, from_: Any) -> Any:
    dp.load_state_dict(passed_on(from_))
    return dp


@pytest.fixture(params=[0.02, float("inf"), 1e-15], ids=["usual", "every time", "seldom"])
def _share(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", request.param)


@pytest.mark.usefixtures("_share")
@pytest.mark.parametrize("first_to_go_on", [0, 1])
@pytest.mark.parametrize("places", [(0, 0), (0, 3), (4, 1), (5, 6), (6, 0)])
@pytest.mark.parametrize("gone", [True, False])
def test_branches_resumed_each_on_its_own_go_on_at_their_places(
    places: tuple[int, int], first_to_go_on: int, gone: bool
) -> None:
    def make() -> Any:
        branches = shuffled(9).fork(2)
        for _ in range(2):
            list(branches[0].zip(branches[1]))
        return branches

    def fresh() -> Any:
        return shuffled(9).fork(2)

    branches = make()
    (expected,) = {tuple(branch) for branch in make()}
    iterators = [iter(branch) for branch in branches]
    for iterator, place in zip(iterators, places, strict=True):
        assert tuple(islice(iterator, place)) == expected[:place]
    if gone:
        iterators.clear()
    resumed = [load(one, other) for one, other in zip(fresh(), branches, strict=True)]
    rest = {}
    for number in (first_to_go_on, 1 - first_to_go_on):
        rest[number] = tuple(resumed[number])
    assert [rest[0], rest[1]] == [expected[place:] for place in places]


@pytest.mark.usefixtures("_share")
def test_one_branch_goes_on_alone_though_its_sibling_has_been_read_further_or_not() -> None:
    for other_place in (0, 2, 8):
        first, second = shuffled(9).fork(2, buffer_size=20)
        iterator = iter(first)
        begun = list(islice(iterator, 4))
        other = iter(second)
        list(islice(other, other_place))
        resumed, _unread = shuffled(9).fork(2, buffer_size=20)
        assert begun + list(load(resumed, first)) == list(shuffled(9))


def test_a_sibling_that_had_been_read_does_not_fill_the_buffer_after_resuming() -> None:
    def make() -> Any:
        return numbers(100).fork(2, buffer_size=100)

    first, second = make()
    list(second)
    iterator = iter(first)
    next(iterator)
    resumed, _sibling = numbers(100).fork(2, buffer_size=3)
    resumed.load_state_dict(passed_on(first), strict=False)  # in a smaller buffer
    assert list(resumed) == list(iterator)


def test_a_sibling_that_was_not_read_joins_a_resumed_pass_at_its_start() -> None:
    first, _second = shuffled(6).fork(2)
    iterator = iter(first)
    begun = list(islice(iterator, 4))
    resumed, sibling = shuffled(6, seed=99).fork(2)
    rest = iter(load(resumed, first))
    assert [*begun, next(rest)] == list(sibling)[:5]
    assert list(rest) == list(iterator)[1:]


def test_a_sibling_that_was_not_there_when_the_state_was_taken_reads_the_same_pass_from_its_start() -> None:
    first, _ = shuffled(9).fork(2)
    del _
    iterator = iter(first)
    begun = list(islice(iterator, 6))
    resumed, sibling = shuffled(9, seed=99).fork(2)
    rest = iter(load(resumed, first))
    begun.append(next(rest))
    order = list(sibling)
    assert order[:7] == begun
    assert order[7:] == list(rest) == list(iterator)[1:]


def test_loading_a_state_of_another_order_begins_anew_for_all() -> None:
    first, _second = shuffled(9, seed=1).fork(2)
    iterator = iter(first)
    begun = list(islice(iterator, 3))
    other_first, other_second = shuffled(9, seed=2).fork(2)
    other = iter(other_second)
    next(other)
    assert begun + list(load(other_first, first)) == list(shuffled(9, seed=1))
    with pytest.raises(RuntimeError, match="replaced"):
        next(other)


def test_what_the_branches_share_is_in_a_state_once_however_deep_they_are_nested() -> None:
    def make(levels: int) -> Any:
        dp = shuffled(5)
        for _ in range(levels):
            first, second = dp.fork(2)
            dp = first.zip(second)
        return dp

    sizes = []
    for levels in range(3, 9):
        dp = make(levels)
        iterator = iter(dp)
        next(iterator)
        sizes.append(len(json.dumps(dp.state_dict())))
        resumed = load(make(levels), dp)
        assert list(resumed) == list(iterator)
        assert list(resumed) == list(dp)
        assert len(repr(make(levels))) < 100 * levels
    assert sizes[-1] < 5 * sizes[0]


@pytest.mark.usefixtures("_share")
def test_snapshots_do_not_pile_up_while_a_branch_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each look at the clock is a second after the last: how much is left out depends on what that takes.
    monkeypatch.setattr(reading, "time", SimpleNamespace(perf_counter=partial(next, count(0.0, 1.0))))
    first, second = numbers(3000).demux(2, lambda _: 0)
    iterator = iter(first)
    for _ in range(2000):
        next(iterator)
    (trail,) = second.source._pass._logs.values()
    assert len(trail._snapshots) <= 20


# Any reading of a few branches, beside a model of it in plain Python


N = 12
KINDS: dict[str, tuple[Callable[[Any, int], Any], Callable[[list[int], int, int], list[Any]]]] = {
    "fork": (lambda dp, n: Forker(dp, n), lambda items, n, number: items),
    "demux": (
        lambda dp, n: Demultiplexer(dp, n, lambda x: x % (n + 1) if x % (n + 1) < n else None, drop_none=True),
        lambda items, n, number: [x for x in items if x % (n + 1) == number],
    ),
    "round robin": (lambda dp, n: RoundRobinDemultiplexer(dp, n), lambda items, n, number: items[number::n]),
    "unzip": (
        lambda dp, n: UnZipper(dp.map(lambda x: tuple(range(x, x + n))), n),
        lambda items, n, number: [x + number for x in items],
    ),
}
SOURCES: dict[str, Callable[[], Any]] = {
    "range": lambda: numbers(N),
    "shuffled": lambda: shuffled(N),
    "one to many": lambda: shuffled(N // 2).flatmap(lambda x: [x, x + N // 2]),
    "torch's": lambda: TorchIterableWrapper(range(N)),
}


class Model:
    """What each branch should give: a list for each generation, and who stands where in which."""

    def __init__(self, source: str, kind: str, n: int) -> None:
        passes = SOURCES[source]()
        self.orders = iter([list(passes) for _ in range(60)])
        self.order_of: dict[int, list[int]] = {}
        """That of a generation is fixed when its first item is read."""
        self.kind, self.n = kind, n
        self.generation = 0
        self.joined: set[int] = set()
        self.places: dict[int, tuple[int, int]] = {}
        """For each branch that has an iterator: the generation it belongs to, and how many items it gave."""
        self.read: set[int] = set()
        """Those of the joined that were asked for an item."""
        self.ended: set[int] = set()

    def begin(self, number: int) -> None:
        if number in self.joined:
            self.generation, self.joined, self.read = self.generation + 1, set(), set()
        self.joined.add(number)
        self.places[number] = (self.generation, 0)
        self.ended.discard(number)

    def step(self, number: int) -> Any:
        generation, place = self.places[number]
        if generation != self.generation:
            return "replaced"
        self.read.add(number)
        if generation not in self.order_of:
            self.order_of[generation] = next(self.orders)
        items = KINDS[self.kind][1](self.order_of[generation], self.n, number)
        if place == len(items):
            self.ended.add(number)
            return "end"
        self.places[number] = (generation, place + 1)
        return items[place]

    def stands_in_the_middle(self, number: int) -> bool:
        place = self.places.get(number)
        read_in_it = place is not None and place[0] == self.generation and number in self.read
        return read_in_it and number not in self.ended


class Reader:
    """Some branches, and their iterators."""

    def __init__(self, source: str, kind: str, n: int) -> None:
        self.made = (source, kind, n)
        self.model = Model(*self.made)
        self.dps: dict[int, Any] = dict(enumerate(KINDS[kind][0](SOURCES[source](), n)))
        self.iterators: dict[int, Any] = {}

    def begin(self, number: int) -> None:
        if number in self.dps:
            self.iterators[number] = iter(self.dps[number])
            self.model.begin(number)

    def step(self, number: int) -> None:
        if number not in self.iterators:
            self.begin(number)
        if number not in self.iterators:
            return
        expected = self.model.step(number)
        try:
            seen = next(self.iterators[number], "end")
        except RuntimeError as error:
            seen = "replaced" if "replaced" in str(error) else repr(error)
        assert seen == expected
        if seen in ("end", "replaced"):
            del self.iterators[number], self.model.places[number]

    def close(self, number: int) -> None:
        if number in self.model.read and (iterator := self.iterators.pop(number, None)) is not None:
            iterator.close()

    def drop(self, number: int) -> None:
        if len(self.dps) > 1 and number in self.dps:
            self.iterators.pop(number, None)
            self.model.places.pop(number, None)
            del self.dps[number]

    def resume(self, number: int) -> None:
        """Go on with new branches, each from the state of its own; those that stand in a pass are read at once."""
        going_on = [each for each in self.dps if self.model.stands_in_the_middle(each)]
        if not going_on:
            return
        fresh = dict(enumerate(KINDS[self.made[1]][0](SOURCES[self.made[0]](), self.made[2])))
        states = {each: passed_on(dp) for each, dp in self.dps.items()}
        self.dps = {each: fresh[each] for each in self.dps}
        del fresh
        for each, saved in states.items():
            self.dps[each].load_state_dict(saved)
        at = number % len(going_on)
        self.iterators = {}
        self.model.joined = {*self.model.read}  # an iterator of which nothing was read is not part of a state
        self.model.places = {each: place for each, place in self.model.places.items() if each in going_on}
        for each in going_on[at:] + going_on[:at]:
            self.iterators[each] = iter(self.dps[each])
            self.step(each)


ACTIONS = st.tuples(
    st.sampled_from(["step"] * 12 + ["begin"] * 2 + ["close", "resume", "resume"] + ["drop"] * 1),
    st.integers(0, 2),
    st.integers(1, 5),
)


@pytest.mark.usefixtures("_share")
@settings(
    max_examples=250,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    source=st.sampled_from([*SOURCES]),
    kind=st.sampled_from([*KINDS]),
    n=st.integers(2, 3),
    actions=st.lists(ACTIONS, max_size=40),
)
def test_any_reading_agrees_with_the_model(source: str, kind: str, n: int, actions: list[tuple[str, int, int]]) -> None:
    reader = Reader(source, kind, n)
    for action, number, times in actions:
        for _ in range(times if action == "step" else 1):
            getattr(reader, action)(number % n)
    for number in range(n):  # to the end of what is under way
        for _ in range(N + 1):
            if number in reader.iterators:
                reader.step(number)


def zipped(first: Any, second: Any) -> Any:
    return first.zip(second)


def nested() -> Any:
    first, second = shuffled(5).fork(2)
    third, fourth = first.map(str).zip(second).fork(2)
    return third.zip(fourth.map(repr))


def three(how: str) -> Callable[[], Any]:
    def make() -> Any:
        first, second, third = shuffled(9).demux(3, lambda x: (x * x) % 3 if x != 4 else None, drop_none=True)
        return getattr(first.map(str), how)(second, third.batch(2))

    return make


class InTurn(ps.IterDataPipe[Any]):
    """Yields an item of each source in turn, and goes on with the one whose turn it is."""

    resumes_from_start = False
    _turn: int = ps.own(0)

    def __init__(self, *sources: Any) -> None:
        self.sources = sources

    def __iter__(self) -> Iterator[Any]:
        iterators = [iter(source) for source in self.sources]
        while True:
            self._turn += 1
            for item in islice(iterators[(self._turn - 1) % len(iterators)], 1):
                yield item
                break
            else:
                return


CHAINS: dict[str, Callable[[], Any]] = {
    "zip": lambda: zipped(*numbers(4).fork(2)),
    "zip of shuffled": lambda: zipped(*shuffled(6).fork(2)),
    "zip_longest of demux": lambda: ps.iter.ZipperLongest(*shuffled(7).demux(2, lambda x: int(x > 4))),
    "concat": lambda: ps.iter.Concater(*shuffled(5).fork(2)),
    "concat the other way": lambda: ps.iter.Concater(*reversed(shuffled(5).demux(2, odd))),
    "concat of one branch twice": lambda: (lambda a, b: a.concat(b, a))(*shuffled(3).fork(2)),
    "mux": three("mux"),
    "mux_longest": three("mux_longest"),
    "zip of three": three("zip_longest"),
    "round robin": lambda: ps.iter.MultiplexerLongest(*shuffled(7).round_robin_demux(3)),
    "unzip": lambda: zipped(*shuffled(5).map(lambda x: (x, -x)).unzip(2)),
    "map and prefetch": lambda: (lambda a, b: a.map(str).prefetch(3).zip(b))(*shuffled(8).fork(2)),
    "prefetch both": lambda: (lambda a, b: a.prefetch(2).zip(b.map(str).prefetch(4)))(*shuffled(8).fork(2)),
    "shuffle on a branch": lambda: (lambda a, b: a.zip(b.shuffle(buffer_size=4).set_seed(1)))(*shuffled(8).fork(2)),
    "shuffle both": lambda: (
        lambda a, b: a.shuffle(buffer_size=3).set_seed(2).zip(b.map(str).shuffle(buffer_size=4).set_seed(1))
    )(*shuffled(8).fork(2)),
    "batch on a branch": lambda: (lambda a, b: a.batch(3).zip(b))(*shuffled(8).fork(2)),
    "ended by another": lambda: (lambda a, b: a.zip(b).header(3))(*shuffled(8).fork(2)),
    "ended by another, prefetched": lambda: (lambda a, b: a.prefetch(2).zip(b).header(3))(*shuffled(8).fork(2)),
    "ended before a branch begins": lambda: (lambda a, b: a.concat(b).header(3))(*shuffled(8).fork(2)),
    "an operator that holds": lambda: (lambda a, b: a.zip(b).pipe(iter))(*shuffled(4).fork(2)),
    "a branch that is read again from its start, after the other": lambda: InTurn(
        *(lambda a, b: (a.map(str).pipe(iter), b))(*shuffled(6).fork(2))
    ),
    "cycle below": lambda: zipped(*shuffled(3).cycle(2).fork(2)),
    "cycle above": lambda: zipped(*shuffled(3).fork(2)).cycle(2),
    "shuffle above": lambda: zipped(*shuffled(6).fork(2)).shuffle(buffer_size=3).set_seed(4),
    "nested": nested,
    "torch's source": lambda: zipped(*Forker(TorchIterableWrapper(range(4)), 2)),
    "flatmap on a branch": lambda: (lambda a, b: a.flatmap(lambda x: [x] * 2).zip(b))(*shuffled(6).fork(2)),
    "one is dropped": lambda: shuffled(6).fork(2)[1].map(str),
    "one is dropped, demux": lambda: shuffled(6).demux(2, odd)[0].batch(2),
    "skipping": lambda: ps.iter.ZipperLongest(*shuffled(6).demux(2, lambda x: x % 3, on_error="skip")),
}


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_resumes_after_every_item_of_every_pass(make: Callable[[], Any]) -> None:
    assert_resumes_everywhere(make)


@pytest.mark.parametrize("make", [make for name, make in CHAINS.items() if "zip" in name or "nested" in name])
def test_chains_over_branches_hold_all_laws(make: Callable[[], Any]) -> None:
    check_operator(make)


# In a loader


def forked(how: Callable[[Any, Any], Any]) -> Any:
    first, second = numbers(30).shuffle(buffer_size=8).sharding_filter().fork(2)
    return how(first, second)


@pytest.mark.timeout(50)
@pytest.mark.parametrize(
    "how",
    [
        lambda a, b: a.zip(b.map(lambda x: -x)),
        lambda a, b: a.map(str).prefetch(2).zip(b),
        lambda a, b: a.map(str).concat(b),
    ],
    ids=["zip", "prefetch", "concat"],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_branches_in_a_loader_agree_and_go_on_from_a_state(how: Callable[[Any, Any], Any], workers: int) -> None:
    def make() -> Any:
        service = ps.MultiProcessingReadingService(num_workers=workers)
        loader: Any = ps.DataLoader2(forked(how), reading_service=service)
        loader.seed(4)
        return loader

    with make() as loader, make() as resumed:
        expected, next_epoch = list(loader), list(loader)
        assert sorted(map(repr, expected)) == sorted(map(repr, next_epoch)) == sorted(map(repr, forked(how)))
        assert expected != next_epoch
        loader.seed(4)
        iterator = iter(loader)
        begun = list(islice(iterator, 11))
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        again = json.loads(json.dumps(resumed.state_dict()))
        assert begun + list(resumed) == expected
        assert list(resumed) == next_epoch
        resumed.load_state_dict(again)
        assert list(resumed) == expected[11:]


# Columns of map-style items


def test_map_style_unzip_gives_the_columns_that_are_not_skipped() -> None:
    rows = ps.map.SequenceWrapper([(1, "a", 10), (2, "b", 20)])
    assert [list(column) for column in rows.unzip(3)] == [[1, 2], ["a", "b"], [10, 20]]
    first, last = rows.unzip(3, columns_to_skip=[1])
    assert (first[1], last[-1], len(first)) == (2, 20, 2)
    assert repr(last) == "SequenceWrapper([(1, 'a', 10), (2, 'b', 20)]).unzip(3, columns_to_skip=[1])[1]"
    assert [type(part).__name__ for part in walk(first)] == ["Column", "UnZipper", "SequenceWrapper"]
    assert list(pickle.loads(pickle.dumps(first))) == [1, 2]
    assert sorted(first.shuffle().map(str)) == ["1", "2"]


def test_map_style_unzip_names_an_item_that_is_too_short() -> None:
    column = ps.map.SequenceWrapper([(1, 2), (3,)]).unzip(2)[1]
    with pytest.raises(IndexError) as caught:
        column[1]
    assert "raised in UnZipper(2), on (3,)" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="no column is left"):
        ps.map.SequenceWrapper([(1, 2)]).unzip(2, [0, 1])


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: a.zip(b.pipe(iter)),
        lambda a, b: a.mux(b.map_batches(list, 1)),
        lambda a, b: a.zip(b.bucketbatch(2)),
        lambda a, b: a.flatmap(lambda x: [x]).mux_longest(b),
        lambda a, b: a.zip_longest(IterableWrapper(range(5))).concat(b),
    ],
    ids=["replayed", "batches", "buckets", "marked", "later"],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_branches_that_are_read_again_resume_over_any_source(make: Any, shuffled: bool) -> None:
    def chain() -> Any:
        source = IterableWrapper(range(8))
        dp = make(*(source.shuffle() if shuffled else source).fork(2))
        seed_graph(dp, 3)
        return dp

    assert_resumes_everywhere(chain, passes=1)


def test_a_branch_that_has_not_begun_keeps_its_place_through_several_states() -> None:
    def chain() -> Any:
        first, second = IterableWrapper(range(4)).shuffle().set_seed(1).round_robin_demux(2)
        return first.zip_longest(IterableWrapper(range(5))).concat(second)

    expected = list(chain())
    dp = chain()
    iterator = iter(dp)
    items = [next(iterator) for _ in range(3)]
    for _ in range(2):
        resumed = chain()
        resumed.load_state_dict(dp.state_dict())
        dp, iterator = resumed, iter(resumed)
        items.append(next(iterator))
    assert items + list(iterator) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: a.concat(b.shuffle().set_seed(2)),
        lambda a, b: a.mux_longest(b).zip(IterableWrapper(range(3))),
    ],
    ids=["one after the other", "cut short"],
)
def test_the_epoch_after_a_resumed_one_is_known_when_that_has_ended(make: Any) -> None:
    def chain() -> Any:
        return make(*IterableWrapper(range(4)).shuffle().set_seed(1).fork(2))

    dp = chain()
    first, second = list(dp), list(dp)
    assert first != second
    for taken in range(1, len(first) + 1):
        interrupted, resumed, later = chain(), chain(), chain()
        iterator = iter(interrupted)
        assert [next(iterator) for _ in range(taken)] == first[:taken]
        resumed.load_state_dict(interrupted.state_dict())
        assert list(resumed) == first[taken:]
        later.load_state_dict(resumed.state_dict())
        assert list(later) == second, f"resumed after {taken}"


TURNS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 8), st.sampled_from(["reads", "tells", "goes back"])), max_size=8
)
ALL = [(place, 24, "reads") for place in range(3)]


@pytest.mark.filterwarnings("ignore:with buffer_size=-1")
@pytest.mark.parametrize("split", ["round_robin_demux", "fork"])
@given(st.lists(TURNS, max_size=3), st.sampled_from([ALWAYS, NEVER]))
@example(  # the second goes back, and the third is in the middle between it and the first
    rounds=[
        [(1, 1, "tells"), (1, 5, "reads"), (0, 5, "reads"), (2, 5, "tells"), (2, 3, "reads"), (0, 2, "tells")],
        [(0, 1, "reads"), (1, 2, "reads"), (2, 1, "reads")],
    ],
    due=NEVER,
)
@example(  # the third has ended when the second tells; it goes back, while items wait for the first
    rounds=[
        [(0, 2, "reads"), (2, 2, "reads"), (1, 3, "tells"), (1, 24, "reads"), (2, 1, "tells")],
        [(2, 1, "reads"), (0, 1, "reads"), (2, 2, "reads"), (1, 1, "reads"), (0, 1, "tells")],
    ],
    due=NEVER,
)
@example(  # one goes back in the pass, while items wait for another
    rounds=[
        [(0, 3, "reads"), (1, 3, "reads"), (2, 3, "reads"), (0, 1, "tells")],
        [(0, 1, "reads"), (2, 1, "reads"), (1, 5, "reads"), (0, 1, "goes back"), (2, 1, "tells")],
    ],
    due=NEVER,
)
@settings(max_examples=300)
def test_branches_that_go_on_from_states_of_other_moments_miss_nothing(
    split: str, rounds: list[list[tuple[int, int, str]]], due: int
) -> None:
    """As shards of a dispatched stream do, each of which tells for itself, now and then, where it stands."""

    def branches() -> list[Any]:
        made: list[Any] = getattr(IterableWrapper(range(24)), split)(3, -1)
        return made

    with mock.patch.object(Throttle, "step", due):
        expected = [list(branch) for branch in branches()]
        told: list[tuple[int, Any]] = [(0, None)] * 3
        for turns in [*rounds, []]:
            made, iterators, generations = branches(), dict[int, Iterator[int]](), list[Any]()
            given_by_now = [0] * 3
            for place, items, act in [*turns, *ALL]:
                branch = made[place]
                if act == "goes back" and place in iterators:
                    branch.source.read_again(branch)
                    del iterators[place]
                if place not in iterators:
                    given_by_now[place], node = told[place]
                    SourceLink(branch, FIRST_PASS).begin_at(node)
                    iterators[place] = iter(branch)
                    generations.append(branch.generation)
                seen = [*islice(iterators[place], items)]
                assert seen == expected[place][given_by_now[place] : given_by_now[place] + items]
                given_by_now[place] += len(seen)
                if act == "tells":
                    told[place] = given_by_now[place], copy.deepcopy(capture(branch))


def twice(dp: Any) -> Any:
    return dp.flatmap(lambda x: [x, x])


def joined_again(source: Callable[[], Any], how: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    return lambda: how(*source().fork(2))


AGAIN: dict[str, Callable[[], Any]] = {
    "one has ended, and the other goes back in the pass": joined_again(
        lambda: shuffled(2), lambda a, b: a.zip_longest(twice(b))
    ),
    "as do those of demux": lambda: (lambda a, b: b.zip_longest(twice(a)))(*shuffled(4).demux(2, lambda x: x // 3)),
    "one has ended, and the other has begun another pass": joined_again(
        lambda: shuffled(2).cycle(2), lambda a, b: a.zip_longest(b.cycle(2))
    ),
    "the other does not come to what is shuffled": joined_again(
        lambda: numbers(2).concat(shuffled(3)), lambda a, b: a.concat(b.header(2))
    ),
    "the other comes to the first of two shuffled passes": joined_again(
        lambda: shuffled(2).cycle(2), lambda a, b: a.concat(twice(b).header(3))
    ),
    "what the forks share has been joined from branches itself": joined_again(
        joined_again(lambda: shuffled(2), lambda a, b: a.concat(twice(b))), lambda a, b: a.concat(b.batch(2))
    ),
}


@pytest.mark.parametrize("into", ["fresh chains", "the same chain", "fresh chains, in each pass"])
@pytest.mark.parametrize("make", AGAIN.values(), ids=AGAIN)
@pytest.mark.parametrize("due", [ALWAYS, NEVER])
def test_a_chain_resumes_once_more_after_it_was_resumed(
    make: Callable[[], Any], due: int, into: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Throttle, "step", due)

    def loaded(dp: Any) -> Any:
        saved = passed_on(dp)
        dp = dp if into == "the same chain" else make()
        dp.load_state_dict(saved)
        return dp

    whole = make()
    expected = [list(whole) for _ in range(3)]
    size = len(expected[0])
    for first, second in [(at, more) for at in range(size + 1) for more in range(size + 1 - at)]:
        dp, items = make(), []
        for taken in (first, second):
            iterator = iter(dp)
            items += islice(iterator, taken)
            dp = loaded(dp)
        passes = [items + list(dp)]
        for _ in expected[1:]:
            dp = loaded(dp) if into == "fresh chains, in each pass" else dp
            passes.append(list(dp))
        assert passes == expected, f"stopped after {first} items, and after {second} more"


def seeded(dp: Any) -> Any:
    seed_graph(dp, 3)
    return dp


def test_a_seed_that_is_set_after_a_resumed_pass_begins_with_its_first_order() -> None:
    def chain() -> Any:
        return (lambda a, b: a.concat(b.header(2)))(*numbers(2).concat(numbers(9).shuffle()).fork(2))

    interrupted, resumed = seeded(chain()), chain()
    expected = list(interrupted)
    iterator = iter(interrupted)
    list(islice(iterator, 12))
    resumed.load_state_dict(passed_on(interrupted))
    list(resumed)
    assert list(seeded(resumed)) == expected


def cut_short_at_the_second_branch() -> Any:
    return (lambda a, b: a.concat(b.header(2)))(*numbers(2).concat(shuffled(4)).fork(2))


def test_a_pass_that_is_begun_after_a_resumed_one_was_given_up_has_the_next_order() -> None:
    whole, interrupted, resumed = (cut_short_at_the_second_branch() for _ in range(3))
    expected = [list(whole) for _ in range(2)]
    iterator = iter(interrupted)
    list(islice(iterator, 7))
    resumed.load_state_dict(passed_on(interrupted))
    assert next(iter(resumed)) == expected[0][7]
    assert list(resumed) == expected[1]


def test_a_chain_that_went_on_from_a_later_state_goes_on_from_an_earlier_one() -> None:
    whole, dp = cut_short_at_the_second_branch(), cut_short_at_the_second_branch()
    expected, states = [], []
    for _ in range(3):
        iterator = iter(whole)
        begun = list(islice(iterator, 7))
        states.append(passed_on(whole))
        expected.append(begun + list(iterator))
    for number in (1, 0):
        dp.load_state_dict(states[number])
        assert [*dp] == expected[number][7:]
        assert [*dp] == expected[number + 1]


def test_one_branch_goes_on_in_its_order_after_another_that_was_resumed_came_to_its_end() -> None:
    def branches() -> tuple[Any, Any]:
        first, second = shuffled(6).cycle(2).fork(2, buffer_size=20)
        return first.header(8), second

    expected = list(branches()[1])
    first, second = branches()
    states = []
    for dp, taken in ((first, 8), (second, 1)):
        iterator = iter(dp)
        assert list(islice(iterator, taken)) == expected[:taken]
        states.append((passed_on(dp), iterator))
    first, second = branches()
    second.load_state_dict(states[1][0])
    first.load_state_dict(states[0][0])
    rest = iter(second)
    assert next(rest) == expected[1]
    assert list(first) == []
    assert list(rest) == expected[2:]


@pytest.mark.parametrize("load_into", ["the same chain", "a fresh chain"])
def test_an_iterator_that_was_not_read_after_a_resumed_pass_changes_no_later_pass(load_into: str) -> None:
    def chain() -> Any:
        one, other = IterableWrapper([1]).fork(2)
        source = one.mux_longest(other).concat(IterableWrapper(range(3)).shuffle().set_seed(1))
        first, second = source.demux(2, lambda x: x % 2)
        return first.mux_longest(second)

    whole = chain()
    passes = [list(whole) for _ in range(3)]
    begun = chain()
    iterator = iter(begun)
    assert list(islice(iterator, len(passes[0]))) == passes[0]
    resumed = chain()
    resumed.load_state_dict(passed_on(begun))  # all items were handed out, but not the end
    assert list(resumed) == []
    unread = iter(resumed)
    state = passed_on(resumed)
    del unread  # it was alive until here
    if load_into == "a fresh chain":
        resumed = chain()
    resumed.load_state_dict(state)
    assert [list(resumed), list(resumed)] == passes[1:]
