"""A chain as the data set of torch's DataLoader and torchdata's StatefulDataLoader, and torch's graph functions."""

from __future__ import annotations

import warnings
from typing import Any, NoReturn

import pytest
import torch
from torch.utils.data import DataLoader, graph_settings
from torch.utils.data.graph import traverse_dps

import penstock as ps

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchdata.stateful_dataloader import StatefulDataLoader

pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")

LOADERS = pytest.mark.parametrize("loader", [DataLoader, StatefulDataLoader])
WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


def double(x: int) -> int:
    return 2 * x


def is_late_or_even(x: int) -> bool:
    return x > 15 or x % 2 == 0


def chain(n: int = 23) -> Any:
    return ps.iter.IterableWrapper(range(n)).shuffle(buffer_size=7).sharding_filter().map(double)


def read(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def flat(batches: list[list[int]]) -> list[int]:
    return [item for batch in batches for item in batch]


@LOADERS
@WORKERS
def test_every_item_comes_once_in_each_epoch_whatever_the_number_of_workers(loader: Any, num_workers: int) -> None:
    loaded = loader(chain(), batch_size=2, num_workers=num_workers)
    first, second = flat(read(loaded)), flat(read(loaded))
    assert sorted(first) == sorted(second) == [double(x) for x in range(23)]
    assert first != second


@LOADERS
@WORKERS
def test_the_seed_of_torch_fixes_the_order(loader: Any, num_workers: int) -> None:
    epochs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        loaded = loader(chain(), batch_size=2, num_workers=num_workers)
        epochs.append([read(loaded), read(loaded)])
    assert epochs[0] == epochs[1] != epochs[2]


@LOADERS
def test_shuffle_switches_the_shuffler_of_the_chain_on_and_off(loader: Any) -> None:
    torch.manual_seed(0)
    assert flat(read(loader(chain(), shuffle=False))) == [double(x) for x in range(23)]
    assert flat(read(loader(chain(), shuffle=True))) != [double(x) for x in range(23)]


@WORKERS
def test_a_loader_gives_len_where_the_chain_has_one(num_workers: int) -> None:
    assert len(DataLoader(chain(), batch_size=2, num_workers=num_workers)) == 12


@WORKERS
def test_a_map_style_chain_is_read_by_index(num_workers: int) -> None:
    dp = ps.map.SequenceWrapper(range(9)).map(double)
    assert read(DataLoader(dp, batch_size=4, num_workers=num_workers)) == [[0, 2, 4, 6], [8, 10, 12, 14], [16]]
    shuffled = flat(read(DataLoader(dp, batch_size=4, num_workers=num_workers, shuffle=True)))
    assert sorted(shuffled) == [double(x) for x in range(9)]


def fail(x: int) -> NoReturn:
    raise KeyError(x)


@WORKERS
def test_an_error_comes_out_of_a_loader_with_its_type_and_its_note(num_workers: int) -> None:
    iterator: Any = iter(DataLoader(ps.iter.IterableWrapper(range(3)).map(fail), num_workers=num_workers))
    with pytest.raises(KeyError) as caught:
        next(iterator)
    note = "penstock: raised in Mapper(fail), on 0"
    if num_workers:
        assert note in str(caught.value)  # torch makes the worker's traceback the message
        iterator._shutdown_workers()  # or torch waits 5 s for each of them, when all this is collected
    else:
        assert caught.value.__notes__ == [note]


@pytest.mark.parametrize("persistent_workers", [False, True])
def test_a_worker_that_is_done_stays_done_when_the_others_are_resumed(persistent_workers: bool) -> None:
    def load() -> Any:
        dp = ps.iter.IterableWrapper(range(20)).sharding_filter().filter(is_late_or_even)
        return StatefulDataLoader(dp, batch_size=1, num_workers=2, persistent_workers=persistent_workers)

    expected = flat(read(load()))
    for taken in range(len(expected) + 1):
        loader = load()
        iterator = iter(loader)
        for _ in range(taken):
            next(iterator)
        resumed = load()
        resumed.load_state_dict(loader.state_dict())
        assert flat(read(resumed)) == expected[taken:]
        assert flat(read(resumed)) == expected


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize(("num_workers", "persistent_workers"), [(0, False), (2, False), (2, True)])
def test_a_stateful_loader_resumes_exactly_at_every_step_of_two_epochs(
    num_workers: int, persistent_workers: bool, batch_size: int | None
) -> None:
    def load() -> Any:
        options: Any = {"num_workers": num_workers, "persistent_workers": persistent_workers}
        return StatefulDataLoader(chain(9), batch_size=batch_size, **options)

    torch.manual_seed(3)
    whole = load()
    drawn_from, epochs, states = [], [], []
    for _ in range(4):
        drawn_from.append(torch.get_rng_state())
        iterator = iter(whole)
        states.append([whole.state_dict()])
        epochs.append([])
        for batch in iterator:
            epochs[-1].append(batch.tolist() if batch_size else batch)
            states[-1].append(whole.state_dict())
        states[-1].append(whole.state_dict())  # the epoch is over, which it is not after its last item
    items = [sorted(flat(epoch) if batch_size else epoch) for epoch in epochs]
    assert items == [[double(x) for x in range(9)]] * 4

    for number in range(2):
        for taken, state in enumerate(states[number]):
            torch.set_rng_state(drawn_from[number])  # of which each iterator draws a seed, one that is resumed, too
            resumed = load()
            resumed.load_state_dict(state)
            read_anew = [[batch.tolist() if batch_size else batch for batch in resumed] for _ in range(2)]
            over = taken > len(epochs[number])
            rest = [] if over else [epochs[number][taken:]]
            # torch draws more seeds for the first epoch of a loader with persistent workers than for the others
            exact = len(rest) if persistent_workers and number else 2
            assert read_anew[:exact] == [*rest, *epochs[number + 1 :]][:exact], f"after {taken} steps of epoch {number}"
            assert [len(epoch) for epoch in read_anew[len(rest) :]] == [len(epochs[0])] * (2 - len(rest))


def test_a_stateful_loader_goes_on_from_the_state_of_the_chain_and_does_not_begin_anew() -> None:
    pulled: list[int] = []

    def load() -> Any:
        dp = ps.iter.IterableWrapper(range(100)).map(lambda x: pulled.append(x) or x)
        return StatefulDataLoader(dp, batch_size=None)

    loader = load()
    iterator = iter(loader)
    for _ in range(90):
        next(iterator)
    state = loader.state_dict()
    pulled.clear()
    resumed = load()
    resumed.load_state_dict(state)
    assert [int(x) for x in resumed] == list(range(90, 100))
    assert pulled == list(range(90, 100))


# torch's own functions on a graph of pipes


class Unpicklable:
    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise AssertionError("a payload was pickled")


def test_torch_walks_a_chain_without_pickling_what_it_holds() -> None:
    dp = ps.iter.IterableWrapper([Unpicklable()], deepcopy=False).map(lambda x: x).batch(2)
    for graph in (traverse_dps(dp), _begun(dp)):
        names = []
        while graph:
            ((pipe, graph),) = graph.values()
            names.append(type(pipe).__name__)
        assert names == ["Batcher", "Mapper", "IterableWrapper"]


def _begun(dp: Any) -> Any:
    next(iter(dp))
    return traverse_dps(dp)


def test_torch_walks_a_map_style_chain_and_through_a_converter() -> None:
    dp = ps.map.SequenceWrapper([Unpicklable()], deepcopy=False).map(lambda x: x).to_iter_datapipe()
    ((pipe, graph),) = traverse_dps(dp).values()
    assert pipe is dp
    assert [type(source).__name__ for source, _ in graph.values()] == ["Mapper"]


def test_torch_shards_a_chain() -> None:
    shards = []
    for shard in range(3):
        dp = chain(10)
        graph_settings.apply_shuffle_settings(dp, shuffle=False)
        graph_settings.apply_sharding(dp, 3, shard)
        shards.append(list(dp))
    assert shards == [[0, 6, 12, 18], [2, 8, 14], [4, 10, 16]]


def test_torch_refuses_a_chain_that_is_sharded_twice() -> None:
    with pytest.raises(RuntimeError, match="Sharding twice"):
        graph_settings.apply_sharding(chain().sharding_filter(), 2, 0)


def test_torch_adds_our_shuffler_to_a_chain_that_has_none() -> None:
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`. Adding one at the end"):
        dp = graph_settings.apply_shuffle_settings(ps.iter.IterableWrapper(range(50)), shuffle=True)
    assert type(dp) is ps.iter.Shuffler


def test_torch_seeds_a_chain() -> None:
    orders = []
    for seed in (5, 5, 6):
        rng = torch.Generator()
        rng.manual_seed(seed)
        orders.append(list(graph_settings.apply_random_seed(chain(), rng)))
    assert orders[0] == orders[1] != orders[2]
