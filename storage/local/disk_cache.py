"""A bounded cache of files by URL, in a folder that several processes share."""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Lock
from typing import IO

from ...errors.closing import close
from .locks import FileLock
from .trust import expect_trusted

_PIECE = 2**20
"""Bytes fetched at a time; room is made for as many at once."""

_REST = 60.0
"""Seconds without caching after a full disk: each attempt would fetch part of a file for nothing."""

_EVICTED_SHARE = 16
"""Each eviction scans all files, so it evicts at least 1/16 of them."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_ROOM = (*_FULL, errno.EFBIG)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP)

_DIGITS = 20
"""Digits of the number in `total`."""

_NAME_OF_PART = re.compile("[0-9a-f]{40}")
_FOLDER = re.compile("[0-9a-f]{3}")
_FILE = re.compile("[0-9a-f]{37}-[0-9a-f]{8}-[0-9]+")


class NotKept(Exception):
    """A file cannot be cached, for a reason unrelated to its source: it can still be read."""


class KeptFiles:
    """Files by their URLs, in a folder that any number of processes share.

    `abc/<rest of the URL's digest>-<checksum>-<size>` is a complete file; its modification time is its last use.
    `fetching/` has incomplete files; the owner of the lock of that name writes each. `total` has an upper bound for the
    bytes of both: it is raised before a file grows, and recounted when it would exceed `max_bytes`.
    """

    def __init__(
        self, path: str, max_bytes: int, timeout: float, count: Callable[[str], None], given_up: Event
    ) -> None:
        self._path = path
        self._fetching = os.path.join(path, "fetching")
        self._total = os.path.join(path, "total")
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._count = count
        self._given_up = given_up
        self._full_until = -math.inf
        self._counting = Lock()

    def begin(self) -> None:
        """Remove leftovers of ended processes, and evict files beyond the bound."""
        with suppress(NotKept), self._giving_reasons():
            self._make(self._fetching)
            self._remove_leftovers()
            self._add(0)

    def file_of(self, url: str, fetch: Callable[[], tuple[IO[bytes], int | None]]) -> io.FileIO:
        """Return a file, open; one process or thread fetches it where it is not cached.

        `fetch` returns the stream of the file, and its size, None if unknown. Raises NotKept if the file cannot be
        cached, or another user may have planted it.
        """
        file = self._found(url)
        if file is None:
            if time.monotonic() < self._full_until:
                raise NotKept("the disk was full a moment ago")
            with self._giving_reasons():
                self._make(self._fetching)
                with self._lock(self._part_of(url)):
                    file = self._found(url, claimed=True)  # another may have fetched it meanwhile
                    if file is None:
                        stream, size = fetch()
                        try:
                            file = self._fetched(url, stream, size)
                        finally:
                            close(stream)
                        self._count("misses")
                        return file
        self._count("hits")
        return file

    def _found(self, url: str, claimed: bool = False) -> io.FileIO | None:
        """Return an open file if it is cached and intact; if `claimed`, remove a corrupt one."""
        folder, key = self._place(url)
        with self._giving_reasons(), ExitStack() as closing:
            try:
                name = next(name for name in os.listdir(folder) if name.startswith(key))
                path = os.path.join(folder, name)
                expect_trusted(path)
                file = closing.enter_context(open(path, "rb", buffering=0))
            except (FileNotFoundError, StopIteration):  # never cached, or evicted
                return None
            if key + _mark_of(self._pieces_of(file)) == name:
                file.seek(0)
                _note_use(file)
                closing.pop_all()
                return file
        if claimed:
            os.unlink(path)
            self._count("corrupt")
        return None

    def _fetched(self, url: str, stream: IO[bytes], size: int | None) -> io.FileIO:
        """Copy a stream to a file, and return it, open."""
        folder, key = self._place(url)
        part = self._part_of(url)
        try:
            with suppress(FileNotFoundError):
                os.unlink(part)  # its writer ended, or it was planted
            with open(part, "wb", opener=_created) as file:
                if size is not None:  # fail before fetching if there is no room
                    self._grow(file, 0, size)
                mark = _mark_of(self._copying(stream, file, size))
            self._make(folder)
            with ExitStack() as closing:
                # Open it before the rename: it may be evicted right after.
                kept = closing.enter_context(open(part, "rb", buffering=0))
                _note_use(kept)
                os.replace(part, os.path.join(folder, key + mark))
                closing.pop_all()
            return kept
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)

    def _copying(self, stream: IO[bytes], file: IO[bytes], size: int | None) -> Iterator[bytes]:
        """Yield the pieces of a stream, each after writing it to a file."""
        copied = 0
        for piece in self._pieces_of(stream):
            if size is None:
                self._grow(file, copied, copied + len(piece))
            file.write(piece)
            copied += len(piece)
            yield piece
        if size not in (None, copied):
            raise ConnectionError(f"{size} bytes were announced, and {copied} arrived")

    def _pieces_of(self, stream: IO[bytes] | io.FileIO) -> Iterator[bytes]:
        while piece := stream.read(_PIECE):
            if self._given_up.is_set():
                raise InterruptedError("the pass was given up while a file was read")
            yield piece

    def _grow(self, file: IO[bytes], before: int, size: int) -> None:
        self._add(size - before, lambda: file.truncate(size))  # a recount by another process must see the final size

    def _add(self, more: int, add: Callable[[], object] = int) -> None:
        """Raise `total` by `more`, then call `add`; evict files if the bound is exceeded."""
        # Threads queue on a lock of their own, since the file lock polls.
        with self._counting, self._lock(self._total), open(self._total, "r+", opener=_opened_or_made) as file:
            total = file.read(_DIGITS + 1)
            if len(total) > _DIGITS:
                raise NotKept(f"{self._total} is no file of a cache: give the cache its own folder")
            try:
                there = int(total) + more
            except ValueError:  # just created, still empty
                there = -1
            if not 0 <= there <= self._max_bytes:
                there = self._room_made(more)
            file.seek(0)
            # Overwrite in place: ext4 waits for the disk when a file is truncated.
            file.write(f"{there:0{_DIGITS}}")
            file.flush()
            add()

    def _room_made(self, more: int) -> int:
        """Evict the least recently used files until `more` bytes fit; return the new total."""
        self._remove_leftovers()
        # Before the complete files: a file renamed meanwhile is counted twice, rather than missed.
        in_hand = sum(size for _, size, _ in self._files_in(self._fetching, _NAME_OF_PART)) + more
        if in_hand > self._max_bytes:
            raise NotKept(f"with those that are being fetched it comes to {in_hand} bytes of {self._max_bytes}")
        with os.scandir(self._path) as entries:
            folders = [
                entry.path for entry in entries if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
        kept = sorted(entry for folder in folders for entry in self._files_in(folder, _FILE))
        there = in_hand + sum(size for _, size, _ in kept)
        least = len(kept) // _EVICTED_SHARE if there > self._max_bytes else 0
        for number, (_, size, path) in enumerate(kept):
            if there <= self._max_bytes and number >= least:
                break
            with suppress(FileNotFoundError):
                os.unlink(path)
            there -= size
            self._count("evictions")
        return there

    def _files_in(self, folder: str, names: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
        """Yield last use, size and path of each file in a folder."""
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it may be evicted at any time
                    if names.fullmatch(entry.name):
                        status = entry.stat(follow_symlinks=False)
                        yield status.st_mtime_ns, status.st_size, entry.path

    def _remove_leftovers(self) -> None:
        """Remove the incomplete files of ended processes."""
        names = {name.removesuffix(".lock") for name in os.listdir(self._fetching)}
        for part in (os.path.join(self._fetching, name) for name in names if _NAME_OF_PART.fullmatch(name)):
            with (
                suppress(OSError),
                FileLock(f"{part}.lock", 0, self._given_up),  # a live process holds the lock
            ):
                os.unlink(part)

    @contextmanager
    def _lock(self, path: str) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(FileLock(f"{path}.lock", self._timeout, self._given_up))
            except TimeoutError as error:
                raise NotKept(str(error)) from None
            yield

    def _make(self, folder: str) -> None:
        """Create a folder with the permissions of the cache's; a new cache is private to this user."""
        os.makedirs(self._path, 0o700, exist_ok=True)
        expect_trusted(folder)
        with suppress(FileExistsError):
            os.mkdir(folder, stat.S_IMODE(os.stat(self._path).st_mode))

    @contextmanager
    def _giving_reasons(self) -> Iterator[None]:
        """Raise NotKept if the disk is full or not writable, or another user may have planted a file."""
        try:
            yield
        except OSError as error:
            of_folder = str(error.filename).startswith(self._path)  # not a server's refusal
            if error.errno not in _NO_ROOM and not (of_folder and error.errno in _NOT_ALLOWED):
                raise
            if error.errno in _FULL:
                self._full_until = time.monotonic() + _REST
            raise NotKept(str(error)) from None

    def _place(self, url: str) -> tuple[str, str]:
        """Return the folder of a file, and the start of its name."""
        key = _url_digest(url)
        return os.path.join(self._path, key[:3]), key[3:]

    def _part_of(self, url: str) -> str:
        return os.path.join(self._fetching, _url_digest(url))


def _url_digest(url: str) -> str:
    return hashlib.sha256(url.encode(errors="surrogatepass")).hexdigest()[:40]


def _mark_of(pieces: Iterator[bytes]) -> str:
    """Return the end of a file's name: the checksum of its content, and its size."""
    checksum = size = 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
        size += len(piece)
    return f"-{checksum:08x}-{size}"


def _opened_or_made(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def _created(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o666)


def _note_use(file: io.FileIO) -> None:
    now = time.time_ns()  # the kernel's timestamp may be some milliseconds old
    try:
        os.utime(file.fileno(), ns=(now, now))
    except OSError:  # another user's file accepts only the current time
        with suppress(OSError):  # and not even that if it is read-only
            os.utime(file.fileno())
