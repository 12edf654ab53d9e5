"""Operators that give several pipes: what each yields, how far apart they may be read, what becomes of dropped ones."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import Demultiplexer, Forker, IterableWrapper, RoundRobinDemultiplexer, UnZipper
from penstock.registry import Throttle, seed_graph
from penstock.state import replay as reading
from penstock.state.seeds import FIRST_PASS
from penstock.state.sources import SourceLink, capture
from resuming import ALWAYS, NEVER, assert_resumes_everywhere, passed_on, snapshots


def numbers(n: int) -> Any:
    return IterableWrapper(range(n))


def shuffled(n: int, seed: int = 5) -> Any:
    return numbers(n).shuffle(buffer_size=3).set_seed(seed)


def odd(x: int) -> int:
    return x % 2


class Recording(ps.IterDataPipe[int]):
    """Counts up, and knows how many passes were begun and how many are open."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.passes = self.open = 0

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        self.open += 1
        try:
            yield from range(self.n)
        finally:
            self.open -= 1


class Item:
    """Something that a weak reference can point to."""


# What comes out


def test_forks_in_any_order_read_their_source_once() -> None:
    source = Recording(5)
    first, second, third = source.fork(3)
    assert list(third) == list(first) == list(second) == [0, 1, 2, 3, 4]
    assert (source.passes, source.open) == (1, 0)


@pytest.mark.parametrize("wrapper", [IterableWrapper, ps.map.SequenceWrapper])
def test_unzip_gives_the_columns_that_are_not_skipped(wrapper: Any) -> None:
    rows = wrapper([(1, "a", 10), (2, "b", 20)])
    assert [list(column) for column in rows.unzip(3)] == [[1, 2], ["a", "b"], [10, 20]]
    columns = rows.unzip(3, columns_to_skip=[1])
    assert [list(column) for column in columns] == [[1, 2], [10, 20]]
    assert len(columns[0]) == 2


def test_round_robin_deals_in_turn() -> None:
    branches = numbers(7).round_robin_demux(3)
    assert [list(branch) for branch in branches] == [[0, 3, 6], [1, 4], [2, 5]]
    assert [len(branch) for branch in branches] == [3, 2, 2]


@pytest.mark.parametrize(
    ("copies", "same", "same_inside"), [(None, True, True), ("shallow", False, True), ("deep", False, False)]
)
def test_forks_yield_copies_when_asked_to(copies: Any, same: bool, same_inside: bool) -> None:
    first, second = IterableWrapper([[[1]]], deepcopy=False).fork(2, copy=copies)
    ((one,), (other,)) = list(first), list(second)
    assert one == other
    assert (one is other, one[0] is other[0]) == (same, same_inside)


def test_the_length_of_a_branch_is_known_where_it_does_not_depend_on_items() -> None:
    assert [len(branch) for branch in numbers(5).fork(2)] == [5, 5]
    for unknown in (numbers(5).demux(2, odd), numbers(5).filter(bool).fork(2)):
        with pytest.raises(TypeError, match="length"):
            len(unknown[0])


# Wrong arguments and items


def test_an_unlimited_buffer_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="until memory runs out") as seen:
        branches = numbers(5000).fork(2, buffer_size=-1)
    assert seen[0].filename == __file__
    assert [len(list(branch)) for branch in branches] == [5000, 5000]


@pytest.mark.parametrize("number", [2, -1, None])
def test_demux_names_a_number_that_no_pipe_has(number: Any) -> None:
    for branch in numbers(5).demux(2, lambda x: number if x == 3 else 0):
        with pytest.raises(ValueError, match=f"classifier_fn returned {number!r}, and there are pipes 0 … 1") as caught:
            list(branch)
        assert re.search(r"Demultiplexer.* on 3", caught.value.__notes__[0])


