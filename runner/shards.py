"""The shards of a chain: its parts, each read through a chain of its own, in any process."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

from ..pipes.bases.tuning import Tuner
from ..registry import (
    SHARDING_PRIORITIES,
    IterDataPipe,
    Node,
    Pace,
    Path,
    Tally,
    apply_sharding,
    can_capture,
    capture,
    close,
    derive_seed,
    flatten,
    hand_down,
    own,
    seed_graph,
    walk,
)
from ..registry.own import NotPlain
from ..registry.reading import Waiting, after
from ..registry.state import Steps
from ..registry.torch_pipes import TorchIterDataPipe
from ..views.times import StepTimes, WorkerTimes, measure
from .rank_sync import Together
from .seeds import SeedGenerator

__all__ = [
    "Dispatched",
    "Division",
    "Epoch",
    "Feed",
    "InitFn",
    "Place",
    "ReadOptions",
    "Received",
    "Report",
    "ResetFn",
    "ShardPass",
    "ShardProfile",
    "Shards",
    "Turns",
    "WorkerInfo",
    "sharded",
    "steps_to_settle",
]

T = TypeVar("T")

_BETWEEN_SEEDS = 0x9E3779B97F4A7C15
"""Step from one item's seed to the next: odd and large, as in SplitMix64 (Steele, Lea, Flood, 2014)."""


@dataclass(frozen=True)
class WorkerInfo:
    """The number of workers, and which of them a process is."""

    num_workers: int
    worker_id: int


InitFn = Callable[[Any, WorkerInfo], Any]
ResetFn = Callable[[Any, WorkerInfo, SeedGenerator], Any]


@dataclass(frozen=True)
class ReadOptions:
    """How a chain is read."""

    chain: IterDataPipe[Any]
    init_fn: InitFn | None = None
    reset_fn: ResetFn | None = None
    main_prefetch: int = 0
    num_workers: int = 0
    start: Callable[[], Any] | None = None
    """Makes the `Children` that start the workers."""
    worker_prefetch: int = 1
    timeout: float | None = None
    together: Together | None = None
    """How the ranks of a distributed program share the chain."""
    by_ranks: bool = False
    tuner: Tuner | None = None
    """Finds `num_workers` and `worker_prefetch` while they read."""


@dataclass(frozen=True)
class Division:
    """How a stream is divided into shards, and which of them are read here."""

    num_shards: int
    """The number over all ranks."""
    rank: int = 0
    ranks: int = 1
    """How many ranks read different shards: rank s modulo `ranks` reads shard s."""
    by_ranks: bool = False
    """Whether the chain's steps divide it among ranks, before shards divide each rank's part."""

    @property
    def shards(self) -> range:
        """The shards that are read here."""
        return range(self.rank, self.num_shards, self.ranks)

    def part(self, shard: int) -> tuple[int, int]:
        """Return the number of parts of the stream that is read here, and which of them a shard is."""
        return (len(self.shards), self.shards.index(shard)) if self.by_ranks else (self.num_shards, shard)

    def worker(self, shard: int, num_workers: int) -> int:
        """Return which of the workers reads a shard."""
        return shard // self.ranks % num_workers


@dataclass(frozen=True)
class ShardProfile:
    """What the steps of a shard's chain took, and the times of the worker that reads it."""

    steps: list[StepTimes]
    worker: WorkerTimes
    shard: int = 0
    reading: tuple[int, int] = (0, 0)
    """The `Epoch.reading`: another begins where a shard moves to another worker."""


@dataclass(frozen=True)
class Report:
    """A shard's position and counts."""

    steps: Steps
    """Its position."""
    stats: dict[str, dict[str, Any]]
    """What its steps have counted."""
    profile: ShardProfile | None = None
    """What its steps took, if they are measured."""
    idle: float = 0.0
    """Seconds that its worker could have read more, if more items had been wanted."""


@dataclass
class Place:
    """A shard's position, after the items handed out: `skip` items after a state, or after the start."""

    shard: int
    told: Steps | bytes | None = None
    """The steps of the state, or a pickled `Report` with them from a process of ours."""
    skip: int = 0
    items: int = 0
    """How many items of this epoch were handed out in all."""

    @property
    def steps(self) -> Steps:
        if isinstance(self.told, bytes):
            report: Report = pickle.loads(self.told)
            return report.steps
        return self.told or []

    def advance(self, told: Steps | bytes | None) -> None:
        """Count one more item; `told`, if given, is the shard's position after it."""
        self.items += 1
        if told is None:
            self.skip += 1
        else:
            self.told, self.skip = told, 0

    def as_plain(self) -> list[Any]:
        """Return the place as plain data."""
        return [self.shard, self.steps, self.skip, self.items]

    @classmethod
    def from_plain(cls, value: Any, num_shards: int) -> Self:
        """Return the place that `as_plain` converted; ValueError for anything else."""
        if (
            not isinstance(value, list)
            or [*map(type, value)] != [int, list, int, int]
            or not (0 <= value[0] < num_shards and value[2] >= 0 and value[3] >= 0)
        ):
            raise ValueError(f"one of {num_shards} shards cannot be at the state's position: {value!r:.200}")
        return cls(*value)


