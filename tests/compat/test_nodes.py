"""Chains and the nodes of torchdata.nodes, both ways."""

from __future__ import annotations

import copy
import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NoReturn

import pytest
import torch
from torchdata import nodes

import penstock as ps
from penstock.registry import seed_graph
from penstock.testing import check_operator
from resuming import assert_resumes_everywhere

pytestmark = pytest.mark.timeout(50)

LAWS_OF_RESUMING = ["resumed_after_every_item", "resumed_at_either_end", "resumed_again_and_again"]


class EpochSampler:
    """Another order in each epoch, as of torch's DistributedSampler."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        return iter(torch.randperm(self.length, generator=generator).tolist())


def ten_times(x: Any) -> Any:
    return x * 10


def fail(x: Any) -> NoReturn:
    raise KeyError(x)


def shuffled(n: int = 7) -> Any:
    return ps.iter.IterableWrapper(range(n)).shuffle(buffer_size=4).set_seed(5)


def mixed(*parts: Any, until: str = nodes.StopCriteria.CYCLE_UNTIL_ALL_DATASETS_EXHAUSTED) -> Any:
    sources = dict(enumerate(parts))
    return nodes.MultiNodeWeightedSampler(sources, dict.fromkeys(sources, 0.5), stop_criteria=until)


NODES: dict[str, Callable[[], Any]] = {
    "wrapper": lambda: nodes.IterableWrapper(range(5)),
    "mapper": lambda: nodes.Mapper(nodes.IterableWrapper(range(5)), ten_times),
    "batches": lambda: nodes.Batcher(nodes.IterableWrapper(range(5)), 2, drop_last=False),
    "unbatched": lambda: nodes.Unbatcher(nodes.Batcher(nodes.IterableWrapper(range(5)), 2, drop_last=False)),
    "epochs": lambda: nodes.SamplerWrapper(EpochSampler(5)),
    "prefetched": lambda: nodes.Prefetcher(nodes.SamplerWrapper(EpochSampler(5)), 3),
    "seldom saved": lambda: nodes.Prefetcher(nodes.SamplerWrapper(EpochSampler(5)), 3, snapshot_frequency=3),
    "threads": lambda: nodes.ParallelMapper(shuffled(4).to_node(), ten_times, num_workers=2),
    "threads, seldom saved": lambda: nodes.ParallelMapper(
        shuffled(4).to_node(), ten_times, num_workers=2, snapshot_frequency=3
    ),
    "threads, in batches": lambda: nodes.ParallelMapper(shuffled(4).to_node(), ten_times, num_workers=2, prebatch=2),
    "chain": lambda: shuffled().to_node(),
    "prefetched chain": lambda: nodes.Prefetcher(shuffled().to_node(), 3),
    "batched chain": lambda: nodes.Batcher(shuffled().to_node(), 3, drop_last=False),
    "loader": lambda: nodes.Loader(nodes.Prefetcher(shuffled().to_node(), 2)),
    "forked chain": lambda: _zipped_with_itself(shuffled(4)).to_node(),
}


def _zipped_with_itself(dp: Any) -> Any:
    first, second = dp.fork(2)
    return first.zip(second.map(ten_times))


# NodeReader


@pytest.mark.parametrize("make", NODES.values(), ids=NODES.keys())
def test_a_node_resumes_exactly_after_every_item_of_every_pass(make: Callable[[], Any]) -> None:
    assert_resumes_everywhere(lambda: ps.iter.NodeReader(make()), passes=3)


@pytest.mark.parametrize("until", ["ALL_DATASETS_EXHAUSTED", "FIRST_DATASET_EXHAUSTED"])
def test_a_node_that_draws_from_several_resumes_exactly_though_its_state_holds_tensors(until: str) -> None:
    def make() -> Any:
        parts = nodes.IterableWrapper(range(4)), shuffled(3).map(str).to_node()
        return ps.iter.NodeReader(mixed(*parts, until=until)).map(repr)

    check_operator(make, LAWS_OF_RESUMING)
    first, second = make(), make()
    assert [list(first) for _ in range(3)] == [list(second) for _ in range(3)]


def _epochs(length: int) -> Any:
    return ps.iter.NodeReader(nodes.Prefetcher(nodes.SamplerWrapper(EpochSampler(length)), 2))


def _with_its_beginning(dp: Any) -> Any:
    first, second = dp.fork(2)
    return first.zip(second.header(2))


@pytest.mark.parametrize(
    "chain",
    [
        lambda: _epochs(4).header(2).cycle(2).batch(3),
        lambda: _epochs(3).concat(_epochs(2)),
        lambda: _epochs(4).in_memory_cache(),
        lambda: _with_its_beginning(_epochs(4)),
        lambda: _epochs(9).map(ten_times).shuffle(buffer_size=3).set_seed(1).batch(2),
        lambda: _zipped_with_itself(ps.iter.NodeReader(NODES["forked chain"]())),
    ],
)
def test_epochs_of_a_node_are_exact_however_the_chain_reads_it(chain: Callable[[], Any]) -> None:
    assert_resumes_everywhere(chain)


def test_a_reader_that_was_read_goes_back_to_before_its_first_pass() -> None:
    dp = ps.iter.NodeReader(nodes.ParallelMapper(nodes.SamplerWrapper(EpochSampler(6)), ten_times, num_workers=1))
    state = dp.state_dict()
    epochs = [list(dp), list(dp)]
    dp.load_state_dict(state)
    assert [list(dp), list(dp)] == epochs


def test_nothing_is_asked_of_a_node_before_its_first_item() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for x in range(3):
            asked.append(x)
            yield x

    class Items:
        def __iter__(self) -> Iterator[int]:
            return items()

    dp = ps.iter.NodeReader(nodes.Prefetcher(nodes.IterableWrapper(Items()), 2))
    iterator = iter(dp)
    dp.state_dict()
    assert asked == []
    assert next(iterator) == 0


class Draws(nodes.BaseNode):  # type: ignore[misc, unused-ignore]
    """A node whose states hold what is no plain data."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def reset(self, initial_state: Any = None) -> None:
        super().reset(initial_state)
        self.seen.append(initial_state)

    def next(self) -> int:
        return 1

    def get_state(self) -> dict[str, Any]:
        return {"tensor": torch.arange(3), "pair": (1, {2: "b"}), "$torch": [True, None], "$shared": {"$": 0.5}}


