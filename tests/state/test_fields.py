from __future__ import annotations

import warnings
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from resuming import assert_resumes_everywhere

Point = namedtuple("Point", "x y z")


@pytest.fixture(autouse=True)
def no_warning_is_expected() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def one(name: str, item: Any, *arguments: Any) -> Any:
    """What becomes of an item, which stays as it is."""
    before = repr(item)
    dp: Any = getattr(IterableWrapper([item], deepcopy=False), name)(*arguments)
    assert len(dp) == 1
    [result] = dp
    assert repr(item) == before
    assert result is not item or isinstance(item, tuple)
    return result


# drop


@pytest.mark.parametrize(
    ("item", "indices", "expected"),
    [
        ((0, 1, 2), 1, (0, 2)),
        ((0, 1, 2), -1, (0, 1)),
        ((0, 1, 2), [2, 0], (1,)),
        ((0, 1, 2), (2, 0), (1,)),
        ((0, 1, 2), [0, 0, -3], (1, 2)),
        ((0, 1, 2), [], (0, 1, 2)),
        ((0, 1, 2), np.int64(0), (1, 2)),
        ((0,), 0, ()),
        ([0, (1, 2), 3], 0, [(1, 2), 3]),
        (Point(0, 1, 2), 0, (1, 2)),
        ({"a": 0, "b": 1}, "a", {"b": 1}),
        ({"a": 0, "b": 1, "c": 2}, ["c", "a"], {"b": 1}),
        ({0: "x", (1, 2): "y"}, [(1, 2)], {0: "x"}),
        (OrderedDict(a=0, b=1), "a", {"b": 1}),
        (defaultdict(int, a=0, b=1), "a", {"b": 1}),
        (UserDict(a=0, b=1), "a", {"b": 1}),
    ],
)
def test_fields_are_dropped(item: Any, indices: Any, expected: Any) -> None:
    result = one("drop", item, indices)
    assert result == expected
    assert type(result) is type(expected)


# slice


@pytest.mark.parametrize(
    ("item", "arguments", "expected"),
    [
        ((0, 1, 2), (1,), (1, 2)),
        ((0, 1, 2), (-1,), (2,)),
        ((0, 1, 2), (0, 2), (0, 1)),
        ((0, 1, 2), (None, 2), (0, 1)),
        ((0, 1, 2), (0, None, 2), (0, 2)),
        ((0, 1, 2), (None, None, -1), (2, 1, 0)),
        ((0, 1, 2), (5,), ()),
        ((0, 1, 2), ([2, 0],), (0, 2)),
        ((0, 1, 2), ((2, 0),), (0, 2)),
        ((0, 1, 2), ([-1],), (2,)),
        ((0, 1, 2), ([],), ()),
        ([0, 1, 2], (0, 2), [0, 1]),
        ([0, 1, 2], ([1],), [1]),
        (Point(0, 1, 2), (0,), (0, 1, 2)),
        (Point(0, 1, 2), ([0],), (0,)),
        ({"a": 0, "b": 1}, ("a",), {"a": 0}),
        ({"a": 0, "b": 1}, ("a", 2, 3), {"a": 0}),
        ({"a": 0, "b": 1, "c": 2}, (["c", "a"],), {"a": 0, "c": 2}),
        ({0: "x", 1: "y"}, (1,), {1: "y"}),
        (UserDict(a=0, b=1), ("a",), {"a": 0}),
    ],
)
def test_fields_are_sliced(item: Any, arguments: Any, expected: Any) -> None:
    result = one("slice", item, *arguments)
    assert result == expected
    assert type(result) is type(expected)
    assert not isinstance(result, dict) or [*result] == [*expected]


def test_stop_and_step_are_warned_of_where_they_have_no_meaning() -> None:
    for arguments in ((2,), (None, 2)):
        with pytest.warns(UserWarning, match="stop and step are ignored with a list of indices") as caught:
            dp = IterableWrapper([(0, 1)]).slice([0], *arguments)
        assert list(dp) == [(0,)]
        assert len(caught) == 1


# flatten


