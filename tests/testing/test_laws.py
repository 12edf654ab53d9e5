"""Every operator holds the laws, and every law catches an operator that breaks it."""

from __future__ import annotations

import io
import os
import random
import re
from collections import namedtuple
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from passing import HoldsALock, Passing, PassingByIndex
from penstock.registry import Seeded, Tally, operators, own
from penstock.testing import LAWS, check_operator
from penstock.testing import reading as laws_of_reading
from penstock.testing.probes import as_plain

OURS = [entry for entry in operators.values() if entry.cls.__module__.startswith("penstock.")]


@pytest.mark.filterwarnings("error::penstock.testing.NotChecked")
@pytest.mark.parametrize(
    ("cls", "law"),
    [
        pytest.param(entry.cls, law, id=f"{entry.kind}-{entry.cls.__name__}-{law}")
        for entry in OURS
        for law in LAWS[entry.kind]
    ],
)
def test_every_operator_holds_the_laws(cls: type, law: str) -> None:
    if law in cls.broken_laws:
        pytest.skip(cls.broken_laws[law])
    check_operator(cls, [law])


# Operators that break a law. Each passes its source's items on, but for what is wrong with it.


class PullsAtConstruction(Passing):
    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.first = source.take(1)


class EmptyAfterAWholePass(Passing):
    transient = ("done",)
    done = False

    def __iter__(self) -> Iterator[Any]:
        if not self.done:
            yield from self.source
        self.done = True


class GoesOnWhereItWasGivenUp(Passing):
    transient = ("given",)
    given = 0

    def __iter__(self) -> Iterator[Any]:
        for item in islice(self.source, self.given, None):
            self.given += 1
            yield item
        self.given = 0


class IteratesUnseen:
    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class ManyIterators(IteratesUnseen, ps.IterDataPipe):
    def __init__(self, source: Any) -> None:
        self.source = source


class LosesPlaceWhenCopied(Passing):
    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)(self.source.filter(bool))


class OneShort(Passing):
    def __len__(self) -> int:
        return max(len(self.source) - 1, 0)


class OneShortByIndex(PassingByIndex):
    def __len__(self) -> int:
        return max(len(self.source) - 1, 0)

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class ChangesItems(Passing):
    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            item.append(0)
            yield item


class HandsOutOneListOverAndOver(Passing):
    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for item in self.source:
            batch[:] = [item]
            yield batch


class ChangesItemsByIndex(PassingByIndex):
    def __getitem__(self, index: int) -> Any:
        self.source[index][:] = [0]
        return self.source[index]


class KeepsItsSourceOpen(Passing):
    transient = ("rest",)

    def __iter__(self) -> Iterator[Any]:
        self.rest = iter(self.source)
        for item in self.rest:  # noqa: UP028  `yield from` would close it
            yield item


class KeepsAnotherArgument(Passing):
    def __init__(self, source: Any, n: int) -> None:
        super().__init__(source)
        self.n = n + 1


class KeepsNoArgument(Passing):
    def __init__(self, source: Any, n: int) -> None:
        super().__init__(source)


class HidesAMethod(Passing):
    def __init__(self, source: Any, batch: int) -> None:
        super().__init__(source)
        self.batch = batch


class OneOrderForAll(Seeded, Passing):
    def __iter__(self) -> Iterator[Any]:
        items = list(self.source)
        random.Random(0).shuffle(items)
        yield from items


class LosesItemsWhenSharded(Passing):
    shards, shard = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int) -> None:
        self.shards, self.shard = num_of_instances, instance_id % 2

    def __iter__(self) -> Iterator[Any]:
        yield from islice(self.source, self.shard, None, self.shards)


class NeedsAFirstItem(Passing):
    def __iter__(self) -> Iterator[Any]:
        items = iter(self.source)
        yield next(items)
        yield from items


class TriesUntilThereIsAnItem(Passing):
    def __iter__(self) -> Iterator[Any]:
        items: list[Any] = []
        while not items:
            items = list(self.source)
        yield from items


class RaisesAnotherError(Passing):
    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.source
        except Exception as error:
            raise ValueError("reading failed") from error


class SwallowsErrors(Passing):
    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.source
        except Exception:
            return


class SwallowsErrorsByIndex(PassingByIndex):
    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        try:
            return self.source[index]
        except Exception:
            return None


class NotesAgain(Passing):
    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self.source
        except Exception as error:
            error.add_note("penstock: raised here, too")
            raise


