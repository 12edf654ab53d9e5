"""Incomplete files, under temporary names that tell which process writes them."""

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

import psutil  # type: ignore[import-untyped]

_START_OF_NAME, _END_OF_PART, _END_OF_LOCK = ".penstock-", ".partial", ".lock"

_LONGEST = 200
"""Most bytes of a file name used inside another name; the system's limit is 255."""

_WEEK = 7 * 24 * 3600.0
"""Seconds without a write after which a file counts as abandoned, whichever machine's process writes it."""

_MOST_FOLDERS = 1000

_seen: set[str] = set()
"""The folders in which this process has looked for leftovers."""


def is_part(path: str) -> bool:
    """Say whether a path is one of our incomplete files or locks."""
    if _START_OF_NAME not in path:  # listings of millions of files ask for each
        return False
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

    Leftovers of killed writers are removed when a process first writes to a folder. Missing folders are created.
    """
    folder = os.path.dirname(path)
    _remove_what_is_left(folder)
    try:
        part = _new_part(path)
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        part = _new_part(path)
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


def _new_part(path: str) -> str:
    """Make a new file beside another, and return its path."""
    name = f"{_START_OF_NAME}{_system()}-{os.getpid()}-{secrets.token_hex(8)}{_END_OF_PART}"
    part = os.path.join(os.path.dirname(path), name)
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        error.filename = path
        raise
    return part


def _remove_what_is_left(folder: str) -> None:
    """Remove the incomplete files of ended processes, when this process first writes to a folder."""
    if folder in _seen:
        return
    if len(_seen) >= _MOST_FOLDERS:
        _seen.clear()
    _seen.add(folder)
    with suppress(OSError), os.scandir(folder or ".") as entries:  # the folder may be missing or unreadable
        for entry in entries:
            if is_part(entry.name) and entry.name.endswith(_END_OF_PART):
                with suppress(OSError):  # its writer finished, or it is another user's
                    if _is_left(entry):
                        os.unlink(entry.path)


def _is_left(entry: os.DirEntry[str]) -> bool:
    system, _, rest = entry.name.removeprefix(_START_OF_NAME).partition("-")
    process = rest.partition("-")[0]
    if system == _system() and process.isdecimal() and not psutil.pid_exists(int(process)):
        return True
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _WEEK


@functools.cache
def _system() -> str:
    """Return a name of this machine since its boot, or of a container on it: it has one number for each process."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            name = file.read() + os.readlink("/proc/self/ns/pid")
    except OSError:
        name = socket.gethostname()
    return hashlib.sha256(name.encode()).hexdigest()[:8]
