from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import cloudpickle
import pytest
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import (
    Concater,
    Enumerator,
    IterableWrapper,
    LengthSetter,
    Multiplexer,
    MultiplexerLongest,
    Zipper,
    ZipperLongest,
)
from resuming import assert_resumes_everywhere, passed_on


def numbers(n: int, start: int = 0) -> ps.IterDataPipe[int]:
    return IterableWrapper(range(start, start + n))


def shuffled(n: int, start: int = 0, seed: int = 5) -> Any:
    return numbers(n, start).shuffle(buffer_size=3).set_seed(seed)


class Closing(ps.IterDataPipe[int]):
    """Counts up, and remembers whether its iterator was closed."""

    closed = False

    def __iter__(self) -> Any:
        self.closed = False
        try:
            yield from range(5)
        finally:
            self.closed = True


def one_pipe_three_times() -> ps.IterDataPipe[int]:
    dp = shuffled(4)
    return dp.concat(numbers(2, 90), dp, dp)


def one_source_below_two_branches() -> ps.IterDataPipe[int]:
    dp = shuffled(4)
    return dp.map(lambda x: x + 10).concat(dp.map(lambda x: x + 20))


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


def twice(how: Callable[[Any], Any]) -> Any:
    return how(shuffled(4))


CHAINS: dict[str, Callable[[], ps.IterDataPipe[Any]]] = {
    "zip": lambda: numbers(4).zip(shuffled(4), IterableWrapper("abcd")),
    "zip, first the shortest": lambda: numbers(3).zip(shuffled(5)),
    "zip, last the shortest": lambda: shuffled(5).zip(numbers(3)),
    "zip of a one-to-many": lambda: numbers(3).flatmap(lambda n: [n] * n).zip(shuffled(6)),
    "zip of torch's": lambda: numbers(3).zip(TorchIterableWrapper("abc")),
    "concat": lambda: numbers(3).concat(shuffled(3), IterableWrapper("ab")),
    "concat with empty ones": lambda: numbers(0).concat(numbers(2), numbers(0), shuffled(2), numbers(0)),
    "concat of one pipe three times": one_pipe_three_times,
    "through a step, then itself": lambda: twice(lambda dp: dp.map(str).concat(dp)),
    "itself, through a step, then itself": lambda: twice(lambda dp: dp.concat(dp.map(str), dp)),
    "through a step, then itself, twice": lambda: twice(lambda dp: dp.map(str).concat(dp).cycle(2)),
    "through two ways, then itself": lambda: twice(lambda dp: dp.map(str).batch(2).concat(dp.filter(bool), dp)),
    "through an operator that reads it again": lambda: twice(AgainItself),
    "concat of branches": one_source_below_two_branches,
    "concat of torch's": lambda: numbers(2).concat(TorchIterableWrapper("ab")),
    "concat of concats": lambda: numbers(2).concat(shuffled(2).concat(numbers(2)), one_pipe_three_times()),
    "concat of zips": lambda: numbers(2).zip(shuffled(3)).concat(shuffled(2).zip(numbers(4))),
    "concat, then shuffle": lambda: one_pipe_three_times().shuffle(buffer_size=4).set_seed(1),
    "zip_longest": lambda: numbers(2).zip_longest(shuffled(4), numbers(0), fill_value=-1),
    "zip_longest of torch's": lambda: numbers(1).zip_longest(TorchIterableWrapper("abc")),
    "mux": lambda: numbers(3).mux(shuffled(5, 10), numbers(4, 20)),
    "mux, last the shortest": lambda: shuffled(5).mux(numbers(2, 10)),
    "mux of a one-to-many": lambda: numbers(4).flatmap(lambda n: [n] * n).mux(shuffled(4)),
    "mux of torch's": lambda: numbers(3).mux(TorchIterableWrapper("abcd")),
    "mux of the branches of a fork": lambda: Multiplexer(*shuffled(5).fork(2)),
    "mux_longest of the branches of a fork": lambda: MultiplexerLongest(*shuffled(5).fork(2), numbers(2)),
    "mux_longest": lambda: numbers(2).mux_longest(shuffled(5, 10), numbers(0), numbers(3, 20)),
    "mux_longest, last the longest": lambda: numbers(1).mux_longest(numbers(1, 10), shuffled(4, 20)),
    "mux_longest of torch's": lambda: numbers(1).mux_longest(TorchIterableWrapper("abc")),
    "mux_longest of mux": lambda: numbers(2).mux(shuffled(3)).mux_longest(shuffled(2)).shuffle().set_seed(1),
    "enumerate": lambda: shuffled(4).enumerate(10),
    "enumerate of torch's": lambda: TorchIterableWrapper("abc").enumerate(),
    "enumerate of enumerate": lambda: one_pipe_three_times().enumerate().enumerate(-2),
    "set_length": lambda: shuffled(4).set_length(9),
}


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_resumes_after_every_item_of_every_pass(make: Callable[[], ps.IterDataPipe[Any]]) -> None:
    assert_resumes_everywhere(make)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda dp: cloudpickle.loads(cloudpickle.dumps(dp))])
