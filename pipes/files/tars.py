"""Tar archives, with verified checksums and bounded reads."""

from __future__ import annotations

import io
import math
import tarfile
import warnings
from collections.abc import Callable
from tarfile import EOFHeaderError  # type: ignore[attr-defined]
from typing import IO, Any, Self

from ...errors.secrets import without_secrets
from ...storage.streaming.decompression_limit import MAX_BYTES, TooLarge, expect_within_limit
from ...storage.streaming.streams import can_seek
from .compression import KINDS, decompressed, known_kind, with_start

HEADER_BYTES = 2**20
"""Default maximum bytes of a file's header. Names have up to a few thousand."""

_LARGE_READ = 2**22
"""Bytes read at a time in large reads."""

_COMPRESSIONS = {"gz": "gzip", "bz2": "bz2", "xz": "lzma", "zst": "zstd"}

MODES = ("r", *(f"r{how}{of}" for how in ":|" for of in ("", "*", "tar", *_COMPRESSIONS)))
"""Modes for reading a tar, as `tarfile.open` names them."""


class Tar(tarfile.TarFile):
    """A tar opened for reading, in which the headers before a file's content have up to `max_bytes`.

    For a compressed tar, `taken` returns the compressed bytes read so far. A single read may grow to a hundred times as
    many, to 1 GiB, or to `max_bytes`.
    """

    members: list[tarfile.TarInfo]

    def __init__(
        self,
        name: str | None,
        mode: Any,
        fileobj: IO[bytes],
        *,
        max_bytes: int,
        taken: Callable[[], int] | None,
        can_go_back: bool,
        **options: Any,
    ) -> None:
        self.can_go_back = can_go_back
        """Whether a file can be read again after those that follow it."""
        self.taken = taken
        self.max_bytes = max_bytes
        super().__init__(name, mode, _Bounded(fileobj, max_bytes, taken, can_go_back), tarinfo=_Header, **options)

    def next(self) -> tarfile.TarInfo | None:
        file: Any = self.fileobj
        file.left = self.max_bytes
        try:
            return super().next()
        finally:
            file.left = math.inf

    def read_to_end(self) -> None:
        """Read from the last file to the end of the stream, where the checksum of the compression is."""
        file: Any = self.fileobj
        while file.read(2**16):
            pass


def opened_tar(stream: IO[bytes], mode: str, max_bytes: int = HEADER_BYTES) -> Tar:
    """Return the tar in a stream, opened in a mode of `MODES`.

    Decompression is ours, since tarfile's verifies no checksum where it cannot seek. Raises tarfile.ReadError for a cut
    or corrupt tar, and OSError for cut or corrupt compressed data.
    """
    how, compression = mode[1:2] or ":", mode[2:] if mode != "r" else "*"
    name = str(getattr(stream, "name", "the stream"))
    kind = _COMPRESSIONS.get(compression)
    if compression == "*":
        stream, start = with_start(stream, name)
        kind = known_kind(start)
        if kind == "zip":
            raise tarfile.ReadError("the archive is a zip, and no tar: load_from_zip reads it")
    new_decompressor = KINDS[kind].new_decompressor if kind is not None else None
    plain: Any = decompressed(stream, name, new_decompressor) if new_decompressor else stream
    taken = (lambda: plain.raw.bound.packed) if new_decompressor else None
    can_go_back = how == ":" and can_seek(plain)
    tar_mode: Any = "r:" if can_go_back else "r|"
    opening: Any = Tar.open  # Any, since some arguments are ours
    tar: Tar = opening(fileobj=plain, mode=tar_mode, max_bytes=max_bytes, taken=taken, can_go_back=can_go_back)
    return tar


class OtherMembers:
    """Counts the links and special files of an archive, which are not read, and warns of them."""

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._count = 0
        self._first = ""

    def add(self, header: tarfile.TarInfo) -> None:
        if not header.isdir():
            target = f" to {header.linkname!r}" if header.linkname else ""
            self._first = self._first or f"{header.name!r}{target}"
            self._count += 1

    def tell(self) -> None:
        if self._count:
            what = "a link or special file is" if self._count == 1 else f"{self._count} links or special files are"
            text = f"{what} left out of {without_secrets(self._archive)}: the first is {self._first}"
            warnings.warn(text, stacklevel=2)


class _Bounded:
    """A stream for tarfile, of which `left` bytes may be read."""

    def __init__(self, file: Any, left: float, taken: Callable[[], int] | None, can_go_back: bool) -> None:
        self.left = left
        self._file = file
        self._can_go_back = can_go_back
        self._most = left
        self._taken = taken

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int) -> bytes:
        self.left -= size
        if self.left < 0:
            raise TooLarge(
                f"a file in the archive has a name or another header of more than {self._most:,} bytes: where that is "
                "right, give load_from_tar a larger max_bytes"
            )
        if size <= _LARGE_READ:
            content: bytes = self._file.read(size)
            return content
        pieces = io.BytesIO()
        # In pieces: a header may declare more bytes than memory holds.
        while (grown := pieces.tell()) < size and (piece := self._file.read(min(size - grown, _LARGE_READ))):
            pieces.write(piece)
            if self._taken is not None:
                expect_within_limit(pieces.tell(), self._taken(), max(MAX_BYTES, self._most))
        return pieces.getvalue()

    def seek(self, position: int) -> None:
        # tarfile itself would request every block up to there, even past the end.
        while not self._can_go_back and (rest := position - self._file.tell()) > 0:
            if not self._file.read(min(rest, _LARGE_READ)):
                raise tarfile.ReadError("unexpected end of data")
        self._file.seek(position)


class _Header(tarfile.TarInfo):
    """A header that raises where it is cut or corrupt: tarfile would take it for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            header = super().fromtarfile(archive)
            if header.size < 0:  # would loop back to this header for ever
                raise ValueError(f"a file of {header.size} bytes")
            return header
        except (EOFHeaderError, TooLarge, tarfile.ReadError):
            raise
        except (tarfile.HeaderError, ValueError, LookupError, RecursionError) as error:
            raise tarfile.ReadError(f"the archive is cut or corrupt: {error} at byte {archive.offset}") from error
