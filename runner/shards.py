"""The shards of a chain: its parts, each read through a chain of its own, in any process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from ..registry import (
    SHARDING_PRIORITIES,
    IterDataPipe,
    Tally,
    Throttle,
    add_error_context,
    apply_sharding,
    can_capture,
    capture,
    close,
    derive_seed,
    flatten,
    hand_down,
    seed_graph,
    walk,
)
from ..state.fields import NotPlain
from ..state.foreign import TorchIterDataPipe, declared, declares
from ..state.replay import after
from ..views.profiles.times import measure
from .options import Division, ReadOptions, WorkerInfo
from .positions import Epoch, ShardPosition
from .seeds import SeedGenerator
from .workers.dispatched import Dispatched

T = TypeVar("T")

WithSeed = Callable[[int], AbstractContextManager[None]]

_BETWEEN_SEEDS = 0x9E3779B97F4A7C15
"""Step from one item's seed to the next: odd and large, as in SplitMix64 (Steele, Lea, Flood, 2014)."""


class ShardPass:
    """A pass over a shard from its position.

    `seeded` returns what makes an item, of the item's number; items that are made again to be skipped are included.
    """

    def __init__(self, chain: Any, position: ShardPosition, seeded: WithSeed | None = None) -> None:
        self.chain = chain
        self._iterator = iter(chain)
        self._position = replace(position)
        self._tally = Tally()
        items: Iterator[Any] = self._iterator
        if seeded is not None:
            items = _each_seeded(items, seeded, position.items - position.skip)
        self.items = self._tally.follow(after(items, position.skip))
        self._throttle = Throttle() if can_capture(chain) else None

    def current_position(self) -> ShardPosition:
        """Return the shard's present position."""
        if not self._tally.items:
            return self._position  # the pass may not have reached it yet
        return ShardPosition(
            self._position.shard, flatten(capture(self.chain)), items=self._position.items + self._tally.items
        )

    def report_if_due(self, make_report: Callable[[Any], T]) -> T | None:
        """Return `make_report(chain)`, such as its position, after the first item and as often as is cheap; else None.

        By the first position, a resumed pass notices a source that has another order now.
        """
        if self._throttle is None or not (self._throttle.due() or self._tally.items == 1):
            return None
        started = time.perf_counter()
        report: T | None = None
        with suppress(NotPlain):
            report = make_report(self.chain)
        self._throttle.record(started)
        return report

    def close(self) -> None:
        """Abandon the pass."""
        close(self._iterator)


def _each_seeded(items: Iterator[Any], seeded: WithSeed, number: int) -> Iterator[Any]:
    while True:
        with seeded(number):
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
        options: ReadOptions,
    ) -> None:
        self._make_chain = make_chain
        self._division = division
        self._worker = worker
        self._init_fn = options.init_fn
        self._reset_fn = options.reset_fn
        self._made: dict[int, Any] = {}
        """Chains by shard number, each made once."""
        self._to_settle: dict[int, list[Any]] = {}
        """By shard number, the steps of its chain that get what was settled for all shards."""
        self.chains: dict[int, Any] = {}
        """The chains being read, as the reset function returned them, if there is one."""

    def begin(self, epoch: Epoch, position: ShardPosition, with_seed: WithSeed | None = None) -> ShardPass:
        """Begin a pass over a shard at its position; each item is made within `with_seed`, of a seed of its own."""
        chain = self._made.get(position.shard)
        if chain is None:
            chain = sharded(self._make_chain(position.shard), *self._division.part(position.shard))
            self._to_settle[position.shard] = steps_to_settle(chain)  # without those that the function adds
            if self._init_fn is not None:
                chain = _chain_by(self._init_fn, "worker_init_fn", chain, self._worker)
            self._made[position.shard] = chain
        if chain._observer is not None:  # each epoch is measured by itself
            measure(chain)
        seed_graph(chain, epoch.seed, position.shard, first_epoch=0)
        if self._reset_fn is not None:
            seeds = SeedGenerator(epoch.seed, epoch.path.epoch).spawn(position.shard)
            seeded, chain = chain, _chain_by(self._reset_fn, "worker_reset_fn", chain, self._worker, seeds)
            if chain is not seeded:  # else keep the seeds that the function may have set
                seed_graph(chain, epoch.seed, position.shard, first_epoch=0)
        for pipe in walk(chain):
            if isinstance(pipe, Dispatched):
                pipe.epoch = epoch
        for step, settled in zip(self._to_settle[position.shard], epoch.settled, strict=False):
            step.settled = settled
        self.chains[position.shard] = chain
        hand_down(chain, position.steps, epoch.path)
        if with_seed is None:
            return ShardPass(chain, position)
        first = derive_seed(epoch.seed, epoch.path.epoch, epoch.path.again, position.shard)
        return ShardPass(chain, position, lambda number: with_seed((first + number * _BETWEEN_SEEDS) % 2**64))


def steps_to_settle(chain: Any) -> list[Any]:
    """Return the steps that decide something for all shards at the beginning of an epoch, by `settle`.

    Those before a stream that one process reads for all shards are read once, and not in the chains of shards.
    """
    reached = walk(chain, stop=lambda step: bool(declared(step, "dispatches", False)))
    return [step for step in reached if declares(step, "settle")]


def settle_all(chain: Any, shards: list[tuple[int, int]]) -> list[Any]:
    """Let steps decide what holds for all shards, such as the numbers of files, before any shard is read.

    `shards` are those that are read from here, each as number of shards and shard.
    """
    decided = []
    for step in steps_to_settle(chain):
        try:
            decided.append(step.settle(shards))
        except Exception as error:
            add_error_context(error, step)
            raise
    return decided


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
