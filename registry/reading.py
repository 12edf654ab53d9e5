"""Reading a source further than what was handed out of it, and knowing the way back."""

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

from .own import NotPlain, Tally
from .torch_pipes import TorchMapDataPipe

__all__ = ["SNAPSHOT_SHARE", "Node", "Pace", "Reading", "Trail", "Waiting", "after", "can_capture", "capture", "close"]

T = TypeVar("T")
Node = dict[str, Any]
"""Where a pipe stands in a pass, and with it where its sources stand; None stands for a pass that has not begun."""

Waiting = list[tuple[list[Node | None], int, Any]]
"""Places in lists of nodes, each with the pipe whose node is to be put there."""

SNAPSHOT_SHARE = 0.01
"""The share of the running time that taking snapshots of sources may take, all who take them together.

What they cost is to stay below 2 %, and there is more to it than their own time: others wait for them meanwhile, and
find the caches cold after them.
"""
_COST_OF_THE_FIRST = 1e-5
"""Seconds that the first snapshot of a pass is taken to cost, until it is known."""
_MOST_SNAPSHOTS = 512
"""More than a trail keeps: an item that is never done with would have them pile up."""
_SHARE_OF_LEAVING_OUT = 0.125
"""Of the time for snapshots, the share for finding out which of them are needed no more."""


_FEWER = "the source gave fewer items than when the state was taken"


def after(items: Iterator[T], number: int, drop: Callable[[T], object] | None = None) -> Iterator[T]:
    """Return the items that come after so many others, for each of which `drop` is called.

    RuntimeError where there are fewer.
    """
    return chain(_left_out(items, number, drop), items) if number else items


def _left_out(items: Iterator[T], number: int, drop: Callable[[T], object] | None) -> Iterator[T]:
    tally = Tally()
    others = tally.follow(islice(items, number))
    deque(others if drop is None else map(drop, others), maxlen=0)  # at the speed of C
    if tally.items < number:
        raise RuntimeError(_FEWER)
    yield from ()


def close(iterator: object) -> None:
    """Close an iterator that can be closed, such as a generator, so that its resources are released now."""
    closing = getattr(iterator, "close", None)
    if callable(closing):
        closing()


def can_capture(pipe: Any) -> bool:
    """Say whether a pipe can tell where it stands; torch's own cannot, and are read again from the start.

    One that is read by index stands nowhere, and needs not tell.
    """
    return hasattr(type(pipe), "_stands") or hasattr(type(pipe), "state_dict") or isinstance(pipe, TorchMapDataPipe)


def capture(pipe: Any) -> Node | None:
    """Return where a pipe stands now."""
    found: list[Node | None] = [None]
    waiting: Waiting = [(found, 0, pipe)]
    known: dict[int, Node | None] = {}  # what several pipes read is one node
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
    """Say when the next snapshot of a source is due: as often as costs at most `SNAPSHOT_SHARE` of the time.

    The paces of a process share that: of the passes of twelve shards, each may spend a twelfth. The clock is looked at
    when as many items have gone by as should take that long, and at twice as many at most, as the first may have been
    the slow ones.

    A snapshot costs what it took or the one before, whichever is less: one during which garbage was collected, or
    another process ran, may take a thousand times as long, and says nothing of the others.
    """

    def __init__(self) -> None:
        self._took = _COST_OF_THE_FIRST
        self._step = 1
        self._items = 0
        self._since = time.perf_counter()
        self._rest = self._rest_after(_COST_OF_THE_FIRST)

    @property
    def step(self) -> int:
        """After how many items from the last snapshot on the next may be due."""
        return self._step

    @property
    def items_to_go(self) -> int:
        """After how many items from now on the next snapshot may be due."""
        return max(self.step - self._items, 1)

    def due(self, items: int = 1) -> bool:
        """Count one item, or several, and say whether a snapshot should be taken now."""
        self._items += items
        if self._items >= self.step:
            self._look_at_the_clock()
        return self._items >= self.step

    def taken(self, started: float) -> None:
        """Learn that a snapshot was taken, from `started` (of `time.perf_counter`) until now."""
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
        """Return how many items should take so many seconds, at the rate of those since the last snapshot."""
        at_this_rate = self._items * seconds / max(seconds_until_now, 1e-9)
        return max(int(min(at_this_rate, 2 * self._items)), 1)

    @staticmethod
    def _rest_after(seconds: float) -> float:
        return seconds * max(len(_taking_snapshots), 1) / SNAPSHOT_SHARE if SNAPSHOT_SHARE else math.inf


def _nothing() -> None:
    return None


