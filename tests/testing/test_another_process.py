"""The law that another process reads the same: what depends on the hashes of strings is lost or doubled on resuming."""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import fsspec
import pytest

import penstock as ps
from passing import HoldsALock, Passing, PassingByIndex
from penstock.registry import own
from penstock.testing import NotChecked, check_operator

LAW = ["another_process_agrees"]
WORDS = [f"w{number}" for number in range(30)]


def words() -> Any:
    return ps.iter.IterableWrapper(WORDS)


class YieldsASet(Passing):
    def __iter__(self) -> Iterator[Any]:
        yield from {*self.source}


class HasAFrozenSetOfPairs(ps.IterDataPipe):
    def __init__(self, pairs: Any) -> None:
        self.pairs = frozenset(pairs)

    def __iter__(self) -> Iterator[Any]:
        yield from self.pairs


class SortsByHash(Passing):
    def __iter__(self) -> Iterator[Any]:
        yield from sorted(self.source, key=hash)


class DealsByHash(Passing):
    def __iter__(self) -> Iterator[Any]:
        dealt: list[list[Any]] = [[] for _ in range(4)]
        for item in self.source:
            dealt[hash(item) % 4].append(item)
        yield from dealt


class CountsByHash(Passing):
    """A pass over it is the same anywhere; a state counts for another process what it has under other hashes."""

    resumes_from_start = False
    counts: dict[str, int] = own(dict)

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            kind = str(hash(item[:1]))
            self.counts[kind] = self.counts.get(kind, 0) + 1
            yield item, self.counts[kind]


class IndexesASet(PassingByIndex):
    def __getitem__(self, index: int) -> Any:
        return [*{*self.source}][index]


WHOLE = "read in a process with another hash seed, where sets have another order: item"
RESUMED = "resumed after 1 items in a process with another hash seed, where sets have another order: item"


@pytest.mark.parametrize(
    ("make", "seen"),
    [  # so many words that no other seed gives them the same order
        (lambda: YieldsASet(words()), WHOLE),
        (lambda: HasAFrozenSetOfPairs(zip(WORDS, WORDS, strict=True)), WHOLE),
        (lambda: SortsByHash(words()), WHOLE),
        (lambda: DealsByHash(words()), WHOLE),
        (lambda: CountsByHash(words()), RESUMED),
        (lambda: IndexesASet(ps.map.SequenceWrapper(WORDS)), WHOLE),
    ],
)
def test_what_depends_on_hashes_is_caught(make: Callable[[], Any], seen: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(seen)):
        check_operator(make, LAW)


def test_all_other_laws_are_kept_by_a_set() -> None:
    with pytest.raises(AssertionError, match="YieldsASet breaks the law 'another_process_agrees'"):
        check_operator(lambda: YieldsASet(words()))


def test_an_environment_that_fixes_the_hash_seed_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    check_operator(words, LAW)
    with pytest.raises(AssertionError, match=WHOLE):
        check_operator(lambda: YieldsASet(words()), LAW)
    assert os.environ["PYTHONHASHSEED"] == "1"


def test_an_error_of_the_other_process_alone_is_told() -> None:
    here = os.getpid()

    def only_here(item: Any) -> Any:
        if os.getpid() != here:
            raise KeyError(item)
        return item

    with pytest.raises(AssertionError, match=r"read in a process with .*: it raised KeyError\('w0'\)"):
        check_operator(lambda: words().map(only_here), LAW)


def test_files_in_memory_are_there_in_the_other_process() -> None:
    fsspec.filesystem("memory").pipe("/another/process", b"content")
    check_operator(lambda: ps.iter.IterableWrapper(["memory://another/process"]).open_files_by_fsspec("rb"), LAW)


# What cannot be sent


class GuardsWhatProcessesShare(HoldsALock):
    broken_laws = {"copies_agree": "its lock guards what processes share"}


class YieldsLocks(Passing):
    def __iter__(self) -> Iterator[Any]:
        yield from (lock for _ in self.source if (lock := LOCK))


LOCK = threading.Lock()


def of_a_module_that_is_nowhere_else() -> Any:
    module = sys.modules["made_here"] = ModuleType("made_here")
    exec("def shout(text): return text.upper()", vars(module))
    return words().map(module.shout)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda: GuardsWhatProcessesShare(words()),
            "GuardsWhatProcessesShare is not checked for .*: the chain cannot be pickled.*'_thread.lock'",
        ),
        (lambda: YieldsLocks(words()), "YieldsLocks is not checked for .*: its items cannot be pickled"),
        (of_a_module_that_is_nowhere_else, "Mapper is not checked for .*: another process cannot load .*made_here"),
    ],
)
def test_a_chain_that_cannot_be_sent_is_warned_of(
    make: Callable[[], Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "made_here", None)
    with pytest.warns(NotChecked, match=reason) as seen:
        check_operator(make, LAW)
    assert seen[0].filename == __file__


def test_a_chain_that_can_be_sent_is_not_warned_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_operator(words, LAW)