def test_what_a_state_holds_comes_back_as_it_was_and_is_not_changed() -> None:
    dp, node = ps.iter.NodeReader(Draws()), Draws()
    dp.take(1)
    resumed = ps.iter.NodeReader(node)
    state = dp.state_dict()
    before = copy.deepcopy(state)
    resumed.load_state_dict(state)
    resumed.take(1)
    (seen,) = node.seen
    assert torch.equal(seen.pop("tensor"), torch.arange(3))
    assert seen == {"pair": (1, {2: "b"}), "$torch": [True, None], "$shared": {"$": 0.5}}
    assert state == before


def test_a_node_moves_on_by_a_bounded_number_of_epochs() -> None:
    def load() -> Any:
        return ps.DataLoader2(ps.iter.NodeReader(nodes.SamplerWrapper(EpochSampler(6))).sharding_filter())

    state = load().state_dict()
    state["epoch"] = state["state"]["epoch"] = 2**61
    loader = load()
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="a node has 10000 epochs at most"):
        list(loader)


def test_states_are_taken_while_a_thread_reads_a_node() -> None:
    def chain() -> Any:
        source = ps.iter.IterableWrapper(range(50)).map(lambda x: time.sleep(0.005) or x)
        return ps.iter.NodeReader(source.to_node()).prefetch(4)

    dp, resumed = chain(), chain()
    iterator = iter(dp)
    for _ in range(20):
        next(iterator)
        state = dp.state_dict()
    resumed.load_state_dict(state)
    assert list(resumed) == list(iterator)


