"""What reads elsewhere, the connection to it, and what can be told of it; processes that this one has started."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import psutil  # type: ignore[import-untyped]

from ..workers.processes import context_for, describe_exit, lock, preparations, start
from ..workers.transport import blocks_for_each, receive_parcel_descriptor, send_parcel_descriptor
from .dispatch import run_dispatch
from .line import HUNG_UP
from .watch import Sighting
from .worker import run

__all__ = ["Child", "ChildProcess", "ChildProcesses", "Children", "insist_on_end"]

PATIENCE = 2.0
"""Seconds that a process has to end by itself, and again when it is terminated, before it is killed."""


class Child(ABC):
    """What this process has started elsewhere, and the connection to it."""

    connection: Connection
    max_blocks = 0
    """How many blocks of shared memory may lead from there to here."""
    deaths_in_a_row = 1
    """How many may die, one in the place of the other, with nothing given between, until that is an error."""

    def take_sighting(self) -> bool:
        """Receive what tells of its doings, where that is sent, as the first thing; False where it has come."""
        return False

    @abstractmethod
    def seen(self) -> str:
        """Return what it was at, as the rest of a sentence, where that is known."""

    @abstractmethod
    def end(self, patience: float = PATIENCE) -> str | None:
        """Return how it ended, and what it was at; None where it does not end within so many seconds."""

    def is_stopped(self) -> bool:
        """Say whether it is stopped, as by SIGSTOP."""
        return False

    @abstractmethod
    def let_go(self) -> None:
        """Close what leads there."""

    @abstractmethod
    def kill(self) -> None:
        """End it, whatever it is at."""


class Children(ABC):
    """What is started elsewhere for one chain."""

    @abstractmethod
    def preparations(self) -> list[Callable[[], object]]:
        """Return what each of them is to call first."""

    @abstractmethod
    def name(self, worker_id: int, num_workers: int) -> str:
        """Return how errors call a worker."""

    @abstractmethod
    def worker(self, worker_id: int, dispatched: dict[tuple[int, int], Any]) -> Child:
        """Start a worker, which gets the ends of lines along which shards of dispatched streams come."""

    @abstractmethod
    def dispatcher(self, lines: list[tuple[int, int]]) -> tuple[Child, dict[tuple[int, int], Any]]:
        """Start what reads dispatched streams; return it, and the workers' end of each line, of a stream and shard."""

    def interrupt(self, is_given_up: bool) -> None:
        """Let a thread that waits for a worker to start raise Interrupted, for as long as the pass is given up."""

    @abstractmethod
    def end(self, children: Iterable[Child]) -> None:
        """Wait for those that were told to end; those that do not end by themselves are killed."""


class ChildProcess(Child):
    """A process, its end of a connection being the first argument of what it runs.

    `ends` of other connections are sent along it: a fork server takes over 256 descriptors at most.
    """

    def __init__(
        self,
        start_method: str | None,
        name: str,
        target: Callable[..., None],
        argument: Any,
        ends: Iterable[Connection] = (),
    ) -> None:
        context: Any = context_for(start_method, run.__module__)
        self.connection, theirs = context.Pipe(duplex=True)
        self.process: BaseProcess = context.Process(target=target, args=(theirs, argument), name=name, daemon=True)
        start(self.process)
        theirs.close()  # so that the process's end is the only one, and its death is seen at once
        self._sighting: Sighting | None = None
        try:
            with suppress(*HUNG_UP):  # what has died is met when it is to tell something
                for end in ends:
                    send_parcel_descriptor(self.connection, os.dup(end.fileno()))
        except BaseException:  # as where no descriptor is left
            self.kill()
            self.connection.close()
            raise

    def take_sighting(self) -> bool:
        if self._sighting is not None:
            return False
        self._sighting = Sighting(receive_parcel_descriptor(self.connection))
        return True

    def seen(self) -> str:
        return "" if self._sighting is None else str(self._sighting)

    def end(self, patience: float = PATIENCE) -> str | None:
        _wait_for(self.process, patience)
        with lock:
            ended = self.process.exitcode
        return None if ended is None else f"{describe_exit(ended)}{self.seen()}"

    def is_stopped(self) -> bool:
        try:
            return bool(psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def let_go(self) -> None:
        self.connection.close()
        if self._sighting is not None:
            self._sighting.close()

    def kill(self) -> None:
        with lock:
            self.process.kill()

    def __str__(self) -> str:
        return f"(process {self.process.pid})"


class ChildProcesses(Children):
    """Processes of this machine."""

    def __init__(self, start_method: str | None, num_workers: int) -> None:
        self._start_method = start_method
        self._max_blocks = blocks_for_each(num_workers)

    def preparations(self) -> list[Callable[[], object]]:
        return preparations()

    def name(self, worker_id: int, num_workers: int) -> str:
        return f"worker {worker_id} of {num_workers}"

    def worker(self, worker_id: int, dispatched: dict[tuple[int, int], Any]) -> Child:
        name, lines = f"penstock-worker-{worker_id}", [*dispatched]
        child = ChildProcess(self._start_method, name, run, lines, dispatched.values())
        child.max_blocks = self._max_blocks
        return child

    def dispatcher(self, lines: list[tuple[int, int]]) -> tuple[Child, dict[tuple[int, int], Any]]:
        context: Any = context_for(self._start_method, run.__module__)
        pairs = {line: context.Pipe() for line in lines}
        ends = [end for _, end in pairs.values()]
        points = [point for point, _ in lines]
        child = ChildProcess(self._start_method, "penstock-dispatcher", run_dispatch, points, ends)
        for end in ends:
            end.close()
        return child, {line: worker_end for line, (worker_end, _) in pairs.items()}

    def end(self, children: Iterable[Child]) -> None:
        processes = [child.process for child in children if isinstance(child, ChildProcess)]
        insist_on_end(processes)
        with lock:
            for process in processes:
                process.close()


def insist_on_end(processes: list[BaseProcess]) -> None:
    """Wait until processes that were told to end have ended; those that do not end by themselves are killed."""
    for insist in (None, BaseProcess.terminate, BaseProcess.kill):
        deadline = time.monotonic() + PATIENCE
        for process in processes:
            with lock:
                if insist is not None and process.is_alive():
                    insist(process)
        for process in processes:
            _wait_for(process, max(deadline - time.monotonic(), 0))


def _wait_for(process: BaseProcess, patience: float) -> None:
    """Wait until a process has ended, and not with the lock held, as `join` would have to be called."""
    if mp_connection.wait([process.sentinel], patience):
        with lock:
            process.join(PATIENCE)  # it has let go of all it had, and is gone in a moment
