"""Mistakes that authors of operators make, and the mend in each error."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as ps
from passing import HoldsALock, Passing
from penstock.runner.workers.chain_pickle import pickled_chain


class YieldsNothing(Passing):
    def __iter__(self) -> Any:
        for _ in self.source:
            pass


class ReturnsAList(Passing):
    def __iter__(self) -> Any:
        return [item for item in self.source]  # noqa: C416


class CallsTheBase(ps.IterDataPipe):
    def __init__(self, source: Any) -> None:
        super().__init__(source)  # type: ignore[call-arg]


class KeepsNoSource(ps.IterDataPipe):
    def __init__(self, source: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        yield from self.source


class TakesNoSource(ps.IterDataPipe):
    def __init__(self) -> None:
        pass


class HasNoConstructor(ps.IterDataPipe):
    pass


class PairsWithItself(Passing):
    def __iter__(self) -> Iterator[Any]:
        yield from zip(self.source, self.source, strict=True)


def numbers() -> Any:
    return ps.iter.IterableWrapper(range(4))


@pytest.mark.parametrize(
    ("mistake", "error", "mend"),
    [
        (
            lambda: list(YieldsNothing(numbers())),
            TypeError,
            "__iter__ of YieldsNothing must yield items, or return an iterator, and returned NoneType",
        ),
        (
            lambda: list(ReturnsAList(numbers())),
            TypeError,
            "and returned list: write `yield item` for each item, or `yield from` in place of `return`",
        ),
        (
            lambda: CallsTheBase(numbers()),
            TypeError,
            "write `self.source = source` in the __init__ of CallsTheBase, without super().__init__(source)",
        ),
        (
            lambda: list(KeepsNoSource(numbers())),
            AttributeError,
            "'KeepsNoSource' object has no attribute 'source': keep it in the __init__ of KeepsNoSource, as in "
            "`self.source = source`",
        ),
        (lambda: TakesNoSource(numbers()), TypeError, "TakesNoSource needs `def __init__(self, source)`"),  # type: ignore[call-arg]
        (
            lambda: HasNoConstructor(numbers()),  # type: ignore[call-arg]
            TypeError,
            "HasNoConstructor needs `def __init__(self, source)`, with `self.source = source`",
        ),
        (
            lambda: list(PairsWithItself(numbers())),
            RuntimeError,
            "to read a pipe twice at once, fork it or build the chain twice, or use itertools.tee in an operator",
        ),
    ],
)
def test_the_error_says_the_mend(mistake: Callable[[], Any], error: type[Exception], mend: str) -> None:
    with pytest.raises(error, match=re.escape(mend)):
        mistake()


def test_a_method_whose_class_keeps_no_source_is_an_error() -> None:
    ps.functional_datapipe("keeps_none")(KeepsNoSource)
    with pytest.raises(TypeError, match=r"KeepsNoSource keeps no source: write `self.source = source` in its __init__"):
        numbers().keeps_none()


def test_an_attribute_that_cannot_be_pickled_is_named_with_its_mend() -> None:
    with pytest.raises(TypeError, match="cannot pickle") as caught:
        pickled_chain(HoldsALock(numbers()))
    assert caught.value.__notes__ == [
        "penstock: the lock of HoldsALock() cannot be pickled, so it cannot be sent to worker processes: "
        "make it in __iter__"
    ]


def test_broken_laws_are_a_dict_with_reasons() -> None:
    class Breaks(Passing):
        broken_laws = ("resuming",)  # type: ignore[assignment]

    with pytest.raises(TypeError, match="broken_laws of .*Breaks must be a dict with the reason for each law"):
        ps.check_operator(lambda: Breaks(numbers()))


class SkipsThePartner(Passing):
    """Mixes each number with the one before it, which a resumed pass has left out."""

    resumes_from_start = False
    emitted: int = ps.own(0)

    def __iter__(self) -> Iterator[Any]:
        before, items = 0, self.read(self.source)
        for number, item in items:
            if number < self.emitted:
                continue
            self.emitted = number + 1
            items.keep_from(number)
            yield item + before
            before = item


class ForgetsTheSample(Passing):
    """Reads a source to its end, which a resumed pass finds at its end."""

    resumes_from_start = False

    def __init__(self, source: Any, sample: Any) -> None:
        super().__init__(source)
        self.sample = sample

    def __iter__(self) -> Iterator[Any]:
        most = max(self.sample, default=0)
        for item in self.source:
            yield item - most


@pytest.mark.parametrize("make", [lambda: SkipsThePartner(numbers()), lambda: ForgetsTheSample(numbers(), numbers())])
def test_what_a_resumed_pass_lacks_is_found(make: Callable[[], Any]) -> None:
    with pytest.raises(AssertionError, match=r"(?s)'resumed_after_every_item'.*declare what a pass remembers with own"):
        ps.check_operator(make)


def test_a_source_that_was_read_to_its_end_comes_again_where_all_of_it_is_kept() -> None:
    class KeepsTheSample(ForgetsTheSample):
        resumes_from_start = False

        def __iter__(self) -> Iterator[Any]:
            sample = self.read(self.sample)
            most = max((item for _, item in sample), default=0)
            sample.keep_from(0)
            for item in self.source:
                yield item - most

    ps.check_operator(lambda: KeepsTheSample(numbers(), numbers()))


def test_a_copy_has_the_defaults_of_transient_attributes() -> None:
    class Connected(Passing):
        transient = ("connection",)
        connection: Any = None

    connected = Connected(numbers())
    connected.connection = threading.Lock()
    assert pickle.loads(pickled_chain(connected)).connection is None
    ps.check_operator(lambda: Connected(numbers()))
