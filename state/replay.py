"""Reading a source ahead of the items emitted, and recording how to resume it."""

from __future__ import annotations

import math
import time
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice, pairwise
from pathlib import PurePath
from types import GeneratorType
from typing import Any, Generic, TypeVar

from ..errors.closing import close
from ..errors.notes import describe_item
from .fields import NotPlain, Tally
from .node import Node, ReadFrom
from .seeds import reseed

T = TypeVar("T")
_Numbered = list[tuple[int, Node | None]]
"""Nodes, each with the number of items before it."""

SNAPSHOT_SHARE = 0.01
"""The share of the running time for snapshots of sources, summed over all passes of the process.

Their total cost must stay below 2 %. It exceeds their own time: other threads wait meanwhile, and caches are cold
afterwards.
"""
_COST_OF_THE_FIRST = 1e-5
"""The assumed seconds of the first snapshot of a pass."""
_MOST_SNAPSHOTS = 512
"""A log keeps at most this many, since an item that stays needed would make them pile up."""
_SHARE_OF_PRUNING = 0.125
"""The share of the snapshot time for finding snapshots no longer needed."""

_PLAIN = (str, bytes, int, float, type(None), PurePath)
_MOST_PARTS, _MOST_CHARACTERS = 16, 1000


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
    expect_no_fewer(number - tally.items)
    if found:
        expect_same_order(found.pop(), last)
    reseed()
    yield from ()  # a generator, so that nothing is read before the first item is wanted


_taking_snapshots: weakref.WeakSet[Throttle] = weakref.WeakSet()


class Throttle:
    """Schedules snapshots of a source so that they take at most `SNAPSHOT_SHARE` of the time.

    The throttles of a process split that share equally. The clock is read only after an estimated number of items. The
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
            self._read_the_clock()
        return self._items >= self.step

    def record(self, started: float) -> None:
        """Record a snapshot that took from `started` (`time.perf_counter`) until now."""
        now = time.perf_counter()
        _taking_snapshots.add(self)
        self._took, before = now - started, self._took
        self._rest = self._rest_after(min(self._took, before))
        self._step = self._items_in(self._rest, started - self._since)
        self._items, self._since = 0, now

    def _read_the_clock(self) -> None:
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


class SavedNodes(dict[int, Node | None]):
    """The nodes of one snapshot of a chain, by the ids of their pipes."""

    def node_of(self, source: Any) -> Node | None:
        """Return where a source is; one that several pipes read is asked once."""
        if id(source) not in self:
            self[id(source)] = source._save_node(self)
        return self[id(source)]


class Snapshots:
    """Nodes by the number of items before each, taken as often as their cost allows."""

    def __init__(self, number: int, node: Node | None) -> None:
        self._throttle: Throttle | None = Throttle()
        # Replaced, never mutated: another thread may read them.
        self._snapshots = [(number, node)]

    @property
    def items_to_go(self) -> int:
        """The number of items until the next snapshot may be due."""
        return 1 if self._throttle is None else self._throttle.items_to_go

    def count(self, items: int, take: Callable[[], Node | None]) -> None:
        """Count items, and take a snapshot if one is due."""
        if self._throttle is None or not self._throttle.due(items):
            return
        started = time.perf_counter()
        with suppress(NotPlain):
            self._add(take(), started)
        self._throttle.record(started)

    def _add(self, node: Node | None, started: float) -> None:
        raise NotImplementedError


class Checkpointer(Snapshots):
    """The last snapshot of a pass, and the number of items emitted since."""

    def __init__(self, number: int, node: Node) -> None:
        super().__init__(number, node)
        self.emitted = Tally(number)

    def node(self) -> Node:
        """Return the node from which a resumed pass runs again."""
        number, node = self._snapshots[-1]
        skip = self.emitted.items - number
        return {**(node or {}), "skip": skip} if skip else node or {}

    def _add(self, node: Node | None, started: float) -> None:
        self._snapshots = [(self.emitted.items, node)]


def _nothing() -> None:
    return None


class ReplayLog(Snapshots):
    """Snapshots of a source being read, and the oldest of its items still needed. Items are numbered from 0."""

    def __init__(self, source: Any, node: Node | None, start: int, first: int = 0) -> None:
        super().__init__(start, node)
        self.source = source
        self.needed: int | Callable[[], int | None] | None = None
        self.start = start
        """The number of the first item to pull."""
        self.first = max(first, start)
        """The number of the first item that may be needed."""
        self._tally = Tally(start)
        self.iterator: Callable[[], GeneratorType[Any, None, None] | None] = _nothing
        """Returns the source's iterator if it is alive and can be closed."""
        self._taking = self._pruning = 0.0
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
            self.iterator = weakref.ref(iterator)
        items = self._tally.follow(iterator)
        del iterator
        if not self.source._can_save_node:
            self._throttle = None
            yield items
            return
        try:
            while True:
                step = self.items_to_go
                expected = self.pulled + step
                yield islice(items, step)
                if self.pulled < expected:
                    return
                self.count(step, lambda: SavedNodes().node_of(self.source))
        finally:
            self._throttle = None  # frees its share for the others

    def restart(self) -> tuple[Node | None, ReadFrom]:
        """Return a node of the source, and from where on to read it with numbers."""
        oldest, next_one = self.oldest, max(self.pulled, self.first)
        if oldest > next_one:
            raise ValueError(f"keep_from({oldest}) is of an item that was not read yet: `pulled` is {next_one}")
        at, node = _useful(self._snapshots, oldest)[0]
        return node, ReadFrom(at, oldest, next_one)

    def _add(self, node: Node | None, started: float) -> None:
        snapshots = [*self._snapshots, (self.pulled, node)]
        taken = time.perf_counter()
        self._taking += taken - started
        # Finding the oldest item needed may be slow, as with 100,000 items held, so prune only sometimes.
        if self._taking * _SHARE_OF_PRUNING >= self._pruning or len(snapshots) > _MOST_SNAPSHOTS:
            snapshots = _fewer(_useful(snapshots, self.oldest), self.pulled)
            self._taking, self._pruning = 0.0, time.perf_counter() - taken
        self._snapshots = snapshots


