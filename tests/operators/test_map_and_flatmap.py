from __future__ import annotations

import copy
import functools
import re
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data.datapipes.iter import IterableWrapper as TorchIterableWrapper

import penstock as ps
from penstock.pipes.iter import Collator, Filter, FlatMapper, IterableWrapper, Mapper
from penstock.registry import DataChunk
from resuming import assert_resumes_everywhere

Point = namedtuple("Point", ["x", "y"])


def add(x: Any, y: Any) -> Any:
    return x + y


def double(x: Any) -> Any:
    return x * 2


def notes_of(error: BaseException) -> str:
    return "\n".join(error.__notes__)


def none_left(x: int) -> int:
    return next(iter(())) if x == 2 else x


# map


@pytest.mark.parametrize(
    ("item", "fn", "input_col", "output_col", "expected"),
    [
        (("a", 1, 2), double, 1, None, ("a", 2, 2)),
        (("a", 1, 2), double, -1, None, ("a", 1, 4)),
        (("a", 1, 2), add, (1, 2), None, ("a", 3)),
        (("a", 1, 2), lambda *columns: columns, [2, 0], None, (1, (2, "a"))),
        (("a", 1, 2), lambda *columns: columns, [0, -1, -2], None, (("a", 2, 1),)),
        (("a", 1, 2), add, [1, 1], None, ("a", 2, 2)),
        (("a", 1, 2), add, [1, 2], [0], (3, 1, 2)),
        (("a", 1, 2), add, [1, 2], -1, ("a", 1, 2, 3)),
        (["a", 1, 2], add, [1, 2], -1, ["a", 1, 2, 3]),
        (DataChunk([1, 2]), double, 0, None, DataChunk([2, 2])),
        ({"a": 1, "b": 2}, double, "a", None, {"a": 2, "b": 2}),
        ({"a": 1, "b": 2}, add, ["a", "b"], None, {"a": 3}),
        ({"a": 1, "b": 2}, add, ["a", "a"], None, {"a": 2, "b": 2}),
        ({"a": 1, "b": 2}, add, ["a", "b"], "b", {"a": 1, "b": 3}),
        (OrderedDict(a=1), double, "a", "b", OrderedDict(a=1, b=2)),
        (UserDict(a=1), double, "a", None, UserDict(a=2)),
        (Point(1, 2), double, 0, None, Point(2, 2)),
        (Point(1, 2), add, [0, 1], None, (3,)),
    ],
)
def test_map_puts_the_result_of_columns_into_a_copy_of_the_item(
    item: Any, fn: Callable[..., Any], input_col: Any, output_col: Any, expected: Any
) -> None:
    before = copy.deepcopy(item)
    [result] = IterableWrapper([item], deepcopy=False).map(fn, input_col, output_col)
    assert result == expected
    assert type(result) is type(expected)
    assert result is not item
    assert item == before


@pytest.mark.parametrize("fn", [np.sqrt, lambda x, y=1: x, functools.partial(add, 1), torch.nn.Identity(), print])
def test_map_takes_functions_that_can_be_called_with_one_argument(fn: Callable[..., Any]) -> None:
    assert len(IterableWrapper([1]).map(fn)) == 1


