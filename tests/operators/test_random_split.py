"""random_split: groups that share no item, of the sizes asked for, whoever reads them and wherever."""

from __future__ import annotations

import copy
import json
import pickle
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import RandomSampler

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from resuming import passed_on

WEIGHTS = {"train": 0.7, "valid": 0.2, "test": 0.1}


def split(n: int = 50, **arguments: Any) -> list[Any]:
    groups: list[Any] = IterableWrapper(range(n)).random_split(**{"weights": WEIGHTS, "seed": 0, **arguments})
    return groups


def test_the_groups_are_those_that_torchdata_makes() -> None:
    half = {"train": 0.5, "valid": 0.5}
    assert [list(group) for group in split(10, weights=half)] == [[2, 3, 5, 7, 8], [0, 1, 4, 6, 9]]
    assert [list(group) for group in split(11, weights=half)] == [[2, 3, 5, 7, 8], [0, 1, 4, 6, 9, 10]]
    assert [list(group) for group in split(7, weights={1: 1, 2: 1, 3: 1}, seed=4)] == [[0, 1, 4], [2, 3], [5, 6]]


@given(
    shares=st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any),
    seed=st.one_of(st.integers(), st.text(), st.floats(allow_nan=False)),
)
def test_whole_numbers_are_the_sizes_of_groups(shares: list[int], seed: Any) -> None:
    groups = split(sum(shares), weights=dict(enumerate(shares)), seed=seed)
    items = [list(group) for group in groups]
    assert [*map(len, items)] == [*map(len, groups)] == shares
    assert sorted(x for group in items for x in group) == list(range(sum(shares)))


@given(weights=st.lists(st.floats(0.01, 1), min_size=1, max_size=4), n=st.integers(0, 60))
def test_other_weights_share_out_every_item_once(weights: list[float], n: int) -> None:
    groups = split(n, weights=dict(enumerate(weights)))
    assert sorted(x for group in groups for x in group) == list(range(n))


def test_a_target_is_that_group_alone() -> None:
    assert [list(split(target=key)) for key in WEIGHTS] == [list(group) for group in split()]
    assert repr(split(3, target="test")).endswith(", seed=0, target='test')")


def test_another_seed_is_for_all_groups_of_the_split() -> None:
    train, valid, test = split()
    before = list(valid)
    assert train.override_seed(7) is train
    assert [list(train), list(valid), list(test)] == [list(group) for group in split(seed=7)]
    assert list(valid) != before
    copied_train, copied_valid, _ = copy.deepcopy([train, valid, test])
    copied_train.override_seed(0)
    assert list(copied_valid) == before
    assert list(valid) != before
    assert list(pickle.loads(pickle.dumps(valid))) == list(valid)


def test_the_length_may_be_told() -> None:
    groups = IterableWrapper(range(20)).filter(lambda x: x < 10).random_split({"a": 8, "b": 2}, seed=0, total_length=10)
    assert [len(list(group)) for group in groups] == [*map(len, groups)] == [8, 2]


@pytest.mark.parametrize("weights", [(0.7, 0.2, 0.1), (0.1, 0.2, 0.7), (1 / 3, 1 / 3, 1 / 3)])
@pytest.mark.parametrize("n", [30, 900, 3 * 10**9])
def test_rounded_whole_numbers_are_not_left_to_chance(weights: tuple[float, ...], n: int) -> None:
    groups = IterableWrapper([]).random_split(dict(enumerate(weights)), seed=0, total_length=n)
    assert [*map(len, groups)] == [round(weight * n) for weight in weights]


@pytest.mark.filterwarnings("error")
def test_a_source_in_random_order_is_warned_of() -> None:
    ps.iter.Sampler("abc").random_split(WEIGHTS, 0)
    for source in (ps.iter.Sampler("abc", RandomSampler), IterableWrapper(range(3)).shuffle()):
        with pytest.warns(UserWarning, match="split first, and shuffle the groups") as seen:
            source.random_split(WEIGHTS, 0)
        assert seen[0].filename == __file__


@pytest.mark.parametrize("stop", [0, 12])
def test_groups_resume_with_the_seed_of_the_state(stop: int) -> None:
    def chain(seed: int | None = None) -> Any:
        train, valid = IterableWrapper(range(20)).random_split({"train": 1, "valid": 1}, seed=0)
        return (train if seed is None else train.override_seed(seed)).shuffle().concat(valid)

    dp = chain(seed=3)
    iterator = iter(dp)
    list(islice(iterator, stop))
    state = passed_on(dp)
    rest, following = list(iterator), list(dp)
    resumed = chain()
    resumed.load_state_dict(state)
    assert [list(resumed), list(resumed)] == [rest, following]
    state["state"]["random"] = [{"seed": "x"} for _ in state["state"]["random"]]
    with pytest.raises(ValueError, match="cannot have seeds like"):
        chain().load_state_dict(state)


def test_a_total_length_that_is_too_large_is_warned_of_while_reading() -> None:
    group, _ = IterableWrapper(range(8)).random_split({"a": 0.5, "b": 0.5}, seed=0, total_length=10)
    with pytest.warns(UserWarning, match="gave 8 items, and total_length is 10"):
        list(group)
    group, _ = IterableWrapper(range(10)).random_split({"a": 0.5, "b": 0.5}, seed=0, total_length=10)
    assert len(list(group)) == 5


def test_an_integer_of_numpy_is_a_seed_that_states_hold() -> None:
    groups = split(20, seed=np.int64(3))
    assert list(groups[0]) == list(split(20, seed=3)[0])
    next(iter(groups[0]))
    assert json.loads(json.dumps(groups[0].state_dict())) == groups[0].state_dict()
