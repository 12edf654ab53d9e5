"""The workers of a chain: starts them, receives their items, ends them."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
import weakref
from dataclasses import replace
from functools import partial
from typing import Any

from ...errors.notes import add_note
from ...registry import PassPath
from ...workers.processes import processors
from ...workers.threads import Interrupted
from ...workers.transport import blocks_for_each
from ..options import Division, ReadOptions, WorkerInfo
from ..positions import Epoch, Message, Report, ShardPosition
from .chain_pickle import pickled_chain, pickled_for_workers
from .connection import WorkerConnection
from .dispatch import STREAM_READER, divided
from .processes import ProcessHandle, WorkerBackend, end_handles
from .protocol import error_in
from .worker import Setup

_OF_NO_SHARD = -1
"""Takes the place of a shard for counts of the workers themselves."""

_ABANDONS_WITHIN = 3.0
"""Seconds for a worker to finish its item of an abandoned epoch, before new workers take over."""


_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


def _leave_pools_to_parent() -> None:
    for pool in list(_pools):
        pool.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_pools_to_parent)


class WorkerPool:
    """Worker processes that read shards of a chain, and the one that reads its dispatched streams, if it has any."""

    def __init__(self, options: ReadOptions, division: Division) -> None:
        chain, self._streams = divided(options.chain)
        self._pickled_streams = pickled_chain(self._streams)
        self._chain = pickled_for_workers(chain, options.chain, options.num_workers)
        assert options.start is not None
        self._options = options
        self._backend: WorkerBackend = options.start()
        self.broken = False
        self._division = division
        self._epoch = Epoch(0, 0, PassPath(0))
        self._connections: list[WorkerConnection] = []
        self._dispatcher: WorkerConnection | None = None
        self._reports: dict[tuple[int, tuple[int, int]], bytes] = {}
        """The last report of each shard in each reading of this epoch, pickled."""
        self._interruption, self._interrupt = multiprocessing.Pipe(duplex=False)
        _pools.add(self)

    def open(self) -> None:
        """Start the workers."""
        self._start(self._options.num_workers)

    def _start(self, num_workers: int) -> None:
        """Start the workers that are missing, and the reader of dispatched streams."""
        options, division = self._options.for_workers(), self._division
        shards = [(stream, shard) for stream in range(len(self._streams)) for shard in division.shards]
        blocks = blocks_for_each(max(num_workers, processors()))
        try:
            for number in range(len(self._connections), num_workers):
                feeds = [each for each in shards if division.worker(each[1], num_workers) == number]
                name, worker = f"{self._backend.kind} {number} of {num_workers}", WorkerInfo(num_workers, number)
                setup = Setup(name, self._chain, division, options, blocks, worker, feeds)
                start = partial(self._backend.worker, number, len(feeds))
                self._connections.append(WorkerConnection(setup, start, self._options.timeout))
            if self._streams:
                self._dispatcher = self._start_dispatcher()
        except BaseException:
            self.shutdown()
            raise

    def _start_dispatcher(self) -> WorkerConnection:
        ends = {
            key: end
            for connection in self._connections
            for key, end in zip(connection.setup.feeds, connection.worker.feeds, strict=True)
        }
        options, blocks = self._options.for_workers(), blocks_for_each(len(ends))
        setup = Setup(STREAM_READER, self._pickled_streams, self._division, options, blocks, None, [*ends])
        start = partial(ProcessHandle, self._backend.start_method, "penstock-dispatcher", [*ends.values()])
        return WorkerConnection(setup, start)

    def resize(self, num_workers: int, prefetch: int) -> None:
        """Read through so many workers from the next `begin` on, each `prefetch` items ahead from now on."""
        self._options = replace(self._options, worker_prefetch=prefetch)
        if num_workers != len(self._connections):
            # A dispatcher's connections lead from one worker each.
            self._end_workers(0 if self._dispatcher is not None else num_workers)
            self._start(num_workers)
        for connection in self._connections:
            connection.resize(prefetch)

    def idle(self) -> float:
        """Return for how many seconds the workers waited for credit, by their last reports."""
        return sum(connection.idle for connection in [*self._connections])

    def begin(self, epoch: Epoch, positions: list[ShardPosition], resumes: bool = False) -> None:
        """Let every worker begin an epoch with its shards, or resume it; shards left out are not read.

        Afterwards the pool is `broken` if a process is stuck in an abandoned epoch.
        """
        abandoned = [connection for connection in self._connections if connection.is_reading]
        self._epoch = replace(epoch, number=self._epoch.number + 1)
        if not resumes:
            self._reports = {}
        self._backend.interrupt(False)
        while self._interruption.poll():
            self._interruption.recv_bytes()
        deadline = time.monotonic() + _ABANDONS_WITHIN
        if self._dispatcher is not None:
            self._dispatcher.begin(self._epoch, [])
            self.broken = not self._dispatcher.has_begun(deadline)
            if self.broken:
                return
        for connection in self._connections:
            own = [each for each in positions if self._connection_of(each.shard) is connection]
            connection.begin(self._epoch, own)
        for connection in abandoned:
            if not connection.has_begun(deadline):
                connection.worker.kill()
                self.broken = True

    def receive(self, shard: int) -> Message:
        """Return the shard's next item or its end, as its worker sends it; raise the worker's error."""
        connection = self._connection_of(shard)
        try:
            message = connection.receive(self._interruption, self._dispatcher)
        except Interrupted:
            self.broken = connection.worker.connection.closed  # interrupted while replacing a dead worker
            raise
        except BaseException as error:  # a worker is gone, or half a message was read
            self.broken = True
            add_note(error, f"penstock: waiting for the next item of shard {shard} of {self._division.num_shards}")
            if self._dispatcher is not None and (activity := self._dispatcher.worker.status().activity):
                add_note(error, f"penstock: {self._dispatcher}{activity}")
            raise
        if message.error is not None:
            failure = error_in(message)
            # A process's death may take a moment to show.
            if self._dispatcher is not None and (ended := self._dispatcher.worker.status(0.2).ended) is not None:
                self.broken = True
                self._dispatcher.expect_to_read()
                add_note(failure, f"penstock: {self._dispatcher} {ended}")
            raise failure
        if isinstance(message.report, bytes):
            self._reports[shard, message.reading] = message.report
        return message

    def stats(self) -> dict[int, dict[str, dict[str, Any]]]:
        """Return the counts of the steps of each shard, at its worker's last report."""
        last = {shard: report for (shard, _), report in [*self._reports.items()]}  # a state carries the counts on
        reports: list[Report] = [pickle.loads(report) for report in last.values()]
        stats = {report.shard: report.stats for report in reports}
        if replaced := sum(connection.replaced for connection in self._connections):
            stats[_OF_NO_SHARD] = {"workers": {"replaced": replaced}}
        return stats

    def reports(self) -> list[Report]:
        """Return the workers' last reports of each reading, in the order of the shards."""
        return [pickle.loads(pickled) for _, pickled in sorted([*self._reports.items()])]

    def interrupt(self) -> None:
        """Make a `receive` that waits in another thread raise Interrupted."""
        self._backend.interrupt(True)
        if not self._interrupt.closed:
            self._interrupt.send_bytes(b"!")

    def leave_to_parent(self) -> None:
        """Close the connections without a message, in a process forked from the workers' owner."""
        self.broken = True
        workers = [each.worker for each in (*self._connections, self._dispatcher) if each is not None]
        self._connections, self._dispatcher = [], None
        for worker in workers:
            worker.close()
        self._interruption.close()
        self._interrupt.close()

    def shutdown(self) -> None:
        """End all workers; kill those that do not end by themselves."""
        self._end_workers(0)
        self._interruption.close()
        self._interrupt.close()

    def _end_workers(self, first: int) -> None:
        """End the workers from the `first` on, and the dispatcher."""
        workers = [connection.close() for connection in self._connections[first:]]
        del self._connections[first:]
        if self._dispatcher is not None:
            end_handles([self._dispatcher.close()])
            self._dispatcher = None
        self._backend.end(workers)

    def _connection_of(self, shard: int) -> WorkerConnection:
        if not self._connections:
            raise RuntimeError(
                "the workers belong to the process from which this one was forked off: begin a new epoch"
            )
        return self._connections[self._division.worker(shard, len(self._connections))]
