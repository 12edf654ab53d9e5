"""Inner chains: chains that operators and functions build while they are read, which no graph shows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils.data.datapipes.iter import Shuffler as TorchShuffler

import penstock as ps
from passing import Passing
from penstock.registry import seed_graph
from penstock.state import replay
from resuming import ALWAYS, NEVER, assert_resumes_everywhere, passed_on

numbers = ps.iter.IterableWrapper


class Composite(Passing):
    """A chain of several steps, which the graph does not show."""

    def __iter__(self) -> Iterator[Any]:
        yield from self.source.shuffle(buffer_size=4).batch(2).unbatch()


@dataclass
class Config:
    other: Any


class Beside(ps.IterDataPipe[Any]):
    """Reads a pipe of which the graph does not know."""

    def __init__(self, source: Any, config: Config) -> None:
        self.source = source
        self.config = config

    def __iter__(self) -> Iterator[Any]:
        yield from zip(self.source, self.config.other, strict=True)


class Within(Composite):
    """A composite in a composite, once for each item."""

    def __iter__(self) -> Iterator[Any]:
        def several(x: int) -> Any:
            return Composite(numbers(range(x)))

        return self.outputs_of_each(several, self.source)


def shuffled_by_torch(source: Any) -> Any:
    class OfTorch(Composite):
        def __iter__(self) -> Iterator[Any]:
            yield from ps.iter.Mapper(TorchShuffler(self.source), str)

    return OfTorch(source)


def in_any_order(x: int) -> Any:
    return numbers([x, x + 10, x + 20]).shuffle()


def in_any_order_or_not(x: int) -> Any:
    if x % 3 == 1:
        raise ValueError(x)
    return in_any_order(x)


def generated(x: int) -> Iterator[Any]:
    yield from in_any_order(x)
    yield from in_any_order(x + 100).batch(2).unbatch()


def shuffled(items: Iterator[Any]) -> Iterator[Any]:
    yield from numbers([*items]).shuffle()


def split(x: int) -> Any:
    some, others = numbers(range(6)).random_split({"a": 0.5, "b": 0.5}, seed=x)
    return some.map(str).concat(others)


INNER_CHAINS: dict[str, Callable[[], Any]] = {
    "built": lambda: Composite(numbers(range(9))),
    "kept": lambda: Beside(numbers(range(9)), Config(numbers(range(9)).shuffle())),
    "nested": lambda: Within(numbers(range(3, 9))),
    "of torch": lambda: shuffled_by_torch(numbers(range(9))),
    "behind others": lambda: Composite(numbers(range(9))).map(str).batch(2).shuffle(),
    "of items": lambda: numbers(range(4)).flatmap(in_any_order),
    "of several items": lambda: numbers(range(6)).shuffled_flatmap(in_any_order, buffer_size=2),
    "split": lambda: numbers(range(3)).flatmap(split),
    "not begun": lambda: numbers(range(6)).concat(Composite(numbers(range(9)))),
    "skipping": lambda: numbers(range(9)).flatmap(in_any_order_or_not, on_error="skip"),
    "of generators": lambda: numbers(range(4)).flatmap(generated),
    "of several generators": lambda: numbers(range(6)).shuffled_flatmap(generated, buffer_size=2),
    "in an iterator": lambda: numbers(range(4)).flatmap(lambda x: map(str, in_any_order(x))),
    "in one function": lambda: numbers(range(9)).pipe(shuffled),
}


@pytest.mark.parametrize("chain", INNER_CHAINS.values(), ids=INNER_CHAINS)
@pytest.mark.parametrize("always_due", [True, False])
def test_inner_chains_resume_and_go_on(chain: Callable[[], Any], always_due: bool) -> None:
    with mock.patch.object(replay.Throttle, "step", ALWAYS if always_due else NEVER):
        for epoch, stop in [(0, 0), (0, 1), (0, 3), (0, 4), (1, 0), (1, 3), (2, 4)]:
            dp = chain()
            earlier = [list(dp) for _ in range(epoch)]
            iterator = iter(dp)
            list(islice(iterator, stop))
            state = passed_on(dp)
            rest, following = list(iterator), [list(dp), list(dp)]
            resumed = chain()
            resumed.load_state_dict(state)
            assert list(resumed) == rest
            assert [list(resumed), list(resumed)] == following
        orders = {str(items) for items in [*earlier, *following]}  # of four passes: two may be alike by chance
        assert len(orders) == 1 if chain is INNER_CHAINS["split"] else len(orders) > 1


@pytest.mark.parametrize("passes_in_one", [1, 2])
def test_a_chain_built_over_a_branch_is_part_of_its_pass(passes_in_one: int) -> None:
    def chain() -> Any:
        one, other = numbers(range(9)).shuffle().fork(2)
        dp = Composite(one).zip(other).cycle(passes_in_one)
        seed_graph(dp, 1)
        return dp

    dp, whole = chain(), sorted([*range(9)] * passes_in_one)
    for _ in range(2):
        assert [sorted(items) for items in zip(*dp, strict=True)] == [whole, whole]
    assert_resumes_everywhere(chain)


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        ("built", 0),
        ("built", 2),
        ("kept", 2),
        ("nested", 0),
        ("behind others", 2),
        ("of items", 2),
        ("of several items", 0),
        ("of generators", 0),
        ("split", 2),
    ],
)
def test_a_loaders_seed_reaches_inner_chains_and_shards_agree(name: str, workers: int) -> None:
    def loader(workers: int) -> Any:
        service = ps.MultiProcessingReadingService(workers, num_shards=2)
        found: Any = ps.DataLoader2(INNER_CHAINS[name]().sharding_filter(), reading_service=service)
        found.seed(3)
        return found

    with loader(0) as whole:
        expected, following = list(whole), list(whole)
    whole_once = sorted(map(str, INNER_CHAINS[name]()))
    assert sorted(map(str, expected)) == whole_once or name in ("kept", "behind others", "split")
    with loader(workers) as first:
        iterator = iter(first)
        begun = list(islice(iterator, 3))
        state = first.state_dict()
    with loader(2 - workers) as second:
        second.load_state_dict(state)
        assert [*begun, *second] == expected
        assert list(second) == following


def views(x: int) -> list[int]:
    return list(numbers(range(10 * x, 10 * x + 4)).shuffle())


def first_of_views(x: int) -> list[int]:
    return numbers(range(10 * x, 10 * x + 9)).shuffle().take(3)


@pytest.mark.parametrize("fn", [views, first_of_views])
def test_chains_that_a_function_reads_to_the_end_resume(fn: Callable[[int], Any]) -> None:
    assert_resumes_everywhere(lambda: numbers(range(5)).shuffled_flatmap(fn, buffer_size=3).set_seed(1))
    read = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        loader = ps.DataLoader2(numbers(range(5)).shuffled_flatmap(fn, buffer_size=3))
        loader.seed(7)
        read.append(list(loader))
    assert read[0] == read[1]


class SeededByItsAuthor(Composite):
    def __iter__(self) -> Iterator[Any]:
        yield from self.source.shuffle().set_seed(5)


def seeded(length: int) -> Any:
    return numbers(range(length)).shuffle().set_seed(5)


@pytest.mark.parametrize(
    "chain",
    [
        lambda: SeededByItsAuthor(numbers(range(9))),
        lambda: numbers([9]).flatmap(seeded),
        lambda: numbers([9]).shuffled_flatmap(seeded),
    ],
)
def test_a_seed_that_a_function_sets_is_left_alone(chain: Callable[[], Any]) -> None:
    dp = chain()
    assert [list(dp), list(dp)] == [list(seeded(9))] * 2


def shuffled_numbers(x: int) -> Iterator[int]:
    yield from numbers(range(10 * x, 10 * x + 5)).shuffle()


def in_main_process(dp: Any) -> Any:
    return dp.map(str).to_device("cpu").map(int).map(int)


@pytest.mark.parametrize("workers", [0, 2])
def test_inner_chains_follow_the_seed_behind_steps_of_the_main_process(workers: int) -> None:
    def loader() -> Any:
        dp = in_main_process(numbers(range(6)).shuffle().sharding_filter().flatmap(shuffled_numbers))
        service = ps.MultiProcessingReadingService(workers, num_shards=2)
        found: Any = ps.DataLoader2(dp, reading_service=service)
        found.seed(7)
        return found

    with loader() as first, loader() as second, loader() as resumed:
        expected = list(first)
        iterator = iter(second)
        assert list(islice(iterator, 8)) == expected[:8]
        resumed.load_state_dict(passed_on(second))
        assert list(resumed) == expected[8:]


def test_an_iterator_may_be_advanced_in_another_thread() -> None:
    dp = numbers(range(4)).flatmap(shuffled_numbers)
    iterator = iter(dp)
    with ThreadPoolExecutor(1) as threads:
        for _ in range(7):
            threads.submit(next, iterator).result()
        state = passed_on(dp)
    resumed = numbers(range(4)).flatmap(shuffled_numbers)
    resumed.load_state_dict(state)
    assert list(resumed) == list(iterator)


@pytest.mark.parametrize("method", ["flatmap", "shuffled_flatmap"])
def test_a_retry_reads_the_same_inner_chain_again(method: str) -> None:
    calls = itertools.count(1)

    def flaky(x: int) -> int:
        if next(calls) in (7, 30):
            raise OSError("try again")
        return x

    def fn(x: int) -> Any:
        return numbers(range(10 * x, 10 * x + 10)).shuffle().map(flaky)

    dp: Any = getattr(numbers(range(4)), method)(fn, on_error=ps.Retry(3, backoff=0))
    assert sorted(dp) == [*range(40)]
    assert dp.stats()[method]["retried"] == 2


def test_branches_of_an_inner_fork_are_read_in_every_epoch() -> None:
    def fn(x: int) -> Iterator[Any]:
        one, other = numbers(range(3)).fork(2)
        yield from zip(one, other.map(str), strict=True)

    dp = numbers(range(2)).flatmap(fn)
    for _ in range(3):
        assert list(dp) == [(0, "0"), (1, "1"), (2, "2")] * 2