class Turns:
    """The places of unfinished shards, and whose turn it is.

    The shard with the fewest items is next, and the first of several. The order of items thus follows from the shards'
    positions, whoever reads them.
    """

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._places = {place.shard: place for place in sorted(places, key=lambda place: place.shard)}
        self._round: deque[Place] = deque()
        self._are_even = False

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Place]:
        return iter([*self._places.values()])

    def round(self) -> list[Place]:
        """Return the places of the shards with the fewest items; each then gives one more, or ends."""
        places = [*self._places.values()]
        if self._are_even:
            return places
        fewest = min(place.items for place in places)
        behind = [place for place in places if place.items == fewest]
        self._are_even = len(behind) == len(places)  # and stay even
        return behind

    def next(self) -> Place:
        """Return the place of the next shard, which then gives an item, or ends."""
        if not self._round:
            self._round.extend(self.round())
        return self._round.popleft()

    def end(self, place: Place) -> None:
        """Remove a finished shard."""
        del self._places[place.shard]


@dataclass(frozen=True)
class Epoch:
    """The command to begin reading; it drops what was under way."""

    number: int
    """Counts the epochs that the reader begins."""
    seed: int
    """The loader's seed."""
    path: Path
    again: int = 0
    """How often the reader has restarted in this epoch: a fork's branch may make it go back."""
    credit: int = 0
    places: list[Place] = field(default_factory=list)
    """The positions of the shards to read."""
    settled: list[Any] = field(default_factory=list)
    """What the steps in `steps_to_settle` decided before the stream was divided."""

    @property
    def reading(self) -> tuple[int, int]:
        """Identifies this start of the reader among all others."""
        return self.number, self.again


@dataclass(slots=True)
class Received:
    """An item of a shard, or its end."""

    item: Any = None
    told: Steps | bytes | None = None
    """The shard's position after the item, as in `Place`, for some items."""
    ended: bool = False


class ShardPass:
    """A pass over a shard from its position.

    `seeded` is called with each item's number before the item is made, including items made again only to be skipped.
    """

    def __init__(self, chain: Any, place: Place, seeded: Callable[[int], object] | None = None) -> None:
        self.chain = chain
        self._iterator = iter(chain)
        self._place = replace(place)
        self._tally = Tally()
        items: Iterator[Any] = self._iterator
        if seeded is not None:
            items = _each_seeded(items, seeded, place.items - place.skip)
        self.items = self._tally.follow(after(items, place.skip))
        self._pace = Pace() if can_capture(chain) else None

    def place_now(self) -> Place:
        """Return the shard's present position."""
        if not self._tally.items:
            return self._place  # the pass may not have reached it yet
        return Place(self._place.shard, flatten(capture(self.chain)), items=self._place.items + self._tally.items)

    def if_due(self, tell: Callable[[Any], T]) -> T | None:
        """Return `tell(chain)`, such as its position, as often as is cheap; None otherwise."""
        if self._pace is None or not self._pace.due():
            return None
        started = time.perf_counter()
        told: T | None = None
        with suppress(NotPlain):
            told = tell(self.chain)
        self._pace.taken(started)
        return told

    def close(self) -> None:
        """Abandon the pass."""
        close(self._iterator)


def _each_seeded(items: Iterator[Any], seeded: Callable[[int], object], number: int) -> Iterator[Any]:
    while True:
        seeded(number)
        try:
            item = next(items)
        except StopIteration:
            return
        yield item
        number += 1


