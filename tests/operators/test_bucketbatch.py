"""bucketbatch, max_token_bucketize and bucket_by_length: what meets in a batch, and that nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice, product
from typing import Any

import pytest

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from penstock.registry import DataChunk


def numbers(n: int) -> Any:
    return IterableWrapper(range(n))


def words(*lengths: int) -> Any:
    return IterableWrapper(["abcdefghij"[:length] for length in lengths])


def lengths_of(batches: Any) -> list[list[int]]:
    return [[len(word) for word in batch] for batch in batches]


LENGTHS = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)

# bucketbatch


@pytest.mark.parametrize("n", [0, 12, 13])
@pytest.mark.parametrize("use_in_batch_shuffle", [True, False])
def test_bucketbatch_loses_nothing_in_any_setting(n: int, use_in_batch_shuffle: bool) -> None:
    for batch_size, drop_last, *others in product([1, 2, 5], [False, True], [1, 3], [1, 2], [None, sorted]):
        dp = numbers(n).bucketbatch(batch_size, drop_last, *others, use_in_batch_shuffle)
        batches = list(dp)
        assert len(batches) == len(dp)
        assert {type(batch) for batch in batches} <= {DataChunk}
        sizes = sorted((len(batch) for batch in batches), reverse=True)
        whole, rest = divmod(n, batch_size)
        assert sizes == [batch_size] * whole + [rest] * (rest > 0 and not drop_last)
        items = [item for batch in batches for item in batch]
        assert len({*items}) == len(items)
        assert drop_last or sorted(items) == list(range(n))


def test_the_batches_of_one_bucket_come_sorted() -> None:
    dp = IterableWrapper([5, 3, 8, 1, 9, 2, 7, 0, 6, 4]).bucketbatch(3, sort_key=sorted)
    assert list(dp) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_the_batches_of_several_buckets_are_each_alike_and_in_random_order() -> None:
    dp = numbers(120).bucketbatch(3, batch_num=20, bucket_num=2, sort_key=sorted).set_seed(1)
    batches = list(dp)
    assert all(batch == sorted(batch) for batch in batches)
    firsts = [batch[0] for batch in batches]
    assert firsts != sorted(firsts)
    # Two sorted buckets of 60 of 120 items: three neighbours in one are about six numbers apart.
    assert sum(batch[-1] - batch[0] for batch in batches) / len(batches) < 12


def test_without_use_in_batch_shuffle_items_move_across_buckets() -> None:
    dp = numbers(90).bucketbatch(3, batch_num=10, use_in_batch_shuffle=False).set_seed(1)
    first = [item for batch in islice(dp, 10) for item in batch]
    assert max(first) >= 30
    assert list(dp.set_seed(1)) == list(dp.set_seed(1)) != list(dp.set_seed(2))


def test_bucketbatch_can_be_switched_off() -> None:
    for use_in_batch_shuffle in (True, False):
        dp = numbers(7).bucketbatch(2, use_in_batch_shuffle=use_in_batch_shuffle).set_shuffle(False)
        assert list(dp) == [[0, 1], [2, 3], [4, 5], [6]]


@pytest.mark.parametrize(
    ("dp", "kept"),
    [
        (IterableWrapper([1, 2, "x", 3, 4, 5]).bucketbatch(2, False, 1, 1, sorted, on_error="skip"), [[1, 2], [4, 5]]),
        (IterableWrapper(["1", "x", "2", "3"]).max_token_bucketize(5, int, on_error="skip"), [["1", "2"], ["3"]]),
        (IterableWrapper(["a", 1, "bb"]).bucket_by_length([2], 2, on_error="skip"), [["a"], ["bb"]]),
    ],
    ids=["bucketbatch", "max_token_bucketize", "bucket_by_length"],
)
def test_what_a_function_fails_on_can_be_skipped_and_is_counted(dp: Any, kept: list[Any]) -> None:
    assert list(dp) == kept
    assert next(iter(dp.stats().values()))["skipped"] == 1


# max_token_bucketize


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [[1, 1, 2, 3, 3], [4, 5], [5], [6], [9]]),
        ({"include_padding": True}, [[1, 1, 2], [3, 3], [4, 5], [5], [6], [9]]),
        ({"buffer_size": 3}, [[1, 1, 3, 4], [2, 5], [5, 3], [6], [9]]),
        ({"buffer_size": 3, "include_padding": True}, [[1, 1, 3], [4, 2], [5, 5], [3], [6], [9]]),
        ({"buffer_size": 1}, [[3, 1, 4, 1], [5], [9], [2, 6], [5, 3]]),
        ({"min_len": 2, "max_len": 5}, [[2, 3, 3], [4, 5], [5]]),
        ({"len_fn": lambda word: 10}, [[n] for n in LENGTHS]),
    ],
)
def test_the_shortest_of_the_buffer_fill_a_batch_up_to_so_many_tokens(
    arguments: Any, expected: list[list[int]]
) -> None:
    assert lengths_of(words(*LENGTHS).max_token_bucketize(10, **arguments)) == expected


@pytest.mark.parametrize("buffer_size", [1, 2, 5, 100])
@pytest.mark.parametrize("include_padding", [True, False])
def test_max_token_bucketize_loses_nothing_and_keeps_to_its_limit(buffer_size: int, include_padding: bool) -> None:
    items = [(number, number * 7 % 11) for number in range(60)]
    dp = IterableWrapper(items).max_token_bucketize(
        23, lambda item: item[1], buffer_size=buffer_size, include_padding=include_padding
    )
    batches = list(dp)
    assert sorted(item for batch in batches for item in batch) == items
    for batch in batches:
        lengths = [length for _, length in batch]
        assert (max(lengths) * len(lengths) if include_padding else sum(lengths)) <= 23
    assert {type(batch) for batch in batches} == {DataChunk}


def test_items_of_one_length_stay_in_order_and_need_not_compare() -> None:
    items = [{"number": number} for number in range(6)]
    assert [item for batch in IterableWrapper(items).max_token_bucketize(2) for item in batch] == items


def test_an_item_that_fits_into_no_batch_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="an item of length 9 fits no batch.*max_len=8 leaves out") as caught:
        list(words(*LENGTHS).max_token_bucketize(8))
    assert "on 'abcdefghi'" in "\n".join(caught.value.__notes__)


def test_items_too_long_are_left_out_where_that_is_asked_for() -> None:
    kept = [[1, 1, 2, 3], [3, 4], [5], [5], [6]]
    assert lengths_of(words(*LENGTHS).max_token_bucketize(8, max_len=8)) == kept
    for on_error in ("skip", ps.Retry(5, backoff=0, then="skip")):
        dp = words(*LENGTHS).max_token_bucketize(8, on_error=on_error)
        assert lengths_of(dp) == kept
        stats = dp.stats()["max_token_bucketize"]
        assert (stats["skipped"], stats["retried"]) == (1, 0)


# bucket_by_length


@pytest.mark.parametrize(
    ("boundaries", "batch_size", "arguments", "expected"),
    [
        ([3, 5], 2, {}, [[3, 4], [1, 1], [5, 9], [6, 5], [2], [3]]),
        ([3, 5], 2, {"drop_last": True}, [[3, 4], [1, 1], [5, 9], [6, 5]]),
        ([3, 5], [3, 2, 1], {}, [[3, 4], [5], [9], [1, 1, 2], [6], [5], [3]]),
        ([], 4, {}, [[3, 1, 4, 1], [5, 9, 2, 6], [5, 3]]),
    ],
)
def test_batches_come_out_when_a_bucket_is_full_and_the_rest_at_the_end(
    boundaries: Any, batch_size: Any, arguments: Any, expected: Any
) -> None:
    assert lengths_of(words(*LENGTHS).bucket_by_length(boundaries, batch_size, **arguments)) == expected


# resuming


@pytest.mark.parametrize(
    "make",
    [
        lambda dp: dp.max_token_bucketize(7, buffer_size=2),
        lambda dp: dp.bucket_by_length([7], 2),
        lambda dp: dp.groupby(len, group_size=2),
    ],
    ids=["max_token_bucketize", "bucket_by_length", "groupby"],
)
def test_a_state_holds_numbers_and_no_items(make: Callable[[Any], Any]) -> None:
    dp = make(IterableWrapper(["payload", "a", "bb", "c", "d", "eeeee", "ffffff"]))
    next(iter(dp))
    assert "payload" not in json.dumps(dp.state_dict())
