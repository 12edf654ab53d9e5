"""An operator of one's own that gives several pipes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps


class Sorter(ps.Splitter):
    """Gives pipes of the items with remainder 0, 1, … by `n`; those with remainder `left_out` go to none."""

    buffer_size = 5

    def __init__(self, source: Any, n: int, left_out: int = 2) -> None:
        self.source = source
        self.n = n
        self.left_out = left_out

    def result(self) -> list[ps.IterDataPipe[Any]]:
        return self.branches(2)

    def branch_of(self, number: int, item: int) -> int | None:
        return None if item % self.n == self.left_out else item % self.n


def numbers(n: int) -> Any:
    return ps.iter.IterableWrapper(range(n))


def sorted_and_joined(n: int = 10) -> Any:
    return ps.iter.ZipperLongest(*Sorter(numbers(n), 3))


@pytest.mark.parametrize("whole", [torch.tensor, np.int64, float, bool])
def test_what_equals_a_number_is_one_even_a_tensor(whole: Callable[[int], Any]) -> None:
    class BySize(Sorter):
        def branch_of(self, number: int, item: int) -> Any:
            return whole(item % 2)

    for first, second in (BySize(numbers(4), 3), numbers(4).demux(2, lambda x: whole(x % 2))):
        assert [list(first), list(second)] == [[0, 2], [1, 3]]


def test_each_item_goes_to_one_branch_or_none_and_items_are_numbered_from_0_in_each_pass() -> None:
    assert [list(branch) for branch in Sorter(numbers(9), 3)] == [[0, 3, 6], [1, 4, 7]]

    class Alternating(Sorter):
        def branch_of(self, number: int, item: Any) -> int:
            return number % 2

    first, second = Alternating(ps.iter.IterableWrapper("abcd").filter(lambda letter: letter != "b"), 2)
    for _ in range(2):
        assert [list(first), list(second)] == [["a", "d"], ["c"]]


def test_it_keeps_the_laws_and_has_no_length() -> None:
    ps.check_operator(sorted_and_joined)
    with pytest.raises(TypeError, match="the length of a branch of Sorter is unknown before its items are read"):
        len(Sorter(numbers(9), 3)[0])


def test_at_most_buffer_size_items_wait() -> None:
    class InThree(Sorter):
        def result(self) -> list[ps.IterDataPipe[Any]]:
            return self.branches(3)

    branches = InThree(numbers(9), 3, left_out=3)  # a branch that was dropped would not count
    iterator = iter(branches[2])
    assert [next(iterator), next(iterator)] == [2, 5]
    with pytest.raises(BufferError, match=r"branch 0 of InThree has not read 3 items .* buffer_size is 5"):
        next(iterator)
    assert branches[0].source.most_held() == 5


@pytest.mark.parametrize("number", [2, -1, "a"])
def test_a_number_that_no_branch_has_is_an_error(number: Any) -> None:
    class Wrong(Sorter):
        def branch_of(self, number_of_item: int, item: int) -> Any:
            return number if item == 3 else 0

    first, second = Wrong(numbers(5), 3)
    for branch in (first, second):
        with pytest.raises(ValueError, match="there are pipes 0 … 1; None leaves an item out") as caught:
            list(branch)
        assert f"branch_of returned {number!r}" in str(caught.value)
        assert caught.value.__notes__ == ["penstock: raised in Wrong(3), on 3"]


def test_what_is_forgotten_is_said() -> None:
    class SaysNoNumber(ps.Splitter):
        def __init__(self, source: Any) -> None:
            self.source = source

    class SaysNoBranch(SaysNoNumber):
        def result(self) -> list[ps.IterDataPipe[Any]]:
            return self.branches(2)

    with pytest.raises(NotImplementedError, match=r"with `return self.branches\(2\)`"):
        SaysNoNumber(numbers(3))
    with pytest.raises(NotImplementedError, match=r"write `def branch_of\(self, number, item\)`, which returns"):
        list(SaysNoBranch(numbers(3))[0])


@pytest.mark.parametrize("how", ["concat", "mux", "mux_longest", "zip", "mix"])
def test_closing_a_step_over_branches_closes_their_source(how):
    closed = []

    class Source(ps.IterDataPipe):
        def __iter__(self):
            try:
                yield from range(8)
            finally:
                closed.append(True)

    one, other = Source().fork(2, buffer_size=8)
    dp = getattr(one, how)(other)
    running = iter(dp)
    next(running)
    running.close()
    assert closed == [True]
    assert len(list(dp)) in (8, 16)
