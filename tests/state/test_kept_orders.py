"""Orders behind an index, a cache or a node: kept in its passes, in every shard, and after resuming."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data.datapipes.iter import Shuffler as TorchShuffler
from torch.utils.data.datapipes.map import Shuffler as TorchMapShuffler

import penstock as ps
from penstock.registry import SHARDING_PRIORITIES
from resuming import as_json, from_json, loader_over, loader_resumed, states_along

numbers = ps.iter.IterableWrapper


def keyed(length: int = 10) -> Any:
    return numbers(range(length)).shuffle().enumerate().to_map_datapipe().to_iter_datapipe()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_index_has_one_order_in_all_shards_and_states(workers: int) -> None:
    def make() -> Any:
        return keyed(40).sharding_filter()

    with loader_over(make, workers, 2) as whole:
        expected, states = states_along(whole)
        following = [*whole]
    assert sorted(expected) == sorted(following) == [*range(40)]
    assert expected != [*range(40)]
    for read in range(40) if workers == 0 else (1, 17):
        with loader_resumed(make, workers, states[read]) as loader:
            assert [*expected[:read], *loader] == expected, f"after {read} items"
            assert [*loader] == following, f"the epoch after {read} items"
    for seed in (0, 1):
        with loader_over(make, 2 - workers, 2, seed) as loader:
            assert ([*loader] == expected) == (seed == 0)


def test_an_index_is_loaded_once_for_all_passes() -> None:
    read: list[int] = []
    pipe = numbers(range(5)).shuffle().map(lambda item: read.append(item) or item).enumerate().to_map_datapipe()
    dp = pipe.to_iter_datapipe()
    assert list(dp) == list(dp)
    assert len(read) == 5


def keyed_by_torch() -> Any:
    return ps.iter.Mapper(TorchShuffler(numbers(range(10))), str).enumerate().to_map_datapipe().to_iter_datapipe()


def joined() -> Any:
    return numbers(range(10)).zip_with_map(numbers(range(10)).shuffle().enumerate().to_map_datapipe(), key_fn=abs)


def cached() -> Any:
    return numbers(range(10)).shuffle().enumerate().to_map_datapipe().in_memory_cache().to_iter_datapipe()


class ByIndex(TorchIterDataPipe[Any]):
    """A pipe of another library that reads one by index."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        return (self.source[place] for place in range(len(self.source)))


def keyed_for_others() -> Any:
    return ps.iter.Mapper(ByIndex(numbers(range(10)).shuffle().enumerate().to_map_datapipe()), str)


def keyed_and_shuffled_by_torch() -> Any:
    return ps.iter.Mapper(TorchMapShuffler(numbers(range(10)).shuffle().enumerate().to_map_datapipe()), str)


def kept_in_the_main_process() -> Any:
    return numbers(range(10)).shuffle().to_device("cpu").in_memory_cache()


def kept_behind_a_dispatched_stream() -> Any:
    level = SHARDING_PRIORITIES.MULTIPROCESSING
    return numbers(range(10)).shuffle().sharding_round_robin_dispatch(level).in_memory_cache()


@pytest.mark.parametrize(
    "chain",
    [
        keyed,
        keyed_by_torch,
        joined,
        cached,
        keyed_for_others,
        keyed_and_shuffled_by_torch,
        kept_in_the_main_process,
        kept_behind_a_dispatched_stream,
    ],
)
@pytest.mark.parametrize("read_before", [False, True])
def test_other_seeds_load_an_index_or_a_cache_anew(chain: Callable[[], Any], read_before: bool) -> None:
    loader, resumed = ps.DataLoader2(chain()), ps.DataLoader2(chain())
    loader.seed(5)
    list(loader)
    loader.seed(6)
    iterator = iter(loader)
    begun = [*islice(iterator, 4)]
    state = from_json(as_json(loader.state_dict()))
    rest = [*iterator]
    if read_before:
        resumed.seed(7)
        list(resumed)
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    fresh = ps.DataLoader2(chain())
    fresh.seed(6)
    assert list(fresh) == begun + rest


class OfEpoch(torch.utils.data.Sampler[int]):
    """Another order in each epoch, as torch's DistributedSampler has."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(6, generator=torch.Generator().manual_seed(self.epoch)).tolist())

    def __len__(self) -> int:
        return 6


def of_nodes() -> Any:
    from torchdata.nodes import SamplerWrapper

    return ps.iter.NodeReader(SamplerWrapper(OfEpoch())).sharding_filter()


def of_a_split() -> Any:
    train, _ = numbers(range(12)).random_split({"train": 0.5, "valid": 0.5}, seed=0)
    return train.override_seed(torch.initial_seed()).sharding_filter()


def weighted() -> Any:
    from torchdata.nodes import MultiNodeWeightedSampler

    parts = {"a": numbers(range(6)).to_node(), "b": numbers(range(100, 106)).to_node()}
    return ps.iter.NodeReader(MultiNodeWeightedSampler(parts, {"a": 2.0, "b": 1.0}, seed=3))


def of_nodes_read_twice() -> Any:
    return weighted().cycle(2).sharding_filter()


def of_part_of_nodes() -> Any:
    return weighted().header(5).cycle(2).sharding_filter()


def of_forked_nodes() -> Any:
    a, b = weighted().fork(2)
    return a.mux_longest(b.shuffle(buffer_size=4)).sharding_filter()


@pytest.mark.parametrize(
    ("workers", "epochs", "stops"), [(0, 0, (0, 1, 4, 6)), (0, 2, (0, 1, 4, 6)), (2, 0, (1,)), (2, 1, (4,))]
)
@pytest.mark.parametrize("chain", [of_nodes, of_a_split, of_nodes_read_twice, of_part_of_nodes, of_forked_nodes])
def test_a_state_has_the_orders_that_no_seed_decides(
    chain: Callable[[], Any], workers: int, epochs: int, stops: tuple[int, ...]
) -> None:
    def loader() -> Any:
        return ps.DataLoader2(chain(), reading_service=ps.MultiProcessingReadingService(workers, num_shards=2))

    for stop in stops:
        torch.manual_seed(1)
        with loader() as first:
            for _ in range(epochs):
                list(first)
            iterator = iter(first)
            list(islice(iterator, stop))
            state = copy.deepcopy(first.state_dict())
            rest, following = list(iterator), list(first)
        torch.manual_seed(2)
        with loader() as resumed:
            resumed.load_state_dict(state)
            assert [list(resumed), list(resumed)] == [rest, following]
