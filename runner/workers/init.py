"""The start of a process that reads for another."""

from __future__ import annotations

import signal
from collections.abc import Callable
from multiprocessing.connection import Connection

import cloudpickle  # type: ignore[import-untyped]
import torch

from ...workers.processes import end_with_parent, refuse_breakpoints
from ...workers.transport import receive_parcel_descriptor
from .status import StatusWriter

__all__ = ["initialize_process", "receive_connections", "run_preparations"]


def initialize_process(to_parent: Connection) -> StatusWriter:
    """Let this process end with its parent, and return a writer to the status file that the parent sends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends the workers
    end_with_parent()
    refuse_breakpoints()
    torch.set_num_threads(1)
    return StatusWriter(receive_parcel_descriptor(to_parent))


def receive_connections(connection: Connection, number: int) -> list[Connection]:
    """Return the ends of `number` other connections, which the parent sends along this one."""
    return [Connection(receive_parcel_descriptor(connection)) for _ in range(number)]


def run_preparations(connection: Connection) -> None:
    """Call the preparations that the other end sends."""
    preparations: list[Callable[[], object]] = cloudpickle.loads(connection.recv_bytes())
    for preparation in preparations:
        preparation()
