"""Locks between processes; a lock ends with its owner, even on a crash."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from .trust import Untrusted, open_trusted

__all__ = ["FileLock"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
"""Seconds between attempts, doubled each time: a blocking `flock` has no timeout and cannot be given up."""


class FileLock:
    """Hold the lock on the file `path` during the `with` block; the file exists only as long.

    The system releases a lock when its owner ends, even by `kill -9`; the file then stays, and `left_behind` is True
    for the next owner. In a folder that a group shares, the next owner may be another user. Raises TimeoutError, naming
    the owner, if another process holds the lock for more than `timeout` seconds, InterruptedError once `given_up` is
    set, and PermissionError for a link, for a file that another user may have planted, and for a lock that another user
    left and that may not be removed.
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
                raise TimeoutError(
                    f"{self.path!r} is held by {self._owner()}, which has not released it within {self._timeout} s"
                )
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

        try:
            file = open_trusted(self.path, os.O_RDWR | os.O_CREAT)
        except PermissionError as error:
            if isinstance(error, Untrusted) or not os.access(os.path.dirname(self.path) or ".", os.W_OK):
                raise
            self._remove_if_left_behind()
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = self._is_named(file)  # False if the owner removed the file between open and flock
            if taken:
                has_text = os.fstat(file).st_size > 0
                self.left_behind |= has_text
                if has_text:  # ext4 waits for the disk when a file is truncated, even an empty one
                    os.truncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                self._file = file
        except BlockingIOError:
            taken = False
        except BaseException as error:
            os.close(file)
            if isinstance(error, OSError) and error.filename is None:
                error.filename = self.path
            raise
        if not taken:
            os.close(file)
        return taken

    def _remove_if_left_behind(self) -> None:
        """Remove the file of another user, which cannot be written to, if no process holds its lock."""
        import fcntl

        try:
            with open(self.path, "rb", opener=open_trusted) as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_named(file.fileno()):
                    os.unlink(self.path)
                    self.left_behind = True
        except (BlockingIOError, FileNotFoundError):  # its owner lives, or has removed it just now
            pass
        except OSError as error:
            raise PermissionError(
                errno.EACCES,
                f"another user made this lock ({error.strerror}): remove it if no process uses it",
                self.path,
            ) from error

    def _is_named(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _owner(self) -> str:
        try:
            with open(self.path, encoding="utf-8", opener=open_trusted) as file:
                return file.read() or "another process"
        except FileNotFoundError:
            return "another process"
