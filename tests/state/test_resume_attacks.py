"""What fresh eyes have broken: orders of reading, of seeding and of damage that nobody had thought of."""

from __future__ import annotations

import copy
import enum
import json
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch.utils.data import IterDataPipe as TorchIterDataPipe
from torch.utils.data.datapipes.iter import Shuffler as TorchShuffler
from torch.utils.data.datapipes.map import Shuffler as TorchMapShuffler

import penstock as ps
from penstock.registry import SHARDING_PRIORITIES, seed_graph
from penstock.state import replay as reading
from resuming import assert_resumes_everywhere

numbers = ps.iter.IterableWrapper


def first_through_another(how: Callable[[Any], Any]) -> Any:
    return how(numbers(range(5)).shuffle().set_seed(1))


class Both(ps.IterDataPipe[Any]):
    """The items through a step, and then the items themselves."""

    holds_items = False
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


@pytest.mark.parametrize(
    "how",
    [
        lambda dp: dp.map(str).concat(dp),
        lambda dp: dp.concat(dp.map(str), dp),
        lambda dp: dp.map(str).concat(dp).cycle(2),
        lambda dp: dp.map(str).batch(2).concat(dp.filter(bool), dp),
        Both,
    ],
)
def test_a_pipe_that_is_read_through_another_step_and_then_itself(how: Callable[[Any], Any]) -> None:
    assert_resumes_everywhere(lambda: first_through_another(how))


@pytest.mark.parametrize("stop", range(8))
def test_a_pipe_of_torch_is_in_the_order_that_the_state_tells_before_the_first_item(stop: int) -> None:
    def chain() -> Any:
        return ps.iter.Mapper(TorchShuffler(numbers(range(8))), str)

    dp = chain()
    iterator = iter(dp) if stop else None
    begun = list(islice(iterator, stop)) if iterator else []
    resumed = chain()
    resumed.load_state_dict(json.loads(json.dumps(dp.state_dict())))
    rest = list(resumed)
    assert [*begun, *rest] == [*begun, *(iterator or dp)]
    assert list(resumed) == list(dp)


@pytest.mark.parametrize("resumed", [False, True])
def test_a_loader_that_is_seeded_in_the_middle_of_an_epoch_goes_on_in_it_and_begins_anew_after_it(
    resumed: bool,
) -> None:
    def load() -> Any:
        return ps.DataLoader2(numbers(range(8)).shuffle().sharding_filter().shuffle())

    whole, other = load(), load()
    whole.seed(1)
    other.seed(2)
    first, anew = list(whole), [list(other), list(other)]
    loader = load()
    loader.seed(1)
    iterator = iter(loader)
    begun = list(islice(iterator, 3))
    loader.seed(2)
    if resumed:
        state = json.loads(json.dumps(loader.state_dict()))
        loader = load()
        loader.load_state_dict(state)
        iterator = iter(loader)
    assert [*begun, *iterator] == first
    assert [list(loader), list(loader)] == anew


def test_a_seed_that_is_set_in_the_middle_of_an_epoch_is_for_those_after_it() -> None:
    dp = numbers(range(8)).shuffle().set_seed(1)
    list(dp)
    iterator = iter(dp)
    next(iterator)
    dp.set_seed(5)
    resumed = numbers(range(8)).shuffle()
    resumed.load_state_dict(json.loads(json.dumps(dp.state_dict())))
    assert list(resumed) == list(iterator)
    assert [list(resumed), list(resumed)] == [list(dp), list(dp)] != [list(dp), list(dp)]


@pytest.mark.parametrize("how", [lambda dp: dp.pipe(iter), lambda dp: dp.shuffle(buffer_size=3), lambda dp: dp])
def test_a_source_that_gives_fewer_items_than_before_is_an_error(how: Callable[[Any], Any]) -> None:
    files = [*range(9)]
    loader = ps.DataLoader2(how(numbers([0]).flatmap(lambda _: files)).sharding_filter().pipe(iter))
    iterator = iter(loader)
    assert len([*islice(iterator, 6)]) == 6
    state = loader.state_dict()
    del files[4:]
    resumed = ps.DataLoader2(how(numbers([0]).flatmap(lambda _: files)).sharding_filter().pipe(iter))
    resumed.load_state_dict(state)
    with pytest.raises(RuntimeError, match="the source gave fewer items than when the state was taken"):
        list(resumed)