@pytest.mark.parametrize(
    ("dp", "error", "told"),
    [
        (IterableWrapper([(1, 2)]).map(double, 5), IndexError, r"Mapper\(double, input_col=5\), on \(1, 2\)"),
        (IterableWrapper([(1, 2)]).map(double, 0, 5), IndexError, r"Mapper\(double, .*, on \(1, 2\)"),
        (IterableWrapper([{"a": 1}]).map(double, "b"), KeyError, r"Mapper\(double, .*, on {'a': 1}"),
        (
            IterableWrapper([torch.zeros(2)]).map(double, 0),
            TypeError,
            "a tuple, list or dict, and the item is a Tensor",
        ),
        (IterableWrapper(range(4)).map(none_left), RuntimeError, r"Mapper\(none_left\), on 2"),
        (IterableWrapper([7]).flatmap(double), TypeError, r"not iterable.*FlatMapper\(double\), on 7"),
        (IterableWrapper([torch.zeros(2), torch.zeros(3)]).batch(2).collate(), RuntimeError, r"Collator\(\), on \["),
        (IterableWrapper([[1], [1, 2]]).batch(2).collate(), RuntimeError, "resize or convert what differs before coll"),
        (
            IterableWrapper([{"x": 1}, {"y": 1}]).batch(2).collate(),
            KeyError,
            "no column 'x', and before it the columns",
        ),
        (IterableWrapper("abc").pipe(lambda items: None), TypeError, r"and it returned None.*StreamMapper\(<lambda>\)"),
        (IterableWrapper([0]).pipe(lambda items: (1 / item for item in items)), ZeroDivisionError, "StreamM.*, on 0"),
    ],
)
def test_errors_name_the_operator_and_the_item(dp: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error) as caught:
        list(dp)
    assert re.search(told, f"{caught.value}\n{notes_of(caught.value)}", re.DOTALL)


# A StopIteration out of a user's function would end a `map` or `filter` object as if the stream were over.

STOPPING: dict[str, Callable[[Any], ps.IterDataPipe[Any]]] = {
    "map": lambda source: Mapper(source, none_left),
    "map of a column": lambda source: Mapper(Mapper(source, lambda x: (x,)), none_left, input_col=0),
    "filter": lambda source: Filter(source, none_left),
    "flatmap": lambda source: FlatMapper(source, lambda x: [none_left(x)]),
    "collate": lambda source: Collator(source, none_left),
    "a map before a map": lambda source: Mapper(Mapper(source, none_left), double),
}


@pytest.mark.parametrize("make", STOPPING.values(), ids=STOPPING)
@pytest.mark.parametrize("length", [3, 4])
@pytest.mark.parametrize("wrapper", [IterableWrapper, TorchIterableWrapper])
def test_a_stop_iteration_of_a_function_does_not_end_the_stream(
    make: Callable[[Any], ps.IterDataPipe[Any]], length: int, wrapper: Callable[[Any], Any]
) -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        list(make(wrapper(range(length))))
    assert "penstock: raised in " in notes_of(caught.value)


# flatmap


@pytest.mark.parametrize(
    ("items", "arguments", "expected"),
    [
        ([[1, 2], [], (3,), "ab"], {}, [1, 2, 3, "a", "b"]),
        ([1, 2], {"fn": lambda n: (n for _ in range(n))}, [1, 2, 2]),
        ([("a", [1, 2])], {"input_col": 1}, [1, 2]),
        ([("a", [1, 2])], {"input_col": [1, 0]}, [[1, 2], "a"]),
        ([{"a": 2, "b": "x"}], {"fn": lambda n, x: [x] * n, "input_col": ["a", "b"]}, ["x", "x"]),
    ],
)
def test_flatmap_yields_all_outputs_of_each_item(items: list[Any], arguments: Any, expected: list[Any]) -> None:
    assert list(IterableWrapper(items).flatmap(**arguments)) == expected


def test_flatmap_closes_the_generator_it_is_in() -> None:
    closed = []

    def outputs(n: int) -> Iterator[int]:
        try:
            yield from range(n)
        finally:
            closed.append(n)

    iterator = iter(IterableWrapper([5]).flatmap(outputs))
    next(iterator)
    iterator.close()
    assert closed == [5]


# collate


@pytest.mark.parametrize(
    ("values", "row"),
    [
        ([1, None, None], "1 of the batch: None"),
        ([[1], [1], [1, 2]], r"2 of the batch: \[1, 2\]"),
        ([datetime(2024, 9, 1)], "0 of the batch: "),
    ],
)
def test_a_column_that_does_not_collate_is_named_with_its_first_row(values: list[Any], row: str) -> None:
    rows = ps.from_items([{"id": 0, "x": value} for value in values])
    for dp in (rows.batch(3).collate(), rows.iter_torch_batches(batch_size=3)):
        with pytest.raises((RuntimeError, TypeError)) as raised:
            list(dp)
        assert re.search(f"column 'x', row {row}", notes_of(raised.value))


