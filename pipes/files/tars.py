"""Tar archives: opened so that checksums are verified, and read within a bound."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Callable
from tarfile import EOFHeaderError  # type: ignore[attr-defined]
from typing import IO, Any, Self

from ...storage.growth import MAX_BYTES, TooLarge, expect_honest
from ...storage.streams import can_seek
from .compression import KINDS, decompressed, known_kind, with_start

__all__ = ["HEADER_BYTES", "MODES", "Tar", "opened_tar"]

HEADER_BYTES = 2**20
"""Bytes that the header of a file may have, where nothing else is said. Names have up to some thousand."""

_PIECE = 2**22
"""Bytes that are read at a time where many are asked for at once."""

_COMPRESSIONS = {"gz": "gzip", "bz2": "bz2", "xz": "lzma", "zst": "zstd"}

MODES = ("r", *(f"r{how}{of}" for how in ":|" for of in ("", "*", "tar", *_COMPRESSIONS)))
"""How a tar can be read: as `tarfile.open` names it."""


class Tar(tarfile.TarFile):
    """A tar that is read, in which what stands before the content of a file has up to `max_bytes`.

    `taken` says how many compressed bytes were read, where the tar is compressed: contents that are read at once may
    grow to a hundred times as many, to 1 GiB, or to `max_bytes`.
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
        """Read on behind the last file to the end of the stream, which has the checksum of what is compressed."""
        file: Any = self.fileobj
        while file.read(2**16):
            pass


def opened_tar(stream: IO[bytes], mode: str, max_bytes: int = HEADER_BYTES) -> Tar:
    """Return the tar in a stream, as a mode of `MODES` says.

    What decompresses is ours, since tarfile's own verifies no checksum where it cannot seek. Raises tarfile.ReadError
    for a tar that is cut or corrupt, and OSError where what is compressed is so.
    """
    how, compression = mode[1:2] or ":", mode[2:] if mode != "r" else "*"
    name = str(getattr(stream, "name", "the stream"))
    kind = _COMPRESSIONS.get(compression)
    if compression == "*":
        stream, start = with_start(stream, name)
        kind = known_kind(start)
    new_decompressor = KINDS[kind].new_decompressor if kind is not None else None
    plain: Any = decompressed(stream, name, new_decompressor) if new_decompressor else stream
    taken = (lambda: plain.raw.taken) if new_decompressor else None
    can_go_back = how == ":" and can_seek(plain)
    tar_mode: Any = "r:" if can_go_back else "r|"
    opening: Any = Tar.open  # of whose arguments some are ours
    tar: Tar = opening(fileobj=plain, mode=tar_mode, max_bytes=max_bytes, taken=taken, can_go_back=can_go_back)
    return tar


class _Bounded:
    """What tarfile reads of a stream, of which `left` bytes may be read."""

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
        if size <= _PIECE:
            content: bytes = self._file.read(size)
            return content
        pieces = io.BytesIO()
        # Not at one go: a header may tell of more bytes than there is memory.
        while (grown := pieces.tell()) < size and (piece := self._file.read(min(size - grown, _PIECE))):
            pieces.write(piece)
            if self._taken is not None:
                expect_honest(pieces.tell(), self._taken(), max(MAX_BYTES, self._most))
        return pieces.getvalue()

    def seek(self, position: int) -> None:
        # By itself, tarfile asks for each block up to there, where there is none any more.
        while not self._can_go_back and (rest := position - self._file.tell()) > 0:
            if not self._file.read(min(rest, _PIECE)):
                raise tarfile.ReadError("unexpected end of data")
        self._file.seek(position)


class _Header(tarfile.TarInfo):
    """A header that, when it is cut or corrupt, is an error wherever it stands: tarfile takes it for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            header = super().fromtarfile(archive)
            if header.size < 0:  # which would lead back to it for ever
                raise ValueError(f"a file of {header.size} bytes")
            return header
        except (EOFHeaderError, TooLarge, tarfile.ReadError):
            raise
        except (tarfile.HeaderError, ValueError, LookupError, RecursionError) as error:
            raise tarfile.ReadError(f"the archive is cut or corrupt: {error} at byte {archive.offset}") from error
