"""Reading a source ahead of the items emitted, and recording how to resume it."""

from __future__ import annotations

import math
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice, pairwise
from types import GeneratorType
from typing import Any, Generic, TypeVar

from ..errors.closing import close
from .fields import NotPlain, Tally
from .foreign import TorchMapDataPipe
from .order_check import expect_same_order

__all__ = ["SNAPSHOT_SHARE", "Node", "Pace", "Reading", "Trail", "Waiting", "after", "can_capture", "capture"]

T = TypeVar("T")
Node = dict[str, Any]
"""Where a pipe and its sources stand in a pass; None for a pass that has not begun."""

Waiting = list[tuple[list[Node | None], int, Any]]
"""Places in lists of nodes, each with the pipe whose node goes there."""

SNAPSHOT_SHARE = 0.01
"""The share of the running time for snapshots of sources, summed over all passes of the process.

Their total cost must stay below 2 %. It exceeds their own time: other threads wait meanwhile, and caches are cold
afterwards.
"""
_COST_OF_THE_FIRST = 1e-5
"""The assumed seconds of the first snapshot of a pass."""
_MOST_SNAPSHOTS = 512
"""A trail keeps at most this many, since an item that stays needed would make them pile up."""
_SHARE_OF_LEAVING_OUT = 0.125
"""The share of the snapshot time for finding snapshots no longer needed."""


_FEWER = "the source gave fewer items than when the state was taken"


def after(
    items: Iterator[T], number: int, drop: Callable[[T], object] | None = None, last: int | None = None
) -> Iterator[T]:
    """Return the items after the first `number`, and call `drop` with each of those.

    Raises RuntimeError if there are fewer items, or if the last of these has another check value than `last`.
    """
    return chain(_left_out(items, number, drop, last), items) if number else items


def _left_out(items: Iterator[T], number: int, drop: Callable[[T], object] | None, last: int | None) -> Iterator[T]:
    tally = Tally()
    others = tally.follow(islice(items, number))
    found = deque(others if drop is None else map(drop, others), maxlen=int(last is not None))  # consumed in C
    if tally.items < number:
        raise RuntimeError(_FEWER)
    if found:
        expect_same_order(found.pop(), last)
    yield from ()


def can_capture(pipe: Any) -> bool:
    """Say whether a pipe can be resumed; torch's own iterable pipes are read again from the start.

    Map-style pipes need no state.
    """
    return hasattr(type(pipe), "_stands") or hasattr(type(pipe), "state_dict") or isinstance(pipe, TorchMapDataPipe)


def capture(pipe: Any) -> Node | None:
    """Return where a pipe stands now."""
    found: list[Node | None] = [None]
    waiting: Waiting = [(found, 0, pipe)]
    known: dict[int, Node | None] = {}  # a source shared by several pipes has one node
    while waiting:
        nodes, place, each = waiting.pop()
        if id(each) not in known:
            known[id(each)] = _node_of(each, waiting)
        nodes[place] = known[id(each)]
    return found[0]


def _node_of(pipe: Any, waiting: Waiting) -> Node | None:
    if hasattr(type(pipe), "_stands"):
        node: Node | None = pipe._stands(waiting)
        return node
    return {"state": pipe.state_dict()} if hasattr(type(pipe), "state_dict") else None


_taking_snapshots: weakref.WeakSet[Pace] = weakref.WeakSet()


class Pace:
    """Schedules snapshots of a source so that they take at most `SNAPSHOT_SHARE` of the time.

    The paces of a process split that share equally. The clock is read only after an estimated number of items. The
    estimate at most doubles each time, since the first items may be the slow ones.

    The cost of a snapshot is the smaller of the last two times. Garbage collection or another process may make one
    snapshot a thousand times slower.
    """

    def __init__(self) -> None:
        self._took = _COST_OF_THE_FIRST
        self._step = 1
        self._items = 0
        self._since = time.perf_counter()
        self._rest = self._rest_after(_COST_OF_THE_FIRST)

    @property
    def step(self) -> int:
        """The number of items from the last snapshot until the next may be due."""
        return self._step

    @property
    def items_to_go(self) -> int:
        """The number of items from now until the next snapshot may be due."""
        return max(self.step - self._items, 1)

    def due(self, items: int = 1) -> bool:
        """Count items, and say whether a snapshot is due now."""
        self._items += items
        if self._items >= self.step:
            self._look_at_the_clock()
        return self._items >= self.step

    def taken(self, started: float) -> None:
        """Record a snapshot that took from `started` (`time.perf_counter`) until now."""
        now = time.perf_counter()
        _taking_snapshots.add(self)
        self._took, before = now - started, self._took
        self._rest = self._rest_after(min(self._took, before))
        self._step = self._items_in(self._rest, started - self._since)
        self._items, self._since = 0, now

    def _look_at_the_clock(self) -> None:
        rested = time.perf_counter() - self._since
        if rested < self._rest:
            self._step = self._items + self._items_in(self._rest - rested, rested)

    def _items_in(self, seconds: float, seconds_until_now: float) -> int:
        """Estimate the number of items in `seconds`, at the rate since the last snapshot."""
        at_this_rate = self._items * seconds / max(seconds_until_now, 1e-9)
        return max(int(min(at_this_rate, 2 * self._items)), 1)

    @staticmethod
    def _rest_after(seconds: float) -> float:
        return seconds * max(len(_taking_snapshots), 1) / SNAPSHOT_SHARE if SNAPSHOT_SHARE else math.inf


def _nothing() -> None:
    return None


