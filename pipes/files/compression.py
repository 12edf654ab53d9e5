"""Compressed files: detection and reading."""

from __future__ import annotations

import io
import math
import os
import re
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import IO, Any, NamedTuple

from ...errors.optional import zstandard
from ...errors.secrets import without_secrets
from ...storage.chains import suffix_of
from ...storage.streaming.decompression_limit import Bound, BoundedReader
from ...storage.streaming.streams import ClosedWhenDropped, can_seek, stream_over

_CHUNK = 2**17
"""Bytes read or decompressed at once."""

_START = 263
"""Bytes that identify a file: the mark of a tar comes last, after the name of its first file."""


class _Kind(NamedTuple):
    """A kind of file: how it begins, how its name ends, and what decompresses it, if it is compressed."""

    start: re.Pattern[bytes]
    suffixes: tuple[str, ...]
    new_decompressor: Callable[[], Any] | None = None


class _Decompressed(ClosedWhenDropped):
    """The decompressed bytes of a file. Python's own readers take corruption between two parts for the end."""

    def __init__(self, file: IO[bytes], name: str, new_decompressor: Callable[[], Any], max_bytes: float) -> None:
        super().__init__(file, name, None)
        self.bound = Bound(self.name, max_bytes)
        self._new_decompressor = new_decompressor
        self._start = file.tell() if can_seek(file) else None
        self._decompressor: Any = None
        self._at = 0

    def readinto(self, buffer: Any) -> int:
        content = self._next(min(len(buffer), _CHUNK))
        self.bound.add(content)
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        pieces, size = [], 0
        while piece := self._next(_CHUNK):
            pieces.append(piece)
            size += len(piece)
            self.bound.expect(size)
        return b"".join(pieces)

    def _next(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end."""
        content = b""
        while not content:
            packed = self._packed()
            if packed is None:
                break
            try:
                content = self._decompressor.decompress(packed, size)
            except MemoryError:
                raise
            except Exception as error:
                raise self._damage(error) from error
        self._at += len(content)
        return content

    def _packed(self) -> bytes | None:
        """Return the next input of the decompressor, which is new for each part; None at the end."""
        current = self._decompressor
        if current is not None and not current.eof:
            if not current.needs_input:
                return b""
            if packed := self._read_packed():
                return packed
            raise self._damage("it ends too early")
        # Zeros may pad parts, as in xz files and on tapes.
        packed = current.unused_data.lstrip(b"\0") if current is not None else b""
        while not packed:
            packed = self._read_packed()
            if not packed and current is None:
                raise self._damage("it is empty")
            if not packed:
                return None
            packed = packed.lstrip(b"\0") if current is not None else packed
        self._decompressor = self._new_decompressor()
        return packed

    def _read_packed(self) -> bytes:
        packed = self._file.read(_CHUNK)
        self.bound.packed += len(packed)
        return packed

    def _damage(self, reason: object) -> OSError:
        return OSError(f"{without_secrets(repr(self.name))} is cut or corrupt: {reason}")

    def seekable(self) -> bool:
        return self._start is not None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if self._start is None:
            raise io.UnsupportedOperation("the compressed stream cannot seek")
        if whence == os.SEEK_END:
            while self._next(_CHUNK):
                pass
        target = offset if whence == os.SEEK_SET else self._at + offset
        if target < 0:
            raise ValueError(f"there is no position {target}")
        if target < self._at:
            self._file.seek(self._start)
            self._decompressor = None
            self._at = 0
        while self._at < target and self._next(min(_CHUNK, target - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def fileno(self) -> int:
        raise io.UnsupportedOperation("the file of this stream holds what is compressed")  # NumPy would read it


class _Gunzip:
    """zlib's gzip decompressor with the interface of `BZ2Decompressor`."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        content = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(content) < max_length
        return content


# Imported on use: Python can be built without bz2 and lzma.
KINDS = {
    "gzip": _Kind(re.compile(rb"\x1f\x8b\x08"), (".gz", ".gzip", ".tgz"), _Gunzip),
    # After the block size comes the mark of the first block, or of the end.
    "bz2": _Kind(
        re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
        (".bz2", ".tbz", ".tbz2"),
        lambda: import_module("bz2").BZ2Decompressor(),
    ),
    # The older lzma format begins with its settings and the content size, which may be unknown.
    "lzma": _Kind(
        re.compile(rb"(?s)\xfd7zXZ\x00|\x5d\x00\x00(?!\x00\x00)..(\xff{8}|.{5}\x00{3})"),
        (".xz", ".lzma", ".txz"),
        lambda: import_module("lzma").LZMADecompressor(),
    ),
    "zstd": _Kind(re.compile(rb"\x28\xb5\x2f\xfd"), (".zst", ".zstd", ".tzst"), lambda: zstandard().ZstdDecompressor()),
    "zip": _Kind(re.compile(rb"PK(\x03\x04|\x05\x06)"), (".zip",)),
    "tar": _Kind(re.compile(rb"(?s).{257}ustar"), (".tar",)),
}
"""The known file types."""


def decompressed(
    stream: IO[bytes], name: str, new_decompressor: Callable[[], Any], max_bytes: float = math.inf
) -> IO[bytes]:
    """Return a stream of decompressed bytes; dropping it closes `stream`.

    A call that would return more than the bound, of which a full read and a line may have any size, raises TooLarge.
    """
    raw = _Decompressed(stream, name, new_decompressor, max_bytes)
    return io.BufferedReader(raw, _CHUNK) if max_bytes == math.inf else BoundedReader(raw, raw.bound, _CHUNK)


def decompressor_by_name(name: str) -> Callable[[], Any] | None:
    """Return what decompresses a file whose name or address ends as that of a compressed one, or None."""
    suffixes = {suffix: kind.new_decompressor for kind in KINDS.values() for suffix in kind.suffixes}
    return suffixes.get(suffix_of(name))


def with_start(stream: Any, name: str) -> tuple[IO[bytes], bytes]:
    """Return a stream that can peek, wrapped if needed, and its first bytes."""
    if not hasattr(stream, "peek"):
        stream = stream_over(stream, name, None)
    return stream, stream.peek(_START)


def known_kind(start: bytes) -> str | None:
    """Return the type of a file by its first bytes, or None where they match none."""
    return next((kind for kind, signs in KINDS.items() if signs.start.match(start)), None)


def kind_of(name: str, start: bytes) -> str:
    """Return the type of a file by its first bytes, else by its name; raise RuntimeError where both match none."""
    if kind := known_kind(start):
        return kind
    for kind, signs in KINDS.items():
        if name.lower().endswith(signs.suffixes):
            return kind
    raise RuntimeError(
        "the compression is unknown: neither the file's first bytes nor its name tell it; give file_type=…"
    )
