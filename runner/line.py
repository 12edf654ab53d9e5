"""Shards sent from one process to another: what goes along the connection, and its two ends.

The receiving end says which shards it wants from where, and how many items it has room for; the sending end reads the
shards in turn, and never further ahead than that.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..registry import capture, flatten, say_where
from ..registry.notes import add_note
from ..workers.processes import pickled_error
from ..workers.transport import Inbox, Outbox, Parcel, receive_parcel_descriptor, send_parcel
from .shards import Epoch, Place, Report, ShardPass, Turns

__all__ = ["BEGUN", "FAILED", "HUNG_UP", "NONE", "Arrival", "Receiver", "Sender"]


HUNG_UP = (EOFError, ConnectionError)
"""What using a connection raises whose other end is gone."""


@dataclass(frozen=True)
class Credit:
    """Read so many items more, and use these blocks again."""

    items: int
    blocks: list[int]


BEGUN = -1
"""In the place of a shard, with the first arrival of each reading but the first: earlier ones are let go of."""

FAILED = -2
"""In the place of a shard: the sending end cannot read at all."""

NONE = (-1, 0)
"""The reading before the first."""

STOP = None
"""The command to end."""


def report_on(chain: Any) -> bytes:
    """Return the `Report` on the chain of a shard, pickled: most are replaced by a later one and never read."""
    return pickle.dumps(Report(flatten(capture(chain)), chain.stats()), protocol=5)


class Arrival(NamedTuple):
    """What comes from the sending end: an item, or the end, or an error of a shard."""

    reading: tuple[int, int]
    """The `Epoch.reading` to which it belongs."""
    shard: int
    parcel: Parcel | None = None
    report: bytes | None = None
    """What `report_on` told after this item, on some of them, and at the end."""
    error: bytes | None = None

    def to_bytes(self) -> bytes:
        """Return what travels: plain tuples, which are pickled and read in a tenth of the time of classes."""
        parcel = None if self.parcel is None else tuple(self.parcel)
        return pickle.dumps((self.reading, self.shard, parcel, self.report, self.error), protocol=5)

    @classmethod
    def from_bytes(cls, message: bytes) -> Arrival:
        """Return what arrived."""
        reading, shard, parcel, *rest = pickle.loads(message)
        return cls(reading, shard, None if parcel is None else Parcel(*parcel), *rest)


class Receiver:
    """The receiving end, which has room for so many items."""

    def __init__(self, connection: Connection, room: int) -> None:
        self.connection = connection
        self._room = room
        self._taken = 0
        self._inbox = Inbox()

    def begin(self, epoch: Epoch, places: list[Place]) -> None:
        """Ask for an epoch. Raises what sending along a connection does."""
        self._taken = 0
        self._send(Credit(0, self._inbox.unused_blocks()))
        self._send(replace(epoch, credit=self._room, places=places))

    def receive(self) -> tuple[Arrival, Any]:
        """Return the next arrival, of whichever reading, and its item. Raises what a connection does."""
        arrival = Arrival.from_bytes(self.connection.recv_bytes())
        if arrival.parcel is None:
            return arrival, None
        is_new = arrival.parcel.new_block_bytes > 0
        descriptor = receive_parcel_descriptor(self.connection) if is_new else None
        try:
            return arrival, self._inbox.unpack(arrival.parcel, descriptor)
        except (*HUNG_UP, StopIteration) as error:  # which would pass for the end of the other side, or of the items
            raise RuntimeError(f"an item of shard {arrival.shard} cannot be unpickled: {error!r}") from error

    def take_one(self) -> None:
        """Let one item more be read; told only when half of the room is free, as telling costs time."""
        self._taken += 1
        if self._taken >= (self._room + 1) // 2:
            self._send(Credit(self._taken, self._inbox.unused_blocks()))
            self._taken = 0

    def hang_up(self) -> None:
        """Tell the other end to stop."""
        with suppress(OSError):  # it has ended already
            self._send(STOP)
        self.connection.close()

    def _send(self, command: object) -> None:
        self.connection.send_bytes(pickle.dumps(command))


class Sender:
    """The sending end. `begin` gives the passes of an epoch's shards, and `whose` says in errors whose they are."""

    def __init__(
        self,
        connection: Connection,
        max_blocks: int,
        begin: Callable[[Epoch, Place], ShardPass],
        whose: Callable[[int], str],
        watch: AbstractContextManager[None] | None = None,
    ) -> None:
        self._connection = connection
        self._outbox = Outbox(max_blocks)
        self._begin = begin
        self._whose = whose
        self._watch = watch or nullcontext()
        self._reading = NONE
        self._credit = 0
        self._passes: dict[int, ShardPass] = {}
        self._turns = Turns()
        self._commands: SimpleQueue[Epoch | Credit | None] = SimpleQueue()
        threading.Thread(target=self._listen, name="penstock-commands", daemon=True).start()

    def _listen(self) -> None:
        """Take commands off the connection as they come, or both sides could wait for the other to read."""
        command: Any = self
        while command is not STOP:
            try:
                command = pickle.loads(self._connection.recv_bytes())
            except (EOFError, OSError):  # the other side closed its end
                command = STOP
            self._commands.put(command)

    def serve(self) -> None:
        """Send what is asked for, until no more is wanted."""
        while True:
            if not (self._turns and self._credit) or not self._commands.empty():
                command = self._commands.get()
                if command is STOP:
                    return
                self._obey(command)
            else:
                self._send_one()

    def _obey(self, command: Epoch | Credit) -> None:
        if isinstance(command, Credit):
            self._outbox.take_back(command.blocks)
            self._credit += command.items
            return
        is_first = self._reading == NONE
        self._reading, self._credit = command.reading, command.credit
        errors: list[tuple[int, Exception]] = []
        for shard, reading in self._passes.items():
            try:
                reading.close()
            except Exception as error:  # it has no place in the new epoch but at its beginning
                errors.append((shard, error))
        self._passes.clear()
        self._turns = Turns()
        if not is_first:
            self._send(Arrival(self._reading, BEGUN))
        for shard, failure in errors:
            self._send_error(shard, failure)
        begun: list[Place] = []
        for place in command.places:
            try:
                self._passes[place.shard] = self._begin(command, place)
            except Exception as error:
                self._send_error(place.shard, error)
            else:
                begun.append(place)
        self._turns = Turns(begun)

    def _send_one(self) -> None:
        place = self._turns.next()
        shard = place.shard
        reading = self._passes[shard]
        try:
            with self._watch:
                item = next(reading.items)
        except StopIteration:
            self._turns.end(place)
            self._send(Arrival(self._reading, shard, report=report_on(reading.chain)))
            return
        except Exception as error:
            self._fail(place, error)
            return
        try:
            parcel, descriptor = self._outbox.pack(item)
        except Exception as error:
            add_note(error, "the item could not be pickled, and so not be sent to the process that reads it")
            say_where(error, reading.chain, item)
            self._fail(place, error)
            return
        try:
            report = reading.if_due(report_on)
        except Exception as error:
            add_note(error, "the state of the chain could not be taken")
            self._fail(place, error)
            return
        send_parcel(self._connection, Arrival(self._reading, shard, parcel, report).to_bytes(), descriptor)
        self._credit -= 1
        place.items += 1

    def _fail(self, place: Place, error: Exception) -> None:
        self._turns.end(place)
        self._send_error(place.shard, error)

    def _send(self, arrival: Arrival) -> None:
        self._connection.send_bytes(arrival.to_bytes())

    def _send_error(self, shard: int, error: Exception) -> None:
        add_note(error, f"penstock: in {self._whose(shard)} (process {os.getpid()})")
        self._send(Arrival(self._reading, shard, error=pickled_error(error)))
