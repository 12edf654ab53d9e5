"""Shards that are read in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..registry import capture, flatten, walk
from ..state.copying import copy_for_shard
from ..state.foreign import declares
from ..state.seeds import isolated_generators
from .options import Division, ReadOptions, WorkerInfo
from .positions import Epoch, Message, RoundRobin, ShardPosition
from .seeds import may_draw
from .shards import ShardPass, Shards
from .workers.dispatch import Dispatch, LocalFeed, divided
from .workers.dispatched import connect_feeds


class LocalShards:
    """The shards of a chain, read in this process."""

    broken = False
    """Whether nothing can be read any more."""

    def __init__(self, options: ReadOptions, division: Division) -> None:
        self._chain, sources = divided(options.chain)
        self._dispatch = Dispatch(sources, division)
        self._division = division
        self._shards = Shards(self._chain_of, division, WorkerInfo(1, 0), options)
        self._passes: dict[int, ShardPass] = {}
        self._epoch = 0
        self._may_draw, self._reads_ahead = may_draw(options.chain), options.main_prefetch > 0

    def open(self) -> None:
        """Do nothing: there is no process to start."""

    def begin(self, epoch: Epoch, positions: list[ShardPosition], resumes: bool = False) -> None:
        """Begin an epoch with the shards to read, or resume it."""
        _close_all(self._passes)
        self._epoch += 1
        epoch = replace(epoch, number=self._epoch)
        # A thread that reads ahead shares the generators with the program.
        seeded = isolated_generators if self._may_draw and not self._reads_ahead else None
        self._passes = {position.shard: self._shards.begin(epoch, position, seeded) for position in positions}

    def _chain_of(self, shard: int) -> Any:
        chain = self._chain if len(self._division.shards) == 1 else copy_for_shard(self._chain)
        return connect_feeds(chain, lambda stream: LocalFeed(self._dispatch, stream, shard))

    def items(self, order: RoundRobin, ended: dict[int, int]) -> Iterator[Any]:
        """Yield the items of all shards in order; `ended` gets the numbers of items of finished shards."""
        passes = self._passes
        try:
            while len(order) > 1:
                for position in order.round():
                    for item in passes[position.shard].items:
                        position.items += 1
                        yield item
                        break
                    else:
                        ended[position.shard] = position.items
                        order.end(position)
            for position in order:
                reading = passes[position.shard]
                yield from reading.items
                ended[position.shard] = reading.current_position().items
                order.end(position)
        finally:  # after an error or a break, threads of the other shards would wait for the next epoch
            _close_all(passes)

    def receive(self, shard: int) -> Message:
        """Return the next item of a shard, or its end."""
        reading = self._passes[shard]
        for item in reading.items:
            return Message(shard, item, report=reading.report_if_due(lambda chain: flatten(capture(chain))))
        return Message(shard, ended=True)

    def current_position(self, position: ShardPosition) -> ShardPosition:
        """Return the position of a shard that is not read ahead."""
        return self._passes[position.shard].current_position()

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return the counts of the steps of each shard."""
        return {shard: chain.stats() for shard, chain in [*self._shards.chains.items()]}

    def chains(self) -> list[Any]:
        """Return the chains of the shards that were read."""
        return [*self._shards.chains.values()]

    def interrupt(self) -> None:
        """Interrupt steps that wait for something outside."""
        pipe: Any
        for reading in [*self._passes.values()]:
            for pipe in walk(reading.chain):
                if declares(pipe, "interrupt"):
                    pipe.interrupt()

    def shutdown(self) -> None:
        """Abandon the passes."""
        passes, self._passes = self._passes, {}
        _close_all(passes)


def _close_all(passes: dict[int, ShardPass]) -> None:
    """Close passes; their positions stay."""
    for reading in passes.values():
        reading.close()
