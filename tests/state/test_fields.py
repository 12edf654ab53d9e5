from __future__ import annotations

import json
import warnings
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from passing import Passing
from penstock.pipes.iter import IterableWrapper

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
        ((0, 1, 2), [0, 0, -3], (1, 2)),
        ((0, 1, 2), [], (0, 1, 2)),
        ([0, (1, 2), 3], 0, [(1, 2), 3]),
        (Point(0, 1, 2), 0, (1, 2)),
        ({"a": 0, "b": 1, "c": 2}, ["c", "a"], {"b": 1}),
        ({0: "x", (1, 2): "y"}, [(1, 2)], {0: "x"}),
        (OrderedDict(a=0, b=1), "a", {"b": 1}),
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
        ((0, 1, 2), (-1,), (2,)),
        ((0, 1, 2), (0, 2), (0, 1)),
        ((0, 1, 2), (0, None, 2), (0, 2)),
        ((0, 1, 2), (None, None, -1), (2, 1, 0)),
        ((0, 1, 2), ([2, 0],), (0, 2)),
        ((0, 1, 2), ([-1],), (2,)),
        ((0, 1, 2), ([],), ()),
        ([0, 1, 2], (0, 2), [0, 1]),
        (Point(0, 1, 2), (0,), (0, 1, 2)),
        (Point(0, 1, 2), ([0],), (0,)),
        ({"a": 0, "b": 1}, ("a", 2, 3), {"a": 0}),
        ({"a": 0, "b": 1, "c": 2}, (["c", "a"],), {"a": 0, "c": 2}),
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
        (((0, 1), (1, 2), [3]), (0,), (0, 1, (1, 2), [3])),
        ((0, (1, 2), [3]), (-1,), (0, (1, 2), 3)),
        ((0, (1, 2), [3]), ([1, -1],), (0, 1, 2, 3)),
        ((0, (1, 2), [3]), ([],), (0, (1, 2), [3])),
        ([0, (1, 2), [3]], (), [0, 1, 2, 3]),
        ((Point(1, 2, 3), 4), (), (1, 2, 3, 4)),
        (({5}, "ab", {"x": 2}, 1.5, (1,)), (), ({5}, "ab", {"x": 2}, 1.5, 1)),
        ({"a": 0, "b": {"x": 1, "y": {"z": 2}}}, (), {"a": 0, "x": 1, "y": {"z": 2}}),
        ({"a": {"x": 1}, "b": {"y": 2}}, ("b",), {"a": {"x": 1}, "y": 2}),
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
def test_items_of_different_kinds_and_lengths_come_mixed(name: str) -> None:
    items = [((0,), 1), ((0,), 1, 2), [(0,)], {0: {"a": 1}}]
    expected = {
        "drop": [(1,), (1, 2), [], {}],
        "slice": [((0,),), ((0,),), [(0,)], {0: {"a": 1}}],
        "flatten": [(0, 1), (0, 1, 2), [0], {"a": 1}],
    }
    assert list(getattr(IterableWrapper(items), name)([0])) == expected[name]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        *(
            (lambda name=name, item=item: one(name, item, 0), "only tuples, lists and dicts have fields")
            for name in ("drop", "slice", "flatten")
            for item in ("abc", None, np.arange(3), torch.arange(3), {1, 2})
        ),
        *(
            (lambda name=name, item=item: one(name, item, ["x"]), "fields of a tuple or list have numbers, and 'x' is")
            for name in ("drop", "slice", "flatten")
            for item in ((0, 1), [0, 1])
        ),
        *(
            (lambda name=name, wrong=wrong: getattr(IterableWrapper([]), name)(wrong), "must be an index or key, or a")
            for name in ("drop", "slice", "flatten")
            for wrong in (slice(0, 2), {0}, [[0]], {"a": 1})
        ),
        *(
            (lambda wrong=wrong: columns(names=wrong), "column_names must be a list of names")
            for wrong in ("ab", 3, iter("ab"))
        ),
        (lambda: [*IterableWrapper([("a", 1)]).add_index()], r"into a dict, and the item is of type .*: enumerate\(\)"),
        (lambda: IterableWrapper([]).add_index(["index"]), "unhashable"),
    ],
)
def test_what_has_no_fields_or_names_is_a_type_error(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


# rows2columnar


def columns(*batches: Any, names: Any = None) -> list[dict[Any, list[Any]]]:
    return list(IterableWrapper(batches, deepcopy=False).rows2columnar(names))


def test_rows_that_are_dicts_become_columns() -> None:
    batches = [[{"a": 1, "b": 2}, {"b": 4, "a": 3}], [{"a": 5, "b": 6}]]
    assert columns(*batches) == [{"a": [1, 3], "b": [2, 4]}, {"a": [5], "b": [6]}]
    assert [[*each] for each in columns(*batches, names=["b", "a"])] == [["b", "a"]] * 2
    (of_a_set,) = columns([{"c": 3, "b": 2, "a": 1}], names={"b", "a"})
    assert [*of_a_set.items()] == [("a", [1]), ("b", [2])]


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
        ([{"a": 1, "b": 2}, {"a": 1}], ["a", "b"], KeyError, "a row has no 'b': it has 'a'"),
        ([defaultdict(int, a=1)], ["a", "b"], KeyError, "a row has no 'b': it has 'a'"),
        ([(1, 2), (1,)], ["a", "b"], ValueError, "a row has 1 values, and column_names has 2 names"),
        ([(1, 2)], None, ValueError, "a row is a tuple, which does not name its values: give column_names"),
        ([(1, 2)], {"a", "b"}, ValueError, "a row is a tuple, which does not name its values: give column_names as a"),
        ([{"a": 1, "b": 2}], {"a", "c"}, KeyError, "a row has no 'c': it has 'a', 'b'"),
        (["ab"], ["a", "b"], TypeError, "a row must be a dict, tuple or list, and is of type str"),
        ([], ["a", "b", "a"], ValueError, "column_names has a name twice"),
    ],
)
def test_rows_that_do_not_fit_are_errors_that_say_why(batch: Any, names: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        columns(batch, names=names)


# add_index


def test_dicts_get_their_number() -> None:
    dp = IterableWrapper([{"a": 1}, {"index": 7}, {}]).add_index()
    assert list(dp) == [{"a": 1, "index": 0}, {"index": 1}, {"index": 2}]
    assert list(IterableWrapper([{"order": "x", "index": 7}]).add_index("order")) == [{"order": 0, "index": 7}]


@pytest.mark.parametrize("make", [OrderedDict, UserDict])
def test_dicts_keep_their_type(make: Any) -> None:
    [result] = IterableWrapper([make(a=1)]).add_index()
    assert type(result) is make
    assert dict(result) == {"a": 1, "index": 0}


class Collected(Passing):
    """Keeps bytes, by themselves and within others."""

    resumes_from_start = False
    seen: bytes = ps.own(b"")
    parts: list = ps.own(list)
    of_bytes = ps.own(None, save=lambda value: value)

    def __iter__(self):
        for item in self.source:
            self.seen += bytes([item])
            self.parts = [*self.parts, {"part": self.seen}]
            self.of_bytes = self.seen
            yield self.seen, self.parts[-1], self.of_bytes


@pytest.mark.parametrize("shards", [1, 2])
def test_bytes_are_text_in_states_which_are_json(shards):
    def loader():
        service = ps.MultiProcessingReadingService(0, num_shards=shards)
        return ps.DataLoader2(Collected(ps.iter.IterableWrapper(range(8)).sharding_filter()), reading_service=service)

    whole = list(loader())
    running = iter(stopped := loader())
    assert [next(running) for _ in range(3)] == whole[:3]
    resumed = loader()
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    assert list(resumed) == whole[3:]


def test_an_error_of_save_names_the_attribute():
    class Failing(Passing):
        resumes_from_start = False
        place = ps.own(None, save=lambda value: value.number)

        def __iter__(self):
            for item in self.source:
                self.place = item
                yield item

    running = iter(dp := Failing(ps.iter.IterableWrapper("ab")))
    next(running)
    with pytest.raises(AttributeError) as raised:
        dp.state_dict()
    assert any("save of Failing.place" in note for note in raised.value.__notes__)


def test_a_source_item_that_was_not_read_yet_cannot_be_kept():
    class TooFar(Passing):
        resumes_from_start = False

        def __iter__(self):
            items = self.read(self.source)
            for number, item in items:
                items.keep_from(number + 2)
                yield item

    running = iter(dp := TooFar(ps.iter.IterableWrapper("abc")))
    next(running)
    with pytest.raises(ValueError, match=r"keep_from\(2\) is of an item that was not read yet"):
        dp.state_dict()


@pytest.mark.parametrize("damaged", ["!!!!", "YWJjZ", "é", 5])
def test_damaged_bytes_are_no_bytes(damaged):
    dp = Collected(ps.iter.IterableWrapper(range(3)))
    next(iter(dp))
    state = dp.state_dict()
    state["state"]["steps"][-1]["own"]["seen"] = {"bytes in base64": damaged}
    with pytest.raises(ValueError, match="Collected.* has no seen like that in the state"):
        dp.load_state_dict(state)
