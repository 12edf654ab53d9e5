"""Ways in which resuming has failed, each as small as it can be told."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest
import torch

from penstock import DataLoader2, MultiProcessingReadingService
from penstock.pipes.iter import IterableWrapper
from penstock.registry import seed_graph
from penstock.state import replay as reading
from programs import python
from resuming import as_json, from_json, snapshots

CASES = int(os.environ.get("PENSTOCK_CASES", "150"))

pytestmark = pytest.mark.timeout(60)


# Under a loader, with one number of workers and then with others


def absolute_numbers() -> Any:
    return IterableWrapper(range(12)).sharding_filter().map(abs)


def test_some_items_by_two_workers_one_by_none_and_the_rest_by_none() -> None:
    with loader_of(absolute_numbers, 0, 3) as whole:
        expected = [*whole]
    assert sorted(expected) == [*range(12)]
    with loader_of(absolute_numbers, 2, 3) as loader:
        seen = [*islice(loader, 4)]
        state = loader.state_dict()
    with loader_resumed(absolute_numbers, 0, state) as loader:
        seen += islice(loader, 1)
        state = loader.state_dict()
    with loader_resumed(absolute_numbers, 0, state) as loader:
        assert [*seen, *loader] == expected


@pytest.mark.parametrize(("first", "third"), [(1, 0), (2, 0), (3, 0), (2, 2)])
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
def test_workers_then_none_then_any_number_at_all_stops(first: int, third: int, shuffled: bool) -> None:
    def make() -> Any:
        source = IterableWrapper(range(12))
        return (source.shuffle(buffer_size=4) if shuffled else source).sharding_filter().map(abs)

    with loader_of(make, 0, 3) as whole:
        expected, following = [*whole], [*whole]
    with loader_of(make, first, 3) as loader:
        items, states = states_along(loader)
    assert items == expected
    for read, state in enumerate(states[:-1]):
        with loader_resumed(make, 0, state) as loader:
            more, later_states = states_along(loader)
        assert more == expected[read:], f"after {read} items"
        for read_later, later in enumerate(later_states[:-1], read):
            if third and (read, read_later) not in [(0, 0), (0, 2), (4, 5), (7, 7), (5, 11)]:
                continue  # to start processes for each would take a minute
            with loader_resumed(make, third, later) as loader:
                where = f"after {read} items, and after {read_later}"
                assert [*loader] == expected[read_later:], where
                assert [*loader] == following, f"the epoch after {where}"


def test_shards_in_one_process_each_read_their_own_disk_cache(tmp_path: Path) -> None:
    def make() -> Any:
        missing = IterableWrapper("abcde").on_disk_cache(lambda name: str(tmp_path / name))
        return missing.map(lambda name: (name, b"")).end_caching(same_filepath_fn=True).sharding_filter()

    with loader_of(make, 0, 3) as loader:
        assert [os.path.basename(path) for path in loader] == [*"abcde"]


# Branches that are read for longer than their buffers


# What is read by index has an order of its own in each epoch


def through_an_index() -> Any:
    return IterableWrapper(range(40)).shuffle().enumerate().to_map_datapipe().to_iter_datapipe()


def test_what_was_shuffled_before_an_index_resumes_everywhere() -> None:
    assert_resumes_twice_everywhere(
        lambda: IterableWrapper(range(9)).shuffle().enumerate().to_map_datapipe().to_iter_datapipe()
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_what_was_shuffled_before_an_index_is_the_same_in_all_shards_and_states(workers: int) -> None:
    def make() -> Any:
        return through_an_index().sharding_filter()

    with loader_of(make, workers, 2) as whole:
        expected, states = states_along(whole)
        following = [*whole]
    assert sorted(expected) == sorted(following) == [*range(40)]
    assert expected != [*range(40)]
    for read in range(40) if workers == 0 else (0, 1, 2, 17, 39):
        with loader_resumed(make, workers, states[read]) as loader:
            assert [*expected[:read], *loader] == expected, f"after {read} items"
            assert [*loader] == following, f"the epoch after {read} items"


@pytest.mark.parametrize("workers", [0, 2])
def test_the_seed_of_a_loader_reaches_the_source_of_an_index(workers: int) -> None:
    orders = []
    for seed in (0, 0, 1):
        with loader_of(lambda: through_an_index().sharding_filter(), workers, 2, seed) as loader:
            orders.append([*loader])
    assert orders[0] == orders[1] != orders[2]


# Parts and caches of what comes in a random order


@pytest.mark.parametrize("end", ["prefetch", "in_memory_cache"])
@pytest.mark.filterwarnings("ignore:the source of random_split")
def test_random_groups_of_a_random_order_resume_everywhere(end: str) -> None:
    def make() -> Any:
        one, other = IterableWrapper(range(8)).shuffle(buffer_size=4).random_split({"a": 0.5, "b": 0.5}, seed=0)
        return getattr(one.concat(other), end)()

    assert_resumes_twice_everywhere(make)


def test_a_cache_of_which_a_part_is_read_keeps_its_order_at_the_end_of_an_epoch() -> None:
    def make() -> Any:
        return IterableWrapper(range(30)).shuffle().in_memory_cache().header(3)

    whole = seeded(make)
    expected = [[*whole] for _ in range(4)]
    for epochs in (1, 2, 3):
        dp = seeded(make)
        for _ in range(epochs):
            list(dp)
        assert [*resumed(make, dp.state_dict())] == expected[epochs]
    assert expected[1] == expected[0]
    assert_resumes_twice_everywhere(make)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_cache_of_which_a_part_is_read_keeps_its_order_under_a_loader(workers: int) -> None:
    def make() -> Any:
        return IterableWrapper(range(30)).shuffle().sharding_filter().in_memory_cache().header(3)

    with loader_of(make, 0, 2) as whole:
        expected = [[*whole] for _ in range(3)]
    with loader_of(make, workers, 2) as loader:
        assert [*loader] == expected[0]
        state = loader.state_dict()
    with loader_resumed(make, workers, state) as loader:
        assert [[*loader], [*loader]] == expected[1:]


# Long chains


def long_chain() -> Any:
    dp = IterableWrapper(range(8)).sharding_filter()
    for _ in range(200):
        dp = dp.map(lambda number: number + 1)
    return dp


def test_a_chain_of_200_steps_resumes() -> None:
    dp = resumed(long_chain, state_after(long_chain, 5))
    assert [*islice(dp, 1)] == [205]
    assert [*resumed(long_chain, dp.state_dict())] == [206, 207]


def test_a_chain_of_200_steps_resumes_under_workers() -> None:
    with loader_of(long_chain, 2, 2) as loader:
        assert [*islice(loader, 3)] == [200, 201, 202]
        state = loader.state_dict()
    with loader_resumed(long_chain, 1, state) as loader:
        assert [*loader] == [203, 204, 205, 206, 207]


# A state of a chain with other arguments


# How much is read again


# States that were tampered with


