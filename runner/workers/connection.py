"""The main process's connection to one worker: it receives items, and replaces a worker that dies."""

from __future__ import annotations

import pickle
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ...registry import PassPath
from ...workers.threads import Interrupted
from ..options import Division
from ..positions import BEGUN, FAILED, Epoch, Message, Report, ShardPosition
from .backend import ENDS_WITHIN, WorkerBackend, WorkerHandle
from .chain_pickle import pickled_chain
from .dispatch import STREAM_READER
from .protocol import DISCONNECTED, Receiver, error_in
from .status import WorkerStatus
from .worker import Setup

__all__ = ["DispatcherConnection", "WorkerConnection"]

_CHECK_INTERVAL = 2.0
"""Seconds between checks on a worker that sends nothing."""


class WorkerConnection:
    """The connection to one worker, or to its replacement."""

    def __init__(self, setup: Setup, backend: WorkerBackend, dispatched: dict[tuple[int, int], Any], timeout: Any):
        self._setup = setup
        self._backend = backend
        self._dispatched = dispatched
        self._timeout: float | None = timeout
        self._epoch = Epoch(0, 0, PassPath(0))
        self._positions: dict[int, ShardPosition] = {}
        """Positions of unfinished shards."""
        self._deaths = 0
        """How many workers in a row died before they sent anything."""
        self.replaced = 0
        self._report: bytes | None = None
        """The worker's last report."""
        self._start()

    def _start(self) -> None:
        while True:
            self.worker = self._backend.worker(self._setup.worker.worker_id, self._dispatched)
            self._receiver = Receiver(self.worker.connection, self._setup.prefetch)
            self._epochs = 0
            """How many epochs this worker was sent."""
            setup = replace(self._setup, max_blocks=self.worker.max_blocks)
            try:
                self.worker.connection.send_bytes(cloudpickle.dumps(self._backend.preparations()))
                self.worker.connection.send_bytes(cloudpickle.dumps(setup))
                return
            except DISCONNECTED:
                self._close_dead_worker()

    def begin(self, epoch: Epoch, positions: list[ShardPosition]) -> None:
        """Request an epoch."""
        self._epoch, self._positions = epoch, {each.shard: replace(each) for each in positions}
        self._begin()

    def _begin(self) -> None:
        self._epochs += 1
        try:
            self._receiver.begin(self._epoch, [*self._positions.values()])
        except DISCONNECTED:
            self._replace_worker()

    def has_begun(self, deadline: float) -> bool:
        """Say whether the worker abandons its earlier epoch and begins in time; its earlier messages are dropped."""
        try:
            while self._epochs > 1 and self.worker.connection.poll(max(deadline - time.monotonic(), 0)):
                if self._receiver.receive().reading == self._epoch.reading:
                    return True
        except DISCONNECTED:
            self._replace_worker()
        return self._epochs == 1

    def receive(self, interruption: Connection, dispatcher: DispatcherConnection | None) -> Message:
        """Return the epoch's next message; those of earlier epochs are dropped.

        The worker may depend on the `dispatcher`.
        """
        while True:
            try:
                self._wait(interruption, dispatcher)
                message = self._receiver.receive()
                is_expected = message.reading == self._epoch.reading and message.shard != BEGUN
                if is_expected and not message.ended:
                    self._receiver.take_one()
            except DISCONNECTED:
                self._replace_worker()
                continue
            if message.shard == FAILED:
                raise error_in(message)
            if is_expected:
                self._record(message)
                return message

    def _record(self, message: Message) -> None:
        """Record the position of a message's shard, for a replacement worker."""
        self._deaths = 0
        if isinstance(message.report, bytes):
            self._report = message.report
        if message.ended:
            del self._positions[message.shard]
        else:
            self._positions[message.shard].advance(message.report)

    def _replace_worker(self) -> None:
        """Replace a dead worker by one that resumes after its last messages, or raise its death."""
        self._close_dead_worker()
        self._start()
        self.replaced += 1
        self._epoch = replace(self._epoch, restarts=self._epoch.restarts + 1)
        self._begin()

    def _close_dead_worker(self) -> None:
        """Close the connection to a dead worker, with a warning, or raise its death."""
        death = self._death()
        self._deaths += 1
        if self._deaths >= self.worker.deaths_in_a_row or self._dispatched:
            raise death from None
        warnings.warn(f"{death}. Another worker resumes after its last item", RuntimeWarning, stacklevel=2)
        self.worker.close()

    def _death(self) -> RuntimeError:
        """Return the error of a dead worker; raise the worker's own error if it could not read at all."""
        with suppress(*DISCONNECTED):
            while self.worker.connection.poll():
                if (message := self._receiver.receive()).shard == FAILED:
                    raise error_in(message)
        ended = self.worker.status(ENDS_WITHIN).ended or "has closed its connection"
        return RuntimeError(f"{self} {ended}; what it printed, or the system's log, may say why")

    def _wait(self, interruption: Connection, dispatcher: DispatcherConnection | None) -> None:
        """Wait until a message arrives, or raise an error that says why none does."""
        stopped: list[WorkerConnection | DispatcherConnection] = []
        patience = _CHECK_INTERVAL if self._timeout is None else min(self._timeout, _CHECK_INTERVAL)
        began = time.monotonic()
        connection = self.worker.connection
        while not (ready := mp_connection.wait([connection, interruption], patience)):
            status = self.worker.status()
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise TimeoutError(f"{self} gave no item for timeout={self._timeout} s{status.activity}")
            if status.ended is not None and not connection.poll():
                raise EOFError  # processes that the worker started keep the connection open
            statuses: dict[WorkerConnection | DispatcherConnection, WorkerStatus] = {self: status}
            if dispatcher is not None:
                statuses[dispatcher] = dispatcher.worker.status()
            before, stopped = stopped, [each for each, status in statuses.items() if status.is_stopped]
            for each in stopped:
                if each in before:
                    activity = statuses[each].activity
                    raise RuntimeError(f"{each} was stopped, as by SIGSTOP, and has not continued{activity}")
        if interruption in ready:
            raise Interrupted

    @property
    def idle(self) -> float:
        """Seconds that the worker waited for credit, by its last report."""
        if self._report is None:
            return 0.0
        report: Report = pickle.loads(self._report)
        return report.idle

    def resize(self, capacity: int) -> None:
        """Let the worker read up to `capacity` items ahead from now on."""
        self._setup = replace(self._setup, prefetch=capacity)
        self._receiver.resize(capacity)

    def close(self) -> WorkerHandle:
        """Send the command to end, and return the worker."""
        self._receiver.close()
        self.worker.close()
        return self.worker

    def __str__(self) -> str:
        return f"{self._setup.name} {self.worker}"


