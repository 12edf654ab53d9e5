from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from penstock.pipes.iter import IterableWrapper


def odd(x: int) -> bool:
    return x % 2 == 1


def recorded(pulled: list[int]) -> Callable[[int], int]:
    def record(x: int) -> int:
        pulled.append(x)
        return x

    return record


# filter


@pytest.mark.parametrize(
    ("items", "filter_fn", "input_col", "expected"),
    [
        (range(6), odd, None, [1, 3, 5]),
        ([("a", 1), ("b", 2)], odd, 1, [("a", 1)]),
        ([{"a": 1, "b": 2}, {"a": 3, "b": 2}], lambda x, y: x > y, ("a", "b"), [{"a": 3, "b": 2}]),
        (range(3), lambda x: torch.tensor(x > 1), None, [2]),
        ([0, "", "a", None], bool, None, ["a"]),
    ],
)
def test_filter_yields_the_items_for_which_the_result_is_true(
    items: Any, filter_fn: Callable[..., Any], input_col: Any, expected: list[Any]
) -> None:
    assert list(IterableWrapper(items).filter(filter_fn, input_col)) == expected


def test_filter_yields_the_items_themselves() -> None:
    items = [[1], [2]]
    kept = list(IterableWrapper(items, deepcopy=False).filter(odd, input_col=0))
    assert kept[0] is items[0]


@pytest.mark.parametrize(
    ("filter_fn", "error"),
    [(lambda x: 1 / (x - 2), ZeroDivisionError), (lambda x: torch.zeros(2) + x > 0, RuntimeError)],
)
def test_a_filter_function_without_an_answer_is_noted_with_operator_and_item(
    filter_fn: Callable[[int], Any], error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        list(IterableWrapper([2]).filter(filter_fn))
    assert "raised in Filter(<lambda>), on 2" in "\n".join(caught.value.__notes__)


# header


@pytest.mark.parametrize(("limit", "expected"), [(0, []), (2, [0, 1]), (5, [0, 1, 2, 3, 4]), (9, [0, 1, 2, 3, 4])])
def test_header_yields_the_first_items_and_pulls_no_more(limit: int, expected: list[int]) -> None:
    pulled: list[int] = []
    dp = IterableWrapper(range(5)).map(recorded(pulled)).header(limit)
    assert list(dp) == expected
    assert pulled == expected
    assert len(dp) == len(expected)


def test_header_has_a_limit_of_ten_or_none() -> None:
    assert len(list(IterableWrapper(range(20)).header())) == 10
    assert list(IterableWrapper(range(20)).header(None)) == list(range(20))


# until_error


def reciprocal(x: int) -> float:
    return 6 / x


@pytest.mark.parametrize(
    "steps",
    [
        lambda dp: dp.map(reciprocal),
        lambda dp: dp.flatmap(lambda x: iter([reciprocal(x)])),
        lambda dp: dp.threadpool_map(reciprocal, max_workers=2),
        lambda dp: dp.map(reciprocal).prefetch(2).batch(1).unbatch(),
    ],
)
def test_a_stream_can_end_at_the_first_error(steps: Any, caplog: pytest.LogCaptureFixture) -> None:
    dp = steps(IterableWrapper([1, 2, 0, 3])).until_error()
    assert list(dp) == [6, 3]
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith("the stream ends at an error: ZeroDivisionError: ")
    assert "raised in" in message
    assert list(dp.batch(4)) == [[6, 3]]


def test_only_the_given_errors_end_a_stream() -> None:
    dp = IterableWrapper([1, 0, 2]).map(reciprocal)
    for errors in (ZeroDivisionError, (OSError, ArithmeticError)):
        assert list(dp.until_error(errors)) == [6]
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        list(dp.until_error(OSError))
    for wrong in (3, (), KeyboardInterrupt):
        with pytest.raises(TypeError, match="errors must be an exception type"):
            dp.until_error(wrong)
    assert dp.until_error().stats() == {}


def test_a_stream_that_ended_at_an_error_counts_it() -> None:
    dp = IterableWrapper([1, 0, 2]).map(reciprocal).until_error()
    assert list(dp) == [6]
    assert dp.stats()["until_error"]["skipped"] == 1
    assert "ZeroDivisionError: division by zero" in dp.stats()["until_error"]["last_errors"][0]
