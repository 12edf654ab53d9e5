"""Zip files: damage raises one kind of error, and content is verified, whatever library reads it."""

from __future__ import annotations

import errno
import io
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeVar
from zlib import crc32

from ..retrying import Transient
from .decompression_limit import TooLarge, expect_within_limit
from .digest import CHUNK
from .streams import is_damage

R = TypeVar("R")

_LOCAL_HEADER = 30
"""Bytes of a local file header, before the file name."""

_END_RECORD = 22
"""Bytes of the end of central directory record, before the comment."""

_IN_ZIP64 = 2**16 - 1
"""Number of files that refers to the zip64 record."""

_FOLDER = 0x10
"""The bit of a part's attributes by which DOS marks a folder."""

_SIGNATURE = b"PK\3\4"

_OF_ZIPFILE = (ValueError, RuntimeError, LookupError, OverflowError, struct.error)
"""What zipfile raises for a corrupt zip, besides its own error."""


def opened_zip(stream: IO[bytes], kind: Callable[[IO[bytes]], zipfile.ZipFile] = zipfile.ZipFile) -> zipfile.ZipFile:
    """Return the zip in a stream; raise zipfile.BadZipFile if it is truncated or corrupt."""
    try:
        with raising_bad_zip():
            archive = kind(stream)
            _expect_all(archive, stream)
            return archive
    except zipfile.BadZipFile as error:
        failure = error.__context__ if isinstance(error.__context__, OSError) else error
    raise failure  # zipfile reports a failed connection as a file that is not a zip


def _expect_all(archive: zipfile.ZipFile, stream: IO[bytes]) -> None:
    """Raise zipfile.BadZipFile if the end record counts other files than zipfile found (it may skip some).

    An end record with zero files (as in zeroed data) is valid only if nothing precedes it.
    """
    stream.seek(-_END_RECORD - len(archive.comment), os.SEEK_END)
    end = stream.read(_END_RECORD)
    counted, found = int.from_bytes(end[10:12], "little"), len(archive.infolist())
    if end.startswith(b"PK\5\6") and counted not in (found % 2**16, _IN_ZIP64):
        raise zipfile.BadZipFile(f"the archive is corrupt: its end counts {counted} files, and there are {found}")
    if not found and archive.start_dir:
        raise zipfile.BadZipFile(f"the archive is corrupt: its end counts no files, after {archive.start_dir} bytes")


