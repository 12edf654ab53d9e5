from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from penstock.registry import DataChunk

# batch


@pytest.mark.parametrize(
    ("length", "arguments", "expected"),
    [
        (4, {"batch_size": 2}, [[0, 1], [2, 3]]),
        (5, {"batch_size": 2}, [[0, 1], [2, 3], [4]]),
        (5, {"batch_size": 2, "drop_last": True}, [[0, 1], [2, 3]]),
        (2, {"batch_size": 5, "drop_last": True}, []),
    ],
)
def test_batch_yields_lists_of_so_many_items(length: int, arguments: Any, expected: list[Any]) -> None:
    dp = IterableWrapper(range(length)).batch(**arguments)
    assert list(dp) == expected
    assert len(dp) == len(expected)


def test_batch_makes_batches_with_the_wrapper_class() -> None:
    [batch] = IterableWrapper(range(2)).batch(2)
    assert type(batch) is DataChunk
    assert list(batch.raw_iterator()) == [0, 1]
    assert list(IterableWrapper(range(3)).batch(2, wrapper_class=sum)) == [1, 2]


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


# unbatch


@pytest.mark.parametrize(
    ("items", "level", "expected"),
    [
        ([[0, 1], [], [2]], 1, [0, 1, 2]),
        ([[[0], [1, 2]], [[3]]], 2, [0, 1, 2, 3]),
        ([[[0], [1, 2]], [[3]]], 0, [[[0], [1, 2]], [[3]]]),
        ([[[0], [1, [2]]], 3], -1, [0, 1, 2, 3]),
        ([[(0, [1]), {"a": [2]}]], -1, [(0, [1]), {"a": [2]}]),
    ],
)
def test_unbatch_flattens_lists_by_so_many_levels(items: list[Any], level: int, expected: list[Any]) -> None:
    assert list(IterableWrapper(items).unbatch(level)) == expected


@pytest.mark.parametrize(("item", "level", "found"), [((0, 1), 1, "tuple"), ([0, [1]], 2, "int")])
def test_unbatch_of_what_is_no_batch_is_an_error_with_the_item(item: Any, level: int, found: str) -> None:
    message = f"unbatch_level {level} is deeper than the batch: there is a {found}"
    with pytest.raises(IndexError, match=message) as caught:
        list(IterableWrapper([item]).unbatch(level))
    notes = "\n".join(caught.value.__notes__)
    assert "raised in UnBatcher(" in notes
    assert f"on {item}" in notes


# groupby


def by_three(x: int) -> int:
    return x % 3


def itself(x: Any) -> Any:
    return x


UNEVEN = [0, 1, 1, 2, 2, 2, 0, 0, 1, 5, 6, 7]


@pytest.mark.parametrize(
    ("items", "key", "arguments", "expected"),
    [
        (range(10), by_three, {}, [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]),
        (range(10), by_three, {"group_size": 2}, [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]),
        (range(3), by_three, {"buffer_size": 1}, [[0], [1], [2]]),
        (
            range(10),
            by_three,
            {"buffer_size": 4, "group_size": 3, "guaranteed_group_size": 2},
            [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]],
        ),
        (range(10), by_three, {"buffer_size": 3, "group_size": 2, "drop_remaining": True}, [[8], [9]]),
        (UNEVEN, itself, {"buffer_size": 2}, [[0], [1, 1], [2, 2], [2], [0, 0], [1], [5], [6], [7]]),
        (UNEVEN, itself, {"buffer_size": 4}, [[1, 1], [2, 2, 2], [0, 0, 0], [1], [5], [6], [7]]),
        (
            UNEVEN,
            itself,
            {"buffer_size": 4, "group_size": 4, "guaranteed_group_size": 2, "drop_remaining": True},
            [[1, 1], [2, 2, 2], [0, 0, 0], [5], [6], [7]],
        ),
    ],
)
def test_groupby_holds_items_until_a_group_is_full_or_the_buffer_is(
    items: Any, key: Any, arguments: Any, expected: list[Any]
) -> None:
    source = IterableWrapper(items)
    groups = list(source.groupby(key, **arguments))
    assert groups == expected
    assert {type(group) for group in groups} == {DataChunk}
    with_keys = list(source.groupby(key, keep_key=True, **arguments))
    assert with_keys == [(key(group[0]), group) for group in expected]


@pytest.mark.parametrize("guaranteed", [None, 2])
def test_a_full_buffer_with_only_small_groups_is_an_error_that_says_what_to_do(guaranteed: int | None) -> None:
    dp = IterableWrapper(range(9)).groupby(by_three, buffer_size=3, group_size=2, guaranteed_group_size=guaranteed)
    message = "3 items are buffered, and the largest group, that of the key 0, has 1 of them, fewer than"
    with pytest.raises(RuntimeError, match=f"{message} guaranteed_group_size, 2: give a larger buffer_size") as caught:
        list(dp)
    assert "on 2" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(("fails", "key_fn", "error"), [("x", int, ValueError), ([2], itself, TypeError)])
def test_items_whose_key_fails_are_named_or_skipped_and_counted(
    fails: Any, key_fn: Any, error: type[Exception]
) -> None:
    source = IterableWrapper([1, fails, 2, 1])
    with pytest.raises(error, match="invalid literal|unhashable") as caught:
        list(source.groupby(key_fn))
    assert f"on {fails!r}" in "\n".join(caught.value.__notes__)
    dp = source.groupby(key_fn, on_error="skip")
    assert list(dp) == [[1, 1], [2]]
    assert dp.stats()["groupby"]["skipped"] == 1
