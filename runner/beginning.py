"""How a process begins that reads for another."""

from __future__ import annotations

import signal
from collections.abc import Callable
from multiprocessing.connection import Connection

import cloudpickle  # type: ignore[import-untyped]
import torch

from ..workers.processes import end_with_parent
from ..workers.transport import receive_parcel_descriptor, send_parcel_descriptor
from .watch import Watch

__all__ = ["begin", "prepare", "received_ends"]


def begin(to_parent: Connection) -> Watch:
    """Let this process live no longer than its parent, and return what it is watched with, told to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends the workers
    end_with_parent()
    torch.set_num_threads(1)
    watch = Watch()
    send_parcel_descriptor(to_parent, watch.descriptor())
    return watch


def received_ends(connection: Connection, number: int) -> list[Connection]:
    """Return the ends of so many other connections, which the parent sends along one."""
    return [Connection(receive_parcel_descriptor(connection)) for _ in range(number)]


def prepare(connection: Connection) -> None:
    """Do what is to be done first, as the process says for which this one reads."""
    preparations: list[Callable[[], object]] = cloudpickle.loads(connection.recv_bytes())
    for preparation in preparations:
        preparation()
