"""Filters written as text, and what is told of them without reading a row."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.pipes.columns.filters import expression_of, fields_in, may_be_true
from penstock.pipes.iter import IterableWrapper

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
        ("3", "'3': a filter has comparisons"),
        ("id == [1, 2]", r"'\[1, 2\]': a filter has comparisons"),
    ],
)
def test_a_text_that_says_something_else_is_an_error(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        expression_of(text)


HOURS = [datetime(2024, 8, 31, tzinfo=UTC) + timedelta(hours=6 * n) for n in range(8)]
NAIVE = [hour.replace(tzinfo=None) for hour in HOURS]
TIMES = pa.table(
    {
        "id": range(8),
        "time": pa.array(NAIVE, pa.timestamp("us")),
        "utc": pa.array(HOURS, pa.timestamp("ms", "UTC")),
        "berlin": pa.array(HOURS, pa.timestamp("ns", "Europe/Berlin")),
        "day": [hour.date() for hour in HOURS],
        "hour": pa.array([hour.time() for hour in HOURS], pa.time32("s")),
        "at": [{"time": hour} for hour in NAIVE],
    }
)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("time < '2024-09-01'", [0, 1, 2, 3]),
        ("'2024-08-31T12:00' <= time < '2024-09-01 00:00:00'", [2, 3]),
        ("utc < '2024-08-31T13:00+01:00'", [0, 1]),
        ("utc >= '2024-09-01T18:00Z'", [7]),
        ("berlin < '2024-08-31T14:00'", [0, 1]),  # 12:00 in UTC
        ("utc in ['2024-08-31', '2024-09-01T06:00Z']", [0, 5]),
        ("day == '2024-09-01' and time != '2024-09-01'", [5, 6, 7]),
        ("day not in ('2024-09-01',)", [0, 1, 2, 3]),
        ("hour >= '18:00'", [3, 7]),
        ("at.time < '2024-08-31T06:00'", [0]),
    ],
)
def test_text_beside_a_column_of_times_is_a_time(tmp_path: Path, text: str, ids: list[int]) -> None:
    assert TIMES.filter(expression_of(text, TIMES.schema))["id"].to_pylist() == ids
    pq.write_table(TIMES, tmp_path / "times.parquet", row_group_size=2)
    for groups in (False, True):
        dp = ps.read_parquet(tmp_path, ["id"], text, shuffle_row_groups=groups)
        assert sorted(n for batch in dp for n in batch["id"].to_pylist()) == ids
    groups_read = list(IterableWrapper([tmp_path / "times.parquet"]).list_row_groups(text))
    assert text.startswith(("day not", "hour", "at")) or len(groups_read) <= -(-len(ids) // 2) + 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time < 'soon'", r"has \"'soon'\": column 'time' is timestamp\[us\], and this text is none: write it as"),
        ("time < '2024-09-01T12:00Z'", "column 'time' is .*, without a zone"),
        ("utc < '2024-09'", r"column 'utc' is timestamp\[ms, tz=UTC\].* perhaps with a zone"),
        ("day in ['2024-09-01T12:00']", r"column 'day' is date32\[day\], .*'2024-09-01'"),
        ("hour > '25:00'", r"column 'hour' is time32\[ms\], .* '12:30'"),
        ("hour > '12:30:00.0005'", r"column 'hour' is time32\[ms\]"),
        ("berlin < '9999-12-31'", r"is timestamp\[ns, .*, which holds times from 1677-09-22 to 2262-04-11, and"),
        ("berlin < '9999-12-31T00:00Z'", "which holds times from 1677-09-22 to 2262-04-11"),
        ("berlin == '2024-10-27T02:30'", "whose clocks show this time twice, as they change: write its offset"),
        ("berlin == '2024-03-31T02:30'", "whose clocks show this time never"),
        ("time > 5", r"column 'time', which is timestamp\[us\], does not compare with 5: write it as '2024-09-01'"),
        ("5 < at.time", r"5 does not compare with column 'time', which is timestamp\[us\]: write it as"),
        ("id > '5'", r"has \"id > '5'\": column 'id', which is int64, does not compare with '5': write values of the"),
        ("id < time", r"with column 'time', which is timestamp\[us\]: a pyarrow.compute.Expression can cast"),
    ],
)
def test_text_that_is_no_time_names_the_column_and_its_type(tmp_path: Path, text: str, told: str) -> None:
    pq.write_table(TIMES, tmp_path / "times.parquet")
    with pytest.raises(ValueError, match=told) as raised:
        list(ps.read_parquet(tmp_path, filter=text))
    assert "times.parquet" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("time.dt.month == 2", r"uses time\.dt\.month, and the column 'time' is timestamp\[us\], which has no such"),
        ("at.day == 2", r"uses at\.day, and the column 'at' is struct<.*Expression, such as pc\.month"),
        ("no.day == 2", "uses a column 'no', and the columns are"),
    ],
)
def test_a_column_without_a_field_is_told_from_one_that_is_not_there(text: str, told: str) -> None:
    with pytest.raises(KeyError, match=told):
        fields_in(expression_of(text, TIMES.schema), TIMES.schema)


def test_folders_that_are_days_are_chosen_by_their_text(tmp_path: Path) -> None:
    for day in ("2024-08-31", "2024-09-02"):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(TIMES.select(["id", "utc"]), tmp_path / f"day={day}" / "0.parquet")
    dp = ps.read_parquet(tmp_path, ["id"], "day < '2024-09-01' and utc >= '2024-09-01T12:00'")
    assert [batch["id"].to_pylist() for batch in dp] == [[6, 7]]
    assert [origin.partition for origin in dp.source] == [(("day", "2024-08-31"),)]
    for kind in (pa.timestamp("us"), pa.date32()):
        as_time = pa.schema([("id", pa.int64()), ("day", kind)])
        for text, first in (("day >= '2024-09-02'", "2024-09-02"), ("day < '2024-09-02'", "2024-08-31")):
            [batch] = ps.read_parquet(tmp_path, filter=text, unify=as_time)
            assert str(batch["day"][0].as_py())[:10] == first
    [batch] = ps.read_parquet(
        tmp_path, filter="day >= '2024-09-02T00:00'", unify=as_time.set(1, pa.field("day", pa.timestamp("s")))
    )
    assert batch.num_rows == 8


def test_what_is_no_filter_is_an_error() -> None:
    nothing: Any = 3
    conditions: Any = [("id", "<", 3), ("kind", "=", "a"), ("day", ">=", date(2024, 9, 2))]
    mend = """is of type list: give filter="id < 3 and kind == 'a' and day >= '2024-09-02'\"$"""
    with pytest.raises(TypeError, match=mend):
        ps.read_parquet("x.parquet", filter=conditions)
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
        ("year == 2023", False),
        ("year == 2024 and price > 3", True),
        ("year == 2023 and price > 3", False),
        ("year == 2023 or price > 3", True),
        ("not year == 2024 and kind == 'a'", False),
        ("price is None", True),
        ("month is None", True),
        ("month is not None and price > 3", False),
        ("year > 'x'", True),  # what cannot be told is left to the reader
    ],
)
def test_a_filter_is_told_to_be_false_from_the_values_that_are_known(text: str, possible: bool) -> None:
    known = {"year": pa.scalar(2024), "month": pa.scalar(None, pa.int64())}
    assert may_be_true(expression_of(text), known) is possible


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("id > 3", True),
        ("id > 5", False),
        ("id == 2", False),
        ("id in [1, 6]", False),
        ("id in [1, 5]", True),
        ("not id >= 3", False),
        ("id != 3", True),
        ("id is None", True),
        ("id is not None and id > 5", False),
        ("other > 5", True),
        ("id > 5 or other == 'a'", True),
        ("id > 5 and other == 'a'", False),
        ("kind == 'b' and id == 4", False),
        ("day < '2024-01-01'", False),
        ("day >= '2024-01-02'", True),
    ],
)
def test_ranges_of_values_exclude_what_no_value_in_them_is(text: str, possible: bool) -> None:
    ranges = {"id": (pa.scalar(3), pa.scalar(5)), "day": (pa.scalar(date(2024, 1, 1)), pa.scalar(date(2024, 1, 2)))}
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32())])
    assert may_be_true(expression_of(text, schema), {"kind": pa.scalar("a")}, ranges) is possible


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("text", ["not (x > 5)", "x != 10", "not (x <= 10)", "x > 5", "x == 10 or y != 2"])
def test_a_filter_of_floats_finds_the_same_rows_in_any_row_groups(tmp_path: Path, text: str, size: int) -> None:
    nan = float("nan")
    rows = pa.table({"x": [10.0, 11, nan, 1, 10, 10, 10, nan], "y": range(8)})
    pq.write_table(rows, tmp_path / "several.parquet", row_group_size=size)
    found = [row["y"] for row in ps.read_parquet(tmp_path / "several.parquet", filter=text).rows()]
    assert found == rows.filter(expression_of(text, rows.schema))["y"].to_pylist()