@pytest.mark.parametrize(
    ("item", "arguments", "expected"),
    [
        ((0, (1, 2), [3, (4,)]), (), (0, 1, 2, 3, (4,))),
        ((0, (1, 2), [3]), (0,), (0, (1, 2), [3])),
        (((0, 1), (1, 2), [3]), (0,), (0, 1, (1, 2), [3])),
        ((0, (1, 2), [3]), (1,), (0, 1, 2, [3])),
        ((0, (1, 2), [3]), (-1,), (0, (1, 2), 3)),
        ((0, (1, 2), [3]), ([1, -1],), (0, 1, 2, 3)),
        ((0, (1, 2), [3]), ([],), (0, (1, 2), [3])),
        ([0, (1, 2), [3]], (), [0, 1, 2, 3]),
        ([(), []], (), []),
        ((), (), ()),
        ((Point(1, 2, 3), 4), (), (1, 2, 3, 4)),
        (Point(1, (2, 3), 4), (), (1, 2, 3, 4)),
        (({5}, "ab", {"x": 2}, b"c"), (), ({5}, "ab", {"x": 2}, b"c")),
        ({"a": 0, "b": {"x": 1, "y": {"z": 2}}}, (), {"a": 0, "x": 1, "y": {"z": 2}}),
        ({"a": {"x": 1}, "b": {"y": 2}}, ("b",), {"a": {"x": 1}, "y": 2}),
        ({"a": {"x": 1}, "b": {"y": 2}}, (["a", "b"],), {"x": 1, "y": 2}),
        ({"a": {"x": 1}}, ([],), {"a": {"x": 1}}),
        ({"a": {"a": 1, "b": 2}}, (), {"a": 1, "b": 2}),
        ({"a": (1, 2), "b": [3]}, (), {"a": (1, 2), "b": [3]}),
        (OrderedDict(a=OrderedDict(x=1)), (), {"x": 1}),
        (UserDict(a=UserDict(x=1)), ("a",), {"x": 1}),
    ],
)
def test_nested_fields_are_flattened_one_level(item: Any, arguments: Any, expected: Any) -> None:
    result = one("flatten", item, *arguments)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize("item", [{"a": 1, "b": {"a": 2, "c": 3}}, {"b": {"a": 1, "c": 3}, "a": 2}])
def test_of_a_key_that_is_there_twice_the_first_value_stays_with_a_warning(item: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="a flattened item has the key 'a' twice: the first one stays"):
        assert one("flatten", item) == {"a": 1, "c": 3}


def test_tensors_are_values_that_are_not_flattened() -> None:
    tensor = torch.arange(2)
    assert one("flatten", (tensor, (1,)))[0] is tensor


# What all of them ask of items and arguments

three = pytest.mark.parametrize("name", ["drop", "slice", "flatten"])


@three
@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"a": 1, "b": 2}, "an item lacks fields that were named: 'zz'$"),
        ((0, 1), "an item has 2 fields, and none is number 7$"),
        ([0], "an item has 1 fields, and none is number 7$"),
    ],
)
def test_fields_that_an_item_lacks_are_warned_of(name: str, item: Any, text: str) -> None:
    with pytest.warns(UserWarning, match=text):
        result = one(name, item, ["zz"] if isinstance(item, dict) else [7])
    assert result == (type(item)() if name == "slice" else item)


@three
@pytest.mark.parametrize("item", ["abc", 5, None, b"abc", np.arange(3), torch.arange(3), {1, 2}])
def test_an_item_without_fields_is_an_error(name: str, item: Any) -> None:
    with pytest.raises(TypeError, match="only tuples, lists and dicts have fields, and the item is of type"):
        one(name, item, 0)


@three
@pytest.mark.parametrize("item", [(0, 1), [0, 1], Point(0, 1, 2)])
def test_a_key_is_no_field_of_a_tuple_or_list(name: str, item: Any) -> None:
    with pytest.raises(TypeError, match="the fields of a tuple or list have numbers, and 'x' is not one"):
        one(name, item, ["x"])
    with pytest.raises(TypeError):
        one(name, item, "x")


@three
@pytest.mark.parametrize("indices", [slice(0, 2), {0}, [[0]], {"a": 1}])
def test_what_cannot_be_an_index_or_key_is_an_error_at_construction(name: str, indices: Any) -> None:
    with pytest.raises(TypeError, match=r"ind(ex|ices) must be an index or key, or a list of them, and is"):
        getattr(IterableWrapper([(0, 1)]), name)(indices)


@three
def test_items_of_different_kinds_and_lengths_come_mixed(name: str) -> None:
    items = [((0,), 1), ((0,), 1, 2), [(0,)], {0: {"a": 1}}]
    expected = {
        "drop": [(1,), (1, 2), [], {}],
        "slice": [((0,),), ((0,),), [(0,)], {0: {"a": 1}}],
        "flatten": [(0, 1), (0, 1, 2), [0], {"a": 1}],
    }
    dp: Any = getattr(IterableWrapper(items), name)([0])
    assert list(dp) == expected[name]
    assert list(dp) == expected[name]
    assert_resumes_everywhere(lambda: getattr(IterableWrapper(items), name)([0]))


# rows2columnar


def columns(*batches: Any, names: Any = None) -> list[dict[Any, list[Any]]]:
    return list(IterableWrapper(batches, deepcopy=False).rows2columnar(names))


def test_rows_that_are_dicts_become_columns() -> None:
    batches = [[{"a": 1, "b": 2}, {"b": 4, "a": 3}], [{"a": 5, "b": 6}]]
    assert columns(*batches) == [{"a": [1, 3], "b": [2, 4]}, {"a": [5], "b": [6]}]
    assert columns(*batches, names=["b"]) == [{"b": [2, 4]}, {"b": [6]}]
    assert [[*each] for each in columns(*batches, names=["b", "a"])] == [["b", "a"]] * 2
    assert batches == [[{"a": 1, "b": 2}, {"b": 4, "a": 3}], [{"a": 5, "b": 6}]]


