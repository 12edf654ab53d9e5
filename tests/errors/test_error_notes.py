"""Errors say where: one note with the operator, the item, and where the item came from."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import penstock as ps
from passing import Passing
from penstock.errors.notes import describe_item


def fail(item: Any) -> Any:
    raise LookupError("no such thing")


def note_of(dp: Any, read: Callable[[Any], Any] = list) -> str:
    with pytest.raises(LookupError, match="no such thing") as caught:
        read(dp)
    (note,) = caught.value.__notes__
    return note


def test_the_note_tells_the_path_that_an_item_came_from_further_up() -> None:
    dp = ps.iter.IterableWrapper([("a.txt", 1), ("b.txt", 2)]).map(lambda pair: pair[1] * 10).filter(len)
    with pytest.raises(TypeError) as caught:
        list(dp)
    assert caught.value.__notes__ == ["penstock: raised in Filter(len), on 10, last read upstream: 'a.txt'"]


def test_the_note_is_about_the_item_that_failed_and_not_the_first() -> None:
    dp = ps.iter.IterableWrapper(["a", "b", "c"]).map(lambda x: fail(x) if x == "b" else x).batch(2)
    assert note_of(dp) == "penstock: raised in Mapper(<lambda>), on 'b'"


def test_an_error_of_a_generator_is_noted_with_the_item_it_was_on() -> None:
    class Generating(Passing):
        def __iter__(self) -> Iterator[Any]:
            for item in self.source:
                yield fail(item)

    assert note_of(Generating(ps.iter.IterableWrapper("xy"))) == "penstock: raised in Generating(), on 'x'"


class Composed(ps.IterDataPipe):
    """An operator whose `__iter__` is a function of its sources."""

    def __init__(self, iterate: Callable[..., Iterator[Any]], *sources: Any) -> None:
        self.iterate, self.sources = iterate, sources

    def __iter__(self) -> Iterator[Any]:
        return self.iterate(*self.sources)


def test_the_note_names_the_source_that_was_read_last() -> None:
    def header_first(header: Any, rows: Any) -> Iterator[Any]:
        next(iter(header))
        for row in rows:
            yield fail(row)

    sources = [ps.iter.IterableWrapper(items) for items in ("abc", "xyz")]
    assert note_of(Composed(header_first, *sources)) == "penstock: raised in Composed(header_first), on 'x'"


def test_an_item_of_an_earlier_pass_is_not_noted() -> None:
    passes = iter(range(2))

    def second_fails(source: Any) -> Iterator[Any]:
        return map(str, source) if next(passes) == 0 else fail(None)

    dp = Composed(second_fails, ps.iter.IterableWrapper("abc"))
    iterator = iter(dp)
    assert next(iterator) == "a"
    iterator.close()  # type: ignore[attr-defined]
    assert note_of(dp) == "penstock: raised in Composed(second_fails)"


def test_an_error_of_what_is_wrapped_is_noted_at_the_root() -> None:
    dp = ps.iter.IterableWrapper(map(fail, [1])).map(str)
    assert note_of(dp).startswith("penstock: raised in IterableWrapper(<map object>)")


def test_an_error_of_a_map_style_pipe_is_noted_once_with_the_index() -> None:
    dp = ps.map.SequenceWrapper("abc").map(fail).batch(2)
    assert note_of(dp, lambda dp: dp[1]) == "penstock: raised in Mapper(fail), on 2"


def test_an_index_out_of_range_is_noted_where_it_was_asked_for() -> None:
    with pytest.raises(IndexError) as caught:
        ps.map.SequenceWrapper("abc").map(str)[9]
    assert caught.value.__notes__ == ["penstock: raised in SequenceWrapper('abc'), on 9"]


def test_the_traceback_has_no_frame_of_a_stage_that_passed_the_error_on() -> None:
    dp = ps.iter.IterableWrapper([1]).map(fail)
    for _ in range(20):
        dp = dp.map(str)
    with pytest.raises(LookupError) as caught:
        list(dp)
    assert caught.value.__notes__ == ["penstock: raised in Mapper(fail), on 1"]
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "fail"
    assert len(names) <= 4


class Named(NamedTuple):
    path: str
    value: Any


class Printed:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("short", "'short'"),
        (b"x" * 40, repr(b"x" * 40)),
        (np.zeros((2, 2), np.int16), "ndarray of shape (2, 2), int16"),
        ((1,), "(1,)"),
        ((1, "b", 3, 4, 5), "(1, 'b', 3, 4, … 5 in all)"),
        (datetime.datetime(2024, 1, 2, 3, 4), "2024-01-02T03:04:00"),
        ((datetime.date(2024, 1, 2), np.datetime64("2024-01-02")), "(2024-01-02, 2024-01-02)"),
        ([datetime.timedelta(seconds=90), np.float32(2.5)], f"[0:01:30, {np.float32(2.5)!r}]"),
        ({"x": np.zeros(5)}, "{'x': ndarray of shape (5,), float64}"),
        (
            {n: torch.zeros(50) for n in range(9)},
            "{" + ", ".join(f"{n}: Tensor of shape (50,), torch.float32" for n in range(4)) + ", … 9 in all}",
        ),
        (pa.record_batch({"id": range(70000), "price": range(70000)}), "RecordBatch of 70,000 rows: id, price"),
        (pa.table({name: [1] for name in "abcdefgh"}), "Table of 1 rows: a, b, c, d, e, f, …"),
        (pd.DataFrame({"id": range(3), 1: range(3)}), "DataFrame of 3 rows: id, 1"),
        (
            Named("/a/long/path" * 10, torch.zeros(1)),
            f"Named(path={'/a/long/path' * 10!r}, value=Tensor of shape (1,), torch.float32)",
        ),
        (Printed("one\ntwo"), "one two"),
    ],
)
def test_an_item_is_told_in_a_few_words(item: Any, words: str) -> None:
    assert describe_item(item) == words


class FailsWithoutAName:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no name") if name == "__qualname__" else AttributeError(name)

    def __call__(self, item: object) -> None:
        fail(item)


def test_what_cannot_be_shown_does_not_take_the_errors_place() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for fn, note in [
        (fail, "penstock: raised in Mapper(fail), on <list>"),
        (FailsWithoutAName(), "penstock: raised in Mapper"),
    ]:
        with pytest.raises(LookupError) as caught:
            list(ps.iter.IterableWrapper([endless], deepcopy=False).map(fn))
        assert caught.value.__notes__ == [note]


@pytest.mark.parametrize(
    "step",
    [
        lambda dp: dp.map(lambda row: {**row}),
        lambda dp: dp.flatmap(lambda row: [row.x]),
    ],
)
def test_a_function_of_rows_that_gets_a_batch_of_columns_gets_a_mend(step: Callable[[Any], Any]) -> None:
    batches = ps.iter.IterableWrapper([pa.record_batch({"x": [1, 2]})])
    with pytest.raises((TypeError, AttributeError)) as caught:
        step(batches).take_all()
    assert "put .rows() before it, or take map_batches, or the reader's filter=" in caught.value.__notes__[0]
    with pytest.raises((TypeError, AttributeError)) as caught:
        step(ps.iter.IterableWrapper([None])).take_all()
    assert ".rows()" not in caught.value.__notes__[0]


@pytest.mark.parametrize("stages", [1, 5])
def test_one_note_is_added_however_many_stages_follow(stages: int) -> None:
    dp = ps.iter.IterableWrapper([1]).map(fail)
    for _ in range(stages):
        dp = dp.map(str).batch(2).unbatch()
    assert note_of(dp) == "penstock: raised in Mapper(fail), on 1"


@pytest.mark.parametrize(
    "step",
    [
        lambda dp: dp.filter(bool),
        lambda dp: dp.header(3),
        lambda dp: dp.set_length(3),
        lambda dp: dp.cycle(2),
        lambda dp: dp.repeat(2),
        lambda dp: dp.pin_memory(),
        lambda dp: dp.until_error(KeyError),
    ],
)
def test_steps_that_yield_items_as_they_are_know_the_file_and_the_line(
    step: Callable[[Any], Any], tmp_path: Any
) -> None:
    (tmp_path / "a.txt").write_text("1\n2\nx\n")
    with pytest.raises(ValueError, match="'x'") as caught:
        list(step(ps.read_text(str(tmp_path))).map(lambda row: int(row["text"])))
    assert f"from line 3 of '{tmp_path}/a.txt'" in caught.value.__notes__[0]
