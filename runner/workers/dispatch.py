"""Streams that are read once for all shards: the part of a chain before `sharding_round_robin_dispatch`.

Each is read through one branch per shard, here or in a process of its own. The branches can be read at different
rates, and each resumes from its own state. Any number of items may wait for a shard that is behind.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import partial
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from typing import Any

from ...pipes.iter.split import RoundRobinDemultiplexer
from ...registry import IterDataPipe, PassPath, copy_of, derive_seed, node_in, seed_graph, sources_of, walk
from ...state.foreign import TorchIterDataPipe, declared
from ...state.sources import SourceLink
from ...state.step_text import step_text
from ..graph import replace_dp, traverse_dps
from ..options import Division
from ..positions import BEGUN, Epoch, Message, ShardPosition
from ..shards import ShardPass
from .dispatched import Dispatched
from .protocol import DISCONNECTED, NONE, Receiver, Sender, error_in
from .status import StatusWriter

STREAM_READER = "the process that reads the dispatched stream"


def divided(chain: IterDataPipe[Any]) -> tuple[IterDataPipe[Any], list[Any]]:
    """Return a chain with `Dispatched` in place of its dispatched streams, and these streams.

    Raises RuntimeError if one such stream reads from another, or two from the same pipe.
    """
    points = [pipe for pipe in walk(chain) if declared(pipe, "dispatches", False)]
    if not points:
        return chain, []
    divided = copy_of(chain)
    points = [pipe for pipe in walk(divided) if declared(pipe, "dispatches", False)]
    streams = [source for point in points for source in sources_of(point)]
    for stream in streams:
        if again := [pipe for pipe in walk(stream) if pipe in points]:
            raise RuntimeError(f"the stream before {again[0]!r} is dispatched, and what is made of it once more")
    _expect_apart(streams)
    for number, point in enumerate(points):
        ((divided, _),) = replace_dp(traverse_dps(divided), point, Dispatched(number)).values()
    return divided, streams


def _expect_apart(streams: list[Any]) -> None:
    """Raise RuntimeError if two streams read from the same pipe: their shards resume from different places in it."""
    first: dict[int, Any] = {}
    for stream in streams:
        for part in walk(stream):
            if isinstance(part, TorchIterDataPipe) and first.setdefault(id(part), stream) is not stream:
                raise RuntimeError(
                    f"{step_text(part)} is part of two streams that are dispatched, {step_text(first[id(part)])} and "
                    f"{step_text(stream)}: dispatch once, behind where they meet"
                )


class Dispatch:
    """The streams that are read once, and their branches."""

    def __init__(self, streams: list[Any], division: Division) -> None:
        self._streams = streams
        self._division = division
        self._branches = [self._branches_of(stream) for stream in streams]
        self._epochs: dict[int, int] = {}
        self._first_epoch = 0
        """Epochs before it were abandoned."""
        self._begun: set[tuple[int, int]] = set()
        # Kept alive for shards that go back in it after all have ended.
        self._generations: dict[int, Any] = {}
        self._beginning = threading.Lock()

    def _branches_of(self, stream: Any) -> dict[int, Any]:
        """Return a stream's branch for each shard read here; items of other shards do not wait."""
        divide: Any = RoundRobinDemultiplexer
        parts = {shard: self._division.part(shard) for shard in self._division.shards}
        branches = divide(stream, *{number for number, _ in parts.values()}, sys.maxsize)
        return {shard: branches[part] for shard, (_, part) in parts.items()}

    def _splitter(self, stream: int) -> Any:
        return next(iter(self._branches[stream].values())).source

    def abandon_before(self, epoch: int) -> None:
        """Abandon the epochs before `epoch`, and return when none of their items is being made."""
        with self._beginning:
            self._first_epoch = epoch
            for stream in range(len(self._streams)):
                self._splitter(stream).end_generation()

    def begin(self, stream: int, epoch: Epoch, position: ShardPosition) -> ShardPass:
        """Begin a pass over a branch of a stream; the first pass begins the stream's epoch."""
        with self._beginning:
            if epoch.number > self._epochs.get(stream, -1):
                self._epochs[stream] = epoch.number
                self._begun.difference_update([begun for begun in self._begun if begun[0] == stream])
                self._splitter(stream).end_generation()
                part = self._division.rank if self._division.by_ranks else 0
                seed_graph(self._streams[stream], derive_seed(epoch.seed, stream), part, first_epoch=0)
            if epoch.number < max(self._epochs[stream], self._first_epoch):
                raise RuntimeError("another epoch has begun")
            branch = self._branches[stream][position.shard]
            if (stream, position.shard) in self._begun:  # such as a fork that goes back for a branch
                branch.source.read_again(branch)
            self._begun.add((stream, position.shard))
            # Not `hand_down`: other shards may be reading the source.
            SourceLink(branch, epoch.path).begin_at(node_in(branch, position.steps))
            begun = ShardPass(branch, position)
            self._generations[stream] = branch.generation
            return begun