class Trail:
    """Snapshots of a source being read, and the oldest of its items still needed. Items are numbered from 0."""

    def __init__(self, source: Any, node: Node | None, start: int, first: int = 0) -> None:
        self.source = source
        self.needed: int | Callable[[], int | None] | None = None
        self.start = start
        """The number of the first item to pull."""
        self.first = max(first, start)
        """The number of the first item that may be needed."""
        self._pace = Pace() if can_capture(source) else None
        self._tally = Tally(start)
        # Replaced, never mutated: another thread may call `way_back`.
        self._snapshots = [(start, node)]
        self.reading: Callable[[], GeneratorType[Any, None, None] | None] = _nothing
        """Returns the source's iterator if it is alive and can be closed."""
        self._taking = self._leaving_out = 0.0
        """Seconds: for snapshots since the last pruning, and for that pruning."""

    @property
    def pulled(self) -> int:
        """The number of the next item to pull."""
        return self._tally.items

    @property
    def oldest(self) -> int:
        """The number of the oldest item needed."""
        oldest = self.needed() if callable(self.needed) else self.first if self.needed is None else self.needed
        return max(self.pulled if oldest is None else oldest, self.first)

    def items(self) -> Iterator[Any]:
        """Return an iterator over the items of the source that takes snapshots when due."""
        return chain.from_iterable(self._spans())

    def _spans(self) -> Iterator[Iterator[Any]]:
        """Yield the items in spans; a snapshot may be due after each span.

        No frame of this stays on the stack while the source makes an item: a long chain would have thousands.
        """
        iterator = iter(self.source)
        if isinstance(iterator, GeneratorType):
            self.reading = weakref.ref(iterator)
        items = self._tally.follow(iterator)
        del iterator
        if self._pace is None:
            yield items
            return
        try:
            while True:
                step = self._pace.items_to_go
                expected = self.pulled + step
                yield islice(items, step)
                if self.pulled < expected:
                    return
                if self._pace.due(step):
                    started = time.perf_counter()
                    with suppress(NotPlain):
                        self._take_snapshot(started)
                    self._pace.taken(started)
        finally:
            self._pace = None  # frees its share for the other paces

    def way_back(self) -> tuple[Node | None, list[int]]:
        """Return a node of the source, and three numbers: where it stands, the oldest item needed, the next item."""
        oldest = self.oldest
        at, node = _useful(self._snapshots, oldest)[0]
        return node, [at, oldest, max(self.pulled, self.first)]

    def _take_snapshot(self, started: float) -> None:
        snapshots = [*self._snapshots, (self.pulled, capture(self.source))]
        taken = time.perf_counter()
        self._taking += taken - started
        # Finding the oldest item needed may be slow, as with 100,000 items held, so prune only sometimes.
        if self._taking * _SHARE_OF_LEAVING_OUT >= self._leaving_out or len(snapshots) > _MOST_SNAPSHOTS:
            snapshots = _fewer(_useful(snapshots, self.oldest), self.pulled)
            self._taking, self._leaving_out = 0.0, time.perf_counter() - taken
        self._snapshots = snapshots


Snapshots = list[tuple[int, Node | None]]


def _useful(snapshots: Snapshots, oldest: int) -> Snapshots:
    """Drop the snapshots before the last one that precedes the oldest item needed."""
    before = sum(at <= oldest for at, _ in snapshots)
    return snapshots[max(before - 1, 0) :]


def _fewer(snapshots: Snapshots, pulled: int) -> Snapshots:
    """Drop snapshots that are close to their neighbors, if there are too many."""
    if len(snapshots) <= _MOST_SNAPSHOTS:
        return snapshots
    kept = snapshots[:1]
    close = (pulled - kept[0][0]) * 4 / _MOST_SNAPSHOTS  # keeps at most about half of `_MOST_SNAPSHOTS`
    for each, following in pairwise([*snapshots[1:], (pulled, None)]):
        if following[0] - kept[-1][0] > close:
            kept.append(each)
    return kept


class Reading(Generic[T]):
    """The items of a source with their numbers, possibly resumed from a state. Operators get one from `read`.

    Numbers count from the beginning of the pass. Items that a state no longer needs are skipped.
    """

    def __init__(
        self,
        trail: Trail,
        pulled_before: int,
        drop: Callable[[T], object] | None = None,
    ) -> None:
        self._trail = trail
        self._pulled_before = pulled_before
        past = trail.first - trail.start
        self._numbered = after(
            enumerate(trail.items(), trail.start), past, drop and (lambda numbered: drop(numbered[1]))
        )

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return self._numbered

    def close(self) -> None:
        """Close the source, from a thread that reads it; otherwise the end of the pass closes it."""
        close(self._trail.reading())

    @property
    def first(self) -> int:
        """The number of the first item: the oldest that the state needs."""
        return self._trail.first

    @property
    def pulled(self) -> int:
        """The number of the next item to pull."""
        return max(self._trail.pulled, self._trail.first)

    def keep_from(self, number: int | Callable[[], int | None]) -> None:
        """Set the oldest item of the source that a resumed pass needs, once the operator's next item is emitted.

        `number` is the number of the oldest item that the operator then holds, or a function that returns this number,
        or None if none is held. The function runs when a state is taken. It must not reference the operator or this
        reading, or it would keep them alive.
        """
        self._trail.needed = number

    def again(self, numbers: Iterable[int]) -> dict[int, T]:
        """Return, by their numbers, the items that were held when the state was taken, by reading them again.

        Raises RuntimeError if the source has fewer items than before.
        """
        trail = self._trail
        # All are needed until they are read, whatever `keep_from` was given.
        needed, trail.needed = trail.needed, trail.first
        wanted = {*numbers}
        found: dict[int, T] = {}
        if self._pulled_before > trail.first:
            for number, item in islice(self._numbered, self._pulled_before - trail.first):
                if number in wanted:
                    found[number] = item
        trail.needed = needed
        if len(found) < len(wanted):
            raise RuntimeError(_FEWER)
        return found