class ShowsNothing(Passing):
    def __repr__(self) -> str:
        return "a pipe"


class ShowsItsAddress(Passing):
    def __repr__(self) -> str:
        return f"{self.source!r}.<ShowsItsAddress object at 0x7f0123456789>"


class LeavesAFileOpen(Passing):
    def __iter__(self) -> Iterator[Any]:
        _file = open(os.devnull)  # noqa: SIM115
        yield from self.source


class ClosesItsFileAtTheEndOnly(Passing):
    def __iter__(self) -> Iterator[Any]:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        yield from self.source
        os.close(descriptor)


class YieldsInTheOrderOfHashes(Passing):
    def __iter__(self) -> Iterator[Any]:
        yield from sorted(self.source, key=lambda item: hash(str(item)))


class HidesAnItem(Passing):
    resumes_from_start = False

    def __iter__(self) -> Iterator[Any]:
        items = iter(self.source)
        for held in items:
            for item in items:
                yield held
                held = item
            yield held


class StateIsNoPlainData(Passing):
    resumes_from_start = False
    where: Any = own(None, save=lambda _: {1, 2})


class GivesItsMemoryAway(Passing):
    resumes_from_start = False
    numbers: list[int] = own(list)

    def _save_node(self, saved: Any) -> Any:
        node = super()._save_node(saved)
        return node and {**node, "own": {"numbers": self.numbers}}

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            self.numbers.append(len(self.numbers))
            yield item


class ForgetsWhatCameBeforeItsResuming(ps.IterDataPipe):
    resumes_from_start = False
    payload = ("iterable",)
    position: Tally = own(Tally)

    def __init__(self, iterable: Any) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        start, self.position = self.position.items, Tally()
        return self.position.follow(islice(self.iterable, start, None))


class ForgetsItsPasses(Seeded, Passing):
    def random_state(self) -> dict[str, Any]:
        return {**super().random_state(), "first_epoch": None}

    def __iter__(self) -> Iterator[Any]:
        items = list(self.source)
        random.Random(self.pass_seed).shuffle(items)
        yield from items


class WrongGoingBackwards(PassingByIndex):
    transient = ("last",)
    last = 0

    def __getitem__(self, index: int) -> Any:
        backwards, self.last = index == self.last - 1, index
        return None if backwards else self.source[index]


class BeginsAnewPastTheEnd(PassingByIndex):
    def __getitem__(self, index: int) -> Any:
        return self.source[index % len(self.source)]


def items(*items: Any) -> Any:
    return ps.iter.IterableWrapper(items or range(5))


def sequence(*items: Any) -> Any:
    return ps.map.SequenceWrapper(items or range(5))