@pytest.mark.parametrize("items_before", range(6))
def test_a_copy_made_at_any_point_begins_anew_and_leaves_the_original_as_it_was(
    copied: Callable[[Any], Any], items_before: int
) -> None:
    dp = numbers(2).zip(numbers(3)).concat(numbers(3).map(lambda x: -x)).enumerate().set_length(5)
    expected = list(dp)
    iterator = iter(dp)
    handed_out = [next(iterator) for _ in range(items_before)]
    assert list(copied(dp)) == expected
    assert handed_out + list(iterator) == expected


def test_a_chain_without_lambdas_pickles() -> None:
    dp = numbers(3).zip(numbers(3)).concat(numbers(2)).enumerate().set_length(5)
    iterator = iter(dp)
    next(iterator)
    assert list(pickle.loads(pickle.dumps(dp))) == [(0, (0, 0)), *iterator]


def test_the_state_of_a_pass_says_nothing_of_sources_left_from_the_pass_before() -> None:
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
        ([3, 2], [0, 10, 1, 11], [0, 10, 1, 11, 2]),
        ([0, 2, 1], [], [10, 20, 11]),
        ([2], [0, 1], [0, 1]),
        ([0, 0], [], []),
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


@pytest.mark.parametrize("cls", [Zipper, ZipperLongest, Concater, Multiplexer, MultiplexerLongest])
def test_without_sources_is_a_value_error(cls: Any) -> None:
    with pytest.raises(ValueError, match=f"{cls.__name__} needs at least one source"):
        cls()


@pytest.mark.parametrize("method", ["zip", "zip_longest", "concat", "mux", "mux_longest"])
@pytest.mark.parametrize(
    ("wrong", "named"),
    [(iter([1, 2]), "list_iterator"), (ps.map.SequenceWrapper("ab"), "SequenceWrapper")],
    ids=["iterator", "map-style"],
)
def test_a_source_that_is_no_iterable_pipe_is_named_by_its_position(method: str, wrong: Any, named: str) -> None:
    with pytest.raises(TypeError, match=rf"reads IterDataPipes, and sources\[2\] is of type {named}"):
        getattr(numbers(2), method)(numbers(2), wrong)


def test_torchs_own_pipes_combine_with_ours_both_ways() -> None:
    assert list(TorchIterableWrapper("ab").zip(numbers(2))) == [("a", 0), ("b", 1)]
    assert list(Concater(TorchIterableWrapper("ab"), numbers(2))) == ["a", "b", 0, 1]


def test_concat_reads_the_same_pipe_again_each_time_it_stands() -> None:
    dp = numbers(2)
    assert list(dp.concat(dp, dp)) == [0, 1] * 3


def test_lengths() -> None:
    assert len(numbers(3).zip(numbers(2))) == 2
    assert len(numbers(3).zip_longest(numbers(2))) == 3
    assert len(numbers(3).concat(numbers(2))) == 5
    assert len(numbers(3).enumerate()) == 3
    assert len(numbers(3).filter(bool).set_length(2)) == 2