def test_a_state_is_not_taken_while_an_item_is_made() -> None:
    wanted: list[Any] = []

    def callback(item: int) -> int:
        with pytest.raises(RuntimeError, match="a state is taken between two items, and .* is making one"):
            wanted[0].state_dict()
        return item

    wanted[:] = [numbers(range(3)).map(callback)]
    assert list(wanted[0]) == [0, 1, 2]
    wanted[:] = [ps.DataLoader2(numbers(range(3)).map(callback))]
    assert list(wanted[0]) == [0, 1, 2]


@pytest.mark.parametrize("stop", [0, 3])
def test_a_pipe_of_torch_in_a_chain_that_was_seeded_otherwise_has_the_seeds_of_the_state(stop: int) -> None:
    def chain(seed: int) -> Any:
        dp = ps.iter.Mapper(TorchShuffler(numbers(range(8))), str)
        seed_graph(dp, seed)
        return dp

    dp, resumed = chain(1), chain(2)
    iterator = iter(dp)
    assert len([*islice(iterator, stop)]) == stop
    resumed.load_state_dict(dp.state_dict())
    assert list(resumed) == [*iterator]
    assert list(resumed) == list(dp)


def keyed() -> Any:
    return numbers(range(10)).shuffle().enumerate().to_map_datapipe().to_iter_datapipe()


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


def kept_behind_a_stream_that_is_dispatched() -> Any:
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
        kept_behind_a_stream_that_is_dispatched,
    ],
)
@pytest.mark.parametrize("read_before", [False, True])
def test_what_was_loaded_under_other_seeds_is_loaded_anew(chain: Callable[[], Any], read_before: bool) -> None:
    loader, resumed = ps.DataLoader2(chain()), ps.DataLoader2(chain())
    loader.seed(5)
    list(loader)
    loader.seed(6)
    iterator = iter(loader)
    begun = [*islice(iterator, 4)]
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [*iterator]
    if read_before:
        resumed.seed(7)
        list(resumed)
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    fresh = ps.DataLoader2(chain())
    fresh.seed(6)
    assert list(fresh) == begun + rest


def test_a_map_is_loaded_once_for_all_passes() -> None:
    read: list[int] = []
    pipe = numbers(range(5)).shuffle().map(lambda item: read.append(item) or item).enumerate().to_map_datapipe()
    dp = pipe.to_iter_datapipe()
    assert list(dp) == list(dp)
    assert len(read) == 5


def dispatched(workers: int, num_shards: int = 4) -> ps.DataLoader2[Any]:
    dp = numbers(range(600)).shuffle().sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)
    service = ps.MultiProcessingReadingService(workers, num_shards=num_shards)
    loader: ps.DataLoader2[Any] = ps.DataLoader2(dp, reading_service=service)
    loader.seed(0)
    return loader


def test_a_state_of_shards_that_share_a_stream_is_plain_data_as_it_is() -> None:
    with dispatched(0) as loader, dispatched(0) as other:
        whole = list(loader)
        items = iter(other)
        for count in range(1, 10):
            next(items)
            state = other.state_dict()
            with dispatched(0) as resumed:
                resumed.load_state_dict(state)
                assert list(resumed) == whole[count:]


def test_there_may_be_more_shards_than_a_fork_server_takes_over_descriptors() -> None:
    with dispatched(0, num_shards=300) as loader:
        whole = list(loader)
    with dispatched(2, num_shards=300) as loader:
        assert list(loader) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_was_shut_down_within_an_epoch_has_no_state_and_after_one_it_has(workers: int) -> None:
    def made() -> ps.DataLoader2[Any]:
        dp = numbers(range(12)).shuffle().sharding_filter()
        return ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(workers, num_shards=2))

    with made() as loader:
        loader.seed(0)
        epochs = [list(loader) for _ in range(2)]
    with made() as loader:
        loader.seed(0)
        assert list(loader) == epochs[0]
    with made() as resumed:
        resumed.load_state_dict(loader.state_dict())
        assert next(iter(resumed)) == epochs[1][0]
    with pytest.raises(RuntimeError, match="was shut down in the middle of an epoch"):
        resumed.state_dict()