def test_an_error_of_a_node_names_the_reader() -> None:
    dp = ps.iter.NodeReader(nodes.Prefetcher(nodes.Mapper(nodes.IterableWrapper(range(3)), fail), 2)).map(str)
    with pytest.raises(KeyError, match="in fail") as caught:
        list(dp)
    (note,) = caught.value.__notes__
    assert note.startswith("penstock: raised in NodeReader(<torchdata.nodes.prefetch.")
    inside = ps.iter.NodeReader(nodes.Prefetcher(ps.iter.IterableWrapper(range(3)).map(fail).to_node(), 2))
    with pytest.raises(KeyError, match=r"raised in Mapper\(fail\), on 0"):
        list(inside)


def test_a_reader_wants_a_node() -> None:
    with pytest.raises(TypeError, match="a node of torchdata.nodes, and this is of type IterableWrapper"):
        ps.iter.NodeReader(ps.iter.IterableWrapper("ab"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nodes.Prefetcher(shuffled(50).to_node(), 2),
        lambda: nodes.ParallelMapper(shuffled(50).to_node(), ten_times, num_workers=2),
        lambda: mixed(nodes.Prefetcher(shuffled(50).to_node(), 2), nodes.Prefetcher(shuffled(50).to_node(), 2)),
    ],
)
def test_a_pass_that_is_given_up_ends_the_threads_of_its_nodes(make: Callable[[], Any]) -> None:
    before = {*threading.enumerate()}
    dp = ps.iter.NodeReader(make())
    iterator: Any = iter(dp)
    next(iterator)
    ours = {*threading.enumerate()} - before
    assert ours
    iterator.close()
    deadline = time.monotonic() + 10
    while any(thread.is_alive() for thread in ours) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(thread.is_alive() for thread in ours)
    assert len(list(dp)) >= 50


@pytest.mark.parametrize("copied", [lambda dp: pickle.loads(pickle.dumps(dp)), copy.deepcopy])
@pytest.mark.parametrize("taken", [0, 2, 9])
def test_a_copy_begins_with_the_epoch_that_would_have_come(copied: Callable[[Any], Any], taken: int) -> None:
    def make() -> Any:
        chain = nodes.Prefetcher(nodes.SamplerWrapper(EpochSampler(6)), 2)
        return ps.iter.NodeReader(nodes.ParallelMapper(chain, ten_times, num_workers=1))

    dp, same = make(), make()
    dp.take(taken)
    same.take(taken)
    assert list(copied(dp)) == list(same) == list(dp)


def test_a_node_that_cannot_be_copied_is_named_by_loaders() -> None:
    dp = ps.iter.NodeReader(nodes.IterableWrapper(x for x in "ab"))
    with pytest.raises(TypeError, match="generator") as caught:
        ps.DataLoader2(dp.sharding_filter())
    (note,) = caught.value.__notes__
    assert note.startswith("penstock: the node of NodeReader(<torchdata.nodes")
    assert "cannot be copied" in note
    assert list(dp) == ["a", "b"]


def test_seeds_reach_the_chains_in_a_node() -> None:
    def epochs(seed: int) -> list[list[int]]:
        dp = ps.iter.NodeReader(mixed(ps.iter.IterableWrapper(range(9)).shuffle().to_node()))
        seed_graph(dp, seed)
        return [list(dp) for _ in range(2)]

    assert epochs(1) == epochs(1) != epochs(2)
    assert epochs(1)[0] != epochs(1)[1]


# to_node


