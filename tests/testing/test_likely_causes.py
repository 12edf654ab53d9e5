"""check_operator says the likely cause of a broken law: for each cause, an operator with the mistake."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from passing import HoldsALock, Passing, PassingByIndex
from penstock.testing.likely_causes import CAUSES


class ReadsInInit(Passing):
    def __init__(self, source: Any) -> None:
        self.source = source
        self.items = list(source)


class DrawsFromOneGenerator(Passing):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.generator = random.Random(0)

    def __iter__(self) -> Iterator[Any]:
        return (item for item in self.source if self.generator.random() < 0.5)


class HasOneIterator(ps.IterDataPipe):
    payload = ("numbers",)

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers
        self.rest = iter(numbers)

    def __iter__(self) -> Iterator[Any]:
        yield from self.rest


class SeesAllInOneSet(Passing):
    def __init__(self, source: Any, seen: set[Any] = set()) -> None:  # noqa: B006
        super().__init__(source)
        self.seen = seen

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            if item not in self.seen:
                self.seen.add(item)
                yield item


class BuffersInTheClass(Passing):
    buffer: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            self.buffer.append(item)
            yield len(self.buffer)


class GoesOnCounting(Passing):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.seen = 0

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            self.seen += 1
            yield self.seen, item


class DealsByCount(ps.Splitter):
    def __init__(self, source: Any) -> None:
        self.source = source
        self.seen = 0

    def result(self) -> list[ps.IterDataPipe[Any]]:
        return self.branches(2)

    def branch_of(self, number: int, item: Any) -> int:
        self.seen += 1
        return self.seen // 2 % 2


class DrawsByIndex(PassingByIndex):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.generator = random.Random(0)

    def __getitem__(self, index: int) -> Any:
        return self.source[index] + self.generator.random()


class CountsUndeclared(Passing):
    resumes_from_start = False

    def __iter__(self) -> Iterator[Any]:
        yield from enumerate(self.source)


def numbers() -> Any:
    return ps.iter.IterableWrapper(range(7))


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "source_read_by_the_constructor": (
        lambda: ReadsInInit(numbers()),
        "`source` was read in the __init__ of ReadsInInit: keep it as self.source, and read it in __iter__",
    ),
    "generator_of_the_constructor": (
        lambda: DrawsFromOneGenerator(numbers()),
        "the random generator `generator` is made in __init__",
    ),
    "iterator_of_the_constructor": (lambda: HasOneIterator(range(7)), "the iterator `rest` is made in __init__"),
    "member_that_cannot_be_pickled": (
        lambda: HoldsALock(numbers()),
        "the attribute `lock` cannot be pickled (cannot pickle '_thread.lock' object): make it in __iter__",
    ),
    "default_that_is_shared": (
        lambda: SeesAllInOneSet(numbers()),
        "the default of `seen` is one set for all pipes and passes, and SeesAllInOneSet changes it: make a new one",
    ),
    "attribute_that_passes_change": (
        lambda: GoesOnCounting(numbers()),
        "`seen` of GoesOnCounting is changed by a pass, and the next goes on with it: make it in __iter__, or declare "
        "it in the class by seen = own(…)",
    ),
    "undeclared_buffer": (
        lambda: CountsUndeclared(numbers()),
        "CountsUndeclared declares `resumes_from_start = False`, and does not resume right with it: declare what",
    ),
}


def test_there_is_a_mistake_for_every_cause() -> None:
    assert [*MISTAKES] == [cause.__name__ for cause in CAUSES]


VARIANTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: BuffersInTheClass(numbers()), "`buffer` of the class is one list for all pipes"),
    (
        lambda: ps.iter.ZipperLongest(*DealsByCount(numbers())),
        "`seen` of DealsByCount is changed by a pass, and the next "
        "goes on with it: let branch_of decide by the number and the item",
    ),
    (
        lambda: DrawsByIndex(ps.map.SequenceWrapper(range(4))),
        "the random generator `generator` is made in __init__, and "
        "every pass goes on with it: make one in __getitem__, seeded by the index",
    ),
]


@pytest.mark.parametrize(("make", "cause"), [*MISTAKES.values(), *VARIANTS])
def test_the_likely_cause_is_said(make: Callable[[], Any], cause: str) -> None:
    with pytest.raises(AssertionError) as caught:
        ps.check_operator(make)
    assert str(caught.value).splitlines()[-1].startswith(f"likely cause: {cause}")


class Unpredictable(Passing):
    def __iter__(self) -> Iterator[Any]:
        yield from (item + random.random() for item in self.source)


class LocksAndMiscounts(HoldsALock):
    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize(("cls", "law"), [(Unpredictable, "two_passes_agree"), (LocksAndMiscounts, "len_is_exact")])
def test_where_no_mistake_is_found_that_breaks_the_law_nothing_is_guessed(cls: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=f"breaks the law '{law}'") as caught:
        ps.check_operator(lambda: cls(numbers()), [law])
    assert "likely cause" not in str(caught.value)


def test_the_page_shows_what_a_failure_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "publish_operators.md").read_text(encoding="utf-8")
    ((block, shown),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    exec(block, {"__name__": "page"})
    assert capsys.readouterr().out == shown
