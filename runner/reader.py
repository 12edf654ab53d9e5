"""Reading a chain shard by shard, here or in workers: always the same items in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from ..pipes.iter.ahead import ReadingThread
from ..registry import IterDataPipe, Node, copy_of
from .local import LocalShards
from .pool import Interrupted, WorkerPool
from .shards import Place, ReadOptions, Received, sharded

__all__ = ["ShardReader"]


class ShardReader(IterDataPipe[Any]):
    """Yield the items of all shards of a chain in turn.

    Which process reads a shard makes no difference to what comes out, nor to the state: that is where each shard stands
    after the items that were handed out.
    """

    holds_items = False
    payload = ("options",)
    transient = ("_places", "_shards", "_given_up")

    def __init__(self, options: ReadOptions, num_shards: int) -> None:
        self.options = options
        self.num_shards = num_shards
        self.epoch_seed = 0
        self.rank = 0
        self.repeated: dict[int, Node] = {}
        """For each shard, what it gives again in each epoch, such as what a cache of its has kept."""
        self._shards: WorkerPool | LocalShards | None = None

    def reset(self) -> None:
        self._given_up = False
        self._places = deque(Place(shard) for shard in range(self.num_shards))

    def get_state(self) -> dict[str, Any]:
        places = [self._place_now(place) for place in self._places]
        self.note_repeated()
        repeated = {"repeated": [[*given] for given in sorted(self.repeated.items())]} if self.repeated else {}
        places_now = [[place.shard, place.node, place.skip, place.items] for place in places]
        return {"num_shards": self.num_shards, "places": places_now, **repeated}

    def set_state(self, state: dict[str, Any]) -> None:
        self._places = deque(Place(*place) for place in state["places"])
        self.read_in_shards(state["num_shards"])
        self.repeated.update(state.get("repeated", ()))

    def __iter__(self) -> Iterator[Any]:
        shards, places = self._opened(), self._places
        try:
            shards.begin(places, self.epoch_seed, self.rank)
            if shards.broken:  # by a function that hangs in an epoch that was given up
                self.shutdown()
                shards = self._opened()
                shards.begin(places, self.epoch_seed, self.rank)
        except BaseException:  # a worker has died since: the next epoch begins anew
            self.shutdown()
            raise
        if self._given_up:  # while the workers were starting
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
            self.repeated = {}

    def begin_anew(self, repeated: dict[int, Node]) -> None:
        """Forget what earlier epochs have left, and give again what a state says."""
        self.shutdown()
        self.repeated = repeated

    def interrupt(self) -> None:
        self._given_up = True
        if self._shards is not None:
            self._shards.interrupt()

    def stats(self) -> dict[str, dict[str, Any]]:
        return add_up({} if self._shards is None else self._shards.stats())

    def shutdown(self) -> None:
        """End the workers."""
        self.note_repeated()
        shards, self._shards = self._shards, None
        if shards is not None:
            shards.shutdown()

    def note_repeated(self) -> None:
        """Find out what is given again, for states, and for workers in the place of these."""
        if self._shards is not None:
            self.repeated.update(self._shards.repeated())

    def _opened(self) -> WorkerPool | LocalShards:
        if self._shards is not None and self._shards.broken:  # as in a process that was forked off its own
            self.shutdown()
        if self._shards is None:
            make = WorkerPool if self.options.num_workers else LocalShards
            self._shards = make(self.options, self.num_shards, self.repeated)
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
