from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from resuming import assert_resumes_everywhere


def numbers(n: int) -> ps.IterDataPipe[int]:
    return IterableWrapper(range(n))


def shuffled(n: int) -> Any:
    return numbers(n).shuffle(buffer_size=3).set_seed(5)


CHAINS: dict[str, Callable[[], Any]] = {
    "concat of one cycle twice": lambda: (lambda dp: dp.concat(dp))(shuffled(2).cycle(2)),
    "cycle of repeat of concat": lambda: (lambda dp: dp.concat(numbers(1), dp))(shuffled(2)).repeat(2).cycle(2),
}


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_cycles_resume_after_every_item(make: Callable[[], Any]) -> None:
    assert_resumes_everywhere(make)


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


def test_an_endless_cycle_has_no_length() -> None:
    with pytest.raises(TypeError, match="a cycle without a count has no length"):
        len(numbers(3).cycle())
