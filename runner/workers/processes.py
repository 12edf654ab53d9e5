"""Worker processes of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import connection as mp_connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import psutil  # type: ignore[import-untyped]

from ...workers.processes import context_for, describe_exit, lock, preparations, start
from ...workers.transport import blocks_for_each, send_parcel_descriptor
from .backend import ENDS_WITHIN, WorkerBackend, WorkerHandle
from .dispatch import run_dispatch
from .protocol import DISCONNECTED
from .status import WorkerStatus, new_status_file, read_activity
from .worker import run_worker

__all__ = ["ProcessBackend", "ProcessHandle", "end_processes"]


class ProcessHandle(WorkerHandle):
    """A process that gets its end of a connection as the first argument.

    Its status file, and `ends` of other connections, are sent along it: a fork server passes on 256 descriptors at
    most.
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


class ProcessBackend(WorkerBackend):
    """Processes of this machine."""

    def __init__(self, start_method: str | None, num_workers: int) -> None:
        self._start_method = start_method
        self._max_blocks = blocks_for_each(num_workers)

    def preparations(self) -> list[Callable[[], object]]:
        return preparations()

    def name(self, worker_id: int, num_workers: int) -> str:
        return f"worker {worker_id} of {num_workers}"

    def worker(self, worker_id: int, dispatched: dict[tuple[int, int], Any]) -> WorkerHandle:
        name, streams = f"penstock-worker-{worker_id}", [*dispatched]
        handle = ProcessHandle(self._start_method, name, run_worker, streams, dispatched.values())
        handle.max_blocks = self._max_blocks
        return handle

    def dispatcher(self, streams: list[tuple[int, int]]) -> tuple[WorkerHandle, dict[tuple[int, int], Any]]:
        context: Any = context_for(self._start_method, run_worker.__module__)
        pairs = {each: context.Pipe() for each in streams}
        ends = [end for _, end in pairs.values()]
        numbers = [number for number, _ in streams]
        handle = ProcessHandle(self._start_method, "penstock-dispatcher", run_dispatch, numbers, ends)
        for end in ends:
            end.close()
        return handle, {each: worker_end for each, (worker_end, _) in pairs.items()}

    def end(self, workers: Iterable[WorkerHandle]) -> None:
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