class Shards:
    """The shards that one process reads."""

    def __init__(
        self,
        make_chain: Callable[[int], Any],
        division: Division,
        worker: WorkerInfo,
        init_fn: InitFn | None,
        reset_fn: ResetFn | None,
    ) -> None:
        self._make_chain = make_chain
        self._division = division
        self._worker = worker
        self._init_fn = init_fn
        self._reset_fn = reset_fn
        self._made: dict[int, Any] = {}
        """Chains by shard number, each made once."""
        self.chains: dict[int, Any] = {}
        """The chains being read, as the reset function returned them, if there is one."""

    def begin(self, epoch: Epoch, place: Place, seed_globals: Callable[[int], object] | None = None) -> ShardPass:
        """Begin a pass over a shard at its position; `seed_globals` is called with another seed before each item."""
        chain = self._made.get(place.shard)
        if chain is None:
            chain = sharded(self._make_chain(place.shard), *self._division.part(place.shard))
            if self._init_fn is not None:
                chain = _chain_by(self._init_fn, "worker_init_fn", chain, self._worker)
            self._made[place.shard] = chain
        if chain.observer is not None:  # each epoch is measured by itself
            measure(chain)
        seed_graph(chain, epoch.seed, place.shard, first_epoch=0)
        if self._reset_fn is not None:
            seeds = SeedGenerator(epoch.seed, epoch.path.epoch).spawn(place.shard)
            given, chain = chain, _chain_by(self._reset_fn, "worker_reset_fn", chain, self._worker, seeds)
            if chain is not given:  # else keep the seeds that the function may have set
                seed_graph(chain, epoch.seed, place.shard, first_epoch=0)
        for pipe in walk(chain):
            if isinstance(pipe, Dispatched):
                pipe.epoch = epoch
        for step, settled in zip(steps_to_settle(chain), epoch.settled, strict=False):
            step.settled = settled
        self.chains[place.shard] = chain
        hand_down(chain, place.steps, epoch.path)
        if seed_globals is None:
            return ShardPass(chain, place)
        first = derive_seed(epoch.seed, epoch.path.epoch, epoch.path.again, place.shard)
        return ShardPass(chain, place, lambda number: seed_globals((first + number * _BETWEEN_SEEDS) % 2**64))


def steps_to_settle(chain: Any) -> list[Any]:
    """Return the steps that decide something for all shards at the beginning of an epoch, by `settle`."""
    return [step for step in walk(chain) if hasattr(type(step), "settle")]


class Feed(Protocol):
    """A source of one shard of a stream that is read once for all shards."""

    def begin(self, epoch: Epoch, place: Place) -> None: ...

    def receive(self) -> Received: ...

    def place_now(self, place: Place) -> Place: ...

    def interrupt(self) -> None: ...


class Dispatched(IterDataPipe[Any]):
    """Yield one shard of a stream that is read once for all shards; it replaces the stream in a shard's chain.

    The order is the stream's in this epoch, or in an earlier one that a cache behind it repeats. Several passes in an
    epoch have the same order.
    """

    holds_items = False
    works_in = "another process"
    transient = ("epoch", "feed", "_now")
    feed: Feed
    epoch: Epoch
    standing: list[Any] = own(list)
    """The steps where the pass resumes, and how many items to skip from there."""

    def __init__(self, point: int) -> None:
        self.point = point

    def __iter__(self) -> Iterator[Any]:
        self._now = place = Place.from_plain([0, *(self.standing or [[], 0]), 0], 1)
        assert self._pass is not None
        self.feed.begin(replace(self.epoch, path=Path(self._pass.path.epoch)), place)
        while not (received := self.feed.receive()).ended:
            place.advance(received.told)
            yield received.item

    def _stands(self, waiting: Waiting) -> Node | None:
        node = super()._stands(waiting)
        if self._pass is None or not self._pass.begun or node is None or "at" in node:
            return node
        node.pop("last_given", None)  # the sources in the shards have theirs
        place = self.feed.place_now(self._now)
        return {**node, "own": {"standing": [place.steps, place.skip]}}

    @property
    def seed_elsewhere(self) -> int:
        """The seed of the stream."""
        return self.epoch.seed

    def interrupt(self) -> None:
        self.feed.interrupt()


def _chain_by(fn: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """Return the chain that a user's function returns."""
    try:
        returned = fn(*arguments)
    except StopIteration as error:  # would pass for the end of the items
        raise RuntimeError(f"{name} raised StopIteration, which has no meaning here") from error
    if not isinstance(returned, TorchIterDataPipe):
        raise TypeError(f"{name} must return the chain to read, and returned {returned!r:.100}")
    return returned


def sharded(chain: IterDataPipe[Any], parts: int, part: int) -> IterDataPipe[Any]:
    """Make a chain read one of several parts, and return it."""
    if parts > 1:
        apply_sharding(chain, parts, part, SHARDING_PRIORITIES.MULTIPROCESSING)
    return chain
