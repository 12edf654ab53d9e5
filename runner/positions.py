"""Positions of shards, their order, and the message with an item of a shard.

A reader and its workers each keep a `ShardPosition` for every unfinished shard, and advance it by each `Message`.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from ..registry import PassPath
from ..state.save import Steps
from ..views.profiles.times import StepTimes, WorkerTimes

BEGUN = -1
"""In place of a shard, in the first message of each reading but the first: earlier readings have ended."""

FAILED = -2
"""In place of a shard: the worker cannot read at all."""


@dataclass(frozen=True)
class Report:
    """A shard's position and counts, after an item of its worker."""

    shard: int
    reading: tuple[int, int]
    """The `Epoch.reading`: another begins where a shard moves to another worker."""
    steps: Steps
    """Its position."""
    stats: dict[str, dict[str, Any]]
    """The counts of its steps."""
    step_times: list[StepTimes] | None
    """The times of its steps, if they are measured."""
    worker_times: WorkerTimes
    idle: float = 0.0
    """Seconds that its worker could have read more, if more items had been wanted."""


class Message(NamedTuple):
    """An item of a shard, its end, or the error that ended it."""

    shard: int
    item: Any = None
    ended: bool = False
    """Whether it has no item, but is the end or an error."""
    report: Steps | bytes | None = None
    """The shard's position after the item, for some items: its steps, or a worker's pickled `Report`."""
    error: bytes | None = None
    reading: tuple[int, int] = (0, 0)
    """The `Epoch.reading` that it belongs to."""


@dataclass
class ShardPosition:
    """A shard's position, after the items handed out: `skip` items after a state, or after the start."""

    shard: int
    report: Steps | bytes | None = None
    """The steps of the state, or a worker's pickled `Report` with them."""
    skip: int = 0
    items: int = 0
    """How many items of this epoch were handed out in all."""

    @property
    def steps(self) -> Steps:
        if isinstance(self.report, bytes):
            report: Report = pickle.loads(self.report)
            return report.steps
        return self.report or []

    def advance(self, report: Steps | bytes | None) -> None:
        """Count one more item; `report`, if there is one, has the position after it."""
        self.items += 1
        if report is None:
            self.skip += 1
        else:
            self.report, self.skip = report, 0

    def as_plain(self) -> list[Any]:
        """Return the position as plain data."""
        return [self.shard, self.steps, self.skip, self.items]

    @classmethod
    def from_plain(cls, value: Any, num_shards: int) -> Self:
        """Return the position that `as_plain` converted; ValueError for anything else."""
        if (
            not isinstance(value, list)
            or [*map(type, value)] != [int, list, int, int]
            or not (0 <= value[0] < num_shards and value[2] >= 0 and value[3] >= 0)
        ):
            raise ValueError(f"one of {num_shards} shards cannot be at the state's position: {value!r:.200}")
        return cls(*value)


class RoundRobin:
    """The positions of unfinished shards, in the order of their next items.

    The shard with the fewest items is next, and the first of several. The order of items thus follows from the shards'
    positions, whoever reads them.
    """

    def __init__(self, positions: Iterable[ShardPosition] = ()) -> None:
        self._positions = {each.shard: each for each in sorted(positions, key=lambda each: each.shard)}
        self._round: deque[ShardPosition] = deque()
        self._are_even = False

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[ShardPosition]:
        return iter([*self._positions.values()])

    def round(self) -> list[ShardPosition]:
        """Return the positions of the shards with the fewest items; each then gives one more, or ends."""
        positions = [*self._positions.values()]
        if self._are_even:
            return positions
        fewest = min(position.items for position in positions)
        behind = [position for position in positions if position.items == fewest]
        self._are_even = len(behind) == len(positions)  # and stay even
        return behind

    def next(self) -> ShardPosition:
        """Return the position of the next shard, which then gives an item, or ends."""
        if not self._round:
            self._round.extend(self.round())
        return self._round.popleft()

    def end(self, position: ShardPosition) -> None:
        """Remove a finished shard."""
        del self._positions[position.shard]


@dataclass(frozen=True)
class Epoch:
    """The command to begin reading; it abandons an earlier epoch."""

    number: int
    """Counts the epochs that the reader begins."""
    seed: int
    """The loader's seed."""
    path: PassPath
    restarts: int = 0
    """How often the reader has restarted in this epoch: a fork's branch may make it go back."""
    credit: int = 0
    """How many items may be sent before the next `Credit`."""
    positions: list[ShardPosition] = field(default_factory=list)
    """The shards to read, from there on."""
    settled: list[Any] = field(default_factory=list)
    """The decisions of the `steps_to_settle`, made before the stream was divided."""

    @property
    def reading(self) -> tuple[int, int]:
        """Identifies this start of the reader among all others."""
        return self.number, self.restarts
