from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from penstock.registry import Throttle
from resuming import ALWAYS, assert_resumes_everywhere, passed_on


def numbers(n: int, start: int = 0) -> ps.IterDataPipe[int]:
    return IterableWrapper(range(start, start + n))


def shuffled(n: int, start: int = 0) -> Any:
    return numbers(n, start).shuffle(buffer_size=3).set_seed(5)


def same_pipe_twice() -> Any:
    dp = shuffled(3)
    return dp.concat(numbers(2, 90), dp)


FINITE: dict[str, Callable[[], Any]] = {
    "cycle": lambda: shuffled(4).cycle(3),
    "cycle of none": lambda: shuffled(4).cycle(0),
    "cycle of nothing": lambda: numbers(0).cycle(3),
    "cycle of one-to-many": lambda: numbers(3).flatmap(lambda n: [n] * n).cycle(2),
    "cycle of concat": lambda: same_pipe_twice().cycle(2),
    "cycle of concat with empty ones": lambda: numbers(0).concat(shuffled(2), numbers(0)).cycle(2),
    "cycle of zip": lambda: numbers(2).zip(shuffled(3)).cycle(3),
    "cycle of cycle": lambda: shuffled(2).cycle(2).map(str).cycle(2),
    "cycle of torch's": lambda: TorchIterableWrapper("ab").cycle(2),
    "concat of one cycle twice": lambda: (lambda dp: dp.concat(dp))(shuffled(2).cycle(2)),
    "cycle, then shuffle": lambda: shuffled(3).cycle(3).shuffle(buffer_size=4).set_seed(1),
    "cycle of enumerate": lambda: shuffled(3).enumerate().cycle(2).enumerate(),
    "repeat": lambda: shuffled(3).repeat(3),
    "repeat once": lambda: shuffled(3).repeat(1),
    "repeat of repeat": lambda: shuffled(2).repeat(2).repeat(3),
    "repeat of torch's": lambda: TorchIterableWrapper("ab").repeat(2),
    "cycle of repeat of concat": lambda: same_pipe_twice().repeat(2).cycle(2),
}


@pytest.mark.parametrize("make", FINITE.values(), ids=FINITE)
def test_resumes_after_every_item_of_every_pass(make: Callable[[], Any]) -> None:
    assert_resumes_everywhere(make)


ENDLESS: dict[str, Callable[[], Any]] = {
    "cycle": lambda: shuffled(4).cycle(),
    "cycle of concat": lambda: same_pipe_twice().cycle(),
    "cycle of cycle": lambda: shuffled(2).cycle(2).concat(numbers(1, 9)).cycle(),
    "concat whose last is a cycle": lambda: numbers(2, 7).concat(same_pipe_twice().cycle()),
    "zip with a cycle": lambda: numbers(3).cycle().zip(shuffled(4).cycle()),
    "batches of a shuffled cycle": lambda: numbers(5).cycle().shuffle(buffer_size=3).set_seed(2).batch(2),
}


