"""A second process with another hash seed, which reads chains for a law."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ..state.seeds import seed_graph
from .probes import items_of

__all__ = ["items_there", "serve"]

_HASH_SEEDS = ("1", "2")
_CODE = "import sys; sys.path[:] = sys.argv[2:]; from {} import serve; serve(int(sys.argv[1]))"


def items_there(pickled: bytes, states: Sequence[Any]) -> list[list[Any]]:
    """Return what a process with another hash seed reads of a chain: all of it, and the rest after each of some states.

    Raises AssertionError with the traceback where the chain fails there.
    """
    connection = _idle.pop() if _idle else _started()
    try:
        connection.send_bytes(cloudpickle.dumps((_files_in_memory(), pickled, states)))
        answer = connection.recv_bytes()
    except (EOFError, ConnectionError) as error:
        raise AssertionError("another process ends abruptly when it reads the chain") from error
    _idle.append(connection)
    found: list[list[Any]] | str = cloudpickle.loads(answer)
    if isinstance(found, str):
        raise AssertionError(f"it fails in another process:\n{found}")
    return found


_idle: list[Connection] = []
"""A connection to the process, once one was started; none while a chain is read there, which may hang."""


def _started() -> Connection:
    """Start a process, which ends with this one."""
    seed = next(seed for seed in _HASH_SEEDS if seed != os.environ.get("PYTHONHASHSEED"))
    here, there = Pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _CODE.format(__name__), str(there.fileno()), *sys.path],
        pass_fds=[there.fileno()],
        env={**os.environ, "PYTHONHASHSEED": seed},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    there.close()

    def end() -> None:
        here.close()
        process.kill()
        process.wait()

    atexit.register(end)
    return here


def _files_in_memory() -> dict[str, Any]:
    """Return the files of fsspec's memory://, which are those of one process."""
    module = sys.modules.get("fsspec.implementations.memory")
    return {} if module is None else dict(module.MemoryFileSystem.store)


def serve(descriptor: int) -> None:
    """Read chains for the process at the other end of a connection, until it closes."""
    connection = Connection(descriptor)
    while True:
        try:
            request = connection.recv_bytes()
        except (EOFError, ConnectionError):
            return
        try:
            answer = cloudpickle.dumps(_read(*cloudpickle.loads(request)))
        except Exception:
            answer = cloudpickle.dumps(traceback.format_exc())
        connection.send_bytes(answer)


def _read(files: dict[str, Any], pickled: bytes, states: Sequence[Any]) -> list[list[Any]]:
    if files:
        from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

        MemoryFileSystem.store.update(files)
    pipe = cloudpickle.loads(pickled)
    seed_graph(pipe, 0)
    read = [items_of(pipe)]
    for state in states:
        pipe = cloudpickle.loads(pickled)
        seed_graph(pipe, 1)
        pipe.load_state_dict(state)
        read.append(items_of(pipe))
    return read
