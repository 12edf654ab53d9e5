"""The main process's connection to one worker: it receives items, and replaces a worker that dies."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection

import cloudpickle  # type: ignore[import-untyped]

from ...errors.notes import add_note
from ...registry import PassPath
from ...workers.threads import Interrupted
from ..positions import BEGUN, FAILED, Epoch, Message, Report, ShardPosition
from .processes import ENDS_WITHIN, WorkerHandle
from .protocol import DISCONNECTED, Receiver, error_in
from .worker import Setup

_CHECK_INTERVAL = 2.0
"""Seconds between checks on a worker that sends nothing."""


class WorkerConnection:
    """The connection to one worker, or to its replacement; `start` starts either."""

    def __init__(self, setup: Setup, start: Callable[[], WorkerHandle], timeout: float | None = None) -> None:
        self.setup = setup
        self._start_worker = start
        self._timeout = timeout
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
            self.worker = self._start_worker()
            self._receiver = Receiver(self.worker.connection, self.setup.options.worker_prefetch)
            self._epochs = 0
            """How many epochs this worker was sent."""
            try:
                for message in (self.worker.preparations(), self.setup):
                    self.worker.connection.send_bytes(cloudpickle.dumps(message))
                return
            except DISCONNECTED:
                self._close_dead_worker()

    @property
    def is_reading(self) -> bool:
        """Whether it has shards that are not at their end."""
        return bool(self._positions)

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

    def receive(self, interruption: Connection, dispatcher: WorkerConnection | None) -> Message:
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
            self._expect_no_failure(message)
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

    def _expect_no_failure(self, message: Message) -> None:
        if message.shard == FAILED:
            error = error_in(message)
            add_note(error, f"penstock: when {self.setup.name} loaded the chain")
            raise error

    def _replace_worker(self) -> None:
        """Replace a dead worker by one that resumes after its last messages, or raise its death."""
        self._close_dead_worker()
        self._start()
        self.replaced += 1
        self._epoch = replace(self._epoch, restarts=self._epoch.restarts + 1)
        self._begin()

    def _close_dead_worker(self) -> None:
        """Close the connection to a dead worker, with a warning, or raise its death."""
        self.expect_to_read()
        ended = self.worker.status(ENDS_WITHIN).ended or "has closed its connection"
        death = f"{self} {ended}; what it printed, or the system's log, may say why"
        self._deaths += 1
        if self._deaths >= self.worker.deaths_in_a_row or self.setup.feeds:
            raise RuntimeError(death) from None
        warnings.warn(f"{death}. Another worker resumes after its last item", RuntimeWarning, stacklevel=2)
        self.worker.close()

    def expect_to_read(self) -> None:
        """Raise the error of a dead worker that could not read at all."""
        with suppress(*DISCONNECTED):
            while self.worker.connection.poll():
                self._expect_no_failure(self._receiver.receive())

    def _wait(self, interruption: Connection, dispatcher: WorkerConnection | None) -> None:
        """Wait until a message arrives, or raise an error that says why none does."""
        stopped: list[WorkerConnection] = []
        patience = _CHECK_INTERVAL if self._timeout is None else min(self._timeout, _CHECK_INTERVAL)
        began = time.monotonic()
        connection = self.worker.connection
        while not (ready := mp_connection.wait([connection, interruption], patience)):
            statuses = {each: each.worker.status() for each in (self, dispatcher) if each is not None}
            status = statuses[self]
            if self._timeout is not None and time.monotonic() - began >= self._timeout:
                raise TimeoutError(f"{self} gave no item for timeout={self._timeout} s{status.activity}")
            if status.ended is not None and not connection.poll():
                raise EOFError  # processes that the worker started keep the connection open
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
        self.setup = replace(self.setup, options=replace(self.setup.options, worker_prefetch=capacity))
        self._receiver.resize(capacity)

    def close(self) -> WorkerHandle:
        """Send the command to end, and return the worker."""
        self._receiver.close()
        self.worker.close()
        return self.worker

    def __str__(self) -> str:
        return f"{self.setup.name} {self.worker}"