def test_a_loader_that_is_being_read_can_be_shut_down_when_it_has_ended() -> None:
    loader = ps.DataLoader2(numbers(range(3)).map(lambda item: refused.append(shut_down()) or item))
    refused: list[bool] = []

    def shut_down() -> bool:
        try:
            loader.shutdown()
        except (RuntimeError, ValueError):
            return True
        return False

    assert list(loader) == [0, 1, 2]
    assert refused == [True] * 3
    assert not shut_down()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_copy_of_a_loader_that_was_read_reads_and_ends_on_its_own(workers: int) -> None:
    dp = numbers(range(12)).shuffle().sharding_filter()
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(workers, num_shards=2)) as loader:
        loader.seed(0)
        list(loader)
        with copy.deepcopy(loader) as other:
            assert list(other) == list(loader)


@pytest.mark.parametrize("error", [EOFError, ConnectionResetError, StopIteration])
def test_an_item_that_cannot_be_unpickled_is_no_death_of_a_worker(error: type[Exception]) -> None:
    class Item:
        def __reduce__(self) -> Any:
            return raising, (error,)

    dp = numbers(range(3)).sharding_filter().map(lambda _: Item())
    with (
        ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(1)) as loader,
        pytest.raises(RuntimeError, match=rf"an item of shard 0 cannot be unpickled: {error.__name__}"),
    ):
        list(loader)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("which", ["worker_init_fn", "worker_reset_fn"])
def test_a_worker_function_that_raises_stop_iteration_is_named(which: str, workers: int) -> None:
    service = ps.MultiProcessingReadingService(workers, **{which: lambda *_: next(iter(()))})
    with (
        ps.DataLoader2(numbers(range(3)), reading_service=service) as loader,
        pytest.raises(RuntimeError, match=f"{which} raised StopIteration"),
    ):
        list(loader)


def test_seeds_that_a_reset_function_sets_hold() -> None:
    def made(**how: Any) -> list[int]:
        dp = numbers(range(30)).shuffle().sharding_filter()
        service = ps.MultiProcessingReadingService(0, num_shards=2, **how)
        with ps.DataLoader2(dp, reading_service=service) as loader:
            loader.seed(3)
            return list(loader)

    def seeded(dp: Any, _: Any, seeds: Any) -> Any:
        seed_graph(dp, 9)
        return dp

    assert made(worker_reset_fn=lambda dp, *_: dp) == made() != made(worker_reset_fn=seeded)


def raising(error: type[Exception]) -> None:
    raise error("on purpose")


def test_a_loader_that_has_loaded_a_state_is_copied_with_it() -> None:
    def loader() -> Any:
        return ps.DataLoader2(numbers(range(8)).shuffle().sharding_filter().map(abs))

    stopped, resumed = loader(), loader()
    stopped.seed(1)
    iterator = iter(stopped)
    next(iterator)
    resumed.load_state_dict(stopped.state_dict())
    rest = [*iterator]
    assert [*copy.deepcopy(resumed)] == [*pickle.loads(pickle.dumps(resumed))] == [*resumed] == rest
    dp = numbers([{"a": 1}] * 3).map(dict)
    next(iter(dp))
    state = dp.state_dict()
    dp.load_state_dict(state)
    assert ps.schema(dp).fields[0].name == "a"
    assert len([*dp]) == 2