def opened_part(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> IO[bytes]:
    """Return the stream of a file in a zip; raise zipfile.BadZipFile if the zip is corrupt."""
    with raising_bad_zip():
        return archive.open(part)


def read_verified(file: IO[bytes], load: Callable[[IO[bytes]], R], max_bytes: float = math.inf) -> R:
    """Return what torch loads from a file; each part of a zip is verified while it is read.

    Torch itself verifies no checksums. Raises zipfile.BadZipFile for a truncated or corrupt zip, and TooLarge for one
    that decompresses beyond its bound.
    """
    if not _is_zip(file):
        return _read_old(file, load)
    archive = opened_zip(file)
    _expect_no_folders(archive)
    expect_within_limit(sum(part.file_size for part in archive.infolist()), file.seek(0, os.SEEK_END), max_bytes)
    parts = _Parts(file, archive)
    try:
        value = load(parts)  # type: ignore[arg-type]  # enough of a file for torch.load
    except (*Transient, zipfile.BadZipFile):
        raise
    except Exception as error:
        parts.verify_rest()
        parts.verify_names()
        if is_of_torchs_zips(error):
            raise zipfile.BadZipFile(str(error).partition("\n")[0]) from error
        raise
    parts.verify_rest()
    return value


def is_of_torchs_zips(error: Exception) -> bool:
    """Say whether an error is torch's own for a zip that it cannot read."""
    return isinstance(error, RuntimeError) and "PytorchStreamReader" in str(error)


def verify(file: IO[bytes]) -> None:
    """Raise zipfile.BadZipFile for a truncated or corrupt zip; otherwise seek to the start of the file."""
    if _is_zip(file):
        archive = opened_zip(file)
        _expect_no_folders(archive)
        _read_through(archive, archive.infolist())
    file.seek(0)


def _is_zip(file: IO[bytes]) -> bool:
    """Say whether a file is a zip; raise zipfile.BadZipFile if only its end looks like one."""
    file.seek(0)
    if file.read(4) == _SIGNATURE:
        return True
    if zipfile.is_zipfile(file):
        raise zipfile.BadZipFile("the archive is corrupt: its first bytes are not those of a zip")
    return False


def _expect_no_folders(archive: zipfile.ZipFile) -> None:
    """Raise zipfile.BadZipFile for a part that is marked as a folder: torch would leave its tensor uninitialized."""
    if marked := [part.filename for part in archive.infolist() if part.external_attr & _FOLDER]:
        raise zipfile.BadZipFile(f"the archive is corrupt: {marked[0]!r} is marked as a folder")


def _read_through(archive: zipfile.ZipFile, parts: Iterable[zipfile.ZipInfo]) -> None:
    for part in parts:
        with opened_part(archive, part) as content, raising_bad_zip():
            while content.read(CHUNK):
                pass


def _read_old(file: IO[bytes], load: Callable[[IO[bytes]], R]) -> R:
    """Return what torch loads from a file in its format before 1.6, which has no checksums."""
    file.seek(0)
    try:
        return load(file)
    except (OSError, MemoryError, pickle.UnpicklingError):
        raise
    except Exception as error:
        raise zipfile.BadZipFile(f"this is not what torch.save writes: {error!r:.200}") from error


class _Parts(io.RawIOBase):
    """A zip whose reader (torch) reads the header and then the content of each part; verifies checksums for it."""

    def __init__(self, file: IO[bytes], archive: zipfile.ZipFile) -> None:
        self._file = file
        self._archive = archive
        self._headers = {part.header_offset: part for part in archive.infolist()}
        self._contents: dict[int, zipfile.ZipInfo] = {}
        self._unverified: dict[str, zipfile.ZipInfo] = {}
        self._in: zipfile.ZipInfo | None = None
        self._next = 0
        self._left = 0
        self._sum = 0
        file.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        at = self._file.tell()
        count: int = self._file.readinto(buffer)  # type: ignore[attr-defined]
        self._look_at(at, memoryview(buffer)[:count])
        return count

    def _look_at(self, at: int, read: memoryview) -> None:
        if at in self._headers and len(read) == _LOCAL_HEADER:
            part = self._headers[at]
            self._contents[at + _LOCAL_HEADER + sum(struct.unpack("<HH", read[26:]))] = part
            self._unverified[part.filename] = part
            return
        if at in self._contents:
            self._in, self._next, self._sum = self._contents[at], at, 0
            self._left = self._in.file_size
        if self._in is None or at != self._next:
            return
        content = read[: self._left]
        self._sum = crc32(content, self._sum)
        self._next += len(content)
        self._left -= len(content)
        if not self._left and self._in.compress_type == zipfile.ZIP_STORED:
            if self._sum != self._in.CRC:
                raise zipfile.BadZipFile(f"the checksum of {self._in.filename!r} is wrong")
            self._unverified.pop(self._in.filename, None)
            self._in = None

    def verify_rest(self) -> None:
        """Verify the parts that were not read in one pass from start to end."""
        _read_through(self._archive, self._unverified.values())

    def verify_names(self) -> None:
        """Verify the names in the local headers: torch uses only the central directory, and misses a wrong name."""
        for part in self._archive.infolist():
            opened_part(self._archive, part).close()


@contextmanager
def raising_bad_zip() -> Iterator[None]:
    """Raise zipfile.BadZipFile for any error by which zipfile reports a truncated or corrupt zip."""
    try:
        yield
    except (zipfile.BadZipFile, TooLarge):
        raise
    except Exception as error:
        before_its_start = isinstance(error, OSError) and error.errno == errno.EINVAL  # a seek to a negative position
        if not (isinstance(error, _OF_ZIPFILE) or before_its_start or is_damage(error)):
            raise
        raise zipfile.BadZipFile(
            f"the archive is cut or corrupt, or of a kind that Python's zipfile does not read: {error}"
        ) from error