def _to_chain_and_back(node: Any) -> Any:
    dp = ps.iter.NodeReader(node).map(ten_times).shuffle(buffer_size=4).set_seed(2).batch(2)
    return nodes.Prefetcher(dp.to_node(), 2)


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize(
    "over",
    [
        lambda node: node,
        lambda node: nodes.Prefetcher(node, 3),
        lambda node: nodes.Prefetcher(node, 3, snapshot_frequency=2),
        lambda node: nodes.Batcher(node, 2, drop_last=False),
        lambda node: nodes.Prefetcher(nodes.Batcher(nodes.Mapper(node, ten_times), 2, drop_last=True), 2),
        lambda node: mixed(node, nodes.IterableWrapper([-1, -2])),
        lambda node: nodes.ParallelMapper(node, ten_times, num_workers=2),
        _to_chain_and_back,
    ],
    ids=["alone", "prefetched", "seldom saved", "batched", "several", "mixed", "threads", "to a chain and back"],
)
def test_a_loader_over_a_chain_resumes_exactly_in_every_epoch(over: Callable[[Any], Any], restart: bool) -> None:
    """The last epoch is there to be the one after that in which a state is taken."""

    def load() -> Any:
        return nodes.Loader(over(shuffled().to_node()), restart_on_stop_iteration=restart)

    whole = load()
    expected = [list(whole) for _ in range(3)]
    assert len({str(epoch) for epoch in expected}) == 3, "every epoch has another order"
    for number in range(2):
        for taken in range(len(expected[number]) + 1):
            loader = load()
            for _ in range(number):
                list(loader)
            iterator = iter(loader)
            begun = list(islice(iterator, taken))
            state = pickle.loads(pickle.dumps(loader.state_dict()))
            rest = list(iterator)
            assert begun + rest == expected[number]
            resumed = load()
            resumed.load_state_dict(state)
            at_end = restart and not rest  # there, the Loader goes on with the next epoch
            epochs_left = expected[number + 1 :] if at_end else [rest, *expected[number + 1 :]]
            assert [list(resumed) for _ in epochs_left] == epochs_left, f"after {taken} items of epoch {number}"


def test_a_reset_without_a_state_is_a_new_pass_whatever_was_read() -> None:
    node, same = shuffled().to_node(), shuffled()
    expected = [list(same) for _ in range(4)]
    node.reset()
    node.reset()  # nothing was read: the pass is still to come
    assert list(node) == expected[0]
    assert list(node) == []
    node.reset()
    assert list(islice(node, 3)) == expected[1][:3]
    state = node.state_dict()
    node.reset()
    assert list(node) == expected[2]
    node.reset(state)
    assert list(node) == expected[1][3:]
    node.reset(state)
    node.reset()  # the pass that the state is of is over
    assert list(node) == expected[2]


def test_the_state_of_a_node_is_that_of_the_chain() -> None:
    dp = shuffled()
    node = dp.to_node()
    begun = list(islice(node, 3))
    state = json.loads(json.dumps(node.state_dict()))
    resumed = shuffled()
    resumed.load_state_dict(state)
    assert begun + list(resumed) == list(shuffled())
    assert sorted(pickle.loads(pickle.dumps(node))) == [*range(7)]  # as it is before a pass
    with pytest.raises(ValueError, match="the state is of another chain"):
        dp.map(str).to_node().reset(state)


def test_a_node_that_is_reset_closes_what_the_pass_before_held() -> None:
    closed: list[str] = []

    class Closing(ps.IterDataPipe[int]):
        def __iter__(self) -> Iterator[int]:
            try:
                yield from range(3)
            finally:
                closed.append("closed")

    node = Closing().to_node()
    next(node)
    node.reset()
    assert closed == ["closed"]
    next(node)
    node.shutdown()
    assert closed == ["closed", "closed"]


def test_a_map_style_chain_becomes_a_node_by_way_of_an_iterable_one() -> None:
    dp = ps.map.SequenceWrapper("abc").map(str.upper).to_iter_datapipe()
    assert list(nodes.Loader(dp.to_node())) == ["A", "B", "C"]
