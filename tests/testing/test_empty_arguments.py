"""The empty case of an operator whose other arguments go with the length of its source."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest

import penstock as ps
from passing import Passing
from penstock.testing import check_operator


class Weighted(ps.MapDataPipe):
    """Give each item with its share of the weights."""

    def __init__(self, source: Any, weights: list[float]) -> None:
        if len(source) != len(weights):
            raise ValueError(f"give {len(source)} weights, not {len(weights)}")
        self.source = source
        self.weights = weights
        self.sums = [*accumulate(weights)]

    def __getitem__(self, index: int) -> Any:
        return self.source[index], self.weights[index] / self.sums[-1]

    def __len__(self) -> int:
        return len(self.sums)


class WeightedWithItsCase(Weighted):
    """Give each item with its share of the weights.

    >>> dp = WeightedWithItsCase(ps.map.SequenceWrapper("ab"), [1, 3])
    """

    empty_arguments = {"weights": []}


class Labelled(Passing):
    def __init__(self, source: Any, *, labels: str) -> None:
        super().__init__(source)
        self._labels = labels

    def __iter__(self) -> Iterator[Any]:
        yield from zip(self.source, self._labels, strict=True)


class LabelledWithItsCase(Labelled):
    empty_arguments = {"labels": ""}


class NeedsAnItemAllTheSame(WeightedWithItsCase):
    def __init__(self, source: Any, weights: list[float]) -> None:
        super().__init__(source, weights)
        self.first = weights[0]


LAW = ["empty_source_ends"]


def letters() -> Any:
    return ps.map.SequenceWrapper("abc")


def test_without_an_empty_case_the_law_is_broken() -> None:
    for make in (
        lambda: Weighted(letters(), [1, 2, 3]),
        lambda: Labelled(ps.iter.IterableWrapper("abc"), labels="xyz"),
    ):
        with pytest.raises(AssertionError, match="breaks the law 'empty_source_ends'"):
            check_operator(make, LAW)


def test_the_arguments_that_a_class_declares_are_its_empty_case() -> None:
    check_operator(lambda: WeightedWithItsCase(letters(), [1, 2, 3]))
    check_operator(WeightedWithItsCase)
    check_operator(lambda: LabelledWithItsCase(ps.iter.IterableWrapper("abc"), labels="xyz"))


def test_the_empty_case_is_made_by_the_constructor() -> None:
    with pytest.raises(AssertionError, match="breaks the law 'empty_source_ends'.*\n.*\nit raised IndexError"):
        check_operator(lambda: NeedsAnItemAllTheSame(letters(), [1, 2, 3]), LAW)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"weigths": []},
            "empty_arguments of Wrong: its constructor takes no argument 'weigths': did you mean 'weights'",
        ),
        (["weights"], r"empty_arguments of Wrong must be a dict of arguments of its constructor, and is \['weights'\]"),
    ],
)
def test_a_declaration_that_means_nothing_is_refused(arguments: Any, message: str) -> None:
    class Wrong(Weighted):
        empty_arguments = arguments

    with pytest.raises(AssertionError, match=message):
        check_operator(lambda: Wrong(letters(), [1, 2, 3]), LAW)


def test_users_of_a_chain_do_not_see_the_declaration() -> None:
    assert "empty_arguments" not in dir(WeightedWithItsCase(letters(), [1, 2, 3]))
