from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import Batcher, Grouper, IterableWrapper, UnBatcher
from penstock.registry import DataChunk, Throttle
from penstock.state import replay as reading
from resuming import ALWAYS, assert_resumes_everywhere

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


@pytest.mark.parametrize(("drop_last", "expected"), [(False, [(0, 1), (2, 3), (4,)]), (True, [(0, 1), (2, 3)])])
def test_batch_reads_its_items_by_one_call_where_they_are_read_by_index(drop_last: bool, expected: list[Any]) -> None:
    class Together(list[int]):
        def __getitems__(self, indices: list[int]) -> list[int]:
            asked.append(indices)
            return [self[index] for index in indices]

    asked: list[list[int]] = []
    dp = ps.map.SequenceWrapper(Together(range(5))).to_iter_datapipe().batch(2, drop_last, wrapper_class=tuple)
    assert list(dp) == expected
    assert asked == [[0, 1], [2, 3], [4]]
    assert len(dp) == len(expected)


def test_batch_pulls_only_what_it_hands_out() -> None:
    pulled: list[int] = []
    iterator = iter(IterableWrapper(range(9)).map(lambda x: pulled.append(x) or x).batch(2))
    next(iterator)
    assert pulled == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, and is 0"),
        ({"batch_size": 2.5}, TypeError, "batch_size must be a whole number"),
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
    message = f"unbatch_level {level} is deeper than the batch: there is a {found}"
    with pytest.raises(IndexError, match=message) as caught:
        list(IterableWrapper([item]).unbatch(level))
    notes = "\n".join(caught.value.__notes__)
    assert "raised in UnBatcher(" in notes
    assert f"on {item}" in notes


@pytest.mark.parametrize(("level", "error"), [(-2, ValueError), (1.5, TypeError), (None, TypeError)])
def test_unbatch_refuses_a_level_that_is_none(level: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        IterableWrapper([[1]]).unbatch(level)


# groupby


def by_three(x: int) -> int:
    return x % 3


def itself(x: Any) -> Any:
    return x


FILES = ["a.png", "b.png", "a.json", "b.json", "a.jpg", "c.json"]
UNEVEN = [0, 1, 1, 2, 2, 2, 0, 0, 1, 5, 6, 7]


@pytest.mark.parametrize(
    ("items", "key", "arguments", "expected"),
    [
        (range(10), by_three, {}, [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]),
        (range(10), by_three, {"group_size": 2}, [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]),
        (range(10), by_three, {"group_size": 2, "drop_remaining": True}, [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]),
        (range(5), by_three, {"buffer_size": 3}, [[0], [1], [2], [3], [4]]),
        (range(3), by_three, {"buffer_size": 1}, [[0], [1], [2]]),
        (range(10), by_three, {"buffer_size": 4}, [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]),
        (
            range(10),
            by_three,
            {"buffer_size": 4, "group_size": 3, "guaranteed_group_size": 2},
            [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]],
        ),
        (range(10), by_three, {"buffer_size": 3, "group_size": 2, "drop_remaining": True}, [[8], [9]]),
        (
            FILES,
            lambda path: path[0],
            {"buffer_size": 3, "group_size": 3, "guaranteed_group_size": 2},
            [["a.png", "a.json"], ["b.png", "b.json"], ["a.jpg"], ["c.json"]],
        ),
        (UNEVEN, itself, {"buffer_size": 2}, [[0], [1, 1], [2, 2], [2], [0, 0], [1], [5], [6], [7]]),
        (UNEVEN, itself, {"buffer_size": 4}, [[1, 1], [2, 2, 2], [0, 0, 0], [1], [5], [6], [7]]),
        (
            UNEVEN,
            itself,
            {"buffer_size": 4, "group_size": 4, "guaranteed_group_size": 2, "drop_remaining": True},
            [[1, 1], [2, 2, 2], [0, 0, 0], [5], [6], [7]],
        ),
        ([], itself, {}, []),
    ],
)
def test_groupby_holds_items_until_a_group_is_full_or_the_buffer_is(
    items: Any, key: Any, arguments: Any, expected: list[Any]
) -> None:
    source = IterableWrapper(items)
    assert list(source.groupby(key, **arguments)) == expected
    with_keys = list(source.groupby(key, keep_key=True, **arguments))
    assert with_keys == [(key(group[0]), group) for group in expected]


def test_a_group_is_a_data_chunk_that_can_be_pickled() -> None:
    [group] = IterableWrapper([1, 1]).groupby(itself)
    assert type(group) is DataChunk
    assert list(pickle.loads(pickle.dumps(group)).raw_iterator()) == [1, 1]