@pytest.mark.parametrize("share", [float("inf"), 1e-15])
def test_demux_counts_a_skipped_item_once_though_it_is_read_again(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", share)

    def make() -> Any:  # for 2, 5 and 8 there is no pipe, and for 11 no number
        return ps.iter.ZipperLongest(*numbers(12).demux(2, lambda x: x % 3 if x < 11 else 1 // 0, on_error="skip"))

    expected = list(make())
    assert expected == [(0, 1), (3, 4), (6, 7), (9, 10)]
    for taken in range(5):
        dp, resumed = make(), make()
        iterator = iter(dp)
        list(islice(iterator, taken))
        resumed.load_state_dict(passed_on(dp))
        assert list(resumed) == expected[taken:]
        assert resumed.stats()["demux"]["skipped"] == 4


def test_unzip_names_an_item_that_is_too_short() -> None:
    columns = IterableWrapper([(1, 2), (3,)]).unzip(2)
    of_map = ps.map.SequenceWrapper([(1, 2), (3,)]).unzip(2)
    assert list(columns[0]) == [1, 3]
    for column in (columns[1], of_map[1]):
        with pytest.raises(IndexError) as caught:
            list(column)
        assert re.search(r"UnZipper.*\(3,\)", caught.value.__notes__[0])


def test_an_error_of_the_source_reaches_every_branch() -> None:
    first, second = numbers(5).map(lambda x: 1 // (3 - x)).fork(2)
    for branch in (first, second):
        iterator = iter(branch)
        assert list(islice(iterator, 3)) == [0, 0, 1]
        with pytest.raises(ZeroDivisionError):
            next(iterator)
    assert list(islice(first, 1)) == [0]  # a new pass begins anew


# Passes that belong together


def test_a_second_pass_over_one_branch_begins_anew_for_all() -> None:
    first, second = numbers(6).fork(2)
    one, other = iter(first), iter(second)
    next(one), next(other)
    again = iter(first)
    with pytest.raises(RuntimeError, match="replaced by a newer one"):
        next(one)
    with pytest.raises(RuntimeError, match="branch 1 of .* was replaced: a pass over another branch began anew"):
        next(other)
    assert list(second) == [0, 1, 2, 3, 4, 5]  # which joins the pass of `again`, and leaves it alone
    assert next(again) == 0


def test_an_epoch_given_up_after_one_branch_was_read_does_not_reach_into_the_next() -> None:
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


def test_a_fork_too_far_ahead_raises_an_error_that_names_the_slow_one() -> None:
    first, second, third = numbers(10).fork(3, buffer_size=4)
    slow, iterator = iter(third), iter(second)
    next(slow)
    assert list(islice(iterator, 4)) == [0, 1, 2, 3]
    with pytest.raises(BufferError) as caught:
        next(iterator)
    assert "branch 0 of fork has not read 5 items that wait for it, while branch 1 reads" in str(caught.value)
    assert "buffer_size is 4" in str(caught.value)
    del first, iterator
    assert list(slow) == list(range(1, 10))


def test_demux_counts_what_waits_for_all_branches_together() -> None:
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


def test_items_wait_for_an_unread_branch_until_it_is_dropped() -> None:
    references: list[Any] = []
    first, second = counting(references, 100).fork(2)
    iterator = iter(first)
    for _ in range(50):
        next(iterator)
    assert held(references) >= 50
    del second
    assert held(references) <= 2
    assert len(list(iterator)) == 50


def test_the_last_branch_closes_the_source_and_frees_the_chain_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        source = Recording(10)
        first, second = source.fork(2)
        one, other = iter(first), iter(second)
        next(one), next(other)
        splitter = weakref.ref(first.source)
        del first, second, one
        assert source.open == 1
        del other
        assert source.open == 0
        assert splitter() is None
    finally:
        gc.enable()


def test_a_branch_copied_alone_does_not_wait_for_the_one_that_was_left_behind() -> None:
    first, _ = numbers(100).fork(2, buffer_size=3)
    assert list(pickle.loads(pickle.dumps(first))) == list(range(100))


# Threads


@pytest.mark.parametrize("kind", ["fork", "demux"])
def test_prefetched_branches_have_no_race(kind: str) -> None:
    for _ in range(12):
        first, second = numbers(400).fork(2) if kind == "fork" else numbers(400).demux(2, odd)
        expected = [(x, x) for x in range(400)] if kind == "fork" else [(x, x + 1) for x in range(0, 400, 2)]
        dp = first.prefetch(7).zip(second.prefetch(7))
        iterator = iter(dp)
        assert list(islice(iterator, 5)) == expected[:5]
        assert list(dp) == expected  # though the one before was given up in its middle


def test_a_source_that_reads_its_own_branch_is_an_error_and_no_deadlock() -> None:
    branches: list[Any] = []
    first, second = numbers(5).map(lambda x: next(branches[0])).fork(2)
    branches.append(iter(second))
    with pytest.raises((RuntimeError, ValueError)):
        list(first)


# Going on from a state


def load(dp: Any, from_: Any) -> Any:
    dp.load_state_dict(passed_on(from_))
    return dp


def test_a_sibling_that_was_read_does_not_fill_the_buffer_after_resuming() -> None:
    def make() -> Any:
        return numbers(100).fork(2, buffer_size=100)

    first, second = make()
    list(second)
    iterator = iter(first)
    next(iterator)
    resumed, _sibling = numbers(100).fork(2, buffer_size=3)
    resumed.load_state_dict(passed_on(first), strict=False)  # in a smaller buffer
    assert list(resumed) == list(iterator)


@pytest.mark.parametrize("dropped", [False, True])
def test_an_unread_sibling_reads_a_resumed_pass_from_its_start(dropped: bool) -> None:
    first, unread = shuffled(9).fork(2)
    if dropped:
        del unread
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


SHARES = pytest.mark.parametrize("share", [0.02, float("inf"), 1e-15], ids=["usual", "every time", "seldom"])


@SHARES
def test_snapshots_do_not_pile_up_while_a_branch_gets_nothing(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SNAPSHOT_SHARE", share)
    # Each look at the clock is a second after the last: how much is left out depends on what that takes.
    monkeypatch.setattr(reading, "time", SimpleNamespace(perf_counter=partial(next, count(0.0, 1.0))))
    first, second = numbers(3000).demux(2, lambda _: 0)
    iterator = iter(first)
    for _ in range(2000):
        next(iterator)
    (trail,) = (link.log for link in second.source._pass._links.values())
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


@SHARES
@settings(max_examples=140, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    source=st.sampled_from([*SOURCES]),
    kind=st.sampled_from([*KINDS]),
    n=st.integers(2, 3),
    actions=st.lists(ACTIONS, max_size=40),
)
def test_any_reading_agrees_with_the_model(
    share: float, source: str, kind: str, n: int, actions: list[tuple[str, int, int]]
) -> None:
    with snapshots(share):
        reader = Reader(source, kind, n)
        for action, number, times in actions:
            for _ in range(times if action == "step" else 1):
                getattr(reader, action)(number % n)
        for number in range(n):  # to the end of what is under way
            for _ in range(N + 1):
                if number in reader.iterators:
                    reader.step(number)


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
    "concat of one branch twice": lambda: (lambda a, b: a.concat(b, a))(*shuffled(3).fork(2)),
    "a branch that is read again from its start, after the other": lambda: InTurn(
        *(lambda a, b: (a.map(str).pipe(iter), b))(*shuffled(6).fork(2))
    ),
    "one is dropped": lambda: shuffled(6).demux(2, odd)[0].batch(2),
}


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_joined_branches_resume_after_every_item(make: Callable[[], Any]) -> None:
    assert_resumes_everywhere(make)


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
@settings(max_examples=150)
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
    "a branch has not begun": lambda: (lambda a, b: a.zip_longest(numbers(5)).concat(b))(
        *shuffled(4).round_robin_demux(2)
    ),
    "one after the other": joined_again(lambda: shuffled(4), lambda a, b: a.concat(b.shuffle().set_seed(2))),
    "cut short": joined_again(lambda: shuffled(4), lambda a, b: a.mux_longest(b).zip(numbers(3))),
    "what the forks share has been joined from branches itself": joined_again(
        joined_again(lambda: shuffled(2), lambda a, b: a.concat(twice(b))), lambda a, b: a.concat(b.batch(2))
    ),
}


@pytest.mark.parametrize("into", ["the same chain", "fresh chains"])
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
            dp = loaded(dp) if into == "fresh chains" else dp
            passes.append(list(dp))
        assert passes == expected, f"stopped after {first} items, and after {second} more"


def cut_short_at_the_second_branch() -> Any:
    return (lambda a, b: a.concat(b.header(2)))(*numbers(2).concat(shuffled(4)).fork(2))


def test_the_pass_after_a_resumed_one_that_was_given_up_has_the_next_order() -> None:
    whole, interrupted, resumed = (cut_short_at_the_second_branch() for _ in range(3))
    expected = [list(whole) for _ in range(2)]
    iterator = iter(interrupted)
    list(islice(iterator, 7))
    resumed.load_state_dict(passed_on(interrupted))
    assert next(iter(resumed)) == expected[0][7]
    assert list(resumed) == expected[1]


def test_a_chain_goes_on_from_an_earlier_state_after_a_later_one() -> None:
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
