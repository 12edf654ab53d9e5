from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import Batcher, IterableWrapper, UnBatcher
from penstock.registry import DataChunk, Pace
from resuming import assert_resumes_everywhere

# batch


@pytest.mark.parametrize(
    ("length", "arguments", "expected"),
    [
        (0, {"batch_size": 2}, []),
        (4, {"batch_size": 2}, [[0, 1], [2, 3]]),
        (5, {"batch_size": 2}, [[0, 1], [2, 3], [4]]),
        (5, {"batch_size": 2, "drop_last": True}, [[0, 1], [2, 3]]),
        (2, {"batch_size": 5}, [[0, 1]]),
        (2, {"batch_size": 5, "drop_last": True}, []),
    ],
)
def test_batch_yields_lists_of_so_many_items(length: int, arguments: Any, expected: list[Any]) -> None:
    dp = IterableWrapper(range(length)).batch(**arguments)
    assert list(dp) == expected
    assert len(dp) == len(expected)


def test_a_batch_is_a_data_chunk_that_knows_its_items() -> None:
    [batch] = IterableWrapper(range(2)).batch(2)
    assert type(batch) is DataChunk
    assert list(batch.raw_iterator()) == [0, 1]


def test_batch_makes_batches_with_the_wrapper_class() -> None:
    batches = list(IterableWrapper(range(3)).batch(2, wrapper_class=torch.tensor))
    assert [batch.tolist() for batch in batches] == [[0, 1], [2]]


def test_batch_pulls_only_what_it_hands_out() -> None:
    pulled: list[int] = []
    iterator = iter(IterableWrapper(range(9)).map(lambda x: pulled.append(x) or x).batch(2))
    next(iterator)
    assert pulled == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, and is 0"),
        ({"batch_size": 2.5}, TypeError, "float"),
        ({"batch_size": 2, "wrapper_class": 3}, TypeError, "wrapper_class must make a batch out of a list, and is 3"),
    ],
)
def test_batch_refuses_wrong_arguments_at_construction(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        IterableWrapper([1]).batch(**arguments)


def test_a_wrapper_class_that_raises_is_noted_with_operator_and_item() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(IterableWrapper([3, 4]).batch(2, wrapper_class=lambda items: 1 / 0))
    assert "raised in Batcher(2, wrapper_class=<lambda>), on 4" in "\n".join(caught.value.__notes__)


# unbatch


@pytest.mark.parametrize(
    ("items", "level", "expected"),
    [
        ([[0, 1], [], [2]], 1, [0, 1, 2]),
        ([[[0], [1, 2]], [[3]]], 1, [[0], [1, 2], [3]]),
        ([[[0], [1, 2]], [[3]]], 2, [0, 1, 2, 3]),
        ([[[0], [1, 2]], [[3]]], 0, [[[0], [1, 2]], [[3]]]),
        ([[[0], [1, [2]]], 3], -1, [0, 1, 2, 3]),
        ([[(0, [1]), {"a": [2]}]], -1, [(0, [1]), {"a": [2]}]),
    ],
)
def test_unbatch_flattens_lists_by_so_many_levels(items: list[Any], level: int, expected: list[Any]) -> None:
    assert list(IterableWrapper(items).unbatch(level)) == expected


def test_unbatch_undoes_batch() -> None:
    assert list(IterableWrapper(range(7)).batch(2).batch(3).unbatch(2)) == list(range(7))


@pytest.mark.parametrize(("item", "level", "found"), [((0, 1), 1, "tuple"), ([0, [1]], 2, "int")])
def test_unbatch_of_what_is_no_batch_is_an_error_with_the_item(item: Any, level: int, found: str) -> None:
    message = f"unbatch_level {level} is deeper than the batch, which has a {found}"
    with pytest.raises(IndexError, match=message) as caught:
        list(IterableWrapper([item]).unbatch(level))
    notes = "\n".join(caught.value.__notes__)
    assert "raised in UnBatcher(" in notes
    assert f"on {item}" in notes


@pytest.mark.parametrize(("level", "error"), [(-2, ValueError), (1.5, TypeError), (None, TypeError)])
def test_unbatch_refuses_a_level_that_is_none(level: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        IterableWrapper([[1]]).unbatch(level)


# resuming


NESTED = [[[0], [1, 2]], [], [[3]], [[4, 5, 6], []]]
CHAINS: dict[str, Callable[[], ps.IterDataPipe[Any]]] = {
    "batch": lambda: IterableWrapper(range(7)).batch(3),
    "batch, whole ones": lambda: IterableWrapper(range(7)).batch(3, drop_last=True),
    "batch of shuffled": lambda: IterableWrapper(range(7)).shuffle(buffer_size=3).set_seed(2).batch(2),
    "batch of torch's": lambda: Batcher(TorchIterableWrapper(range(7)), 3),
    "unbatch": lambda: IterableWrapper(NESTED).unbatch(),
    "unbatch, 2 levels": lambda: IterableWrapper(NESTED).unbatch(2),
    "unbatch, all levels": lambda: IterableWrapper(NESTED).unbatch(-1),
    "unbatch of torch's": lambda: UnBatcher(TorchIterableWrapper(NESTED)),
    "batch, then unbatch": lambda: IterableWrapper(range(7)).shuffle().set_seed(1).batch(3).unbatch().batch(2),
}


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_resumes_after_every_item(make: Callable[[], ps.IterDataPipe[Any]]) -> None:
    assert_resumes_everywhere(make)


def test_unbatch_resumes_from_the_batch_it_was_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "due", lambda self: True)
    pulled: list[Any] = []

    def make() -> ps.IterDataPipe[Any]:
        return IterableWrapper([[0, 1], [2, 3], [4, 5]]).map(lambda batch: pulled.append(batch) or batch).unbatch()

    dp = make()
    iterator = iter(dp)
    assert list(islice(iterator, 3)) == [0, 1, 2]
    resumed = make()
    resumed.load_state_dict(json.loads(json.dumps(dp.state_dict())))
    pulled.clear()
    assert list(resumed) == [3, 4, 5]
    assert pulled == [[2, 3], [4, 5]]