@pytest.mark.parametrize("guaranteed", [None, 2])
def test_a_full_buffer_with_only_small_groups_is_an_error_that_says_what_to_do(guaranteed: int | None) -> None:
    dp = IterableWrapper(range(9)).groupby(by_three, buffer_size=3, group_size=2, guaranteed_group_size=guaranteed)
    message = "3 items are buffered, and the largest group, that of the key 0, has 1 of them, fewer than"
    with pytest.raises(RuntimeError, match=f"{message} guaranteed_group_size, 2: give a larger buffer_size") as caught:
        list(dp)
    assert "on 2" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"buffer_size": 0}, ValueError, "buffer_size must be at least 1, and is 0"),
        ({"group_size": 0}, ValueError, "group_size must be at least 1, and is 0"),
        ({"group_size": 5, "buffer_size": 3}, ValueError, "group_size must be from 1 to buffer_size, 3, and is 5"),
        ({"guaranteed_group_size": 2}, ValueError, "guaranteed_group_size must be from 1 to group_size, None"),
        ({"guaranteed_group_size": 3, "group_size": 2}, ValueError, "from 1 to group_size, 2, and is 3"),
        ({"guaranteed_group_size": 0, "group_size": 2}, ValueError, "must be at least 1, and is 0"),
        ({"group_size": 2.5}, TypeError, "group_size must be a whole number, and is 2.5"),
        ({"on_error": "ignore"}, ValueError, "on_error must be"),
    ],
)
def test_groupby_refuses_wrong_arguments_at_construction(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        IterableWrapper([1]).groupby(itself, **arguments)


def test_a_key_that_cannot_be_is_an_error_with_the_item() -> None:
    with pytest.raises(TypeError, match="unhashable") as caught:
        list(IterableWrapper([1]).groupby(lambda x: [x]))
    assert "on 1" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(("fails", "key_fn"), [("x", int), ([2], itself)])
def test_items_whose_key_fails_can_be_skipped_and_are_counted(fails: Any, key_fn: Any) -> None:
    dp = IterableWrapper([1, fails, 2, 1]).groupby(key_fn, on_error="skip")
    assert list(dp) == [[1, 1], [2]]
    assert dp.stats()["groupby"]["skipped"] == 1


def test_an_item_whose_key_fails_is_named() -> None:
    with pytest.raises(ValueError, match="invalid literal") as caught:
        list(IterableWrapper([1, "x"]).groupby(int))
    assert "on 'x'" in "\n".join(caught.value.__notes__)


def test_a_state_of_groupby_holds_numbers_and_no_items() -> None:
    dp = IterableWrapper(["secret", "b", "b"]).groupby(itself, group_size=2)
    assert next(iter(dp)) == ["b", "b"]
    assert "secret" not in json.dumps(dp.state_dict())


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
    "groupby": lambda: IterableWrapper(UNEVEN).groupby(itself, group_size=2),
    "groupby, all at the end": lambda: IterableWrapper(range(7)).groupby(by_three, keep_key=True),
    "groupby, small buffer": lambda: (
        IterableWrapper(UNEVEN).shuffle(buffer_size=4).set_seed(1).groupby(itself, buffer_size=3)
    ),
    "groupby, dropping": lambda: IterableWrapper(UNEVEN).groupby(
        itself, buffer_size=4, group_size=4, guaranteed_group_size=2, drop_remaining=True
    ),
    "groupby, skipping": lambda: IterableWrapper([0, "x", 1, 0, "y", 0, 1, 2]).groupby(
        int, group_size=2, on_error="skip"
    ),
    "groupby of one-to-many": lambda: IterableWrapper([3, 4, 5]).flatmap(range).groupby(by_three, group_size=3),
    "groupby of torch's": lambda: Grouper(TorchIterableWrapper(UNEVEN), itself, buffer_size=4),
    "groupby, then shuffle": lambda: IterableWrapper(UNEVEN).groupby(itself, buffer_size=4).shuffle().set_seed(1),
    "batch, then unbatch": lambda: IterableWrapper(range(7)).shuffle().set_seed(1).batch(3).unbatch().batch(2),
}


@pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS)
def test_resumes_after_every_item(make: Callable[[], ps.IterDataPipe[Any]]) -> None:
    assert_resumes_everywhere(make)


def test_groups_handed_from_chain_to_chain_come_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Throttle, "step", ALWAYS)

    def make() -> ps.IterDataPipe[Any]:
        return IterableWrapper(UNEVEN * 2).groupby(itself, buffer_size=9, group_size=2, drop_remaining=True)

    expected, dp, seen = list(make()), make(), []
    for _ in expected:
        seen += islice(dp, 1)
        state, dp = json.loads(json.dumps(dp.state_dict())), make()
        dp.load_state_dict(state)
    assert seen == expected


def test_a_group_that_is_never_full_lets_no_snapshots_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_SNAPSHOTS", 4)
    monkeypatch.setattr(Throttle, "step", ALWAYS)
    seen = []

    def make() -> ps.IterDataPipe[Any]:
        return IterableWrapper([9, *range(40)]).groupby(lambda x: x % 9 + x // 9, group_size=2)

    dp = make()
    for _ in dp:
        (trail,) = dp._pass._logs.values()
        seen.append(len(trail._snapshots))
    assert 3 <= max(seen) <= 4
    assert_resumes_everywhere(make)


def test_unbatch_resumes_from_the_batch_it_was_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Throttle, "step", ALWAYS)
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
