"""Incomplete files, under temporary names. Each has a lock that ends with its writer."""

from __future__ import annotations

import functools
import hashlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["beside", "is_part", "lock_beside"]

_START_OF_NAME, _END_OF_PART, _END_OF_LOCK = ".penstock-", ".partial", ".lock"

_LONGEST = 200
"""Most bytes of a file name used inside another name; the system's limit is 255."""

_WEEK = 7 * 24 * 3600.0
"""Seconds without a write after which a file counts as abandoned, if another machine's locks may be invisible."""

_SHARE = 100
"""The scan for leftovers takes at most 1/100 of a writer's time, however large the folder."""

_look_again: dict[str, float] = {}
"""Folder → time of its next scan."""

_MOST_FOLDERS = 1000


def is_part(path: str) -> bool:
    """Say whether a path is one of our incomplete files or locks."""
    name = path.rpartition("/")[2]
    return name.startswith(_START_OF_NAME) and name.endswith((_END_OF_PART, _END_OF_LOCK))


def lock_beside(path: str) -> str:
    """Return the path of the lock for a file that only one process may write at a time."""
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > _LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f"{_START_OF_NAME}{name}{_END_OF_LOCK}")


@contextmanager
def beside(path: str) -> Iterator[str]:
    """Yield the path of a new file in the folder of `path`; rename it to `path` on exit, or remove it on failure.

    Leftovers of killed writers are removed first. Missing folders are created.
    """
    folder = os.path.dirname(path)
    _remove_what_is_left(folder)
    try:
        part, lock = _new_part(path)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        part, lock = _new_part(path)
    try:
        with suppress(FileNotFoundError):
            os.chmod(part, stat.S_IMODE(os.stat(path).st_mode))  # keep the permissions of the file that is replaced
        yield part
        os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError) and error.filename == part and error.filename2 is None:
            error.filename = path
        raise
    finally:
        os.close(lock)


def _new_part(path: str) -> tuple[str, int]:
    """Return the path of a new file beside another, and its descriptor, which holds the lock."""
    while True:
        part = os.path.join(os.path.dirname(path), f"{_START_OF_NAME}{_system()}-{secrets.token_hex(8)}{_END_OF_PART}")
        try:
            lock = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            error.filename = path
            raise
        if _locked(lock) is not False and os.fstat(lock).st_nlink:
            return part, lock
        os.close(lock)  # before the lock was taken, another writer took the file for a leftover


def _locked(file: int) -> bool | None:
    """Lock a file and say whether that succeeded; None if the file system has no locks."""
    import fcntl  # not at the top: Windows has none, and must import the rest of the package

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_what_is_left(folder: str) -> None:
    began = time.monotonic()
    if began < _look_again.get(folder, began):
        return
    with suppress(OSError), os.scandir(folder or ".") as entries:  # the folder may be missing or unreadable
        for entry in entries:
            if is_part(entry.name) and entry.name.endswith(_END_OF_PART):
                with suppress(OSError):  # its writer finished, or it is a link or another user's
                    _remove_if_left(entry.path)
    ended = time.monotonic()
    if len(_look_again) >= _MOST_FOLDERS:
        _look_again.clear()
    _look_again[folder] = ended + _SHARE * (ended - began)


def _remove_if_left(part: str) -> None:
    file = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        locked = _locked(file)
        if locked is False:  # its writer is alive
            return
        # Some network file systems show a machine only its own locks.
        is_sure = locked and os.path.basename(part).startswith(f"{_START_OF_NAME}{_system()}-")
        if is_sure or time.time() - os.fstat(file).st_mtime > _WEEK:
            os.unlink(part)
    finally:
        os.close(file)


@functools.cache
def _system() -> str:
    """Return a name of this machine since its boot: processes with the same name see the same locks."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            name = file.read()
    except OSError:
        name = socket.gethostname()
    return hashlib.sha256(name.encode()).hexdigest()[:8]