def test_without_names_a_column_has_the_values_of_the_rows_that_have_it() -> None:
    assert columns([{"a": 1}, {"b": 2, "a": 3}], []) == [{"a": [1, 3], "b": [2]}, {}]
    assert columns([{"a": 1}], names=[]) == [{"a": [1]}]


def test_rows_that_are_tuples_or_lists_become_the_columns_that_are_named() -> None:
    assert columns([(1, 2), [3, 4], Point(5, 6, 7)[:2]], names=("a", "b")) == [{"a": [1, 3, 5], "b": [2, 4, 6]}]
    assert columns([(1, 2), {"b": 4, "a": 3}], names=["a", "b"]) == [{"a": [1, 3], "b": [2, 4]}]
    assert columns([], names=["a"]) == [{"a": []}]
    assert columns(((1,), (2,)), names=["a"]) == [{"a": [1, 2]}]


@pytest.mark.parametrize(
    ("batch", "names", "error", "text"),
    [
        ([{"a": 1, "b": 2}, {"a": 1}], ["a", "b", "c"], KeyError, "a row has no 'b': it has 'a'"),
        ([{"a": 1, "b": 2}, {"a": 1}], ["a", "b"], KeyError, "a row has no 'b': it has 'a'"),
        ([defaultdict(int, a=1)], ["a", "b"], KeyError, "a row has no 'b': it has 'a'"),
        ([(1, 2), (1,)], ["a", "b"], ValueError, "a row has 1 values, and column_names has 2 names"),
        ([(1, 2, 3)], ["a", "b"], ValueError, "a row has 3 values, and column_names has 2 names"),
        ([(1, 2)], None, ValueError, "a row is a tuple, which does not name its values: give column_names"),
        ([(1, 2)], {"a", "b"}, ValueError, "a row is a tuple, which does not name its values: give column_names as a"),
        ([{"a": 1, "b": 2}], {"a", "c"}, KeyError, "a row has no 'c': it has 'a', 'b'"),
        (["ab"], ["a", "b"], TypeError, "a row must be a dict, tuple or list, and is of type str"),
        ([1], None, TypeError, "of type int"),
        (5, ["a"], TypeError, "'int' object is not iterable"),
    ],
)
def test_rows_that_do_not_fit_are_errors_that_say_why(batch: Any, names: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        columns(batch, names=names)


def test_a_set_of_column_names_selects_keys_in_one_order() -> None:
    (batch,) = columns([{"c": 3, "b": 2, "a": 1}], names={"b", "a"})
    assert [*batch.items()] == [("a", [1]), ("b", [2])]


def test_column_names_are_a_list_of_different_names() -> None:
    for names in ("ab", 3, iter("ab")):
        with pytest.raises(TypeError, match="column_names must be a list of names"):
            columns(names=names)
    with pytest.raises(ValueError, match="column_names has a name twice"):
        columns(names=["a", "b", "a"])


def test_columns_go_on_where_they_were() -> None:
    assert_resumes_everywhere(lambda: IterableWrapper([{"a": n} for n in range(5)]).batch(2).rows2columnar())


# add_index


def test_dicts_get_their_number_and_the_sources_are_left_alone() -> None:
    source = [{"a": 1}, {"b": 2}, {}]
    dp = IterableWrapper(source, deepcopy=False).add_index()
    assert list(dp) == [{"a": 1, "index": 0}, {"b": 2, "index": 1}, {"index": 2}]
    assert source == [{"a": 1}, {"b": 2}, {}]
    assert list(dp) == [{"a": 1, "index": 0}, {"b": 2, "index": 1}, {"index": 2}]
    assert len(dp) == 3


def test_the_index_goes_to_the_key_of_its_name_whatever_is_there() -> None:
    item = {"order": "x", "index": 7}
    assert list(IterableWrapper([item], deepcopy=False).add_index("order")) == [{"order": 0, "index": 7}]
    assert item == {"order": "x", "index": 7}


@pytest.mark.parametrize("make", [OrderedDict, UserDict])
def test_dicts_keep_their_type(make: Any) -> None:
    item = make(a=1)
    [result] = IterableWrapper([item], deepcopy=False).add_index()
    assert type(result) is make
    assert dict(result) == {"a": 1, "index": 0}
    assert dict(item) == {"a": 1}


@pytest.mark.parametrize("item", [5, ("a", 1), ["a"], None])
def test_an_item_that_is_no_dict_is_an_error(item: Any) -> None:
    with pytest.raises(TypeError, match=r"a number is put into a dict, and the item is of type .*: enumerate\(\)"):
        list(IterableWrapper([item]).add_index())


def test_the_name_of_the_index_can_be_a_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        IterableWrapper([]).add_index(["index"])


def test_numbers_go_on_where_they_were() -> None:
    assert_resumes_everywhere(lambda: IterableWrapper([{"a": n} for n in range(4)]).add_index())


def test_a_chain_of_fields_is_read_by_workers() -> None:
    rows = [{"id": n, "meta": {"x": n, "y": -n}} for n in range(12)]
    dp = IterableWrapper(rows).sharding_filter().flatten("meta").drop("y").slice(["x"])
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        assert sorted(item["x"] for item in loader) == [*range(12)]
