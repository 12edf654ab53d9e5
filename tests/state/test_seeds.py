"""Seeds: random numbers that a chain can repeat, in each pass others, until another seed is set."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from passing import Passing
from penstock.registry import Seeded, derive_seed, seed_graph, uniform_draws, walk
from resuming import as_json, from_json, passed_on


class Drawing(Seeded, Passing):
    """The seed of each pass, once for each item."""

    def __iter__(self) -> Any:
        for _ in self.source:
            yield self.pass_seed


def one() -> Any:
    return ps.iter.IterableWrapper([0])


def test_a_derived_seed_is_the_same_everywhere_and_for_ever() -> None:
    assert derive_seed(0) == 3717377837946358015
    assert derive_seed(1, 2, 3) == 9000938580248669710


def test_derived_seeds_differ_with_every_part_and_its_place() -> None:
    parts = [(), (0,), (0, 0), (1,), (0, 1), (1, 0), (-1,), (2**32, 3), (0, 1 + 3 * 2**32), (2**63,), (2**64 - 2,)]
    seeds = [derive_seed(*part) for part in parts]
    assert len({*seeds}) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("start", [0, 1, 1023, 1024, 1025, 5000])
def test_draws_can_be_begun_anywhere(start: int) -> None:
    from_the_start = islice(uniform_draws(7), start, start + 2000)
    assert list(from_the_start) == list(islice(uniform_draws(7, start), 2000))


def test_draws_are_uniform_and_another_seed_gives_others() -> None:
    draws = np.array(list(islice(uniform_draws(7), 20_000)))
    assert 0 <= draws.min() < draws.max() < 1
    assert np.all(np.abs(np.histogram(draws, bins=10, range=(0, 1))[0] / 2000 - 1) < 0.1)
    assert list(islice(uniform_draws(8), 5)) != draws[:5].tolist()
    assert list(islice(uniform_draws(2**64 + 7), 5)) == draws[:5].tolist()


def test_every_pass_has_a_seed_of_its_own_which_the_seed_that_was_set_repeats() -> None:
    dp = Drawing(one())
    seeds = [dp.set_seed(3).take_all()] + [dp.take_all() for _ in range(4)]
    assert len({seed for (seed,) in seeds}) == 5
    dp.set_seed(3)
    assert [dp.take_all() for _ in range(5)] == seeds
    dp.set_seed(4)
    assert dp.take_all() not in seeds


def test_without_a_seed_torch_governs() -> None:
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        dp = Drawing(one())
        runs.append([dp.take_all(), dp.take_all()])
    assert runs[0] == runs[1] != runs[2]
    assert runs[0][0] != runs[0][1]


def test_asking_for_the_next_seed_fixes_it() -> None:
    dp = Drawing(one())
    asked = dp.random_state()
    torch.manual_seed(1)
    assert dp.random_state() == asked
    assert dp.take_all() == [derive_seed(asked["seed"], 0)]


def seeds_of(dp: Any, shard: int) -> dict[str, int]:
    seed_graph(dp, 5, shard)
    return {pipe.name: pipe.random_state()["seed"] for pipe in walk(dp) if isinstance(pipe, Drawing)}


def named(source: Any, name: str) -> Any:
    dp = Drawing(source)
    dp.name = name
    return dp


def test_shards_agree_above_the_sharding_point_and_differ_below() -> None:
    def chain(sharded: bool) -> Any:
        dp = named(named(one(), "far above"), "above")
        return named(dp.sharding_filter() if sharded else dp, "below")

    for sharded, alike in ((True, {"above", "far above"}), (False, set())):
        first, second = seeds_of(chain(sharded), 0), seeds_of(chain(sharded), 1)
        assert {name for name in first if first[name] == second[name]} == alike
        assert len({*first.values(), *second.values()}) == 6 - len(alike)


class TheirWay(ps.IterDataPipe):
    """Random in a way of its own: `set_seed`, and nothing else of ours."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self._seed = None

    def set_seed(self, seed: int) -> Any:
        self._seed = seed
        return self

    def __iter__(self) -> Any:
        for item in self.source:
            yield item, self._seed


