"""Archives: one file in, the files that it holds out."""

from __future__ import annotations

import gzip
import io
import ntpath
import os
import posixpath
import re
import shutil
import stat
import tarfile
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from tarfile import EOFHeaderError  # type: ignore[attr-defined]
from typing import IO, Any, ClassVar, NamedTuple, Self

from ...registry import IterDataPipe, Node, Trail, close, functional_datapipe
from ..streams import checked_path, path_and_stream
from .files import check_length, promised

try:
    from lzma import LZMAError
except ImportError:  # Python can be built without it
    LZMAError = EOFError  # type: ignore[misc,assignment]

__all__ = ["TarArchiveLoader", "ZipArchiveLoader"]

_LARGE = 16 * 2**20
"""Files of more bytes are not read into memory when they come out, but from the archive as they are read."""

_ENCRYPTED = 0x1
"""The flag of an encrypted file in a zip."""


class _Member(NamedTuple):
    """A file in an archive."""

    name: str
    size: int
    open: Callable[[], Any]
    seekable: bool = True


class _ArchiveLoader(IterDataPipe[tuple[str, IO[bytes]]]):
    """Yield the path and the stream of each file in archives: the base of the operators that do."""

    holds_items = False
    transient = ("_archives", "_archive", "_files")

    damaged: ClassVar[type[Exception]]
    """What is raised for an archive that is cut or corrupt."""

    def __init__(self, source: IterDataPipe[tuple[str, IO[bytes]]], length: int = -1) -> None:
        self.source = source
        self.length = check_length(length)

    def _members(self, stream: IO[bytes], opened: ExitStack) -> Iterator[_Member]:
        """Yield the files of an archive, and enter what is opened for that into `opened`."""
        raise NotImplementedError(f"{type(self).__name__} must define _members")

    # A state goes back to before the archive that is open, and tells how many of its files were handed out.

    def reset(self) -> None:
        self._archive = self._files = 0

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        node, skip = self._archives.way_back()
        return {"archives": skip, "files": self._files}, [node]

    def set_state(self, state: dict[str, Any]) -> None:
        self._archive, self._files = state["archives"], state["files"]

    def __iter__(self) -> Iterator[tuple[str, IO[bytes]]]:
        self._archives = Trail(self.source, lambda: self._archive)
        for item in islice(self._archives, self._archive, None):
            yield from self._unpack(*path_and_stream(item))
            self._archive += 1
            self._files = 0

    def _unpack(self, path: str | os.PathLike[str], stream: IO[Any]) -> Iterator[tuple[str, IO[bytes]]]:
        archive = _OpenArchive(stream, self.damaged)
        try:
            if isinstance(stream.read(0), str):
                raise TypeError("the stream is open as text, and archives are bytes: open it with mode='rb'")
            for member in islice(self._members(stream, archive.opened), self._files, None):
                name = f"{checked_path(path)}/{_inner_path(member.name)}"
                file = archive.read(member)
                self._files += 1
                yield name, file
        except Exception as error:
            archive.opened.close()  # the error's traceback holds the archive, and nobody else will read from it
            if _is_damage(error):
                raise archive.damage(error) from error
            raise

    def __len__(self) -> int:
        return promised(self.length)


@functional_datapipe("load_from_tar")
class TarArchiveLoader(_ArchiveLoader):
    """Yield the path and the stream of each file in tar archives.

    Takes pairs of an archive's path and its stream of bytes, which is closed at the archive's end. A file's path is
    that of the archive, a slash, and its name in it. `mode` is as for `tarfile.open`: `"r:*"` finds the compression by
    itself, and `"r|*"` never seeks; where a stream cannot seek, the latter is taken. Directories, symbolic links and
    devices hold no data and are left out; a hard link has the content of the file that it names. `length` is what
    `len` is to say; without it `len` raises TypeError.

    A file's stream can be read for as long as somebody holds it, whatever is read from the archive meanwhile. Files up
    to 16 MiB are in memory. Of an archive that cannot seek, a larger one must be read before the next file is asked
    for; later its stream raises tarfile.StreamError.

    Raises tarfile.ReadError for an archive that is corrupt or cut, as is one without an end mark, ValueError for a file
    whose name is absolute or leads out of the archive by `..`, and TypeError for a stream of text.

    >>> import io, tarfile
    >>> buffer = io.BytesIO()
    >>> with tarfile.open(fileobj=buffer, mode="w") as tar:
    ...     for name, content in [("a.txt", b"one"), ("b.txt", b"two")]:
    ...         header = tarfile.TarInfo(name)
    ...         header.size = len(content)
    ...         tar.addfile(header, io.BytesIO(content))
    >>> dp = IterableWrapper([("shard.tar", io.BytesIO(buffer.getvalue()))]).load_from_tar()
    >>> [(path, stream.read()) for path, stream in dp]
    [('shard.tar/a.txt', b'one'), ('shard.tar/b.txt', b'two')]
    """

    damaged = tarfile.ReadError

    def __init__(self, source: IterDataPipe[tuple[str, IO[bytes]]], mode: str = "r:*", length: int = -1) -> None:
        if mode != "r" and (mode[:2] not in ("r:", "r|") or mode[2:] not in ("", "*", *tarfile.TarFile.OPEN_METH)):
            raise ValueError(f"mode must be 'r:' or 'r|' and a compression, such as 'r:*' or 'r|gz', and is {mode!r}")
        super().__init__(source, length)
        self.mode = mode

    def _members(self, stream: IO[bytes], opened: ExitStack) -> Iterator[_Member]:
        seekable = "|" not in self.mode and _can_seek(stream)
        mode: Any = self.mode if seekable else "r|" + (self.mode[2:] if self.mode != "r" else "*")
        try:
            tar = opened.enter_context(tarfile.TarFile.open(fileobj=stream, mode=mode, tarinfo=_Header))
        except TypeError as error:  # what tarfile raises for a compressed stream that is cut in its first bytes
            raise tarfile.ReadError(f"the archive is cut: {error}") from error
        files: dict[str, tarfile.TarInfo] = {}
        for header in tar:
            if header.isreg():
                files[header.name] = header
            elif header.islnk():
                if not seekable or header.linkname not in files:
                    reason = "no such file comes before it" if seekable else "the archive cannot seek back to that"
                    raise tarfile.ReadError(f"{header.name!r} is a hard link to {header.linkname!r}, and {reason}")
                files[header.name] = files[header.linkname]
            else:
                continue
            content = files[header.name]
            yield _Member(header.name, content.size, partial(tar.extractfile, content), seekable)
        packed: Any = tar.fileobj
        while packed is not stream and packed.read(2**16):
            pass  # to the end of what is compressed, where its checksum is


