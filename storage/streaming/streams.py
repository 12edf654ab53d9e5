"""Streams of bytes and text over files; a stream closes its file when dropped."""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import locale
import os
import weakref
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any

from ...errors.notes import add_note
from ...errors.observer import count_bytes
from ...errors.policy import ErrorPolicy
from ...errors.secrets import stream_name
from ..errors import in_plain_words
from .resumable import ResumableBody

try:
    from lzma import LZMAError
except ImportError:  # Python can be built without it
    LZMAError = EOFError  # type: ignore[misc,assignment]


class ClosedWhenDropped(io.RawIOBase):
    """The bytes of a file, which is closed without a ResourceWarning when this object is dropped."""

    def __init__(
        self, file: IO[bytes] | io.RawIOBase, name: str, owner: object, below: IO[bytes] | None = None
    ) -> None:
        self.name = stream_name(name)
        self._file = file
        self._owner = owner
        self._below = below
        self._process = os.getpid() if getattr(getattr(file, "fs", None), "async_impl", False) else None
        read: Any = file.read if owner is None else partial(in_plain_words, name, file.read)
        if below is not None:
            read = partial(_naming, self.name, read)
        self._read: Callable[[int], bytes | None] = read
        # Not __del__: in a reference cycle (an error's traceback), the file may be collected first, and warn.
        self._close_file = weakref.finalize(self, file.close)

    def retry(self, attempts: ErrorPolicy) -> None:
        """Retry failed reads from now on: those of the file in a store, since a decompressor's lose bytes."""
        from fsspec.spec import AbstractBufferedFile  # type: ignore[import-untyped]  # slow to import

        if self._below is not None:
            self._below.raw.retry(attempts)  # type: ignore[attr-defined]
        elif isinstance(self._file, ResumableBody):
            self._file.retry(attempts)
        elif isinstance(self._file, AbstractBufferedFile):
            again: Any = attempts.wrap(self._read)  # nothing is skipped
            self._read = again

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._check_process()
        content = self._read(len(buffer)) or b""
        if buffer and not content and self._is_cut():
            raise self._cut()
        if self._below is None:
            count_bytes(len(content))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        self._check_process()
        content = self._read(-1) or b""
        if self._is_cut():
            raise self._cut()
        if self._below is None:
            count_bytes(len(content))
        return content

    def _check_process(self) -> None:
        """Raise RuntimeError in a forked process where the file's client needs a thread, which only the parent has."""
        if self._process is not None and self._process != os.getpid():
            raise RuntimeError(f"{self.name} was opened in another process, and only that one can read it")

    def _is_cut(self) -> bool:
        """Say whether fewer bytes came than the server reported: fsspec's files end early without an error."""
        size = self._declared_size()
        return size is not None and self._file.tell() < size

    def _declared_size(self) -> int | None:
        """Return how many bytes must come. On the web, the size counts only if responses end with the connection."""
        if self._owner is None:
            return None
        is_web = self.name.startswith(("http://", "https://"))
        source, name = (getattr(self._file, "session", None), "declared_size") if is_web else (self._file, "size")
        size = getattr(source, name, None)
        return size if isinstance(size, int) else None

    def _cut(self) -> ConnectionError:
        text = f"the answer was cut: {self._file.tell()} of {self._declared_size()} bytes came"
        return ConnectionError(errno.EIO, text, self.name)

    def seekable(self) -> bool:
        # fsspec's HTTP files claim to be seekable even without a size, when they are not.
        return self._file.seekable() and getattr(self._file, "size", 0) is not None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        super().close()
        self._close_file()


def _naming(name: str, read: Callable[[int], bytes], size: int) -> bytes:
    """Return the result of reading packed bytes. Add a note to errors of damage, which do not name this file."""
    try:
        return read(size)
    except Exception as error:
        if not isinstance(error, OSError) or error.errno is None:
            add_note(error, f"while reading {name}")
        raise


class Loaded(io.BytesIO):
    """The bytes of a file, in memory; closing is optional."""

    def __init__(self, content: Any, name: str) -> None:
        super().__init__(content)
        self.name = stream_name(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name!r}>"


def stream_over(
    file: IO[bytes] | io.RawIOBase,
    name: str,
    text: Mapping[str, Any] | None,
    owner: object = None,
    attempts: ErrorPolicy | None = None,
    below: IO[bytes] | None = None,
) -> IO[Any]:
    """Return a stream that closes its file when dropped: bytes, or text if `text` has arguments for TextIOWrapper.

    The stream keeps `owner` alive: some files close with the object that opened them. `attempts` retries failed reads.
    For a compressed file, or a member of an archive, it retries reads of the underlying stream `below`.
    """
    raw = ClosedWhenDropped(file, name, owner, below)
    if attempts is not None:
        raw.retry(attempts)
    stream = io.BufferedReader(raw)
    return stream if text is None else text_over(stream, **text)


def text_over(
    stream: IO[bytes], encoding: str | None = None, *, from_start: bool = True, **arguments: Any
) -> io.TextIOWrapper:
    """Return a stream of the text in bytes; `arguments` are those of TextIOWrapper.

    The byte order mark with which UTF-8 may begin, as from spreadsheets, is left out; one further on stays. Without
    `from_start`, the bytes are a later part of a file.
    """
    known = locale.getpreferredencoding(False) if encoding in (None, "locale") else encoding
    if codecs.lookup(known).name in ("utf-8", "utf-8-sig"):
        encoding = "utf-8-sig" if from_start else "utf-8"
    return io.TextIOWrapper(stream, encoding, **arguments)


def is_binary(mode: str) -> bool:
    """Say whether a mode opens files as bytes; raise ValueError for a mode that does not read."""
    if mode not in ("r", "rt", "t", "rb", "b"):
        raise ValueError(f"mode must be 'r', 'rt' or 't' for text, 'rb' or 'b' for bytes, and is {mode!r}")
    return "b" in mode


def checked_path(path: object) -> str:
    """Return a path as text; raise TypeError for anything else."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path must be a string or os.PathLike, and is of type {type(path).__name__}")
    return os.fspath(path)


def expect_bytes(stream: IO[Any]) -> None:
    """Raise TypeError for a text stream."""
    if isinstance(stream.read(0), str):
        raise TypeError("the stream is open as text, and its bytes are needed: open it with mode='rb'")


def can_seek(stream: IO[Any]) -> bool:
    """Say whether a stream is seekable."""
    return hasattr(stream, "seekable") and stream.seekable()


def is_damage(error: Exception) -> bool:
    """Say whether a decompressor raised the error for truncated or corrupt data."""
    of_bz2 = type(error) is OSError and error.errno is None  # the system's own errors have an errno
    return of_bz2 or isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile, LZMAError))
