"""Shards that are read in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from ..registry import Path, capture, copy_of, flatten, walk
from .dispatch import Dispatch, LocalFeed, divided
from .shards import Dispatched, Epoch, Place, ReadOptions, Received, ShardPass, Shards, WorkerInfo

__all__ = ["LocalShards"]


class LocalShards:
    """The shards of a chain, read in this process."""

    broken = False
    """Whether nothing can be read any more."""

    def __init__(self, options: ReadOptions, num_shards: int) -> None:
        self._chain, sources = divided(options.chain)
        self._dispatch = Dispatch(sources, num_shards)
        self._num_shards = num_shards
        worker = WorkerInfo(1, 0)
        self._shards = Shards(self._chain_of, num_shards, worker, options.init_fn, options.reset_fn)
        self._passes: dict[int, ShardPass] = {}
        self._epoch = 0

    def begin(self, places: deque[Place], seed: int, path: Path, rank: int) -> None:
        """Begin an epoch with the shards that are to be read."""
        for earlier in self._passes.values():
            earlier.close()
        self._epoch += 1
        epoch = Epoch(self._epoch, seed, path, rank)
        self._passes = {place.shard: self._shards.begin(epoch, place) for place in places}

    def _chain_of(self, shard: int) -> Any:
        chain = self._chain if self._num_shards == 1 else copy_of(self._chain)
        for pipe in walk(chain):
            if isinstance(pipe, Dispatched):
                pipe.feed = LocalFeed(self._dispatch, pipe.point, shard)
        return chain

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
            return Received(item, reading.if_due(lambda chain: flatten(capture(chain))))
        return Received(ended=True)

    def place_now(self, place: Place) -> Place:
        """Return where a shard stands that is not read ahead."""
        return self._passes[place.shard].place_now()

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return, for each shard, what its steps counted."""
        return {shard: chain.stats() for shard, chain in self._shards.chains.items()}

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
