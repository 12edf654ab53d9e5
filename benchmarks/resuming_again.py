"""What is read again on resuming: each operator alone, behind a source that records which items are pulled.

A chain is read until a million items were emitted or pulled, whichever comes first, or until the time is up. Its state
goes through JSON into an equal chain, which is asked for one item. The items that the new chain pulls again are
counted. To find what the operator buffered, the first chain is read on: the oldest earlier item of which a later
output is made was buffered. The new chain may read again from that item on.
"""

from __future__ import annotations

import base64
import gc
import json
import multiprocessing
import os
import signal
import tempfile
import time
import warnings
from collections import deque
from contextlib import suppress
from itertools import chain, islice
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from penstock.registry import operators

from .again_cases import CASES, NOT_MEASURED
from .again_feeds import SOURCE, Case, Feed, numbers_in
from .harness import table, verdict

MOST_AGAIN = 0.02
"""The share of the pulled items that may be read again beyond the buffered ones."""
LATER_ITEMS, LATER_SECONDS = 200_000, 2.0
"""The number of items that the first chain is read on."""
RESUMED_TIMES, RESUMED_SECONDS = 5, 1.0
TIMES_WHERE_MISSED = 3
"""Measurements of a case that misses its goal: one snapshot may be slow by accident."""
SECONDS_AT_MOST = 45
"""Seconds before a case is ended: a case that reads everything again takes twice its reading time."""


class Found(NamedTuple):
    handed_out: int
    pulled: int
    again: int
    buffered: int | None
    """The number of items from the oldest buffered one on; None if unknown."""
    first: float
    bytes: int
    same: bool
    """Whether the first item after resuming was made of the same source items."""

    @property
    def beyond(self) -> float:
        """The items pulled again beyond the allowed ones, as a share of those pulled."""
        return (self.again - (self.buffered or 0)) / self.pulled - MOST_AGAIN


class Result(NamedTuple):
    case: Case
    found: Found
    """The one in the middle, where there are several."""
    missed: int
    times: int
    worst: int
    """The most that was pulled again."""

    @property
    def name(self) -> str:
        return name_of(self.case)

    @property
    def is_missed(self) -> bool:
        return not self.case.excused and self.missed > self.times / 2

    @property
    def remark(self) -> str:
        if self.case.excused:
            return self.case.excused
        missed = f"{self.missed} of {self.times} times, {self.worst:,} at worst" if self.missed else ""
        return f"MISSED, {missed}" if self.is_missed else missed


