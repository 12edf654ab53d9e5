"""Filters written as text, and what is told of them without reading a row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.pipes.columns.filters import expression_of, fields_in, may_be_true

ROWS = pa.table(
    {
        "id": [0, 1, 2, 3, 4],
        "price": [1.5, 3.0, None, 4.5, -2.0],
        "kind": ["a", "b", "a", None, "c"],
        "sold": [True, False, True, None, False],
        "at": [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}, {"x": 5}],
    }
)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("price > 3", [3]),
        ("price >= 3 and kind == 'b'", [1]),
        ("price < 0 or kind == 'a'", [0, 2, 4]),
        ("not kind == 'a'", [1, 4]),
        ("kind != 'a'", [1, 4]),
        ("-2 <= price < 3", [0, 4]),
        ("3 > price", [0, 4]),
        ("kind in ['a', 'c']", [0, 2, 4]),
        ("kind not in ('a', 'c') and kind is not None", [1]),
        ("id in {1, 2}", [1, 2]),
        ("price is None", [2]),
        ("sold", [0, 2]),
        ("not sold and (id < 2 or id == 4)", [1, 4]),
        ("at.x > 3", [3, 4]),
        ("id > price", [4]),
        ("\n  id == 0\n", [0]),
    ],
)
def test_a_text_keeps_the_rows_that_it_says(text: str, ids: list[int]) -> None:
    assert ROWS.filter(expression_of(text))["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("price >", "cannot be read: invalid syntax"),
        ("price == None", "'None': nothing compares to None: write is None"),
        ("price is 3", "'3': what follows is must be None"),
        ("kind in names", "'names': what follows in must be a list of values"),
        ("price + 1 > 3", r"'price \+ 1': a filter has comparisons"),
        ("__import__('os').system('true') == 0", "a filter has comparisons"),
        ("price > (lambda: 3)()", "a filter has comparisons"),
        ("3", "'3': a filter has comparisons"),
        ("id == [1, 2]", r"'\[1, 2\]': a filter has comparisons"),
        ("", "cannot be read"),
    ],
)
def test_a_text_that_says_something_else_is_an_error(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        expression_of(text)


def test_what_is_no_filter_is_an_error() -> None:
    nothing: Any = 3
    with pytest.raises(TypeError, match="text or a pyarrow.compute.Expression, and is of type int"):
        expression_of(nothing)


def test_the_columns_that_a_filter_looks_at_are_found() -> None:
    assert fields_in(expression_of("price > 3 and at.x < 2 or id in [1]"), ROWS.schema) == ["id", "price", "at"]
    assert fields_in(pc.scalar(True), ROWS.schema) == []
    assert fields_in(pc.field("kind").is_null(), ROWS.schema) == ["kind"]
    with pytest.raises(KeyError) as caught:
        fields_in(pc.field("pric") > 3, ROWS.schema)
    assert caught.value.args == (f"the filter uses a column 'pric', and the columns are {ROWS.schema.names}",)
    with pytest.raises(pa.ArrowNotImplementedError):
        fields_in(pc.field("price") > "x", ROWS.schema)


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("year == 2024", True),
        ("year == 2023", False),
        ("year == 2024 and price > 3", True),
        ("year == 2023 and price > 3", False),
        ("year == 2023 or price > 3", True),
        ("not year == 2024 and kind == 'a'", False),
        ("price is None", True),
        ("price is not None", True),
        ("month is None", True),
        ("month == 3", False),
        ("month is not None and price > 3", False),
        ("year > 'x'", True),  # what cannot be told is left to the reader
    ],
)
def test_a_filter_is_told_to_be_false_from_the_values_that_are_known(text: str, possible: bool) -> None:
    known = {"year": pa.scalar(2024), "month": pa.scalar(None, pa.int64())}
    assert may_be_true(expression_of(text), known) is possible