@functional_datapipe("load_from_zip")
class ZipArchiveLoader(_ArchiveLoader):
    """Yield the path and the stream of each file in zip archives.

    Takes pairs of an archive's path and its stream of bytes, which is closed at the archive's end; one that cannot seek
    is copied first, to memory or, above 16 MiB, to a temporary file. A file's path is that of the archive, a slash, and
    its name in it. Directories and symbolic links are left out. `length` is what `len` is to say; without it `len`
    raises TypeError. A file's stream can be read for as long as somebody holds it; files up to 16 MiB are in memory.

    Raises zipfile.BadZipFile for an archive that is cut or corrupt, RuntimeError for a file that is encrypted,
    ValueError for one whose name is absolute or leads out of the archive by `..`, and TypeError for a stream of text.

    >>> import io, zipfile
    >>> buffer = io.BytesIO()
    >>> with zipfile.ZipFile(buffer, "w") as archive:
    ...     archive.writestr("a.txt", "one")
    ...     archive.writestr("b.txt", "two")
    >>> dp = IterableWrapper([("shard.zip", io.BytesIO(buffer.getvalue()))]).load_from_zip()
    >>> [(path, stream.read()) for path, stream in dp]
    [('shard.zip/a.txt', b'one'), ('shard.zip/b.txt', b'two')]
    """

    damaged = zipfile.BadZipFile

    def _members(self, stream: IO[bytes], opened: ExitStack) -> Iterator[_Member]:
        if not _can_seek(stream):
            copy = opened.enter_context(tempfile.SpooledTemporaryFile(max_size=_LARGE))  # noqa: SIM115  it is closed
            shutil.copyfileobj(stream, copy)
            stream = copy
        archive = opened.enter_context(zipfile.ZipFile(stream))
        for entry in archive.infolist():
            if entry.is_dir() or stat.S_ISLNK(entry.external_attr >> 16):
                continue
            if entry.flag_bits & _ENCRYPTED:
                raise RuntimeError(f"{entry.filename!r} is encrypted, and no password can be given")
            yield _Member(entry.filename, entry.file_size, partial(archive.open, entry))


class _Header(tarfile.TarInfo):
    """A header that, when it is cut or corrupt, is an error wherever it stands: tarfile takes it for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except EOFHeaderError:
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"the archive is cut or corrupt: {error} at byte {archive.offset}") from error


class _OpenArchive:
    """What is open of an archive: closed when neither the loader nor a large file that came out holds it any more."""

    def __init__(self, stream: IO[bytes], damaged: type[Exception]) -> None:
        self.opened = ExitStack()
        self.opened.callback(close, stream)
        self._damaged = damaged
        weakref.finalize(self, self.opened.close)

    def damage(self, error: Exception) -> Exception:
        """Return what is raised for the archive where a decompressor raised an error."""
        return self._damaged(f"the archive is cut or corrupt: {error}")

    def read(self, member: _Member) -> IO[bytes]:
        """Return the stream of a file: from memory, or of a large one from the archive."""
        file = member.open()
        if member.size > _LARGE:
            return io.BufferedReader(_LargeFile(file, member.seekable, self))
        with file:
            return io.BytesIO(file.read())


class _LargeFile(io.RawIOBase):
    """A file that is read from its archive, which it holds open."""

    def __init__(self, file: IO[bytes], seekable: bool, archive: _OpenArchive) -> None:
        self._file = file
        self._seekable = seekable
        self._archive = archive

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        return self._read(-1)

    def _read(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except tarfile.StreamError as error:
            raise tarfile.StreamError(
                "the archive cannot seek, and has moved on from this file, which is too large for memory: "
                "read it before the next file is asked for"
            ) from error
        except Exception as error:
            if _is_damage(error):
                raise self._archive.damage(error) from error
            raise

    def seekable(self) -> bool:
        return self._seekable

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if not self._seekable:
            raise io.UnsupportedOperation("the archive cannot seek")
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        super().close()
        self._file.close()


def _is_damage(error: Exception) -> bool:
    """Say whether an error is what a decompressor raises for data that are cut or corrupt."""
    of_bz2 = type(error) is OSError and error.errno is None  # one from the system has a number
    return of_bz2 or isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile, LZMAError))


def _can_seek(stream: IO[bytes]) -> bool:
    return hasattr(stream, "seekable") and stream.seekable()


def _inner_path(name: str) -> str:
    """Return the path of a file in its archive; raise ValueError where it leads out of the archive."""
    path = posixpath.normpath(name)
    absolute = name.startswith(("/", "\\")) or ntpath.splitdrive(name)[0]
    if absolute or ".." in re.split(r"[/\\]", name) or path == ".":
        raise ValueError(f"the archive has a file that is named {name!r}, which is not a name in it")
    return path