class DispatcherConnection:
    """The connection to the reader of dispatched streams, which sends each shard of each stream to a worker."""

    def __init__(self, streams: list[Any], backend: WorkerBackend, division: Division) -> None:
        pickled = pickled_chain(streams)
        shards = [(stream, shard) for stream in range(len(streams)) for shard in division.shards]
        self.worker, self.worker_ends = backend.dispatcher(shards)
        connection = self.worker.connection
        connection.send_bytes(cloudpickle.dumps(backend.preparations()))
        connection.send_bytes(pickle.dumps(division))
        connection.send_bytes(pickled)

    def close_worker_ends(self) -> None:
        """Close the workers' ends here; otherwise no worker would notice the process's death."""
        for end in self.worker_ends.values():
            end.close()

    def abandons(self, epoch: int, deadline: float) -> bool:
        """Say whether the process abandons the epochs before `epoch` in time."""
        connection = self.worker.connection
        with suppress(*DISCONNECTED):
            connection.send_bytes(epoch.to_bytes(8))
            if connection.poll(max(deadline - time.monotonic(), 0)):
                connection.recv_bytes()
                return True
        return False

    def close(self) -> WorkerHandle:
        """Close the connection, which ends the process, and return its handle."""
        self.worker.close()
        return self.worker

    def __str__(self) -> str:
        return f"{STREAM_READER} {self.worker}"
