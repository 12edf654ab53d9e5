"""zip_with_iter and zip_with_map: which items meet, what is held, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data.datapipes.map import SequenceWrapper as TorchSequenceWrapper

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from resuming import assert_resumes_everywhere

SequenceWrapper = ps.map.SequenceWrapper
NAMES = {1: "a", 2: "b", 3: "c", 4: "d"}


def numbers(*items: int) -> Any:
    return IterableWrapper(items)


def names(*keys: int) -> Any:
    return IterableWrapper([(key, NAMES[key]) for key in keys])


def first(pair: Any) -> Any:
    return pair[0]


def joined(source: Any, ref: Any, **kwargs: Any) -> Any:
    return source.zip_with_iter(ref, key_fn=int, ref_key_fn=first, **kwargs)


# zip_with_iter


def test_items_meet_by_key_in_the_order_of_the_source() -> None:
    for order in ((1, 2, 3), (4, 3, 1, 2)):
        assert list(joined(numbers(1, 2, 3), names(*order))) == [(1, (1, "a")), (2, (2, "b")), (3, (3, "c"))]
    assert list(numbers(1, 2).zip_with_iter(numbers(22, 21), key_fn=lambda x: x % 10)) == [(1, 21), (2, 22)]


def test_merge_fn_and_keep_key_make_what_comes_out() -> None:
    def merge(number: int, pair: Any) -> str:
        return pair[1] * number

    source, ref = numbers(1, 2), names(2, 1)
    assert list(joined(source, ref, merge_fn=merge)) == ["a", "bb"]
    assert list(joined(source, ref, merge_fn=merge, keep_key=True)) == [(1, "a"), (2, "bb")]
    assert list(joined(source, ref, keep_key=True)) == [(1, (1, (1, "a"))), (2, (2, (2, "b")))]
    assert len(joined(source, names(1, 2, 3))) == 2


def test_what_no_item_asks_for_is_left_out() -> None:
    pulled: list[Any] = []
    ref = names(3, 1, 2, 4).map(lambda pair: pulled.append(pair[0]) or pair)
    assert list(joined(numbers(1, 2), ref)) == [(1, (1, "a")), (2, (2, "b"))]
    assert pulled == [3, 1, 2]


def test_so_many_items_are_held_while_a_key_is_looked_for() -> None:
    for buffer_size in (2, None):
        assert [item for item, _ in joined(numbers(1, 2, 3), names(3, 2, 1), buffer_size=buffer_size)] == [1, 2, 3]
    with pytest.raises(BufferError, match="the key 1, and 1 items of other keys are buffered: give a larger") as caught:
        list(joined(numbers(1, 2, 3), names(3, 2, 1), buffer_size=1))
    assert "raised in IterKeyZipper(int, ref_key_fn=first, buffer_size=1), on 1" in "\n".join(caught.value.__notes__)
    skipping = joined(numbers(1, 2, 3, 4), names(2, 3, 4, 1), buffer_size=1, on_error="skip")
    assert [item for item, _ in skipping] == [2, 3, 4]  # and no item of ref is lost


@pytest.mark.parametrize(
    ("source", "ref", "error", "message", "item"),
    [
        (numbers(1, 9), names(1, 2), KeyError, "ref_datapipe has no item with the key 9", "on 9"),
        (numbers(1, 1), names(1, 2), KeyError, "the key 1, or it was used already", "on 1"),
        (numbers(1), names(3, 2, 3, 1), ValueError, "ref_datapipe has the key 3 twice", "on (3, 'c')"),
    ],
)
def test_missing_and_double_keys_are_errors(
    source: Any, ref: Any, error: type[Exception], message: str, item: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        list(joined(source, ref))
    assert item in "\n".join(caught.value.__notes__)


def test_items_without_a_match_can_be_skipped_and_are_counted() -> None:
    dp = joined(numbers(1, 9, 3, 8), names(3, 2, 1), on_error="skip")
    assert list(dp) == [(1, (1, "a")), (3, (3, "c"))]
    stats = dp.stats()["zip_with_iter"]
    assert stats["skipped"] == 2
    assert "no item with the key 9, or it was used already', on 9" in stats["last_errors"][0]
    with pytest.raises(TypeError, match="leaves out items that fail"):
        len(dp)
    assert len(list(joined(numbers(1, 1), names(1, 2, 1)))) == 2  # a used item may come again
    with pytest.raises(ZeroDivisionError):  # an error of a source is not skipped
        list(joined(numbers(1), names(1, 2).map(lambda pair: 1 / 0), on_error="skip"))


@pytest.mark.parametrize(
    ("functions", "left", "note"),
    [
        ({"key_fn": lambda x: [0, 1 // (x - 2), x][2], "ref_key_fn": first}, [1, 3], "on 2"),
        ({"key_fn": int, "ref_key_fn": lambda pair: [1 // (pair[0] - 3), pair[0]][1]}, [1, 2], "on (3, 'c')"),
        ({"key_fn": lambda x: [x] if x == 2 else x, "ref_key_fn": first}, [1, 3], "on 2"),
        ({"key_fn": int, "ref_key_fn": lambda pair: [3] if pair[0] == 3 else pair[0]}, [1, 2], "on (3, 'c')"),
        ({"key_fn": int, "ref_key_fn": first, "merge_fn": lambda x, _: [1 // (x - 1), x]}, [2, 3], "on 1"),
    ],
    ids=["key_fn", "ref_key_fn", "unhashable key", "unhashable ref key", "merge_fn"],
)
def test_items_for_which_a_function_raises_can_be_skipped(functions: Any, left: list[int], note: str) -> None:
    dp = numbers(1, 2, 3).zip_with_iter(names(3, 1, 2), on_error="skip", **functions)
    items = [pair[-1] if "merge_fn" in functions else pair[0] for pair in dp]
    assert items == left
    assert dp.stats()["zip_with_iter"]["skipped"] == (2 if left == [1, 2] else 1)
    with pytest.raises((ZeroDivisionError, TypeError)) as caught:
        list(numbers(1, 2, 3).zip_with_iter(names(3, 1, 2), **functions))
    assert note in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("refs", "message"), [(names(3, 2), "no item with the key 1"), (names(3, 3, 1), "has the key 3 twice")]
)
def test_what_no_other_attempt_would_change_is_not_tried_again(refs: Any, message: str) -> None:
    dp = joined(numbers(1, 3), refs, on_error=ps.Retry(5, backoff=0, then="skip"))
    assert dp.count()
    assert (dp.stats()["zip_with_iter"]["skipped"], dp.stats()["zip_with_iter"]["retried"]) == (1, 0)
    for on_error in (ps.Retry(5, backoff=0), ps.Skip(errors=OSError)):
        with pytest.raises((KeyError, ValueError), match=message):
            list(joined(numbers(1, 3), refs, on_error=on_error))


# zip_with_map


def test_items_meet_what_their_key_finds() -> None:
    by_key = SequenceWrapper(NAMES)
    assert list(numbers(2, 1, 2).zip_with_map(by_key, int)) == [(2, "b"), (1, "a"), (2, "b")]
    assert list(numbers(2).zip_with_map(by_key, int, keep_key=True)) == [(2, (2, "b"))]
    assert list(numbers(2).zip_with_map(by_key, int, lambda x, name: name * x)) == ["bb"]
    assert list(numbers(2).zip_with_map(by_key, int, lambda x, name: name * x, keep_key=True)) == [(2, "bb")]
    assert list(numbers(1, 0).zip_with_map(TorchSequenceWrapper("xy"), int)) == [(1, "y"), (0, "x")]
    assert len(numbers(1, 2).zip_with_map(by_key, int)) == 2
    with pytest.raises(KeyError, match=r"has no item with the key 1, or failed on it: KeyError\('nowhere'\)"):
        list(numbers(1).zip_with_map(by_key.map(lambda name: {}["nowhere"]), int))


@pytest.mark.parametrize(("held", "key"), [(NAMES, 9), ("abc", 3)])
def test_a_key_that_is_missing_is_named_with_the_item(held: Any, key: int) -> None:
    def make(**arguments: Any) -> Any:
        return numbers(1, key + 10, 2).zip_with_map(
            SequenceWrapper(held), lambda x: x if x < 10 else x - 10, **arguments
        )

    with pytest.raises(KeyError, match=f"map_datapipe has no item with the key {key}") as caught:
        list(make())
    assert f"on {key + 10}" in "\n".join(caught.value.__notes__)
    dp = make(on_error="skip")
    assert [number for number, _ in dp] == [1, 2]
    assert dp.stats()["zip_with_map"]["skipped"] == 1
    with pytest.raises(TypeError, match="leaves out items that fail"):
        len(dp)


# resuming


def branches_joined() -> Any:
    first, second = numbers(1, 2, 3, 4, 5).fork(2)
    return (
        first.shuffle(buffer_size=3).set_seed(4).zip_with_iter(second.map(lambda x: (x, x)), int, lambda pair: pair[0])
    )


def test_the_branches_of_a_fork_are_joined_where_their_buffer_has_room() -> None:
    assert sorted(branches_joined()) == [(x, (x, x)) for x in (1, 2, 3, 4, 5)]
    first, second = numbers(*range(9)).fork(2, buffer_size=2)
    with pytest.raises(BufferError):
        list(first.zip_with_iter(second.shuffle().set_seed(1), int))


def test_joined_branches_of_a_fork_resume_after_every_item_of_every_pass() -> None:
    assert_resumes_everywhere(branches_joined)