@pytest.mark.parametrize("make", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_cycle_resumes_after_every_item(make: Callable[[], Any]) -> None:
    expected = list(islice(make(), 30))
    for handed_out in range(26):
        interrupted = make()
        iterator = iter(interrupted)
        for _ in range(handed_out):
            next(iterator)
        resumed = make()
        resumed.load_state_dict(passed_on(interrupted))
        assert list(islice(resumed, 30 - handed_out)) == expected[handed_out:], handed_out


def test_a_resumed_chain_can_be_stopped_and_resumed_again() -> None:
    def make() -> Any:
        return same_pipe_twice().repeat(2).cycle().enumerate()

    expected = list(islice(make(), 60))
    seen: list[Any] = []
    state = passed_on(make())
    while len(seen) < 60:
        dp = make()
        dp.load_state_dict(state)
        seen += islice(dp, 3)
        state = passed_on(dp)
    assert seen == expected


@pytest.mark.timeout(10)
@pytest.mark.parametrize("count", [None, 3, 10**12])
def test_a_cycle_of_an_empty_source_is_empty(count: int | None) -> None:
    assert list(numbers(0).cycle(count)) == []
    assert list(numbers(5).filter(lambda x: x > 9).cycle(count)) == []


@pytest.mark.timeout(10)
def test_a_cycle_ends_at_a_pass_that_gives_nothing() -> None:
    seen: set[int] = set()
    once = numbers(3).filter(lambda x: x not in seen and seen.add(x) is None)
    assert list(once.cycle()) == [0, 1, 2]


def test_each_time_round_is_a_pass_of_its_own() -> None:
    rounds = list(shuffled(6).cycle(4).batch(6))
    assert [sorted(items) for items in rounds] == [[0, 1, 2, 3, 4, 5]] * 4
    assert len({tuple(items) for items in rounds}) == 4
    assert rounds[0] == list(shuffled(6))
    again = shuffled(6).cycle(4).batch(6)
    assert list(again) == rounds
    assert not {*map(tuple, again)} & {*map(tuple, rounds)}, "the next epoch has other orders"


def test_repeat_gives_the_same_object_several_times() -> None:
    first, second, third, fourth = IterableWrapper([[1], [2]]).repeat(2)
    assert first is second
    assert third is fourth
    assert [first, third] == [[1], [2]]


def test_a_resumed_repeat_does_not_read_again_what_it_is_done_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Throttle, "step", ALWAYS)
    read: list[int] = []

    def make() -> Any:
        return numbers(4).map(lambda x: read.append(x) or x).repeat(2)

    dp = make()
    dp.take(3)
    resumed = make()
    resumed.load_state_dict(passed_on(dp))
    read.clear()
    assert list(resumed) == [1, 2, 2, 3, 3]
    assert read == [1, 2, 3]


def test_lengths() -> None:
    assert len(numbers(3).cycle(2)) == 6
    assert len(numbers(3).cycle(0)) == 0
    assert len(numbers(3).repeat(2)) == 6


@pytest.mark.parametrize(
    "dp",
    [numbers(3).cycle(), numbers(3).filter(bool).cycle(2), numbers(3).filter(bool).repeat(2)],
    ids=["endless cycle", "cycle", "repeat"],
)
def test_the_length_is_a_type_error_where_there_is_none(dp: Any) -> None:
    with pytest.raises(TypeError):
        len(dp)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: numbers(1).cycle(-1), ValueError, "count must be at least 0, and is -1"),
        (lambda: numbers(1).cycle(1.5), TypeError, "must be a whole number, and is 1.5"),
        (lambda: numbers(1).repeat(0), ValueError, "times must be at least 1, and is 0"),
        (lambda: numbers(1).repeat("2"), TypeError, "must be a whole number"),
    ],
)
def test_wrong_arguments_are_errors_at_construction(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_cycle_has_the_method_count_and_shows_its_count() -> None:
    dp = numbers(3).cycle(2)
    assert dp.count() == 6
    assert repr(dp) == "IterableWrapper(range(0, 3)).cycle(2)"
    assert repr(numbers(3).cycle()) == "IterableWrapper(range(0, 3)).cycle()"
    assert repr(numbers(3).repeat(times=2)) == "IterableWrapper(range(0, 3)).repeat(2)"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda dp: pickle.loads(pickle.dumps(dp))])
@pytest.mark.parametrize("items_before", range(8))
def test_a_copy_made_at_any_point_begins_anew_and_leaves_the_original_as_it_was(
    copied: Callable[[Any], Any], items_before: int
) -> None:
    dp = numbers(2).repeat(2).cycle(2)
    expected = list(dp)
    iterator = iter(dp)
    handed_out = [next(iterator) for _ in range(items_before)]
    assert list(copied(dp)) == expected
    assert handed_out + list(iterator) == expected


@pytest.mark.parametrize("make", [lambda dp: dp.cycle(), lambda dp: dp.repeat(2)], ids=["cycle", "repeat"])
def test_an_abandoned_iterator_closes_its_source(make: Callable[[Any], Any]) -> None:
    closed: list[bool] = []

    class Source(ps.IterDataPipe[int]):
        def __iter__(self) -> Any:
            try:
                yield from range(3)
            finally:
                closed.append(True)

    iterator = iter(make(Source()))
    next(iterator)
    assert not closed
    iterator.close()
    assert closed
