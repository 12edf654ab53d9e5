"""The step of a shard's chain in place of a stream that is read once for all shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

from ...registry import IterDataPipe, Node, PassPath, SavedNodes, own, walk
from ..positions import Epoch, ShardPosition


class Dispatched(IterDataPipe[Any]):
    """Yield one shard of a stream that is read once for all shards; it replaces the stream in a shard's chain.

    The order is the stream's in this epoch, or in an earlier one that a cache behind it repeats. Several passes in an
    epoch have the same order.
    """

    resumes_from_start = False
    dispatches: ClassVar[bool] = True
    shown_as = "sharding_round_robin_dispatch"
    works_in = "another process"
    transient = ("epoch", "feed", "_position")
    feed: Any
    """The source of the shard: a `LocalFeed` or a `RemoteFeed`."""
    epoch: Epoch
    standing: list[Any] = own(list)
    """The steps where the pass resumes, and how many items to skip from there."""

    def __init__(self, stream: int) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Any]:
        self._position = position = ShardPosition.from_plain([0, *(self.standing or [[], 0]), 0], 1)
        assert self._pass is not None
        self.feed.begin(replace(self.epoch, path=PassPath(self._pass.path.epoch)), position)
        while not (message := self.feed.receive()).ended:
            position.advance(message.report)
            yield message.item

    def _save_node(self, saved: SavedNodes) -> Node | None:
        node = super()._save_node(saved)
        if self._pass is None or not self._pass.begun or node is None or "at" in node:
            return node
        node.pop("last_given", None)  # the sources in the shards have theirs
        position: ShardPosition = self.feed.current_position(self._position)
        return {**node, "own": {"standing": [position.steps, position.skip]}}

    @property
    def seed_elsewhere(self) -> int:
        """The seed of the stream."""
        return self.epoch.seed

    def interrupt(self) -> None:
        self.feed.interrupt()


def connect_feeds(chain: Any, feed_of: Callable[[int], Any]) -> Any:
    """Give each `Dispatched` of a shard's chain the feed of its stream, and return the chain."""
    for pipe in walk(chain):
        if isinstance(pipe, Dispatched):
            pipe.feed = feed_of(pipe.stream)
    return chain
