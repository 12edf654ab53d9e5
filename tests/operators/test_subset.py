"""Slices, filters, repetitions and mixes of map-style pipes."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import penstock as ps
from penstock.map import SequenceWrapper
from together import Together

LETTERS = "abcdefghijklmnopqrstuvwxyz"

PIPES: dict[str, Callable[[], Any]] = {
    "SequenceWrapper": lambda: SequenceWrapper(LETTERS),
    "map": lambda: SequenceWrapper(LETTERS).map(str.upper),
    "batch": lambda: SequenceWrapper(LETTERS).batch(3),
    "zip": lambda: SequenceWrapper(LETTERS).zip(SequenceWrapper(range(20))),
    "concat": lambda: SequenceWrapper(LETTERS) + SequenceWrapper("xyz"),
    "unzip": lambda: SequenceWrapper([(1, "a"), (2, "b"), (3, "c")]).unzip(2)[1],
    "in_memory_cache": lambda: SequenceWrapper(LETTERS).in_memory_cache(),
    "to_map_datapipe": lambda: ps.iter.IterableWrapper(LETTERS).enumerate().to_map_datapipe(),
    "subset": lambda: SequenceWrapper(LETTERS).subset([3, 1, 4, 1, 5]),
    "filter": lambda: SequenceWrapper(range(50)).filter(lambda x: x % 3 == 0),
    "repeat": lambda: SequenceWrapper(LETTERS).repeat(2),
    "mix": lambda: SequenceWrapper(LETTERS).mix(SequenceWrapper(range(9)), weights=[2, 1]),
}


@pytest.mark.parametrize("name", PIPES)
@pytest.mark.parametrize(
    "part", [slice(2, 10), slice(None, None, 2), slice(None, None, -3), slice(-4, None), slice(90, 99), slice(None)]
)
def test_a_slice_is_a_pipe_with_the_items_of_a_slice_of_the_list(name: str, part: slice) -> None:
    dp = PIPES[name]()
    expected = [dp[index] for index in range(len(dp))][part]
    taken = dp[part]
    assert isinstance(taken, ps.MapDataPipe)
    assert list(taken) == expected
    assert len(taken) == len(expected)
    assert [taken[index] for index in range(-len(expected), 0)] == expected
    assert list(pickle.loads(pickle.dumps(SequenceWrapper(LETTERS)[part]))) == [*LETTERS][part]


class Squares(ps.MapDataPipe):
    def __getitem__(self, index: int) -> int:
        return index * index

    def __len__(self) -> int:
        return 10


def test_a_pipe_of_ones_own_has_slices() -> None:
    assert list(Squares()[7:]) == [49, 64, 81]
    assert list(Squares().map(str)[::4][1:]) == ["16", "64"]


def test_a_slice_of_a_slice_reads_its_source_directly() -> None:
    dp = SequenceWrapper(range(10**9))[::2][10:][:5]
    assert repr(dp) == "SequenceWrapper(range(0, 1000000000)).subset(range(20, 30, 2))"
    assert list(dp) == [20, 22, 24, 26, 28]


def test_nothing_is_read_to_slice() -> None:
    dp = SequenceWrapper(range(5)).map(lambda item: 1 // 0)
    assert len(dp[1:4]) == 3


@pytest.mark.parametrize(
    "indices", [[4, 0], (4, 0), np.array([4, 0]), torch.tensor([4, 0])], ids=lambda each: type(each).__name__
)
def test_indices_of_a_subset(indices: Any) -> None:
    dp = SequenceWrapper("abcde").subset(indices)
    assert (list(dp), dp[-1], len(dp), list(dp[::-1])) == (["e", "a"], "a", 2, ["a", "e"])


def test_indices_beyond_the_end_are_errors_that_name_the_pipe() -> None:
    for dp, length in ((SequenceWrapper("abc")[1:], 2), (SequenceWrapper("abc").repeat(2), 6)):
        for index in (length, -length - 1):
            with pytest.raises(IndexError, match=f"index {index} is out of range: the length is {length}") as raised:
                dp[index]
            assert f"raised in {type(dp).__name__}" in raised.value.__notes__[0]
    with pytest.raises(IndexError):
        SequenceWrapper("abc").subset([7])[0]
    for indices in ([True, False, False], np.array([True, False])):
        with pytest.raises(TypeError, match="these are booleans"):
            SequenceWrapper("abc").subset(indices)
    for indices in ("ab", 3, iter([1]), {0: 1}):
        with pytest.raises(TypeError, match="indices must be a sequence of integers"):
            SequenceWrapper("abc").subset(indices)


@pytest.mark.parametrize(
    ("make", "asked"),
    [
        (lambda dp: dp[2::2], [[2, 4, 6]]),
        (lambda dp: dp.filter(lambda item: item % 2), [[1, 3, 5]]),
        (lambda dp: dp[:2].repeat(2), [[0, 1, 0]]),
        (lambda dp: dp.mix(SequenceWrapper(Together(12), deepcopy=False)), [[0, 1]]),
    ],
)
def test_several_items_are_read_by_one_call(make: Callable[[Any], Any], asked: list[list[int]]) -> None:
    data = Together(12)
    dp = make(SequenceWrapper(data, deepcopy=False))
    assert dp.__getitems__([0, 1, 2]) == [dp[0], dp[1], dp[2]]
    assert [call for call in data.calls if isinstance(call, list)] == asked


# filter


def test_the_source_of_a_filter_is_read_once_and_by_one_thread() -> None:
    seen: list[int] = []

    def is_even(item: int) -> bool:
        seen.append(item)
        return item % 2 == 0

    dp = SequenceWrapper(range(6)).filter(is_even)
    assert seen == []
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: len(dp), range(8))) == [3] * 8
    assert (list(dp), dp[-1], list(dp[1:])) == ([0, 2, 4], 4, [2, 4])
    assert list(pickle.loads(pickle.dumps(SequenceWrapper(range(6)).filter(abs)))) == [1, 2, 3, 4, 5]
    assert seen == [*range(6)]


def test_workers_of_torch_get_what_a_filter_has_found() -> None:
    dp = SequenceWrapper(range(20)).filter(lambda item: item % 3 == 0)
    batches = DataLoader(dp, batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert [batch.tolist() for batch in batches] == [[0, 3], [6, 9], [12, 15], [18]]


def test_columns_and_errors_of_a_filter() -> None:
    rows = SequenceWrapper([("a", 1), ("b", 0), ("c", 2)])
    assert list(rows.filter(bool, input_col=1)) == [("a", 1), ("c", 2)]
    failing = rows.filter(lambda number: 1 // number, input_col=1)
    with pytest.raises(ZeroDivisionError) as raised:
        len(failing)
    assert "raised in Filter" in raised.value.__notes__[0]
    assert "on 1" in raised.value.__notes__[0]
    skipping = rows.filter(lambda number: 2 // number, input_col=1, on_error="skip")
    assert list(skipping) == [("a", 1), ("c", 2)]
    assert skipping.stats()["filter"]["skipped"] == 1


def test_a_filter_reads_again_where_the_source_has_another_order() -> None:
    dp = ps.iter.IterableWrapper(range(30)).shuffle().enumerate().to_map_datapipe().filter(lambda item: item < 15)
    with ps.DataLoader2(dp) as loader:
        epochs = [list(loader) for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == [*range(15)]


# mix


@pytest.mark.parametrize("weights", [None, [1, 1, 1], np.array([5, 2, 1]), [0.1, 0.2, 0.7], [1, 1000, 1]])
def test_a_mix_has_the_proportions_in_each_run(weights: list[float] | None) -> None:
    length = 3000
    sources = [SequenceWrapper([(name, at) for at in range(length)]) for name in range(3)]
    dp = sources[0].mix(*sources[1:], weights=weights)
    items = list(dp)
    shares = np.array([1, 1, 1] if weights is None else weights)
    shares = shares / shares.sum()
    for end in (1, 7, 100, 1000, len(items)):
        counts = Counter(name for name, _ in items[:end])
        assert all(abs(counts[name] - end * share) < 2 for name, share in enumerate(shares))
    for name in range(3):
        mine = [at for each, at in items if each == name]
        assert mine == [*range(len(mine))]
    assert max(Counter(name for name, _ in items).values()) == length
    assert [dp[at] for at in range(-len(dp), 0)] == items


def test_a_mix_ends_before_a_source_would_have_to_give_more() -> None:
    assert list(SequenceWrapper("aaaa").mix(SequenceWrapper("b"))) == ["a", "b", "a"]
    assert list(SequenceWrapper("").mix(SequenceWrapper("bb"))) == []
    assert (
        "".join(SequenceWrapper("a").repeat(9).mix(SequenceWrapper("b").repeat(9), weights=[2, 1])) == "aabaabaabaaba"
    )


# Resuming


def test_a_state_has_one_number_whatever_the_length() -> None:
    sizes = []
    for length in (10**3, 10**6):
        chain = SequenceWrapper(range(length))[::2].repeat(2).shuffle().set_seed(1).sharding_filter()
        iterator = iter(chain)
        for _ in range(9):
            next(iterator)
        sizes.append(len(pickle.dumps(chain.state_dict())))
    assert sizes[1] - sizes[0] < 20
