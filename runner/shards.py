"""The shards of a chain: the parts in which it is read, each through a chain of its own, wherever that is."""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..registry import (
    SHARDING_PRIORITIES,
    IterDataPipe,
    Node,
    Pace,
    apply_sharding,
    can_capture,
    capture,
    close,
    hand_down,
    seed_graph,
    walk,
)
from ..registry.state import node_of_repetition, take_seeds
from .seeds import SeedGenerator

__all__ = [
    "InitFn",
    "LocalShards",
    "Place",
    "ReadOptions",
    "Received",
    "ResetFn",
    "ShardPass",
    "Shards",
    "WorkerInfo",
    "copy_of",
    "sharded",
]


@dataclass(frozen=True)
class WorkerInfo:
    """Which of how many workers a process is."""

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
    start_method: str | None = None
    worker_prefetch: int = 1
    timeout: float | None = None


@dataclass
class Place:
    """Where a shard stands, as far as its items were handed out: so many items after a node, or after the start."""

    shard: int
    node: Node | None = None
    skip: int = 0

    def advance(self, node: Node | None) -> None:
        """Count one item more, after which the shard stands at a node, where that is known."""
        if node is None:
            self.skip += 1
        else:
            self.node, self.skip = node, 0


@dataclass(slots=True)
class Received:
    """An item of a shard, or its end."""

    item: Any = None
    node: Node | None = None
    """Where the shard stands after the item, on some of them."""
    ended: bool = False


class ShardPass:
    """A pass over one shard."""

    def __init__(self, chain: Any, node: Node | None, skip: int) -> None:
        self.chain = chain
        hand_down(chain, node)  # even none: an epoch that was given up may not have begun to go on from its own
        self._iterator = iter(chain)
        self.items: Iterator[Any] = islice(self._iterator, skip, None) if skip else self._iterator
        self._pace = Pace() if can_capture(chain) else None

    def node_if_due(self) -> Node | None:
        """Return where the pass stands, as often as costs little."""
        if self._pace is None or not self._pace.due():
            return None
        started = time.perf_counter()
        node = capture(self.chain)
        self._pace.taken(started)
        return node

    def close(self) -> None:
        """Give the pass up."""
        close(self._iterator)


class Shards:
    """The shards that one process reads."""

    def __init__(
        self,
        make_chain: Callable[[], Any],
        num_shards: int,
        worker: WorkerInfo,
        init_fn: InitFn | None,
        reset_fn: ResetFn | None,
        repeated: dict[int, Node],
    ) -> None:
        self._make_chain = make_chain
        self._num_shards = num_shards
        self._worker = worker
        self._init_fn = init_fn
        self._reset_fn = reset_fn
        self._repeated = repeated
        self.chains: dict[int, Any] = {}
        """Those that were read, by the numbers of their shards."""

    def begin(self, place: Place, seed: int, rank: int) -> ShardPass:
        """Begin a pass over a shard where it stands, in an epoch of a seed, of one of the ranks."""
        chain = self.chains.get(place.shard)
        if chain is None:
            chain = sharded(self._make_chain(), self._num_shards, place.shard)
            if self._init_fn is not None:
                chain = self._init_fn(chain, self._worker)
        of_all_ranks = rank * self._num_shards + place.shard
        seed_graph(chain, seed, of_all_ranks)
        if self._reset_fn is not None:
            chain = self._reset_fn(chain, self._worker, SeedGenerator(seed).spawn(of_all_ranks))
        if place.shard not in self.chains:
            take_seeds(chain, self._repeated.get(place.shard, {}), behind_branches=True)
        self.chains[place.shard] = chain
        return ShardPass(chain, place.node, place.skip)


class LocalShards:
    """The shards of a chain, read in this process."""

    broken = False
    """Whether nothing can be read any more."""

    def __init__(self, options: ReadOptions, num_shards: int, repeated: dict[int, Node]) -> None:
        chain = options.chain
        make_chain = (lambda: chain) if num_shards == 1 else (lambda: copy_of(chain))
        self._shards = Shards(make_chain, num_shards, WorkerInfo(1, 0), options.init_fn, options.reset_fn, repeated)
        self._passes: dict[int, ShardPass] = {}

    def begin(self, places: deque[Place], seed: int, rank: int) -> None:
        """Begin an epoch with the shards that are to be read."""
        for earlier in self._passes.values():
            earlier.close()
        self._passes = {place.shard: self._shards.begin(place, seed, rank) for place in places}

    def items_in_turn(self, places: deque[Place]) -> Iterator[Any]:
        """Yield the items of all shards in turn; `places` are taken off where a shard has ended."""
        while len(places) > 1:
            for item in self._passes[places[0].shard].items:
                places.rotate(-1)
                yield item
                break
            else:
                places.popleft()
        if places:
            yield from self._passes[places[0].shard].items
            places.popleft()

    def receive(self, shard: int) -> Received:
        """Return the next item of a shard, or its end."""
        reading = self._passes[shard]
        for item in reading.items:
            return Received(item, reading.node_if_due())
        return Received(ended=True)

    def place_now(self, place: Place) -> Place:
        """Return where a shard stands that is not read ahead."""
        return Place(place.shard, capture(self._passes[place.shard].chain))

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return, for each shard, what its steps counted."""
        return {shard: chain.stats() for shard, chain in self._shards.chains.items()}

    def repeated(self) -> dict[int, Node]:
        """Return, for each shard, what its passes give again in each epoch, where something does."""
        nodes = {shard: node_of_repetition(chain) for shard, chain in self._shards.chains.items()}
        return {shard: node for shard, node in nodes.items() if node is not None}

    def interrupt(self) -> None:
        """Let a step that waits for something outside end soon."""
        for reading in [*self._passes.values()]:
            for pipe in walk(reading.chain):
                if hasattr(type(pipe), "interrupt"):
                    pipe.interrupt()

    def shutdown(self) -> None:
        """Give up what is being read."""
        passes, self._passes = self._passes, {}
        for reading in passes.values():
            reading.close()


def sharded(chain: IterDataPipe[Any], num_shards: int, shard: int) -> IterDataPipe[Any]:
    """Return a chain that was made one of several shards."""
    if num_shards > 1:
        apply_sharding(chain, num_shards, shard, SHARDING_PRIORITIES.MULTIPROCESSING)
    return chain


def copy_of(chain: Any) -> Any:
    """Return a chain of its own, that shares the items which the pipes of the other hold."""
    items = [vars(pipe).get(name) for pipe in walk(chain) for name in getattr(pipe, "payload", ())]
    return copy.deepcopy(chain, {id(item): item for item in items})
