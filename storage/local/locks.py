"""Locks between processes; a lock ends with its owner, even on a crash."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
"""Seconds between attempts, doubled each time: a blocking `flock` has no timeout and cannot be given up."""


class FileLock:
    """Hold the lock on the file `path` during the `with` block; the file exists only as long, and names the owner.

    The system releases a lock when its owner ends, even by `kill -9`; the file then stays, and `left_behind` is True
    for the next owner. Raises TimeoutError, naming the owner, if another process holds the lock for more than `timeout`
    seconds, InterruptedError once `given_up` is set, and OSError for a symbolic link and on a disk without locks.

    Not by the library filelock, where a lock takes ten times as long: 0.7 ms, of which `cache_files` needs two a file.
    """

    def __init__(self, path: str, timeout: float, given_up: threading.Event) -> None:
        self.path = path
        self.left_behind = False
        self._timeout = timeout
        self._given_up = given_up
        self._file = -1

    def __enter__(self) -> Self:
        deadline, pause = time.monotonic() + self._timeout, _FIRST_PAUSE
        while not self._taken():
            if time.monotonic() > deadline:
                text = f"is held by {self._owner()}, which has not released it within {self._timeout} s"
                raise TimeoutError(f"{self.path!r} {text}")
            if self._given_up.wait(pause):
                raise InterruptedError(f"the pass was given up while it waited for {self.path!r}")
            pause = min(2 * pause, _LONGEST_PAUSE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(FileNotFoundError):  # somebody emptied the folder
            os.unlink(self.path)  # before the release: afterwards the file may be another owner's
        os.close(self._file)

    def _taken(self) -> bool:
        import fcntl  # not at the top: Windows has none, and must import the rest of the package

        # O_NONBLOCK: do not wait for the other end of a pipe.
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file)
            if status.st_nlink:  # else the owner removed the file between open and flock
                if status.st_size > 0:  # ext4 waits for the disk when a file is truncated, even an empty one
                    self.left_behind = True
                    os.ftruncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                self._file = file
                return True
        except BlockingIOError:
            pass
        except BaseException as error:
            os.close(file)
            if isinstance(error, OSError):
                error.filename = self.path
            raise
        os.close(file)
        return False

    def _owner(self) -> str:
        try:
            return Path(self.path).read_text(encoding="utf-8") or "another process"
        except FileNotFoundError:
            return "another process"
