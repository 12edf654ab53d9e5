"""An operator that hangs breaks the law under which it does, and the error shows where."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as ps
from passing import Passing, PassingByIndex
from penstock.testing import check_operator

PATIENCE = 0.3

_released = threading.Event()


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    _released.clear()
    yield
    _released.set()


def hang() -> None:
    _released.wait(20)


class HangsInAPass(Passing):
    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            hang()  # in a pass
            yield item


class LoopsForEver(Passing):
    def __iter__(self) -> Iterator[Any]:
        yield from self.source
        deque(iter(_released.is_set, True), 0)  # in a loop


class HangsWhenResumed(Passing):
    resumes_from_start = False
    given: int = ps.own(0)

    def __iter__(self) -> Iterator[Any]:
        if self.given:
            hang()  # in resuming
        for item in self.source:
            self.given += 1
            yield item


class HangsWhenClosed(Passing):
    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.source
        except GeneratorExit:
            hang()  # in closing
            raise


class HangsWhenCounted(Passing):
    def __len__(self) -> int:
        hang()  # in len
        return 0


class HangsInItsIndex(PassingByIndex):
    def __getitem__(self, index: int) -> Any:
        hang()  # in an index
        return self.source[index]


class HangsWhenMade(Passing):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        hang()  # in the constructor


def numbers() -> Any:
    return ps.iter.IterableWrapper(range(5))


@pytest.mark.parametrize(
    ("make", "law", "where"),
    [
        (lambda: HangsInAPass(numbers()), "two_passes_agree", "in a pass"),
        (lambda: LoopsForEver(numbers()), "two_passes_agree", "in a loop"),
        (lambda: HangsWhenResumed(numbers()), "resumed_after_every_item", "in resuming"),
        (lambda: HangsWhenClosed(numbers()), "abandoned_iterator_closes_its_source", "in closing"),
        (lambda: HangsWhenCounted(numbers()), "len_is_exact", "in len"),
        (lambda: HangsInItsIndex(ps.map.SequenceWrapper(range(5))), "two_passes_agree", "in an index"),
    ],
)
def test_the_error_names_the_law_and_shows_the_line(make: Callable[[], Any], law: str, where: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_operator(make, [law], timeout=PATIENCE)
    heading, chain, limit, *stack = str(caught.value).splitlines()
    assert heading.startswith(f"{type(make()).__name__} breaks the law {law!r}: ")
    assert chain.startswith("chain: ")
    assert limit == "it takes longer than 0.3 seconds; where it is now:"
    assert any(f"# {where}" in line for line in stack)
    assert sum("penstock" in line and "File" in line for line in stack) <= 1, "frames of ours are between"


def test_a_chain_that_hangs_while_it_is_made_is_told_of() -> None:
    with pytest.raises(AssertionError, match="making the chain: it takes longer than 0.3 seconds") as caught:
        check_operator(lambda: HangsWhenMade(numbers()), timeout=PATIENCE)
    assert "# in the constructor" in str(caught.value)


def test_no_likely_cause_is_looked_for() -> None:
    class Remembers(HangsInAPass):
        def __init__(self, source: Any) -> None:
            super().__init__(source)
            self.rest = iter(range(5))  # a mistake that causes are found for

    with pytest.raises(AssertionError) as caught:
        check_operator(lambda: Remembers(numbers()), ["two_passes_agree"], timeout=PATIENCE)
    assert "likely cause" not in str(caught.value)


def test_it_works_in_a_thread_that_gets_no_signals() -> None:
    seen: list[str] = []

    def check() -> None:
        with pytest.raises(AssertionError) as caught:
            check_operator(lambda: HangsInAPass(numbers()), timeout=PATIENCE)
        seen.append(str(caught.value))

    thread = threading.Thread(target=check)
    thread.start()
    thread.join(10)
    assert "# in a pass" in seen[0]


@pytest.mark.parametrize(("timeout", "error"), [(0, ValueError), (-1, ValueError), ("a while", TypeError)])
def test_the_limit_is_seconds(timeout: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="timeout must be"):
        check_operator(numbers, timeout=timeout)