@pytest.mark.parametrize(
    "lose",
    [
        lambda dp: next(iter(dp.map(str))),
        lambda dp: next(iter(dp.fork(2)[0])),
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        lambda dp: next(iter(ps.DataLoader2(dp))),
        lambda dp: next(iter(dp.prefetch(2))),
        lambda dp: next(iter(torch.utils.data.DataLoader(dp, num_workers=1, multiprocessing_context="spawn"))),
    ],
)
def test_a_state_that_was_loaded_is_not_lost_without_a_word(lose: Callable[[Any], Any]) -> None:
    def chain() -> Any:
        return numbers(range(8)).shuffle(buffer_size=4).batch(2)

    dp, resumed = chain(), chain()
    iterator = iter(dp)
    next(iterator)
    resumed.load_state_dict(dp.state_dict())
    with pytest.raises(RuntimeError, match="a state was loaded into Batcher.2., from which nothing was read yet"):
        lose(resumed)
    assert [*resumed] == [*iterator]


def test_a_state_leaves_torchs_generator_as_it_is_where_nothing_is_random() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    dp = numbers(range(5)).pipe(iter).flatmap(lambda x: [x])
    iterator = iter(dp)
    next(iterator)
    dp.state_dict()
    assert torch.equal(torch.rand(3), expected)


def both_of_a_split(overridden: int | None = None) -> Any:
    train, valid = numbers(range(20)).random_split({"train": 1, "valid": 1}, seed=1)
    if overridden is not None:
        train.override_seed(overridden)
    return train.map(str).concat(valid)


def test_a_state_has_the_seed_that_overrides_that_of_a_split() -> None:
    dp = both_of_a_split(overridden=9)
    iterator = iter(dp)
    next(iterator)
    state = dp.state_dict()
    rest, following = list(iterator), list(dp)
    resumed = both_of_a_split()
    resumed.load_state_dict(state)
    assert [list(resumed), list(resumed)] == [rest, following]


@pytest.mark.parametrize("stop", [0, 3, 12, 20])
def test_a_split_with_another_seed_goes_on_elsewhere(stop: int) -> None:
    def chain(seed: int = 0) -> Any:
        train, valid = numbers(range(20)).random_split({"train": 1, "valid": 1}, seed=0)
        return train.override_seed(seed).shuffle().concat(valid)

    dp = chain(seed=3)
    iterator = iter(dp)
    list(islice(iterator, stop))
    state = json.loads(json.dumps(dp.state_dict()))
    rest, following = list(iterator), list(dp)
    resumed = chain()
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    assert list(resumed) == following
    state["state"]["random"] = [{"seed": "x"} for _ in state["state"]["random"]]
    with pytest.raises(ValueError, match="cannot have seeds like"):
        chain().load_state_dict(state)


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


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("epochs", [0, 1, 2])
@pytest.mark.parametrize("chain", [of_nodes, of_a_split, of_nodes_read_twice, of_part_of_nodes, of_forked_nodes])
def test_what_a_loaders_seed_does_not_decide_is_in_its_state(
    chain: Callable[[], Any], epochs: int, workers: int
) -> None:
    def loader() -> Any:
        return ps.DataLoader2(chain(), reading_service=ps.MultiProcessingReadingService(workers, num_shards=2))

    for stop in (0, 1, 4, 6):
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


def test_a_node_is_not_moved_on_without_bound() -> None:
    state = ps.DataLoader2(of_nodes()).state_dict()
    state["epoch"] = state["state"]["epoch"] = 2**61
    loader = ps.DataLoader2(of_nodes())
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="a node has 10000 epochs at most"):
        list(loader)


@pytest.mark.parametrize("ahead", [lambda dp: dp.prefetch(4), lambda dp: dp.threadpool_map(str, max_workers=2)])
def test_states_are_taken_while_a_thread_reads_a_node(ahead: Callable[[Any], Any]) -> None:
    dp = ahead(ps.iter.NodeReader(numbers(range(50)).map(slowly).to_node()))
    iterator = iter(dp)
    for _ in range(20):
        next(iterator)
        state = dp.state_dict()
    rest = list(iterator)
    resumed = ahead(ps.iter.NodeReader(numbers(range(50)).map(slowly).to_node()))
    resumed.load_state_dict(state)
    assert list(resumed) == rest


def slowly(x: int) -> int:
    time.sleep(0.005)
    return x