def test_a_step_with_seeds_of_its_own_way_has_another_in_each_epoch_of_a_loader_and_the_same_when_resumed() -> None:
    def load() -> Any:
        loader: Any = ps.DataLoader2(TheirWay(ps.iter.IterableWrapper(range(4)).sharding_filter()))
        loader.seed(3)
        return loader

    whole = load()
    epochs = [list(whole) for _ in range(3)]
    assert len({seed for epoch in epochs for _, seed in epoch}) == 3
    assert [list(dp) for dp in [load()]] == epochs[:1]
    for number in range(2):
        stopped = load()
        for _ in range(number):
            list(stopped)
        begun = list(islice(stopped, 2))
        resumed = load()
        resumed.load_state_dict(stopped.state_dict())
        assert [begun + list(resumed), list(resumed)] == epochs[number : number + 2]


def test_what_a_user_has_set_in_a_step_with_seeds_of_its_own_way_is_left_alone() -> None:
    dp = TheirWay(one()).set_seed(7)
    assert [list(dp.enumerate()), list(dp.enumerate())] == [[(0, (0, 7))]] * 2


def test_a_seed_set_mid_pass_is_for_later_passes() -> None:
    dp = ps.iter.IterableWrapper(range(8)).shuffle().set_seed(1)
    list(dp)
    iterator = iter(dp)
    next(iterator)
    dp.set_seed(5)
    resumed = ps.iter.IterableWrapper(range(8)).shuffle()
    resumed.load_state_dict(passed_on(dp))
    assert list(resumed) == list(iterator)
    assert [list(resumed), list(resumed)] == [list(dp), list(dp)] != [list(dp), list(dp)]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_loader_seeded_mid_epoch_ends_it_in_its_order(resumed: bool) -> None:
    def load(seed: int) -> Any:
        loader = ps.DataLoader2(ps.iter.IterableWrapper(range(8)).shuffle().sharding_filter().shuffle())
        loader.seed(seed)
        return loader

    first, other, loader = list(load(1)), load(2), load(1)
    iterator = iter(loader)
    begun = list(islice(iterator, 3))
    loader.seed(2)
    if resumed:
        state = from_json(as_json(loader.state_dict()))
        loader = load(3)
        loader.load_state_dict(state)
        iterator = iter(loader)
    assert [*begun, *iterator] == first
    assert [list(loader), list(loader)] == [list(other), list(other)]


def test_a_state_draws_nothing_where_nothing_is_random() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    dp = ps.iter.IterableWrapper(range(5)).pipe(iter).flatmap(lambda x: [x])
    iterator = iter(dp)
    next(iterator)
    dp.state_dict()
    assert torch.equal(torch.rand(3), expected)


def order(dp: Any, seed: int = 3, workers: int = 0) -> list[Any]:
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(workers)) as loader:
        loader.seed(seed)
        return list(loader)


def shuffled() -> Any:
    return ps.iter.IterableWrapper(range(40)).shuffle(buffer_size=10)


@pytest.mark.parametrize("workers", [0, 2])
def test_steps_that_draw_nothing_leave_the_order_of_a_shuffle(workers: int) -> None:
    expected = order(shuffled().sharding_filter(), workers=workers)
    chains = [
        shuffled().sharding_filter().map(int),
        shuffled().map(int).batch(2).unbatch().sharding_filter(),
        shuffled().sharding_filter().flatmap(lambda item: [item]).map(int),
        ps.iter.IterableWrapper(range(40)).map(int).filter(lambda item: True).shuffle(buffer_size=10).sharding_filter(),
    ]
    for chain in chains:
        assert sorted(order(chain, workers=workers)) == sorted(expected)
    assert [order(chain) for chain in chains] == 4 * [order(shuffled().sharding_filter())]
    assert order(chains[0], workers=workers) == expected


def test_a_further_random_step_leaves_the_order_of_those_before_it() -> None:
    before: list[int] = []
    order(shuffled().map(lambda item: before.append(item) or item).shuffle(buffer_size=4).shuffle(buffer_size=5))
    assert before == order(shuffled())


def test_random_steps_of_one_kind_differ_side_by_side_and_in_a_row() -> None:
    pairs = order(shuffled().zip(shuffled()))
    assert [one for one, _ in pairs] != [other for _, other in pairs]
    (seeds,) = order(Drawing(Drawing(one())).zip(Drawing(one())), 1)
    assert len({*seeds}) == 2


def test_steps_without_draws_leave_the_order_of_an_inner_chain() -> None:
    def inner(count: int) -> Any:
        return ps.iter.IterableWrapper(range(count)).shuffle()

    plain = order(ps.iter.IterableWrapper([9, 9]).flatmap(inner))
    assert order(ps.iter.IterableWrapper([9, 9]).flatmap(lambda n: inner(n).map(int).batch(1).unbatch())) == plain
    assert plain[:9] != plain[9:]
