"""Archive members: small ones read into memory, large ones on demand."""

from __future__ import annotations

import io
import math
import ntpath
import os
import posixpath
import re
import shutil
import tarfile
import tempfile
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import IO, Any, NamedTuple, Self

from ...errors.notes import add_note
from ...errors.secrets import stream_name, without_secrets
from ...registry import R, close
from ...storage.objects import LARGE
from ...storage.streaming.decompression_limit import Bound, BoundedReader
from ...storage.streaming.streams import can_seek, is_damage

_PIECE = 2**20
"""The most bytes of a large file that are read at once, except in a full read."""


class MemberPath(str):
    """The path of a file in an archive, after that of the archive and a slash. It knows where the first part ends.

    >>> path = MemberPath("s3://b/t.tar", "a/1.txt")
    >>> path, path.archive, path.within
    ('s3://b/t.tar/a/1.txt', 's3://b/t.tar', 'a/1.txt')
    """

    archive: str

    def __new__(cls, archive: str, within: str) -> Self:
        path = super().__new__(cls, f"{archive}/{within}")
        path.archive = archive
        return path

    @property
    def within(self) -> str:
        return self[len(self.archive) + 1 :]

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # those of this class, for pickle
        return self.archive, self.within


class Member(NamedTuple):
    """A file in an archive."""

    name: str
    size: int
    open: Callable[[], Any]
    seekable: bool = True
    packed: int | None = None
    """Its compressed size, where members are compressed one by one."""
    taken: Callable[[], int] | None = None
    """Returns the compressed bytes read so far, where the archive is compressed as a whole."""

    @property
    def whole(self) -> int:
        """The argument of a full `read`: in a zip one byte past the declared size, a bound that reaches the end."""
        return -1 if self.packed is None else self.size + 1


class OpenArchive:
    """The open resources of an archive, closed when neither the loader nor a large file references it."""

    def __init__(self, stream: IO[bytes], damaged: type[Exception], max_bytes: float) -> None:
        self.max_bytes = max_bytes
        self.opened = ExitStack()
        self.opened.callback(close, stream)
        self._damaged = damaged
        weakref.finalize(self, self.opened.close)

    def damage(self, error: Exception) -> Exception:
        """Return the error to raise for an error of a decompressor."""
        return self._damaged(f"the archive is cut or corrupt: {error}")

    def read(self, member: Member, path: str) -> IO[bytes]:
        """Return the stream of a file: in memory, or from the archive if large."""
        if member.size > LARGE:
            return self.stream(member, path)
        with member.open() as file:
            return io.BytesIO(file.read(member.whole))

    def stream(self, member: Member, path: str) -> IO[bytes]:
        """Return the stream of a file, which reads from the archive."""
        raw = _FileWithin(member.open(), path, member, self)
        return BoundedReader(raw, raw.bound)


class _FileWithin(io.RawIOBase):
    """A file read from its archive, which it keeps open."""

    def __init__(self, file: IO[bytes], path: str, member: Member, archive: OpenArchive) -> None:
        self.name = stream_name(path)
        self._file = file
        self._member = member
        self._archive = archive
        is_packed = member.packed is not None or member.taken is not None
        self.bound = Bound(self.name, archive.max_bytes if is_packed else math.inf, member.packed or 0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._read(min(len(buffer), _PIECE))
        if self._member.packed is None and self._member.taken is not None:
            self.bound.packed = self._member.taken()
        self.bound.add(content)
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        if self._member.packed is not None:
            self.bound.expect(self._member.size)
        return self._read(-1)

    def _read(self, size: int) -> bytes:
        return self._naming_file(self._content, size)

    def _content(self, size: int) -> bytes:
        return self._file.read(self._member.whole if size < 0 else size)

    def _naming_file(self, call: Callable[..., R], *args: int) -> R:
        """Return what a call returns; errors name the file."""
        try:
            return call(*args)
        except tarfile.StreamError as error:
            raise tarfile.StreamError(
                "the archive cannot seek, and has moved past this file, which is too large for memory: read it before "
                "asking for the next"
            ) from error
        except Exception as error:
            failure = self._archive.damage(error) if is_damage(error) else error
            add_note(failure, f"when {without_secrets(repr(self.name))} was read")
            raise failure from error.__cause__ if failure is error else error

    def seekable(self) -> bool:
        return self._member.seekable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if not self._member.seekable:
            raise io.UnsupportedOperation("the archive cannot seek")
        return self._naming_file(self._file.seek, offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        super().close()
        self._file.close()


def seekable(stream: IO[bytes], opened: ExitStack) -> IO[bytes]:
    """Return a stream, or a copy if it cannot seek: in memory or, if large, in a temporary file."""
    if can_seek(stream):
        return stream
    copy = opened.enter_context(tempfile.SpooledTemporaryFile(max_size=LARGE))  # noqa: SIM115  it is closed
    shutil.copyfileobj(stream, copy)
    return copy


def inner_path(name: str) -> str:
    """Return the path of a file in its archive; raise ValueError where it leads out of the archive."""
    path = posixpath.normpath(name)
    absolute = name.startswith(("/", "\\")) or ntpath.splitdrive(name)[0]
    if absolute or ".." in re.split(r"[/\\]", name) or path == ".":
        raise ValueError(f"the archive has a file named {name!r}, which is no name within it")
    return path
