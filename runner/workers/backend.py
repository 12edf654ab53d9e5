"""Workers started elsewhere: the handle of one, and the backend that starts those of a chain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from typing import Any

from .status import WorkerStatus

__all__ = ["ENDS_WITHIN", "WorkerBackend", "WorkerHandle"]

ENDS_WITHIN = 2.0
"""Seconds for a process to end by itself, and again after it is terminated, before it is killed."""


class WorkerHandle(ABC):
    """A worker that this process started elsewhere, and the connection to it."""

    connection: Connection
    max_blocks = 0
    """How many blocks of shared memory the worker may send in."""
    deaths_in_a_row = 1
    """How many deaths in a row, with no message between, are an error."""

    @abstractmethod
    def status(self, patience: float = 0) -> WorkerStatus:
        """Return its status, once it has ended or after `patience` seconds."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection to it."""

    @abstractmethod
    def kill(self) -> None:
        """End it, whatever it is doing."""


class WorkerBackend(ABC):
    """The workers started elsewhere for one chain."""

    @abstractmethod
    def preparations(self) -> list[Callable[[], object]]:
        """Return what each of them calls first."""

    @abstractmethod
    def name(self, worker_id: int, num_workers: int) -> str:
        """Return a worker's name in errors."""

    @abstractmethod
    def worker(self, worker_id: int, dispatched: dict[tuple[int, int], Any]) -> WorkerHandle:
        """Start a worker, with its ends of the connections for shards of dispatched streams."""

    @abstractmethod
    def dispatcher(self, streams: list[tuple[int, int]]) -> tuple[WorkerHandle, dict[tuple[int, int], Any]]:
        """Start the reader of dispatched streams; return it, and the workers' ends by their (stream, shard)."""

    def interrupt(self, is_interrupted: bool) -> None:
        """Make a thread that waits for a worker to start raise Interrupted, while the pass is abandoned."""

    @abstractmethod
    def end(self, workers: Iterable[WorkerHandle]) -> None:
        """Wait for those that got the command to end; kill those that do not end by themselves."""