def read(iterator: Any, feed: Feed, seconds: float) -> int:
    """Read the wanted number of items, or until the time is up, and return how many were emitted."""
    until, emitted, step, already = time.perf_counter() + seconds, 0, 1, len(feed.pulled)
    while time.perf_counter() < until:
        pulled = len(feed.pulled) - already
        missing = min(feed.items - emitted, (feed.most - pulled) * max(emitted, 1) // max(pulled, 1))
        if emitted >= feed.items or pulled >= feed.most:
            break
        step = max(min(missing // 20, 2 * step, 1000), 1)
        part = list(islice(iterator, step))
        emitted += len(part)
        if not part:
            raise RuntimeError(f"the chain ended after {emitted:,} items")
    return emitted


def first_of(iterator: Any) -> tuple[float, list[int]]:
    began = time.perf_counter()
    item = next(iterator)
    return time.perf_counter() - began, list(numbers_in(item))


def with_bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value["bytes"]) if value.keys() == {"bytes"} else value


def as_json(state: Any) -> str:
    return json.dumps(state, default=lambda value: {"bytes": base64.b64encode(value).decode()})


def oldest_buffered(iterator: Any, following: list[int], pulled: list[int]) -> int:
    """Return the number of items from the oldest buffered one on, over all sources."""
    before = set(pulled)
    latest: dict[int, int] = {}
    oldest: dict[int, int] = {}
    for number in pulled:
        latest[number // SOURCE] = max(number, latest.get(number // SOURCE, 0))
    until = time.perf_counter() + LATER_SECONDS
    later = chain([following], map(numbers_in, islice(iterator, LATER_ITEMS)))
    for numbers in later:
        for number in numbers:
            if number in before:
                oldest[number // SOURCE] = min(number, oldest.get(number // SOURCE, number))
        if time.perf_counter() > until:
            break
    return sum(latest[source] + 1 - number for source, number in oldest.items())


def measure(case: Case, items: int, seconds: float, folder: Path) -> Found:
    torch.manual_seed(0)
    first_of(iter(case.chain(Feed(items, folder, case.most))))  # run late imports before the timing
    feed = Feed(items, folder, case.most)
    dp = case.chain(feed)
    for _ in range(case.passes):
        deque(dp, maxlen=0)
    iterator = iter(dp)
    emitted = read(iterator, feed, seconds)
    pulled = feed.pulled[:]
    state = as_json(dp.state_dict())
    already = len(feed.pulled)
    _, following = first_of(iterator)
    for_next = len(feed.pulled) - already
    times: list[float] = []
    resumed_items: list[int] = []
    again = 0
    before = set(pulled)
    while len(times) < RESUMED_TIMES and sum(times) < RESUMED_SECONDS:
        other = Feed(items, folder, case.most)
        resumed = case.chain(other)
        began = time.perf_counter()
        resumed.load_state_dict(json.loads(state, object_hook=with_bytes))
        resumed_iterator = iter(resumed)
        _, resumed_items = first_of(resumed_iterator)
        times.append(time.perf_counter() - began)
        read_now = other.pulled[:]
        close(resumed_iterator)
        found = len(read_now) - for_next if case.repeats else sum(number in before for number in read_now)
        again = max(again, found)
    buffered: int | None = None
    if case.buffers is not None:
        buffered = case.buffers(len(pulled))
    elif not case.repeats:
        buffered = oldest_buffered(iterator, following, pulled)
    close(iterator)
    same = sorted(resumed_items) == sorted(following)
    return Found(emitted, len(pulled), again, buffered, median(times), len(state), same)


def close(iterator: Any) -> None:
    if hasattr(iterator, "close"):
        iterator.close()


def answer(number: int, items: int, seconds: float, connection: Connection) -> None:
    """Measure a case in its own process, and send the findings, or the error as text."""
    os.setsid()
    warnings.simplefilter("ignore")
    gc.freeze()
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found: Found | str = measure(CASES[number], items, seconds, Path(folder))
            connection.send(found)
    except Exception as error:
        connection.send(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")


def ask(context: Any, number: int, items: int, seconds: float) -> Found | str:
    ours, theirs = context.Pipe()
    process = context.Process(target=answer, args=(number, items, seconds, theirs))
    process.start()
    theirs.close()
    try:
        if not ours.poll(SECONDS_AT_MOST):
            return f"no answer within {SECONDS_AT_MOST} s"
        found: Found | str = ours.recv()
        process.join(5)
        return found
    except EOFError:
        return "the process ended without an answer"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it started, too
        process.join()


def name_of(case: Case) -> str:
    return f"{case.operator} ({case.note})" if case.note else case.operator


def result_of(context: Any, number: int, items: int, seconds: float) -> Result | str:
    """Measure a case, and again if it misses its goal; return the error as text if a measurement fails."""
    case = CASES[number]
    found: list[Found] = []
    for time_left in reversed(range(TIMES_WHERE_MISSED)):
        each = ask(context, number, items, seconds)
        if isinstance(each, str):
            return each
        found.append(each)
        if case.excused or (time_left == TIMES_WHERE_MISSED - 1 and each.beyond <= 0):
            break
    found.sort(key=lambda each: each.beyond)
    missed = sum(each.beyond > 0 for each in found)
    return Result(case, found[len(found) // 2], missed, len(found), max(each.again for each in found))


def cells(result: Result) -> list[str]:
    found = result.found
    return [
        result.name,
        f"{found.handed_out:,}",
        f"{found.pulled:,}",
        f"{found.again:,}",
        "?" if found.buffered is None else f"{found.buffered:,}",
        f"{found.first * 1e3:,.1f}",
        f"{found.bytes:,}",
        result.remark,
    ]


def again(items: int, seconds: float, only: list[str]) -> list[str]:
    """Print what each operator reads again, and return the verdicts."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    os.environ["OMP_NUM_THREADS"] = "1"
    results: list[Result] = []
    failed: dict[str, str] = {}
    for number, case in enumerate(CASES):
        if not only or case.operator in only:
            result = result_of(context, number, items, seconds)
            if isinstance(result, str):
                failed[name_of(case)] = result
            else:
                results.append(result)
    print(f"\nResumed after {items:,} items, handed out or pulled, or after {seconds:g} s\n")
    header = ["", "handed out", "pulled", "pulled again", "buffered", "first item, ms", "bytes of the state", ""]
    print(table(header, [cells(result) for result in results]))
    missing = {**failed, **({} if only else NOT_MEASURED)}
    print("\n" + "\n".join(f"{name}: {why}" for name, why in missing.items()))
    return [
        *verdicts_on(results),
        verdict(f"each chain resumes, but: {', '.join(failed) or 'none'}", not failed),
        *([] if only else [verdict_on_cases()]),
    ]


def verdicts_on(results: list[Result]) -> list[str]:
    missed = [
        f"{result.name} {result.found.again:,} of {result.found.pulled:,}" for result in results if result.is_missed
    ]
    other = [result.name for result in results if not result.found.same]
    return [
        verdict(
            f"no step reads more than it buffers plus {MOST_AGAIN:.0%} again, but for those excused:"
            f" {len(missed)} of {len(results)} do: {'; '.join(missed) or 'none'}",
            not missed,
        ),
        verdict(
            f"what comes after resuming is what would have come, but from: {', '.join(other) or 'none'}", not other
        ),
    ]


def verdict_on_cases() -> str:
    covered = {case.operator for case in CASES} | NOT_MEASURED.keys()
    without = sorted({name for name, each in operators.items() if each.kind == "iter"} - covered)
    return verdict(f"each iterable operator has a case or a reason, but: {', '.join(without) or 'none'}", not without)
