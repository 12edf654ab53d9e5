"""How a process that reads for another begins."""

from __future__ import annotations

import signal
from collections.abc import Callable
from multiprocessing.connection import Connection

import cloudpickle  # type: ignore[import-untyped]
import torch

from ..workers.processes import end_with_parent, refuse_breakpoints
from ..workers.transport import receive_parcel_descriptor, send_parcel_descriptor
from .worker_status import Watch

__all__ = ["begin", "prepare", "received_ends"]


def begin(to_parent: Connection) -> Watch:
    """Let this process end with its parent, and return its `Watch`, whose descriptor the parent gets."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends the workers
    end_with_parent()
    refuse_breakpoints()
    torch.set_num_threads(1)
    watch = Watch()
    send_parcel_descriptor(to_parent, watch.descriptor())
    return watch


def received_ends(connection: Connection, number: int) -> list[Connection]:
    """Return the ends of `number` other connections, which the parent sends along this one."""
    return [Connection(receive_parcel_descriptor(connection)) for _ in range(number)]


def prepare(connection: Connection) -> None:
    """Call the preparations that the other end sends."""
    preparations: list[Callable[[], object]] = cloudpickle.loads(connection.recv_bytes())
    for preparation in preparations:
        preparation()