class Trail:
    """The states of a source that is being read, and which of its items, numbered from 0, is still needed."""

    def __init__(self, source: Any, node: Node | None, start: int, first: int = 0) -> None:
        self.source = source
        self.needed: int | Callable[[], int | None] | None = None
        self.start = start
        """The number of the first item that is pulled."""
        self.first = max(first, start)
        """That of the first that may be needed."""
        self._pace = Pace() if can_capture(source) else None
        self._tally = Tally(start)
        # Replaced as a whole, never changed: the thread that reads may not be the one that asks for the way back.
        self._snapshots = [(start, node)]
        self.reading: Callable[[], GeneratorType[Any, None, None] | None] = _nothing
        """Returns the iterator of the source that is read, if that is still held and can be closed."""
        self._taking = self._leaving_out = 0.0
        """Seconds that snapshots took since it was found out which are needed no more, and that finding out took."""

    @property
    def pulled(self) -> int:
        """The number of the next item that is pulled."""
        return self._tally.items

    @property
    def oldest(self) -> int:
        """The number of the oldest item that is needed."""
        oldest = self.needed() if callable(self.needed) else self.first if self.needed is None else self.needed
        return max(self.pulled if oldest is None else oldest, self.first)

    def items(self) -> Iterator[Any]:
        """Return an iterator over the items of the source that notes where it stands as often as costs little."""
        return chain.from_iterable(self._spans())

    def _spans(self) -> Iterator[Iterator[Any]]:
        """Yield the items in spans, at whose ends it may be time for a snapshot.

        While the source is asked for an item, no frame of this is on the stack: a long chain would have thousands.
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
            self._pace = None  # it leaves the others its share

    def way_back(self) -> tuple[Node | None, list[int]]:
        """Return a state of the source, with its number, that of the oldest item needed, and that of the next one."""
        oldest = self.oldest
        at, node = _useful(self._snapshots, oldest)[0]
        return node, [at, oldest, max(self.pulled, self.first)]

    def _take_snapshot(self, started: float) -> None:
        snapshots = [*self._snapshots, (self.pulled, capture(self.source))]
        taken = time.perf_counter()
        self._taking += taken - started
        # To ask what is needed may take long, as among a hundred thousand items held, and is not worth it each time.
        if self._taking * _SHARE_OF_LEAVING_OUT >= self._leaving_out or len(snapshots) > _MOST_SNAPSHOTS:
            snapshots = _fewer(_useful(snapshots, self.oldest), self.pulled)
            self._taking, self._leaving_out = 0.0, time.perf_counter() - taken
        self._snapshots = snapshots


Snapshots = list[tuple[int, Node | None]]


def _useful(snapshots: Snapshots, oldest: int) -> Snapshots:
    """Leave out the snapshots before the last one from which the oldest item needed can be reached."""
    before = sum(at <= oldest for at, _ in snapshots)
    return snapshots[max(before - 1, 0) :]


def _fewer(snapshots: Snapshots, pulled: int) -> Snapshots:
    """Of too many snapshots, leave out those between two others that are close together."""
    if len(snapshots) <= _MOST_SNAPSHOTS:
        return snapshots
    kept = snapshots[:1]
    close = (pulled - kept[0][0]) * 4 / _MOST_SNAPSHOTS  # so about half of the most are left, at the most
    for each, following in pairwise([*snapshots[1:], (pulled, None)]):
        if following[0] - kept[-1][0] > close:
            kept.append(each)
    return kept


class Reading(Generic[T]):
    """The items of a source with their numbers, which go on from a state. An operator gets it from `read`.

    Numbers count from the beginning of the pass; what a state says is not needed any more is left out.
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
        """Close the source: for a thread that reads it; others leave that to the end of the pass."""
        close(self._trail.reading())

    @property
    def first(self) -> int:
        """The number of the first item: the oldest that the state says is needed."""
        return self._trail.first

    @property
    def pulled(self) -> int:
        """The number of the next item that is pulled."""
        return max(self._trail.pulled, self._trail.first)

    def keep_from(self, number: int | Callable[[], int | None]) -> None:
        """Say from which item on the source is needed, once the next item of the operator's was handed out.

        That is the number of the oldest item that the operator holds then; `number` may be a function that returns it,
        or None where none is held. It is asked when a state is taken, and must not know the operator or this reading,
        which would live as long as it does.
        """
        self._trail.needed = number

    def again(self, numbers: Iterable[int]) -> dict[int, T]:
        """Return, by their numbers, the items that were held when the state was taken: they are read again.

        Those between them, which were done with, are left out. Raises RuntimeError where the source gives fewer items
        than before.
        """
        trail = self._trail
        # Until all are there, whatever the operator says that it holds.
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