class LocalFeed:
    """A shard of a stream read in this process."""

    def __init__(self, dispatch: Dispatch, stream: int, shard: int) -> None:
        self._dispatch = dispatch
        self._stream = stream
        self._shard = shard
        self._pass: ShardPass | None = None

    def begin(self, epoch: Epoch, position: ShardPosition) -> None:
        """Begin at the shard's position."""
        self._pass = self._dispatch.begin(self._stream, epoch, replace(position, shard=self._shard))

    def receive(self) -> Message:
        """Return the next item, or the end."""
        assert self._pass is not None
        for item in self._pass.items:
            return Message(self._shard, item)
        return Message(self._shard, ended=True)

    def current_position(self, _: ShardPosition) -> ShardPosition:
        """Return the shard's position, copied because the shards share the stream."""
        assert self._pass is not None
        position = self._pass.current_position()
        return replace(position, report=deepcopy(position.steps))

    def interrupt(self) -> None:
        """Interrupt the stream if it waits for something outside."""
        for pipe in walk(self._pass.chain) if self._pass is not None else ():
            if isinstance(pipe, IterDataPipe):
                pipe.interrupt()


class RemoteFeed:
    """A shard of a stream read at the other end of a connection."""

    def __init__(self, connection: Connection, shard: int, capacity: int) -> None:
        self._receiver = Receiver(connection, capacity)
        self._shard = shard
        self._epoch = Epoch(-1, 0, PassPath(0))
        self._interruption, self._interrupt = multiprocessing.Pipe(duplex=False)

    def begin(self, epoch: Epoch, position: ShardPosition) -> None:
        """Begin at the shard's position."""
        restarts = self._epoch.restarts + 1 if self._epoch.number == epoch.number else 0
        self._epoch = replace(epoch, restarts=restarts)
        while self._interruption.poll():
            self._interruption.recv_bytes()
        try:
            self._receiver.begin(self._epoch, [replace(position, shard=self._shard)])
        except DISCONNECTED:
            raise RuntimeError(f"{STREAM_READER} has ended") from None

    def receive(self) -> Message:
        """Return the next item, or the end; raise the error that ended the shard."""
        while True:
            if self._interruption in mp_connection.wait([self._receiver.connection, self._interruption]):
                raise RuntimeError("the pass was given up")
            try:
                message = self._receiver.receive()
                if message.reading != self._epoch.reading or message.shard == BEGUN:
                    continue
                if not message.ended:
                    self._receiver.take_one()
            except DISCONNECTED:
                raise RuntimeError(f"{STREAM_READER} has ended") from None
            if message.error is not None:
                raise error_in(message)
            return message

    def current_position(self, position: ShardPosition) -> ShardPosition:
        """Return the shard's position after the items taken."""
        return position

    def interrupt(self) -> None:
        """Make a `receive` that waits in another thread raise an error."""
        self._interrupt.send_bytes(b"!")


class StreamSender(Sender):
    """The sender of the process that reads streams for all workers: each of its `feeds` serves a shard of a stream.

    To the main process it sends no items, only that it has abandoned the earlier epochs.
    """

    def __init__(
        self,
        to_main: Connection,
        streams: list[Any],
        division: Division,
        feeds: Mapping[tuple[int, int], Connection],
        max_blocks: int,
        watch: StatusWriter,
    ) -> None:
        self._dispatch = Dispatch(streams, division)
        super().__init__(to_main, 0, partial(self._dispatch.begin, 0), _stream_reader)
        for (stream, _), feed in feeds.items():
            sender = Sender(feed, max_blocks, partial(self._dispatch.begin, stream), _stream_reader, watch)
            threading.Thread(target=_serve_feed, args=(sender,), daemon=True).start()

    def _begin_epoch(self, epoch: Epoch) -> None:
        if self._reading != NONE:  # the first may be under way already
            self._dispatch.abandon_before(epoch.number)
        super()._begin_epoch(epoch)


def _stream_reader(_: int) -> str:
    return STREAM_READER


def _serve_feed(sender: Sender) -> None:
    """Serve one worker; what would end a process ends this one, not just the thread."""
    try:
        sender.serve()
    except DISCONNECTED:
        pass  # the worker has ended
    except SystemExit as error:
        os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