def test_collate_takes_a_function_or_one_for_each_column() -> None:
    assert list(IterableWrapper([1, 2, 3]).batch(2).collate(sum)) == [3, 3]
    assert list(IterableWrapper([1, 2, 3]).batch(2).collate(collate_fn=sum)) == [3, 3]
    rows = IterableWrapper([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
    [of_dicts] = rows.batch(2).collate({"name": "".join})
    assert (of_dicts["x"].tolist(), of_dicts["name"]) == ([1, 2], "ab")
    [of_tuples] = IterableWrapper([(1, "a"), (2, "b")]).batch(2).collate({1: "".join})
    assert (of_tuples[0].tolist(), of_tuples[1]) == ([1, 2], "ab")


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([{"x": 1}, {"x": 2}], KeyError, r"the batch has no column 'name': its columns are \['x'\]"),
        ([{"name": 1}, {"name": 2, "y": 2}], ValueError, "a column 'y', and before it the columns were 'name'"),
        ([(1, 2), (1,)], ValueError, "shorter"),
    ],
)
def test_collate_by_column_refuses_rows_that_do_not_fit(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(IterableWrapper(rows).batch(2).collate({"name": list}))


# pipe


def pairs(items: Iterator[Any], separator: str = "", *, times: int = 1) -> Iterator[Any]:
    for item in items:
        yield (f"{item}{separator}{next(items, '')}") * times


def test_pipe_gives_the_function_an_iterator_and_its_arguments() -> None:
    assert list(IterableWrapper("abc").pipe(pairs)) == ["ab", "c"]
    assert list(IterableWrapper("abc").pipe(pairs, "-", times=2)) == ["a-ba-b", "c-c-"]
    ended_early = IterableWrapper(range(9)).map(double).pipe(islice, 2)
    assert list(ended_early) == list(ended_early) == [0, 2]


def test_pipe_reads_other_pipes_among_its_arguments_and_resumes_them() -> None:
    def make() -> ps.IterDataPipe[Any]:
        return IterableWrapper("abcd").pipe(zip, IterableWrapper(range(9)).shuffle().set_seed(1))

    assert_resumes_everywhere(make)


# resuming and sources


@pytest.mark.parametrize("source", [[1, 2], range(1, 3), np.array([1, 2]), torch.tensor([1, 2])])
def test_a_list_as_the_source_of_an_operator_stands_for_its_items(source: Any) -> None:
    dp = ps.iter.Mapper(source, int)
    assert list(dp) == list(dp) == [1, 2]
    assert list(ps.iter.Mapper(source=source, fn=int)) == [1, 2]


def test_map_style_operators_and_operators_of_several_sources_take_lists() -> None:
    assert ps.map.Mapper([1, 2], str)[1] == "2"
    assert list(ps.iter.MapToIterConverter([7, 8])) == [7, 8]
    assert list(IterableWrapper("ab").zip([1, 2], range(2))) == [("a", 1, 0), ("b", 2, 1)]
    with pytest.raises(TypeError, match="Mapper reads from a pipe, and its source is of type str"):
        ps.map.Mapper("abc", str)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ((x for x in "ab"), "is of type generator: it can be read only once: give a list"),
        (iter([1]), "is of type list_iterator: it can be read only once: give a list"),
        ("a.file", r"is of type str: give a list, as in \['a.file'\]"),
        ({1, 2}, r"is of type set: its order is not fixed: give sorted\(items\)"),
        ({"a": 1}.keys(), r"is of type dict_keys: it changes with its dict: give list\(items\)"),
        ({"a": 1}, r"is of type dict: give what is meant of it, as in \[\*mapping.items\(\)\]"),
        ([ps.iter.IterableWrapper("a")], r"is of type list: it has pipes in it: concatenate them"),
        (pa.table({"x": [1]}), r"is of type Table: read its rows, as in penstock.from_pandas\(frame\)"),
        (5, "is of type int: wrap it, as in IterableWrapper"),
    ],
)
def test_a_source_that_is_no_list_says_what_to_do(source: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"Mapper reads from a pipe, and its source {told}"):
        ps.iter.Mapper(source, str)
