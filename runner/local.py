"""Shards that are read in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..registry import Path, capture, copy_of, flatten, walk
from .dispatch import Dispatch, LocalFeed, divided
from .shards import (
    Dispatched,
    Division,
    Epoch,
    Place,
    ReadOptions,
    Received,
    ShardPass,
    Shards,
    Turns,
    WorkerInfo,
)

__all__ = ["LocalShards"]


class LocalShards:
    """The shards of a chain, read in this process."""

    broken = False
    """Whether nothing can be read any more."""

    def __init__(self, options: ReadOptions, division: Division) -> None:
        self._chain, sources = divided(options.chain)
        self._dispatch = Dispatch(sources, division)
        self._division = division
        worker = WorkerInfo(1, 0)
        self._shards = Shards(self._chain_of, division, worker, options.init_fn, options.reset_fn)
        self._passes: dict[int, ShardPass] = {}
        self._epoch = 0

    def open(self) -> None:
        """Do nothing: there is no process to start."""

    def begin(self, places: Iterable[Place], seed: int, path: Path, settled: list[Any], goes_on: bool = False) -> None:
        """Begin an epoch with the shards to read, or go on with it; its steps get what they have `settled`."""
        for earlier in self._passes.values():
            earlier.close()
        self._epoch += 1
        epoch = Epoch(self._epoch, seed, path, settled=settled)
        self._passes = {place.shard: self._shards.begin(epoch, place) for place in places}

    def _chain_of(self, shard: int) -> Any:
        chain = self._chain if len(self._division.shards) == 1 else copy_of(self._chain)
        for pipe in walk(chain):
            if isinstance(pipe, Dispatched):
                pipe.feed = LocalFeed(self._dispatch, pipe.point, shard)
        return chain

    def items_in_turn(self, turns: Turns, ended: dict[int, int]) -> Iterator[Any]:
        """Yield the items of all shards in turn; `ended` gets the numbers of items of finished shards."""
        while len(turns) > 1:
            for place in turns.round():
                for item in self._passes[place.shard].items:
                    place.items += 1
                    yield item
                    break
                else:
                    ended[place.shard] = place.items
                    turns.end(place)
        for place in turns:
            reading = self._passes[place.shard]
            yield from reading.items
            ended[place.shard] = reading.place_now().items
            turns.end(place)

    def receive(self, shard: int) -> Received:
        """Return the next item of a shard, or its end."""
        reading = self._passes[shard]
        for item in reading.items:
            return Received(item, reading.if_due(lambda chain: flatten(capture(chain))))
        return Received(ended=True)

    def place_now(self, place: Place) -> Place:
        """Return the position of a shard that is not read ahead."""
        return self._passes[place.shard].place_now()

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return, for each shard, what its steps counted."""
        return {shard: chain.stats() for shard, chain in [*self._shards.chains.items()]}

    def chains(self) -> list[Any]:
        """Return the chains of the shards that were read."""
        return [*self._shards.chains.values()]

    def interrupt(self) -> None:
        """Interrupt steps that wait for something outside."""
        pipe: Any
        for reading in [*self._passes.values()]:
            for pipe in walk(reading.chain):
                if hasattr(type(pipe), "interrupt"):
                    pipe.interrupt()

    def shutdown(self) -> None:
        """Abandon what is being read."""
        passes, self._passes = self._passes, {}
        for reading in passes.values():
            reading.close()
