"""The protocol between a reader and a worker: commands one way, `Message`s with the items of shards the other.

The receiving end requests shards from given positions, and grants credit for as many items as it buffers. The sending
end reads the shards in turn, and never further ahead.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from ...errors.notes import add_note
from ...registry import add_error_context, capture, flatten
from ...views.profiles.times import WorkerTimes, times_of_steps
from ...workers.processes import pickled_error, unpickled_error
from ...workers.transport import Inbox, Outbox, Parcel, passes_descriptors, receive_parcel_descriptor, send_parcel
from ..positions import BEGUN, FAILED, Epoch, Message, Report, RoundRobin, ShardPosition
from ..shards import ShardPass

DISCONNECTED = (EOFError, ConnectionError)
"""What using a connection raises when its other end is gone."""

NONE = (-1, 0)
"""The reading before the first."""

STOP = None
"""The command to end."""


@dataclass(frozen=True)
class Credit:
    """The command to send so many more items, and to reuse these blocks."""

    items: int
    blocks: list[int]


def to_bytes(message: Message) -> bytes:
    """Return a message, whose item is a `Parcel`, as bytes: plain tuples pickle ten times as fast as classes."""
    parcel = None if message.ended else tuple(message.item)
    return pickle.dumps((message.shard, parcel, *message[2:]), protocol=5)


def send_failure(connection: Connection, error: Exception) -> None:
    """Send the error of a worker that cannot read at all."""
    connection.send_bytes(to_bytes(Message(FAILED, ended=True, error=pickled_error(error), reading=NONE)))


def error_in(message: Message) -> BaseException:
    """Return the error in a message, with a cause that shows where it was raised."""
    assert message.error is not None
    return unpickled_error(message.error)


class Receiver:
    """The receiving end, which buffers up to `capacity` items."""

    def __init__(self, connection: Connection, capacity: int) -> None:
        self.connection = connection
        self._capacity = capacity
        self._taken = 0
        self._inbox = Inbox()

    def begin(self, epoch: Epoch, positions: list[ShardPosition]) -> None:
        """Request an epoch. Raises what sending along a connection raises."""
        self._taken = 0
        self._send(Credit(0, self._inbox.unused_blocks()))
        self._send(replace(epoch, credit=self._capacity, positions=positions))

    def receive(self) -> Message:
        """Return the next message, of any reading. Raises what a connection raises."""
        shard, fields, ended, *rest = pickle.loads(self.connection.recv_bytes())
        if ended:
            return Message(shard, None, ended, *rest)
        parcel = Parcel(*fields)
        descriptor = receive_parcel_descriptor(self.connection) if parcel.new_block_bytes else None
        try:
            return Message(shard, self._inbox.unpack(parcel, descriptor), ended, *rest)
        except (*DISCONNECTED, StopIteration) as error:  # would pass for the end of the sender or the items
            raise RuntimeError(f"an item of shard {shard} cannot be unpickled: {error!r}") from error

    def take_one(self) -> None:
        """Grant credit for one more item; sent only when half of the buffer is free, to save messages."""
        self._taken += 1
        if self._taken >= (self._capacity + 1) // 2:
            self._send(Credit(self._taken, self._inbox.unused_blocks()))
            self._taken = 0

    def resize(self, capacity: int) -> None:
        """Buffer up to `capacity` items from now on; the next `take_one` that sends credit includes the change."""
        self._taken += capacity - self._capacity
        self._capacity = capacity

    def close(self) -> None:
        """Send the command to end, and close the connection."""
        with suppress(OSError):  # it has ended already
            self._send(STOP)
        self.connection.close()

    def _send(self, command: object) -> None:
        self.connection.send_bytes(pickle.dumps(command))


class Sender:
    """The sending end. `begin` returns a shard's pass in an epoch; `reader_of` names the shard's reader in errors.

    Items are made within the context `watch`. Profiles call the sender by its `name`.
    """

    def __init__(
        self,
        connection: Connection,
        max_blocks: int,
        begin: Callable[[Epoch, ShardPosition], ShardPass],
        reader_of: Callable[[int], str],
        watch: AbstractContextManager[None] | None = None,
        name: str = "",
    ) -> None:
        self._connection = connection
        self._outbox = Outbox(max_blocks if passes_descriptors(connection) else 0)
        self._begin = begin
        self._reader_of = reader_of
        self._watch = watch or nullcontext()
        self._reading = NONE
        self._credit = 0
        self._times = WorkerTimes(name)
        self._idle = 0.0
        """Seconds that more could have been read, if there had been credit: `WorkerTimes.idle` of all epochs."""
        self._passes: dict[int, ShardPass] = {}
        self._order = RoundRobin()
        self._commands: SimpleQueue[Epoch | Credit | None] = SimpleQueue()
        threading.Thread(target=self._listen, name="penstock-commands", daemon=True).start()

    def _listen(self) -> None:
        """Take commands off the connection as they come; otherwise each side could wait for the other to read."""
        command: Any = self
        while command is not STOP:
            try:
                command = pickle.loads(self._connection.recv_bytes())
            except (EOFError, OSError):  # the other side closed its end
                command = STOP
            self._commands.put(command)

    def serve(self) -> None:
        """Send what is requested, until the command to end."""
        while True:
            if not (self._order and self._credit) or not self._commands.empty():
                began = time.perf_counter()
                command = self._commands.get()
                waited = time.perf_counter() - began if self._order else 0.0
                self._times.idle += waited
                self._idle += waited
                if command is STOP:
                    return
                if isinstance(command, Credit):
                    self._outbox.take_back(command.blocks)
                    self._credit += command.items
                else:
                    self._begin_epoch(command)
            else:
                self._send_next()

    def _begin_epoch(self, epoch: Epoch) -> None:
        is_first = self._reading == NONE
        self._times = WorkerTimes(self._times.name)
        self._reading, self._credit = epoch.reading, epoch.credit
        errors = self._close_passes()
        if not is_first:
            self._send(Message(BEGUN, ended=True, reading=self._reading))
        for shard, error in errors:
            self._send_error(shard, error)
        begun: list[ShardPosition] = []
        for position in epoch.positions:
            try:
                self._passes[position.shard] = self._begin(epoch, position)
            except Exception as error:
                self._send_error(position.shard, error)
            else:
                begun.append(position)
        self._order = RoundRobin(begun)

    def _close_passes(self) -> list[tuple[int, Exception]]:
        """Abandon what is being read, and return the errors, each with its shard."""
        errors: list[tuple[int, Exception]] = []
        for shard, reading in self._passes.items():
            try:
                reading.close()
            except Exception as error:
                errors.append((shard, error))
        self._passes.clear()
        self._order = RoundRobin()
        return errors

    def _send_next(self) -> None:
        """Make the next item of the shard whose turn it is, and send it."""
        position = self._order.next()
        shard = position.shard
        reading = self._passes[shard]
        began = time.perf_counter()
        try:
            with self._watch:
                item = next(reading.items)
        except StopIteration:
            self._order.end(position)
            last = self._report_on(shard, reading.chain)
            self._send(Message(shard, ended=True, report=last, reading=self._reading))
            return
        except SystemExit:
            raise
        except BaseException as error:  # Ctrl-C goes to the main process: a function raised it
            self._fail(position, error)
            return
        made = time.perf_counter()
        self._times.busy += made - began
        try:
            parcel, descriptor = self._outbox.pack(item)
        except Exception as error:
            add_note(error, "the item could not be pickled, so it cannot be sent to the reading process")
            add_error_context(error, reading.chain, item)
            self._fail(position, error)
            return
        try:
            report = reading.report_if_due(partial(self._report_on, shard))
        except Exception as error:
            add_note(error, "the state of the chain could not be taken")
            self._fail(position, error)
            return
        message = Message(shard, parcel, report=report, reading=self._reading)
        send_parcel(self._connection, to_bytes(message), descriptor)
        self._times.sending += time.perf_counter() - made
        self._times.items += 1
        self._credit -= 1
        position.items += 1

    def _report_on(self, shard: int, chain: Any) -> bytes:
        """Return the `Report` on a shard, pickled, since most reports are never read."""
        step_times = None if chain._observer is None else times_of_steps(chain)
        steps = flatten(capture(chain))
        report = Report(shard, self._reading, steps, chain.stats(), step_times, self._times, self._idle)
        return pickle.dumps(report, protocol=5)

    def _fail(self, position: ShardPosition, error: BaseException) -> None:
        self._order.end(position)
        self._send_error(position.shard, error)

    def _send(self, message: Message) -> None:
        self._connection.send_bytes(to_bytes(message))

    def _send_error(self, shard: int, error: BaseException) -> None:
        add_note(error, f"penstock: in {self._reader_of(shard)} (process {os.getpid()})")
        self._send(Message(shard, ended=True, error=pickled_error(error), reading=self._reading))
