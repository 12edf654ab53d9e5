"""Finds, while items are read, how many workers to use and how many items to read ahead."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil  # type: ignore[import-untyped]

from ....errors.checks import AUTO
from ..sizes import size_of

T = TypeVar("T")

MOST_THREADS = 32
"""How many threads "auto" takes at most."""
DERIVED = ""
"""In place of a parameter, for a setting that an operator derives from another."""

_logger = logging.getLogger("penstock")

FIRST_WORKERS = 4
FIRST_ROOM = 8
"""How many items a worker has at first."""

_KEEPS_UP = 0.1
"""More workers would change nothing if the reader waits for less than this share of the time."""
_IDLE = 0.05
"""Workers that are idle for more than this share of the time, while the reader waits, need more items at a time."""
_GAIN = 1.07
"""Twice as many workers stay if the rate grows by this factor."""
_LOSS = 0.97
"""Half as many workers stay if the rate keeps this share."""
_UNCLEAR = 1.15
"""A rate within this factor of the deciding one is measured for longer."""
_LONGEST = 2.0
"""Seconds between two looks while nothing changes."""
_FIRST_PAUSE = 8
"""After how many looks that changed nothing more workers are tried again; twice as many each time."""
_SHARE_OF_MEMORY = 0.1
"""The share of the free memory that the items read ahead may take."""
_CONTAINER = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Return the bytes of memory that this process may still take, in a container those of the container."""
    free = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError, KeyError):
        most, used = (int((_CONTAINER / name).read_text()) for name in ("memory.max", "memory.current"))
        counts = dict(line.split() for line in (_CONTAINER / "memory.stat").read_text().splitlines())
        free = min(free, most - used + int(counts["inactive_file"]))  # pages of files, given up when needed
    return max(free, 0)


@dataclass
class Setting:
    """A number that is given, or that is to be found."""

    name: str
    """The parameter."""
    value: int
    most: int
    is_open: bool = True
    """Whether it is to be found."""

    @classmethod
    def of(cls, name: str, argument: Any, first: int, most: int) -> Setting:
        """Return the setting of an argument; for "auto", the search begins with `first`."""
        return cls(name, min(first, most), most) if argument == AUTO else cls(name, argument, argument, False)


class _Measured(NamedTuple):
    """The rate with earlier settings."""

    workers: int
    room: int
    rate: float


