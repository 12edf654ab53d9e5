"""A process that this one has started, the connection to it, and what can be told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import psutil  # type: ignore[import-untyped]

from ..pipes.processes import context_for, describe_exit, lock, start
from ..pipes.transport import receive_parcel_descriptor
from .watch import Sighting

__all__ = ["PATIENCE", "Child", "end_all"]

PATIENCE = 2.0
"""Seconds that a process has to end by itself, and again when it is terminated, before it is killed."""


class Child:
    """A process, its end of a connection being the first argument of what it runs."""

    def __init__(self, start_method: str | None, name: str, target: Callable[..., None], argument: Any) -> None:
        context: Any = context_for(start_method, f"{__package__}.worker")
        self.connection: Connection
        self.connection, theirs = context.Pipe(duplex=True)
        self.process: BaseProcess = context.Process(target=target, args=(theirs, argument), name=name, daemon=True)
        start(self.process)
        theirs.close()  # so that the process's end is the only one, and its death is seen at once
        self._sighting: Sighting | None = None

    def take_sighting(self) -> bool:
        """Receive, as the first thing that the process sends, what it tells of its doings; False where it has come."""
        if self._sighting is not None:
            return False
        self._sighting = Sighting(receive_parcel_descriptor(self.connection))
        return True

    def seen(self) -> str:
        """Return what the process was at, as the rest of a sentence, where that is known."""
        return "" if self._sighting is None else str(self._sighting)

    def end(self, patience: float = PATIENCE) -> str | None:
        """Return how the process ended, and what it was at; None where it does not end within so many seconds."""
        _wait_for(self.process, patience)
        with lock:
            ended = self.process.exitcode
        return None if ended is None else f"{describe_exit(ended)}{self.seen()}"

    def is_stopped(self) -> bool:
        """Say whether the process is stopped, as by SIGSTOP."""
        try:
            return bool(psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED)
        except psutil.NoSuchProcess:
            return False

    def let_go(self) -> None:
        """Close what leads to the process."""
        self.connection.close()
        if self._sighting is not None:
            self._sighting.close()


def end_all(processes: Iterable[BaseProcess]) -> None:
    """Wait for processes that were told to end; those that do not end by themselves are killed."""
    processes = [*processes]
    for insist in (None, BaseProcess.terminate, BaseProcess.kill):
        deadline = time.monotonic() + PATIENCE
        for process in processes:
            with lock:
                if insist is not None and process.is_alive():
                    insist(process)
        for process in processes:
            _wait_for(process, max(deadline - time.monotonic(), 0))
    with lock:
        for process in processes:
            process.close()


def _wait_for(process: BaseProcess, patience: float) -> None:
    """Wait until a process has ended, and not with the lock held, as `join` would have to be called."""
    if mp_connection.wait([process.sentinel], patience):
        with lock:
            process.join(PATIENCE)  # it has let go of all it had, and is gone in a moment