@pytest.mark.parametrize(
    "dp",
    [
        numbers(3).zip(numbers(3).filter(bool)),
        numbers(3).zip_longest(numbers(3).filter(bool)),
        numbers(3).concat(numbers(3).filter(bool)),
        numbers(3).mux(numbers(3).filter(bool)),
        numbers(3).mux_longest(numbers(3).filter(bool)),
        numbers(3).filter(bool).enumerate(),
    ],
    ids=["zip", "zip_longest", "concat", "mux", "mux_longest", "enumerate"],
)
def test_the_length_is_a_type_error_where_a_source_has_none(dp: Any) -> None:
    with pytest.raises(TypeError):
        len(dp)


def test_set_length_leaves_the_stream_as_it_is() -> None:
    assert list(numbers(4).set_length(1)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: numbers(1).set_length(-1), ValueError),
        (lambda: numbers(1).set_length("3"), TypeError),
        (lambda: numbers(1).enumerate("3"), TypeError),
    ],
)
def test_wrong_arguments_are_errors_at_construction(make: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_each_shows_itself_as_it_was_written() -> None:
    dp = numbers(2).zip(numbers(3)).concat(numbers(1)).enumerate(5).set_length(3)
    assert repr(dp).replace("\n    ", "") == (
        "IterableWrapper(range(0, 2)).zip(IterableWrapper(range(0, 3)))"
        ".concat(IterableWrapper(range(0, 1))).enumerate(5).set_length(3)"
    )


def test_an_error_in_a_source_names_that_source_and_its_item() -> None:
    def fail_on_two(x: int) -> int:
        if x == 2:
            raise KeyError("no")
        return x

    for dp in (
        numbers(4).zip(numbers(4).map(fail_on_two)),
        numbers(4).zip_longest(numbers(4).map(fail_on_two)),
        numbers(4).mux(numbers(4).map(fail_on_two)),
        numbers(4).mux_longest(numbers(4).map(fail_on_two)),
        numbers(4, 5).concat(numbers(4).map(fail_on_two)),
        numbers(4).map(fail_on_two).enumerate(),
        numbers(4).map(fail_on_two).set_length(4),
    ):
        with pytest.raises(KeyError, match="no") as raised:
            list(dp)
        (note,) = raised.value.__notes__
        assert "Mapper(" in note
        assert note.endswith("on 2")


@pytest.mark.parametrize(
    "combined",
    [
        lambda a, b: a.zip(b),
        lambda a, b: a.zip_longest(b),
        lambda a, b: a.concat(b),
        lambda a, b: a.mux(b),
        lambda a, b: a.mux_longest(b),
        lambda a, b: a.enumerate().zip(b.set_length(9)),
    ],
    ids=["zip", "zip_longest", "concat", "mux", "mux_longest", "enumerate and set_length"],
)
@pytest.mark.parametrize("items", [1, 7])
def test_an_abandoned_iterator_closes_its_sources(combined: Any, items: int) -> None:
    a, b = Closing(), Closing()
    iterator = iter(combined(a, b))
    for _ in range(items):
        if next(iterator, None) is None:
            break
    iterator.close()
    assert a.closed
    assert b.closed == (b._pass is not None and b._pass.begun), "what was begun is closed"


def test_an_error_leaves_no_source_open() -> None:
    dp = Closing()
    with pytest.raises(ZeroDivisionError) as raised:
        list(dp.map(lambda x: 1 // (x - 2)))
    assert dp.closed, raised


def test_nothing_is_pulled_at_construction() -> None:
    def explode() -> Any:
        raise AssertionError("pulled")
        yield

    source = IterableWrapper(explode())
    for cls in (Zipper, ZipperLongest, Concater, Multiplexer, MultiplexerLongest, Enumerator):
        cls(source)
    LengthSetter(source, 1)


@pytest.mark.parametrize("stop", range(8))
def test_a_source_that_comes_twice_goes_on_in_its_second_pass(stop: int) -> None:
    def chain() -> Any:
        source = ps.iter.IterableWrapper(range(3)).shuffle().set_seed(1)
        return source.concat(numbers(1, 90), source)

    dp = chain()
    iterator = iter(dp)
    begun = list(islice(iterator, stop))
    resumed = chain()
    resumed.load_state_dict(dp.state_dict())
    rest = list(iterator)
    assert sorted(begun + rest) == [0, 0, 1, 1, 2, 2, 90]
    assert list(resumed) == rest