class Tuner:
    """Finds the settings of a step or a loader, by measuring how its reader waits.

    `workers` work at once, and up to `room` items are read ahead, for each worker if `is_room_each`. While the reader
    waits, and the workers are busy, it tries twice as many workers. They stay if the rate grows. If workers are idle
    although the reader waits, there is more room, within the free memory. The settings change the pace only, never the
    items or their order.
    """

    def __init__(
        self,
        owner: str,
        workers: Setting,
        room: Setting,
        *,
        is_room_each: bool = False,
        may_shrink: bool = True,
        seconds: float = 0.2,
        lag: int = 0,
        most_trials: int | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.owner = owner
        self.workers = workers
        self.room = room
        self._is_room_each = is_room_each
        self._seconds_at_least = self._span = seconds
        self._lag = lag
        """How many items made with earlier settings may come first, besides those of the workers."""
        self._trials_left = most_trials
        self._clock = clock
        self._before: _Measured | None = None
        """What was measured before the present trial."""
        self._is_long = False
        self._may_grow, self._may_shrink = True, may_shrink
        self._rests = 0
        """How many looks in a row have changed nothing."""
        self._next_try = _FIRST_PAUSE
        """After how many looks more workers are tried again."""
        self._logged: str | None = None
        self._size = 1
        """The size of the largest item that was looked at, in bytes."""
        self._fitting = 1
        """How many items there is memory for."""
        self._begin_window()

    @property
    def found(self) -> str:
        """The settings that are to be found, as arguments."""
        return ", ".join(
            f"{each.name}={each.value}" for each in (self.workers, self.room) if each.is_open and each.name
        )

    def follow(self, items: Iterable[T], idle: Callable[[], float], apply: Callable[[int, int], object]) -> Iterator[T]:
        """Yield the same items; call `apply` with the numbers of workers and of items read ahead when they change.

        `idle` returns for how many seconds the workers of this pass had nothing to do, all together.
        """
        items = iter(items)
        clock = self._clock
        self._late = self._items_late
        since = before = clock()
        idle_before = idle()
        while True:
            asked = clock()
            try:
                item = next(items)
            except StopIteration:
                return
            now = clock()
            if self._late:
                self._late -= 1
            else:
                self._items += 1
                self._waited += now - asked
                self._seconds += now - before
                if self._seconds >= self._span and self._items >= self._least:
                    idle_now = idle()
                    share = (idle_now - idle_before) / (now - since) / self.workers.value
                    if self._look(item, share):
                        apply(self.workers.value, self.room.value)
                    since = now = clock()
                    idle_before = idle_now
            before = now
            yield item

    @property
    def _items_late(self) -> int:
        """How many items may have been made, or been waiting, before the present settings took effect."""
        return 2 * self.workers.value + self._lag

    @property
    def _least(self) -> int:
        """How many items are measured at least."""
        return max(2 * self.workers.value, 4)

    def _begin_window(self) -> None:
        self._items = 0
        self._seconds = self._waited = 0.0

    def _look(self, item: Any, idle: float) -> bool:
        """Choose the next settings, and say whether they differ; `item` is the last one."""
        earlier = self.workers.value, self.room.value
        rate, waits = self._items / self._seconds, self._waited / self._seconds
        self._size = max(self._size, size_of(item))
        self._fitting = int(free_memory() * _SHARE_OF_MEMORY) // self._size
        if self._before is not None:
            needed = _GAIN if self._before.workers < self.workers.value else _LOSS
            gain = rate / self._before.rate
            if not self._is_long and needed / _UNCLEAR < gain < needed * _UNCLEAR:
                self._is_long = True
                self._span *= 4
                return False
            rate = self._end_trial(self._before, rate, stays=gain >= needed)
        if (self.workers.value, self.room.value) == earlier:
            self._next(rate, waits, idle)
        self._stay_within_memory()
        self._begin_window()
        if (self.workers.value, self.room.value) == earlier:
            return False
        self._late, self._span, self._rests = self._items_late, self._seconds_at_least, 0
        return True

    def _end_trial(self, before: _Measured, rate: float, stays: bool) -> float:
        """Keep the settings that were tried, or return to those before; return the rate that counts."""
        self._before, self._is_long, self._span = None, False, self._seconds_at_least
        grew = before.workers < self.workers.value
        if stays:
            self._may_shrink &= not grew  # it was slower with half as many
            return rate
        self.workers.value, self.room.value = before.workers, before.room
        if grew:
            self._may_grow = False
        else:
            self._may_shrink = False
        return before.rate

    def _next(self, rate: float, waits: float, idle: float) -> None:
        """Try other settings, if they may be better."""
        workers, room = self.workers.value, self.room.value
        may_try = self.workers.is_open and self._trials_left != 0
        if waits > _KEEPS_UP and idle > _IDLE and room < self._most_room:
            self.room.value = min(4 * room, self._most_room)
        elif may_try and waits > _KEEPS_UP and self._may_grow and workers < self._most_workers:
            self._try(min(2 * workers, self._most_workers), rate)
        elif may_try and self._may_shrink and workers > 1:
            self._try(workers // 2, rate)
        else:
            self._rest()

    def _try(self, workers: int, rate: float) -> None:
        if self._trials_left is not None:
            self._trials_left -= 1
        self._before = _Measured(self.workers.value, self.room.value, rate)
        if self.room.is_open and not self._is_room_each:
            self.room.value = max(min(self.room.value * workers // self.workers.value, self._most_room), 2)
        self.workers.value = workers

    def _rest(self) -> None:
        """Log what was found, and look less often.

        More workers are tried again now and then, since other programs may have used the processors.
        """
        self._rests += 1
        self._span = min(2 * self._span, _LONGEST)
        if self._rests >= self._next_try:
            self._next_try *= 2
            self._may_grow = True
        if self._rests > 1 and self._logged != self.found:
            self._logged = self.found
            _logger.info("%s found %s: write them down", self.owner, self._logged)

    @property
    def _most_workers(self) -> int:
        return max(min(self.workers.most, self._fitting), 1)

    @property
    def _most_room(self) -> int:
        return max(min(self.room.most, self._fitting // (self.workers.value if self._is_room_each else 1)), 1)

    def _stay_within_memory(self) -> None:
        if self.workers.is_open:
            self.workers.value = min(self.workers.value, self._most_workers)
        if self.room.is_open:
            self.room.value = min(self.room.value, self._most_room)