# What breaks, and the laws that say so: the first is the one that the operator is here for.
BROKEN: list[tuple[Callable[[], Any], list[str]]] = [
    (lambda: PullsAtConstruction(items()), ["construction_pulls_nothing"]),
    (lambda: EmptyAfterAWholePass(items()), ["two_passes_agree", "resumed_at_either_end", "resumed_again_and_again"]),
    (lambda: GoesOnWhereItWasGivenUp(items()), ["restart_begins_again", "newer_iterator_invalidates_the_older"]),
    (
        lambda: ManyIterators(items()),
        [
            "newer_iterator_invalidates_the_older",
            "abandoned_iterator_closes_its_source",
            "resumed_after_every_item",
            "resumed_again_and_again",
        ],
    ),
    (lambda: HoldsALock(items()), ["copies_agree"]),
    (lambda: LosesPlaceWhenCopied(items()), ["copies_agree"]),
    (lambda: OneShort(items()), ["len_is_exact"]),
    (lambda: OneShortByIndex(sequence()), ["len_is_exact", "index_out_of_range_raises"]),
    (lambda: ChangesItems(items([1], [2])), ["items_are_left_alone"]),
    (lambda: HandsOutOneListOverAndOver(items()), ["items_are_left_alone"]),
    (lambda: ChangesItemsByIndex(sequence([1], [2])), ["items_are_left_alone"]),
    (lambda: KeepsItsSourceOpen(items()), ["abandoned_iterator_closes_its_source"]),
    (lambda: KeepsAnotherArgument(items(), 1), ["method_and_constructor_agree"]),
    (lambda: KeepsNoArgument(items(), 1), ["method_and_constructor_agree"]),
    (lambda: HidesAMethod(items(), 1), ["methods_are_not_hidden"]),
    (lambda: OneOrderForAll(items()), ["same_seed_same_order"]),
    (lambda: LosesItemsWhenSharded(items()), ["union_over_shards_is_the_whole"]),
    (lambda: NeedsAFirstItem(items()), ["empty_source_ends"]),
    (lambda: TriesUntilThereIsAnItem(items()), ["empty_source_ends"]),
    (lambda: RaisesAnotherError(items()), ["source_errors_pass_through"]),
    (lambda: SwallowsErrors(items()), ["source_errors_pass_through"]),
    (lambda: SwallowsErrorsByIndex(sequence()), ["source_errors_pass_through"]),
    (lambda: NotesAgain(items()), ["errors_are_noted_once"]),
    (lambda: ShowsNothing(items()), ["repr_shows_the_chain"]),
    (lambda: ShowsItsAddress(items()), ["repr_shows_the_chain"]),
    (lambda: LeavesAFileOpen(items()), ["no_resource_warning"]),
    (lambda: ClosesItsFileAtTheEndOnly(items()), ["abandoned_pass_closes_its_files"]),
    (lambda: YieldsInTheOrderOfHashes(items(*range(20))), ["another_process_agrees"]),
    (lambda: HidesAnItem(items()), ["resumed_after_every_item", "resumed_again_and_again"]),
    (
        lambda: StateIsNoPlainData(items()),
        ["resumed_after_every_item", "resumed_again_and_again", "another_process_agrees"],
    ),
    (lambda: GivesItsMemoryAway(items()), ["resumed_after_every_item"]),
    (lambda: ForgetsWhatCameBeforeItsResuming(range(5)), ["resumed_again_and_again"]),
    (
        lambda: ForgetsItsPasses(items()),
        ["resumed_at_either_end", "resumed_after_every_item", "resumed_again_and_again"],
    ),
    (lambda: WrongGoingBackwards(sequence()), ["every_order_of_reading_agrees"]),
    (lambda: BeginsAnewPastTheEnd(sequence()), ["index_out_of_range_raises"]),
]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:HoldsALock is not checked"
)
@pytest.mark.parametrize(("make", "laws"), [pytest.param(*case, id=type(case[0]()).__name__) for case in BROKEN])
def test_a_broken_operator_is_caught_by_its_laws_and_no_other(
    make: Callable[[], Any], laws: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laws_of_reading, "_CLOSES_WITHIN", 0.01)  # nothing here has a thread to wait for
    kind = "iter" if isinstance(make(), ps.IterDataPipe) else "map"
    caught = set()
    for law in LAWS[kind]:
        try:
            check_operator(make, [law])
        except AssertionError as error:
            caught.add(str(error).partition(": ")[0])
    assert caught == {f"{type(make()).__name__} breaks the law {law!r}" for law in laws}


def test_there_is_a_broken_operator_for_every_law() -> None:
    assert {laws[0] for _, laws in BROKEN} == {law for laws in LAWS.values() for law in laws}


def test_the_page_lists_each_law_and_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "own_declarations.md").read_text(encoding="utf-8")
    kinds = {"both": {"iter", "map"}, "iterable": {"iter"}, "map-style": {"map"}}
    listed = re.findall(r"^\| `(\w+)` \| (both|iterable|map-style) \| (.*) \|$", page, re.MULTILINE)
    assert sorted((kind, name, says) for name, pipes, says in listed for kind in kinds[pipes]) == sorted(
        (kind, name, (law.__doc__ or "").partition("\n")[0])
        for kind, laws in LAWS.items()
        for name, law in laws.items()
    )


# check_operator


def test_a_failure_shows_the_law_the_chain_and_both_sides() -> None:
    with pytest.raises(AssertionError) as caught:
        check_operator(lambda: EmptyAfterAWholePass(items()))
    assert str(caught.value).splitlines() == [
        "EmptyAfterAWholePass breaks the law 'two_passes_agree': With the seed fixed, every pass gives the same items.",
        "chain: EmptyAfterAWholePass(IterableWrapper(range(0, 5)))",
        "the second pass over one pipe: item 0 should be 0, and is no item",
        "expected 5: [0, 1, 2, 3, 4]",
        "    seen 0: []",
    ]


def test_what_an_operator_raises_under_a_law_is_the_cause_of_the_failure() -> None:
    with pytest.raises(AssertionError, match="it raised TypeError") as caught:
        check_operator(lambda: HoldsALock(items()), ["copies_agree"])
    assert isinstance(caught.value.__cause__, TypeError)


