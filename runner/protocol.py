"""Shards sent from one process to another: the messages on the connection, and its two ends.

The receiving end requests shards from given positions, and says how many items it has room for. The sending end reads
the shards in turn, and never further ahead.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..registry import add_error_context, capture, flatten
from ..registry.notes import add_note
from ..views.times import WorkerTimes, times_of_steps
from ..workers.processes import pickled_error
from ..workers.transport import Inbox, Outbox, Parcel, receive_parcel_descriptor, send_parcel
from .shards import Epoch, Place, Report, ShardPass, ShardProfile, Turns

__all__ = ["BEGUN", "FAILED", "HUNG_UP", "NONE", "Arrival", "Receiver", "Sender"]


HUNG_UP = (EOFError, ConnectionError)
"""What using a connection raises when its other end is gone."""


@dataclass(frozen=True)
class Credit:
    """Read so many more items, and reuse these blocks."""

    items: int
    blocks: list[int]


BEGUN = -1
"""In place of a shard, in the first arrival of each reading but the first: earlier readings have ended."""

FAILED = -2
"""In place of a shard: the sending end cannot read at all."""

NONE = (-1, 0)
"""The reading before the first."""

STOP = None
"""The command to end."""


def report_on(chain: Any, times: WorkerTimes, idle: float) -> bytes:
    """Return the `Report` on a shard's chain, pickled, since most reports are never read."""
    profile = None if chain.observer is None else ShardProfile(times_of_steps(chain), times)
    return pickle.dumps(Report(flatten(capture(chain)), chain.stats(), profile, idle), protocol=5)


class Arrival(NamedTuple):
    """A message from the sending end: an item, the end, or an error of a shard."""

    reading: tuple[int, int]
    """Its `Epoch.reading`."""
    shard: int
    parcel: Parcel | None = None
    report: bytes | None = None
    """What `report_on` returned after this item, for some items, and at the end."""
    error: bytes | None = None

    def to_bytes(self) -> bytes:
        """Return the message: plain tuples, which pickle and unpickle ten times as fast as classes."""
        parcel = None if self.parcel is None else tuple(self.parcel)
        return pickle.dumps((self.reading, self.shard, parcel, self.report, self.error), protocol=5)

    @classmethod
    def from_bytes(cls, message: bytes) -> Arrival:
        """Return what arrived."""
        reading, shard, parcel, *rest = pickle.loads(message)
        return cls(reading, shard, None if parcel is None else Parcel(*parcel), *rest)


class Receiver:
    """The receiving end, with room for `room` items."""

    def __init__(self, connection: Connection, room: int) -> None:
        self.connection = connection
        self._room = room
        self._taken = 0
        self._inbox = Inbox()

    def begin(self, epoch: Epoch, places: list[Place]) -> None:
        """Request an epoch. Raises what sending along a connection raises."""
        self._taken = 0
        self._send(Credit(0, self._inbox.unused_blocks()))
        self._send(replace(epoch, credit=self._room, places=places))

    def receive(self) -> tuple[Arrival, Any]:
        """Return the next arrival, of any reading, and its item. Raises what a connection raises."""
        arrival = Arrival.from_bytes(self.connection.recv_bytes())
        if arrival.parcel is None:
            return arrival, None
        is_new = arrival.parcel.new_block_bytes > 0
        descriptor = receive_parcel_descriptor(self.connection) if is_new else None
        try:
            return arrival, self._inbox.unpack(arrival.parcel, descriptor)
        except (*HUNG_UP, StopIteration) as error:  # would pass for the end of the sender or the items
            raise RuntimeError(f"an item of shard {arrival.shard} cannot be unpickled: {error!r}") from error

    def take_one(self) -> None:
        """Allow one more item to be read; sent only when half of the room is free, to save messages."""
        self._taken += 1
        if self._taken >= (self._room + 1) // 2:
            self._send(Credit(self._taken, self._inbox.unused_blocks()))
            self._taken = 0

    def resize(self, room: int) -> None:
        """Let up to `room` items be read ahead from now on; `take_one` tells the other end."""
        self._taken += room - self._room
        self._room = room

    def hang_up(self) -> None:
        """Tell the other end to stop."""
        with suppress(OSError):  # it has ended already
            self._send(STOP)
        self.connection.close()

    def _send(self, command: object) -> None:
        self.connection.send_bytes(pickle.dumps(command))


class Sender:
    """The sending end. `begin` returns a shard's pass in an epoch; `whose` names the shard's reader in errors.

    Profiles call it by its `name`.
    """

    def __init__(
        self,
        connection: Connection,
        max_blocks: int,
        begin: Callable[[Epoch, Place], ShardPass],
        whose: Callable[[int], str],
        watch: AbstractContextManager[None] | None = None,
        name: str = "",
    ) -> None:
        self._connection = connection
        self._outbox = Outbox(max_blocks)
        self._begin = begin
        self._whose = whose
        self._watch = watch or nullcontext()
        self._reading = NONE
        self._credit = 0
        self._times = WorkerTimes(name)
        self._without_room = 0.0
        """Seconds that more could have been read, if more items had been wanted: `idle` of all epochs."""
        self._passes: dict[int, ShardPass] = {}
        self._turns = Turns()
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
        """Send what is requested, until no more is wanted."""
        while True:
            if not (self._turns and self._credit) or not self._commands.empty():
                began = time.perf_counter()
                command = self._commands.get()
                waited = time.perf_counter() - began if self._turns else 0.0
                self._times.idle += waited
                self._without_room += waited
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
        self._times = WorkerTimes(self._times.name)
        self._reading, self._credit = command.reading, command.credit
        errors: list[tuple[int, Exception]] = []
        for shard, reading in self._passes.items():
            try:
                reading.close()
            except Exception as error:  # reported at the beginning of the new epoch
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
        began = time.perf_counter()
        try:
            with self._watch:
                item = next(reading.items)
        except StopIteration:
            self._turns.end(place)
            self._send(Arrival(self._reading, shard, report=self._report_on(reading.chain)))
            return
        except Exception as error:
            self._fail(place, error)
            return
        made = time.perf_counter()
        self._times.busy += made - began
        try:
            parcel, descriptor = self._outbox.pack(item)
        except Exception as error:
            add_note(error, "the item could not be pickled, so it cannot be sent to the reading process")
            add_error_context(error, reading.chain, item)
            self._fail(place, error)
            return
        try:
            report = reading.if_due(self._report_on)
        except Exception as error:
            add_note(error, "the state of the chain could not be taken")
            self._fail(place, error)
            return
        send_parcel(self._connection, Arrival(self._reading, shard, parcel, report).to_bytes(), descriptor)
        self._times.sending += time.perf_counter() - made
        self._times.items += 1
        self._credit -= 1
        place.items += 1

    def _report_on(self, chain: Any) -> bytes:
        return report_on(chain, self._times, self._without_room)

    def _fail(self, place: Place, error: Exception) -> None:
        self._turns.end(place)
        self._send_error(place.shard, error)

    def _send(self, arrival: Arrival) -> None:
        self._connection.send_bytes(arrival.to_bytes())

    def _send_error(self, shard: int, error: Exception) -> None:
        add_note(error, f"penstock: in {self._whose(shard)} (process {os.getpid()})")
        self._send(Arrival(self._reading, shard, error=pickled_error(error)))
