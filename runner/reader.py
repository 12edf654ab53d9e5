"""Reading a chain shard by shard, here or in workers: always the same items in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from ..pipes.iter.ahead import ReadingThread
from ..registry import IterDataPipe, Node, copy_of, own
from ..registry.reading import Waiting
from .local import LocalShards
from .pool import Interrupted, WorkerPool
from .shards import Place, ReadOptions, Received, sharded

__all__ = ["ShardReader", "expect_shards"]


MOST_SHARDS = 2**16
"""More than anybody has: a state that says so is none."""


def expect_shards(number: Any) -> int:
    """Return a number of shards that a state has; ValueError where there cannot be so many."""
    if type(number) is not int or not 0 < number <= MOST_SHARDS:
        raise ValueError(f"the state is of {number!r:.60} shards, and there are 1 to {MOST_SHARDS}")
    return number


class ShardReader(IterDataPipe[Any]):
    """Yield the items of all shards of a chain in turn.

    Which process reads a shard makes no difference to what comes out, nor to the state: that is where each shard stands
    after the items that were handed out.
    """

    holds_items = False
    payload = ("options",)
    transient = ("_shards",)
    divided: int = own(0)
    """The number of shards in which the pass reads the chain."""
    standing: list[Any] = own(list)
    """Where each shard stands that has not come to its end, as plain data, when the pass goes on from a state."""
    places: deque[Place] = own(deque, saved=False)
    given_up: bool = own(False, saved=False)

    def __init__(self, options: ReadOptions, num_shards: int) -> None:
        self.options = options
        self.num_shards = num_shards
        self.seed = 0
        self.rank = 0
        self._shards: WorkerPool | LocalShards | None = None

    def __iter__(self) -> Iterator[Any]:
        assert self._pass is not None
        if self.divided:
            self.read_in_shards(self.divided)
            self.places.extend(Place.from_plain(place, self.divided) for place in self.standing)
        else:
            self.divided = self.num_shards
            self.places.extend(map(Place, range(self.num_shards)))
        shards, places, path = self._opened(), self.places, self._pass.path
        try:
            shards.begin(places, self.seed, path, self.rank)
            if shards.broken:  # by a function that hangs in an epoch that was given up
                self.shutdown()
                shards = self._opened()
                shards.begin(places, self.seed, path, self.rank)
        except BaseException:  # a worker has died since: the next epoch begins anew
            self.shutdown()
            raise
        if self.given_up:  # while the workers were starting
            raise Interrupted
        if isinstance(shards, LocalShards) and not self.options.main_prefetch:
            yield from shards.items_in_turn(places)
            return
        received = self._received_in_turn(shards, deque(place.shard for place in places))
        room = self.options.main_prefetch
        thread = ReadingThread(received, self, room) if room else None
        try:
            for each in received if thread is None else thread:
                if each.ended:
                    places.popleft()
                else:
                    places[0].advance(each.told)
                    places.rotate(-1)
                    yield each.item
        finally:
            if thread is not None:
                thread.stop()

    def _received_in_turn(self, shards: WorkerPool | LocalShards, turns: deque[int]) -> Iterator[Received]:
        while turns:
            try:
                received = shards.receive(turns[0])
            except BaseException:
                if shards.broken:  # the next epoch begins anew
                    self.shutdown()
                raise
            if received.ended:
                turns.popleft()
            else:
                turns.rotate(-1)
            yield received

    def _place_now(self, place: Place) -> Place:
        if isinstance(self._shards, LocalShards) and not self.options.main_prefetch:
            return self._shards.place_now(place)
        return place

    def __len__(self) -> int:
        if self.num_shards == 1:
            return len(self.options.chain)
        return sum(
            len(sharded(copy_of(self.options.chain), self.num_shards, shard)) for shard in range(self.num_shards)
        )

    def read_in_shards(self, number: int) -> None:
        """Divide the chain into so many shards from the next epoch on."""
        if number != self.num_shards:
            self.shutdown()
            self.num_shards = number

    def _stands(self, waiting: Waiting) -> Node | None:
        node = super()._stands(waiting)
        if self._pass is None or not self._pass.begun or node is None or "at" in node:
            return node
        places = [self._place_now(place).as_plain() for place in self.places]
        return {**node, "own": {"divided": self.divided, "standing": places}}

    def _is_to_go_on_from(self, node: Node) -> None:
        own = node.get("own", {})
        divided = expect_shards(own.get("divided", self.num_shards))
        places = [Place.from_plain(place, divided) for place in own.get("standing", ())]
        if len({place.shard for place in places}) < len(places):
            raise ValueError("a state tells once where a shard stands")

    def interrupt(self) -> None:
        self.given_up = True
        if self._shards is not None:
            self._shards.interrupt()

    def stats(self) -> dict[str, dict[str, Any]]:
        return add_up({} if self._shards is None else self._shards.stats())

    def shutdown(self) -> None:
        """End the workers."""
        shards, self._shards = self._shards, None
        if shards is not None:
            shards.shutdown()

    def _opened(self) -> WorkerPool | LocalShards:
        if self._shards is not None and self._shards.broken:  # as in a process that was forked off its own
            self.shutdown()
        if self._shards is None:
            make = WorkerPool if self.options.num_workers else LocalShards
            self._shards = make(self.options, self.num_shards)
        return self._shards


def add_up(stats: dict[int, dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return what the steps of a chain counted in all shards together."""
    total: dict[str, dict[str, Any]] = {}
    for of_shard in stats.values():
        for step, counts in of_shard.items():
            before = total.setdefault(step, {})
            for name, value in counts.items():
                before[name] = before[name] + value if name in before else value
    return total