def _useful(snapshots: _Numbered, oldest: int) -> _Numbered:
    """Drop the snapshots before the last one that precedes the oldest item needed."""
    before = sum(at <= oldest for at, _ in snapshots)
    return snapshots[max(before - 1, 0) :]


def _fewer(snapshots: _Numbered, pulled: int) -> _Numbered:
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
        log: ReplayLog,
        pulled_before: int,
        drop: Callable[[T], object] | None = None,
    ) -> None:
        self._log = log
        self._pulled_before = pulled_before
        past = log.first - log.start
        self._numbered = after(enumerate(log.items(), log.start), past, drop and (lambda numbered: drop(numbered[1])))

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return self._numbered

    def close(self) -> None:
        """Close the source, from a thread that reads it; otherwise the end of the pass closes it."""
        close(self._log.iterator())

    @property
    def first(self) -> int:
        """The number of the first item: the oldest that the state needs."""
        return self._log.first

    @property
    def pulled(self) -> int:
        """The number of the next item to pull."""
        return max(self._log.pulled, self._log.first)

    def keep_from(self, number: int | Callable[[], int | None]) -> None:
        """Set the oldest item of the source that a resumed pass needs, once the operator's next item is emitted.

        `number` is the number of the oldest item that the operator then holds, or a function that returns this number,
        or None if none is held. The function runs when a state is taken. It must not reference the operator or this
        reading, or it would keep them alive. A number beyond `pulled` is a ValueError when a state is taken.
        """
        self._log.needed = number

    def again(self, numbers: Iterable[int]) -> dict[int, T]:
        """Return, by their numbers, the items that were held when the state was taken, by reading them again.

        Raises RuntimeError if the source has fewer items than before.
        """
        log = self._log
        # All are needed until they are read, whatever `keep_from` was given.
        needed, log.needed = log.needed, log.first
        wanted = {*numbers}
        found: dict[int, T] = {}
        if self._pulled_before > log.first:
            for number, item in islice(self._numbered, self._pulled_before - log.first):
                if number in wanted:
                    found[number] = item
            reseed()
        log.needed = needed
        if too_old := sorted(number for number in wanted if number < log.first):
            raise RuntimeError(
                f"item {too_old[0]} is asked for again, and keep_from declared only those from {log.first} on"
            )
        expect_no_fewer(len(wanted) - len(found))
        return found


def expect_no_fewer(lacking: int) -> None:
    """Raise RuntimeError if a source lacks items that it had when the state was taken."""
    if lacking > 0:
        raise RuntimeError("the source gave fewer items than when the state was taken")


def check_value(item: object) -> int | None:
    """Return a number that equal items share; None for an item of which too little is known.

    Only numbers, text, paths, and those in a tuple count: a program may change the others after it got them.

    >>> check_value(("a.tar", object())) == check_value(("a.tar", object())) != check_value(("b.tar", object()))
    True
    """
    parts = [_text(part) for part in (item[:_MOST_PARTS] if isinstance(item, tuple) else (item,))]
    return zlib.crc32("\n".join(parts).encode()) if any(parts) else None


def _text(part: Any) -> str:
    if not isinstance(part, _PLAIN):
        return ""
    return repr(part[:_MOST_CHARACTERS] if isinstance(part, (str, bytes)) else part)


def expect_same_order(item: object, last: int | None) -> None:
    """Raise RuntimeError if an item has another check value than the last one had when the state was taken."""
    if last is not None and check_value(item) != last:
        raise RuntimeError(
            f"the state was taken after another item than {describe_item(item)}: the source now has other items, or "
            "another order, so some items would come twice and others never. Give it the same order, for example by "
            "sorted(…), and a seed of its own if it draws at random; load_state_dict(state, strict=False) goes on "
            "anyway"
        )
