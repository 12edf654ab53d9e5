"""Per-pass state: attributes made by `own`, how they begin, and which values states can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

import penstock as ps
from passing import Passing
from penstock.state import replay
from resuming import passed_on

numbers = ps.iter.IterableWrapper


class Total(Passing):
    """The sum so far."""

    resumes_from_start = False
    total: float = ps.own(0)

    def __iter__(self) -> Iterator[float]:
        for item in self.source:
            self.total += item
            yield self.total


class Seen(Total):
    """All items so far; the default is a list, and not a function that makes one."""

    seen: list[int] = ps.own([])

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            self.seen.append(item)
            yield [*self.seen]


def test_each_pass_has_a_list_of_its_own() -> None:
    dp, other = Seen(numbers(range(3))), Seen(numbers(range(3)))
    assert [list(dp), list(dp), list(other)] == [[[0], [0, 1], [0, 1, 2]]] * 3


def test_an_own_attribute_may_be_of_a_class_that_is_no_pipe() -> None:
    class Counted:
        count: int = ps.own(0)

    class Counter(Counted, Passing):
        resumes_from_start = False

        def __iter__(self) -> Iterator[Any]:
            for item in self.source:
                self.count += 1
                yield self.count, item

    ps.check_operator(lambda: Counter(numbers("abcde")), ["two_passes_agree", "resumed_after_every_item"])


class Remembers(ps.IterDataPipe[Any]):
    """Remembers what a function makes of each item."""

    resumes_from_start = False
    number: Any = ps.own(0)
    numbers: Any = ps.own(list)
    counts: Any = ps.own(dict)
    anything: Any = ps.own(None)

    def __init__(self, source: Any, **remember: Callable[[Any, Any], Any]) -> None:
        self.source = source
        self.remember = remember

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            for name, function in self.remember.items():
                setattr(self, name, function(getattr(self, name), item))
            yield item


def in_itself(value: list[Any], item: Any) -> list[Any]:
    return value if value else value.append(value) or value  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("remember", "text"),
    [
        ({"number": lambda value, item: 2**64}, "number has 18446744073709551616, and states hold integers of 64 bits"),
        ({"number": lambda value, item: -(2**63) - 1}, "number has .*integers of 64 bits"),
        ({"numbers": lambda value, item: [0, 2**64, "a"]}, "numbers has .*integers of 64 bits"),
        ({"number": lambda value, item: None}, "number is None, of type NoneType, and began as 0.*begins as None"),
        ({"numbers": lambda value, item: {"a": 1}}, "numbers is {'a': 1}, of type dict, and began as .]"),
        ({"numbers": in_itself}, "numbers has more than 100 lists and dicts in each other"),
        ({"counts": lambda value, item: {1: 1}}, "counts has .*, and states hold plain data: numbers, text"),
        ({"anything": lambda value, item: object()}, "anything has <object .*, and states hold plain data"),
    ],
)
def test_a_state_that_could_not_be_loaded_is_not_taken(remember: Any, text: str) -> None:
    dp = Remembers(numbers("abc"), **remember)
    next(iter(dp))
    with pytest.raises(TypeError, match=f"^Remembers.{text}"):
        dp.state_dict()


def test_an_attribute_that_begins_as_none_may_be_of_any_type() -> None:
    values = iter([None, "text", 2**64 - 1, 1.5, [{"a": [True, None]}], b"bytes"])
    remember = {"anything": lambda value, item: next(values), "numbers": lambda value, item: [*value, len(value)]}
    dp = Remembers(numbers("abcdef"), **remember)
    iterator = iter(dp)
    for place, item in enumerate("abcde", 1):
        assert next(iterator) == item
        state = passed_on(dp)
        resumed = Remembers(numbers("abcdef"), anything=lambda value, item: value, numbers=lambda value, item: value)
        resumed.load_state_dict(state)
        assert [*resumed] == [*"abcdef"[place:]]
        assert resumed.numbers == [*range(place)]
        assert resumed.anything == dp.anything


def test_what_no_state_can_have_is_harmless_until_one_is_taken() -> None:
    remember = {"number": lambda value, item: None if item % 3 else item, "anything": lambda value, item: object()}
    with mock.patch.object(replay.Throttle, "step", 1):
        dp, resumed = (Remembers(numbers(range(300)), **remember).shuffle(buffer_size=10) for _ in range(2))
        assert sorted(dp) == [*range(300)]
        iterator = iter(dp)
        begun = [next(iterator) for _ in range(5)]
        resumed.load_state_dict(dp.state_dict())  # as the step was before its first item
        assert [*resumed] == (rest := [*iterator])
        assert sorted([*begun, *rest]) == [*range(300)]


def test_no_operator_loses_resumes_from_start_by_an_iter_of_its_own() -> None:
    """A subclass with its own `__iter__` runs again from its start, unless it says itself that it does not."""
    kinds = {operator.cls for name, operator in ps.registry.operators.items() if name.startswith("iter.")}
    runs_again = [kind for kind in kinds if getattr(kind, "resumes_from_start", False)]
    lost = {
        kind.__name__
        for kind in runs_again
        if any(vars(base).get("resumes_from_start") is False for base in kind.__mro__)
    }
    assert lost == {"FileSharder", "RowGroupShuffler"}  # it reads all footers before its first row group
