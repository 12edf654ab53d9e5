from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import (
    Concater,
    IterableWrapper,
    Multiplexer,
    MultiplexerLongest,
    Zipper,
)
from resuming import assert_resumes_everywhere, passed_on


def numbers(n: int, start: int = 0) -> ps.IterDataPipe[int]:
    return IterableWrapper(range(start, start + n))


def shuffled(n: int, start: int = 0) -> Any:
    return numbers(n, start).shuffle(buffer_size=3).set_seed(5)


def one_pipe_three_times() -> ps.IterDataPipe[int]:
    dp = shuffled(3)
    return dp.concat(numbers(2, 90), dp, dp)


class AgainItself(ps.IterDataPipe[Any]):
    """The items through a step, and then the items themselves."""

    resumes_from_start = False
    which: int = ps.own(0)

    def __init__(self, source: Any) -> None:
        self.source = source
        self.mapped = source.map(str)

    def __iter__(self) -> Iterator[Any]:
        while self.which < 2:
            source = (self.mapped, self.source)[self.which]
            yield from source
            self._source_ended(source)
            self.which += 1


CHAINS: dict[str, Callable[[], ps.IterDataPipe[Any]]] = {
    "concat of one pipe three times": one_pipe_three_times,
    "itself, through a step, then itself": lambda: (lambda dp: dp.concat(dp.map(str), dp))(shuffled(3)),
    "through a step, then itself, twice": lambda: (lambda dp: dp.map(str).concat(dp).cycle(2))(shuffled(3)),
    "through two ways, then itself": lambda: (lambda dp: dp.map(str).batch(2).concat(dp.filter(bool), dp))(shuffled(3)),
    "through an operator that reads it again": lambda: AgainItself(shuffled(4)),
    "through two steps": lambda: (lambda dp: dp.map(str).concat(dp.map(float)))(shuffled(3)),
}


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_combined_sources_resume_after_every_item(make: Callable[[], ps.IterDataPipe[Any]]) -> None:
    assert_resumes_everywhere(make)


def test_a_state_says_nothing_of_sources_left_from_the_pass_before() -> None:
    dp = numbers(3).concat(numbers(2, 10))
    abandoned = iter(dp)
    assert [next(abandoned) for _ in range(4)] == [0, 1, 2, 10]
    iterator = iter(dp)
    assert next(iterator) == 0
    resumed = numbers(3).concat(numbers(2, 10))
    resumed.load_state_dict(passed_on(dp))
    assert list(resumed) == [1, 2, 10, 11]


def test_a_source_that_a_resumed_concat_does_not_read_again_is_whole_on_its_own() -> None:
    dp = numbers(2).concat(numbers(2, 10))
    iterator = iter(dp)
    assert [next(iterator) for _ in range(3)] == [0, 1, 10]
    first = numbers(2)
    resumed = first.concat(numbers(2, 10))
    resumed.load_state_dict(passed_on(dp))
    assert list(resumed) == [11]
    assert list(first) == [0, 1]


def test_zip_stops_at_the_shortest() -> None:
    assert list(numbers(3).zip(IterableWrapper("ab"), numbers(9))) == [(0, "a", 0), (1, "b", 1)]
    assert list(Zipper(numbers(2))) == [(0,), (1,)]


def test_zip_longest_fills_the_places_of_what_is_exhausted() -> None:
    assert list(numbers(1).zip_longest(IterableWrapper("ab"))) == [(0, "a"), (None, "b")]
    assert list(numbers(2).zip_longest(numbers(0), fill_value=7)) == [(0, 7), (1, 7)]


@pytest.mark.parametrize(
    ("lengths", "shortest", "longest"),
    [
        ([2, 2], [0, 10, 1, 11], [0, 10, 1, 11]),
        ([3, 1, 2], [0, 10, 20], [0, 10, 20, 1, 21, 2]),
        ([1, 3, 2], [0, 10, 20], [0, 10, 20, 11, 21, 12]),
        ([0, 2, 1], [], [10, 20, 11]),
        ([2], [0, 1], [0, 1]),
    ],
)
def test_mux_gives_whole_rounds_and_mux_longest_all(
    lengths: list[int], shortest: list[int], longest: list[int]
) -> None:
    sources = [numbers(length, 10 * place) for place, length in enumerate(lengths)]
    assert list(Multiplexer(*sources)) == shortest
    assert len(Multiplexer(*sources)) == len(shortest)
    assert list(MultiplexerLongest(*sources)) == longest
    assert len(MultiplexerLongest(*sources)) == len(longest)


def test_mux_longest_reads_no_further_than_it_is_asked() -> None:
    pulled: list[int] = []
    iterator = iter(numbers(5).map(lambda x: pulled.append(x) or x).mux_longest(numbers(5)))
    assert [next(iterator) for _ in range(3)] == [0, 0, 1]
    assert pulled == [0, 1]


def test_mux_longest_of_endless_sources_takes_turns_for_ever() -> None:
    dp = numbers(2).cycle().mux_longest(numbers(1, 10), numbers(1, 20).cycle())
    assert list(islice(dp, 9)) == [0, 10, 20, 1, 20, 0, 20, 1, 20]


def test_zip_of_a_pipe_with_itself_says_to_fork_it() -> None:
    dp = numbers(3)
    with pytest.raises(RuntimeError, match=r"replaced by a newer one.*fork it or build the chain twice"):
        list(dp.zip(dp))


def test_torchs_own_pipes_combine_with_ours_both_ways() -> None:
    assert list(TorchIterableWrapper("ab").zip(numbers(2))) == [("a", 0), ("b", 1)]
    assert list(Concater(TorchIterableWrapper("ab"), numbers(2))) == ["a", "b", 0, 1]


def test_concat_reads_the_same_pipe_again_each_time_it_stands() -> None:
    dp = numbers(2)
    assert list(dp.concat(dp, dp)) == [0, 1] * 3


def test_set_length_says_a_length_and_leaves_the_stream_as_it_is() -> None:
    dp = numbers(4).filter(str).set_length(2)
    assert len(dp) == 2
    assert list(dp) == [0, 1, 2, 3]
    assert [len(numbers(3).zip(numbers(2))), len(numbers(3).zip_longest(numbers(2)))] == [2, 3]
