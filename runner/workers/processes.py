"""The workers of a chain, as their main process sees them, and those that are processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import psutil  # type: ignore[import-untyped]

from ...workers.processes import context_for, describe_exit, lock, preparations, start
from ...workers.transport import send_parcel_descriptor
from .protocol import DISCONNECTED
from .status import WorkerStatus, new_status_file, read_activity
from .worker import run_worker

ENDS_WITHIN = 2.0
"""Seconds for a process to end by itself, and again after it is terminated, before it is killed."""


class WorkerHandle(ABC):
    """A process that the main process, or an actor, started to read for it, and the connection to it."""

    connection: Connection
    feeds: Sequence[Connection] = ()
    """The other ends of its connections for shards of dispatched streams."""
    deaths_in_a_row = 1
    """How many deaths in a row, with no message between, are an error."""

    @abstractmethod
    def preparations(self) -> list[Callable[[], object]]:
        """Return what the process calls first."""

    @abstractmethod
    def status(self, patience: float = 0) -> WorkerStatus:
        """Return its status, once it has ended or after `patience` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection to it."""

    def kill(self) -> None:
        """End it, whatever it is doing."""
        self.close()


class ProcessHandle(WorkerHandle):
    """A process of this machine, which gets its status file and `ends` of other connections; these are closed here.

    They are sent along the connection to it, since a fork server passes on 256 descriptors at most. If `to_main` is
    given, the process reads for the main process at its other end.
    """

    def __init__(
        self, start_method: str | None, name: str, ends: Sequence[Connection] = (), to_main: Connection | None = None
    ) -> None:
        context: Any = context_for(start_method, run_worker.__module__)
        self.connection, theirs = context.Pipe(duplex=True)
        arguments = (theirs, len(ends), to_main)
        self.process: BaseProcess = context.Process(target=run_worker, args=arguments, name=name, daemon=True)
        start(self.process)
        theirs.close()  # else this copy would hide the process's death
        self._status_file: int | None = None
        try:
            self._status_file = new_status_file()
            with suppress(*DISCONNECTED):  # a death shows at the next receive
                for descriptor in (self._status_file, *(end.fileno() for end in ends)):
                    send_parcel_descriptor(self.connection, os.dup(descriptor))
        except BaseException:  # such as no descriptor left
            self.kill()
            self.close()
            raise
        for end in ends:
            end.close()

    def preparations(self) -> list[Callable[[], object]]:
        return preparations()

    def status(self, patience: float = 0) -> WorkerStatus:
        _join(self.process, patience)
        with lock:
            exit_code = self.process.exitcode
        activity = "" if self._status_file is None else read_activity(self._status_file)
        if exit_code is not None:
            return WorkerStatus(activity, f"{describe_exit(exit_code)}{activity}")
        try:
            is_stopped = psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            is_stopped = False
        return WorkerStatus(activity, is_stopped=is_stopped)

    def close(self) -> None:
        self.connection.close()
        descriptor, self._status_file = self._status_file, None
        if descriptor is not None:
            os.close(descriptor)

    def kill(self) -> None:
        with lock:
            self.process.kill()

    def __str__(self) -> str:
        return f"(process {self.process.pid})"


class WorkerBackend(ABC):
    """Starts and ends the workers of one chain."""

    start_method: str | None = None
    kind = "worker"
    """What errors call a worker."""

    @abstractmethod
    def worker(self, worker_id: int, feeds: int) -> WorkerHandle:
        """Start a worker, with so many connections for shards of dispatched streams."""

    def interrupt(self, is_interrupted: bool) -> None:
        """Make a thread that waits for a worker to start raise Interrupted, while the pass is abandoned."""

    @abstractmethod
    def end(self, workers: Iterable[WorkerHandle]) -> None:
        """Wait for those that got the command to end; kill those that do not end by themselves."""


class ProcessBackend(WorkerBackend):
    """Starts and ends processes of this machine."""

    def __init__(self, start_method: str | None) -> None:
        self.start_method = start_method

    def worker(self, worker_id: int, feeds: int) -> WorkerHandle:
        pairs = [multiprocessing.Pipe() for _ in range(feeds)]
        worker = ProcessHandle(self.start_method, f"penstock-worker-{worker_id}", [theirs for _, theirs in pairs])
        worker.feeds = [ours for ours, _ in pairs]
        return worker

    def end(self, workers: Iterable[WorkerHandle]) -> None:
        end_handles(workers)


def end_handles(workers: Iterable[WorkerHandle]) -> None:
    """Wait for processes of this machine that got the command to end, and end those that do not."""
    processes = [worker.process for worker in workers if isinstance(worker, ProcessHandle)]
    end_processes(processes)
    with lock:
        for process in processes:
            if process.exitcode is not None:  # one that was killed may still give back its memory
                process.close()


def end_processes(processes: list[BaseProcess]) -> None:
    """Wait for processes that got the command to end; terminate, then kill those that do not."""
    for insist in (None, BaseProcess.terminate, BaseProcess.kill):
        deadline = time.monotonic() + ENDS_WITHIN
        for process in processes:
            with lock:
                if insist is not None and process.is_alive():
                    insist(process)
        for process in processes:
            _join(process, max(deadline - time.monotonic(), 0))


def _join(process: BaseProcess, patience: float) -> None:
    """Wait until a process has ended, without the lock that `join` needs."""
    if mp_connection.wait([process.sentinel], patience):
        with lock:
            process.join(ENDS_WITHIN)  # its descriptors are closed, so it ends in a moment