def test_batches_made_below_a_sharding_point_are_compared_by_what_is_in_them() -> None:
    check_operator(lambda: items().sharding_filter().batch(2).batch(2), ["union_over_shards_is_the_whole"])
    with pytest.raises(AssertionError, match=r"over 3 shards, missing: \['2'\]; too many: \['0', '3'\]"):
        check_operator(lambda: LosesItemsWhenSharded(items()).batch(2), ["union_over_shards_is_the_whole"])


def test_an_operator_opts_out_of_a_law_with_a_reason() -> None:
    class Honest(OneShort):
        broken_laws = {"len_is_exact": "it cannot count"}

    check_operator(lambda: Honest(items()))
    check_operator(lambda: Honest(items()).map(str))


# The example in a docstring


laid_out: list[str] = []


class Endless(Passing):
    """Yield the items for ever.

    >>> dp = IterableWrapper("ab")
    """

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.source


class Broken(OneShort):
    """Yield the items as they are.

    >>> dp = Broken(IterableWrapper("abc"))
    """


def vague(broken_laws: Any) -> Any:
    return type("Vague", (Passing,), {"broken_laws": broken_laws})(items())


ONE = items()


@pytest.mark.parametrize(
    ("make", "laws", "error", "message"),
    [
        (
            lambda: vague({"len_is_exakt": "why not"}),
            None,
            ValueError,
            "no law 'len_is_exakt': did you mean",
        ),
        (lambda: vague({"len_is_exact": " "}), None, ValueError, "give the reason why 'len_is_exact' cannot be kept"),
        (lambda: vague({"len_is_exact": True}), None, ValueError, "give the reason why 'len_is_exact' cannot"),
        (items, ["len_exact"], ValueError, "no law 'len_exact'.*did you mean 'len_is_exact'"),
        (sequence, ["resumed_after_every_item"], ValueError, "no law 'resumed_after_every_item' for this kind"),
        (lambda: ONE, None, ValueError, "fresh pipe each time"),
        (lambda: range(3), None, TypeError, "returned range"),
        (lambda: Endless(items()), ["two_passes_agree"], AssertionError, "yields 1000 items or more"),
        (Broken, None, AssertionError, "'len_is_exact'"),
        (Endless, None, ValueError, "Endless has no example that defines `dp`"),
    ],
)
def test_what_cannot_be_checked_is_refused(make: Any, laws: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_operator(make, laws)


class Documented(Passing):
    """Yield the items as they are.

    >>> laid_out.append("a file")
    >>> print("this is not shown")
    this is not shown
    >>> source = IterableWrapper("ab")
    >>> dp = ps.iter.IterableWrapper("xyz")
    >>> dp = Documented(source)
    >>> list(dp)
    ['a', 'b']
    >>> raise RuntimeError("what comes after the chain is not run")
    """


def test_the_example_of_a_class_is_laid_out_once_and_its_chain_made_anew(capsys: pytest.CaptureFixture[str]) -> None:
    laid_out.clear()
    check_operator(Documented)
    assert laid_out == ["a file"]
    assert capsys.readouterr().out == ""


# How items are compared


Point = namedtuple("Point", "x y")


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"a": [1, (2.0, float("nan"))], "b": None},
        lambda: torch.ones(2, dtype=torch.bfloat16),
        lambda: torch.tensor(3),
        lambda: np.array([["a", "b"]]),
        lambda: np.array([{"a": 1}], dtype=object),
        lambda: np.float32(2),
        lambda: ("name", io.BytesIO(b"content")),
        lambda: Plain([torch.zeros(2)]),
        lambda: Point(1, np.zeros(2)),
    ],
)
def test_items_with_equal_content_compare_equal(make: Callable[[], Any]) -> None:
    assert as_plain(make()) == as_plain(make())


def test_a_stream_is_closed_when_it_was_compared() -> None:
    stream = io.BytesIO(b"content")
    as_plain({"stream": stream})
    assert stream.closed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], (1, 2)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
        (torch.zeros(2), np.zeros(2, np.float32)),
        (np.zeros(2), np.ones(2)),
        (io.BytesIO(b"a"), io.BytesIO(b"b")),
        (Point(1, 2), (1, 2)),
    ],
)
def test_items_with_other_content_or_type_compare_unequal(one: Any, other: Any) -> None:
    assert as_plain(one) != as_plain(other)
