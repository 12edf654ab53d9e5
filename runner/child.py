"""Readers elsewhere, the connections to them, and their status; readers in child processes."""

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
from .protocol import HUNG_UP
from .worker import run_worker
from .worker_status import Sighting

__all__ = ["Child", "ChildProcess", "ChildProcesses", "Children", "insist_on_end"]

ENDS_WITHIN = 2.0
"""Seconds for a process to end by itself, and again after it is terminated, before it is killed."""


class Child(ABC):
    """A reader that this process started elsewhere, and the connection to it."""

    connection: Connection
    max_blocks = 0
    """How many blocks of shared memory the reader may send in."""
    deaths_in_a_row = 1
    """How many deaths in a row, with nothing given between, are an error."""

    def take_sighting(self) -> bool:
        """Receive its `Sighting`, which comes first if it is sent; False once it has come."""
        return False

    @abstractmethod
    def seen(self) -> str:
        """Return what it was doing, as the rest of a sentence, if known."""

    @abstractmethod
    def end(self, patience: float = ENDS_WITHIN) -> str | None:
        """Return how it ended, and what it was doing; None if it does not end within `patience` seconds."""

    def is_stopped(self) -> bool:
        """Say whether it is stopped, as by SIGSTOP."""
        return False

    @abstractmethod
    def let_go(self) -> None:
        """Close the connection to it."""

    @abstractmethod
    def kill(self) -> None:
        """End it, whatever it is doing."""


class Children(ABC):
    """The readers started elsewhere for one chain."""

    @abstractmethod
    def preparations(self) -> list[Callable[[], object]]:
        """Return what each of them calls first."""

    @abstractmethod
    def name(self, worker_id: int, num_workers: int) -> str:
        """Return a worker's name in errors."""

    @abstractmethod
    def worker(self, worker_id: int, dispatched: dict[tuple[int, int], Any]) -> Child:
        """Start a worker, with its ends of the lines for shards of dispatched streams."""

    @abstractmethod
    def dispatcher(self, lines: list[tuple[int, int]]) -> tuple[Child, dict[tuple[int, int], Any]]:
        """Start the reader of dispatched streams; return it, and the workers' end of each (stream, shard) line."""

    def interrupt(self, is_given_up: bool) -> None:
        """Make a thread that waits for a worker to start raise Interrupted, while the pass is abandoned."""

    @abstractmethod
    def end(self, children: Iterable[Child]) -> None:
        """Wait for those that were told to end; kill those that do not end by themselves."""


class ChildProcess(Child):
    """A process that gets its end of a connection as the first argument.

    `ends` of other connections are sent along it: a fork server passes on 256 descriptors at most.
    """

    def __init__(
        self,
        start_method: str | None,
        name: str,
        target: Callable[..., None],
        argument: Any,
        ends: Iterable[Connection] = (),
    ) -> None:
        context: Any = context_for(start_method, run_worker.__module__)
        self.connection, theirs = context.Pipe(duplex=True)
        self.process: BaseProcess = context.Process(target=target, args=(theirs, argument), name=name, daemon=True)
        start(self.process)
        theirs.close()  # else this copy would hide the process's death
        self._sighting: Sighting | None = None
        try:
            with suppress(*HUNG_UP):  # a death shows at the next receive
                for end in ends:
                    send_parcel_descriptor(self.connection, os.dup(end.fileno()))
        except BaseException:  # such as no descriptor left
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

    def end(self, patience: float = ENDS_WITHIN) -> str | None:
        _join(self.process, patience)
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
        child = ChildProcess(self._start_method, name, run_worker, lines, dispatched.values())
        child.max_blocks = self._max_blocks
        return child

    def dispatcher(self, lines: list[tuple[int, int]]) -> tuple[Child, dict[tuple[int, int], Any]]:
        context: Any = context_for(self._start_method, run_worker.__module__)
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
                if process.exitcode is not None:  # one that was killed may still give back its memory
                    process.close()


def insist_on_end(processes: list[BaseProcess]) -> None:
    """Wait for processes that were told to end; terminate, then kill those that do not."""
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
