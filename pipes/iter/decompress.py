"""Decompress streams."""

from __future__ import annotations

import enum
import os
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from typing import IO, Any, ClassVar

from ...errors.notes import add_note
from ...errors.secrets import without_secrets
from ...registry import IterDataPipe, OnError, close, expect_whole, functional_datapipe
from ...storage.streaming.decompression_limit import MAX_BYTES
from ...storage.streaming.streams import checked_path, expect_bytes
from ...storage.streaming.zips import opened_zip
from ..bases.listers_and_openers import check_length
from ..bases.one_to_one import OneToOne
from ..files.compression import KINDS, decompressed, kind_of, with_start
from ..files.members import Member, OpenArchive, seekable
from ..files.streams import path_and_stream
from ..files.tars import opened_tar


class CompressionType(enum.StrEnum):
    """The values of `file_type` of `decompress`."""

    GZIP = "gzip"
    LZMA = "lzma"
    TAR = "tar"
    ZIP = "zip"
    BZIP2 = "bz2"
    ZSTD = "zstd"


class _Zip(zipfile.ZipFile):
    """A zip whose files are bounded, and whose errors name it, as with `load_from_zip`."""

    def __init__(self, stream: IO[bytes], path: str, archive: OpenArchive) -> None:
        super().__init__(stream)
        self._path = path
        self._archive = archive

    def open(self, name: str | zipfile.ZipInfo, *args: Any, **kwargs: Any) -> IO[bytes]:
        try:
            part = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
            opening = partial(super().open, part, *args, **kwargs)
            member = Member(part.filename, part.file_size, opening, packed=part.compress_size)
            return self._archive.stream(member, f"{self._path}/{part.filename}")
        except Exception as error:
            add_note(error, f"when a file in {without_secrets(repr(self._path))} was opened")
            raise


def _open_zip(stream: IO[bytes], path: str, max_bytes: int) -> zipfile.ZipFile:
    archive = OpenArchive(stream, zipfile.BadZipFile, max_bytes)
    return opened_zip(seekable(stream, archive.opened), partial(_Zip, path=path, archive=archive))


def _open_tar(stream: IO[bytes], path: str, max_bytes: int) -> tarfile.TarFile:
    return opened_tar(stream, "r:*")


_ARCHIVES: dict[str | None, Callable[[IO[bytes], str, int], Any]] = {"tar": _open_tar, "zip": _open_zip}


@functional_datapipe("decompress")
class Decompressor(OneToOne[tuple[str, Any]]):
    """Yield the path and the decompressed stream of each compressed stream.

    Takes pairs of a path and a stream of bytes. `file_type` is `"gzip"`, `"bz2"`, `"lzma"` (xz too), `"zstd"`, `"tar"`,
    `"zip"`, or a `CompressionType`. Without it, the first bytes of each file decide, or else the ending of its name. An
    uncompressed tar or zip passes through, so `.decompress().load_from_tar()` reads tars with any compression or none.
    Paths stay as they are. Concatenated compressed parts are read as one stream. With `"tar"` or `"zip"`, an open
    `tarfile.TarFile` or `zipfile.ZipFile` replaces the stream; `load_from_tar` and `load_from_zip` yield the files in
    them. A zip that cannot seek is copied first, to memory or, above 16 MiB, to a temporary file. A stream can seek
    where the compressed one can; seeking back decompresses again. A dropped stream is closed, and the compressed one
    with it. One call, such as `read` or `readline`, may return `max_bytes`, or a hundred times the compressed bytes;
    beyond that it raises ValueError. The same bound holds for a file of an open zip.

    `on_error` handles a file of unknown compression; it cannot be a `Retry`. Damage shows when the stream is read:
    OSError, or zipfile.BadZipFile for a zip, with the path of the file.

    Raises ValueError for an unknown `file_type`, RuntimeError for a file of unknown compression, TypeError for a stream
    of text, and ImportError where zstd needs a package that is not installed.

    >>> import gzip, io
    >>> dp = IterableWrapper([("a.txt.gz", io.BytesIO(gzip.compress(b"one")))]).decompress()
    >>> [(path, stream.read()) for path, stream in dp]
    [('a.txt.gz', b'one')]
    """

    traits = ("opens",)
    types: ClassVar[type[CompressionType]] = CompressionType

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[bytes]]],
        file_type: str | CompressionType | None = None,
        *,
        max_bytes: int = MAX_BYTES,
        on_error: OnError = "raise",
    ) -> None:
        expect_whole("max_bytes", max_bytes)
        if file_type is not None:
            if not isinstance(file_type, str) or file_type.lower() not in KINDS:
                raise ValueError(f"file_type must be one of {', '.join(KINDS)}, or None, and is {file_type!r:.100}")
            file_type = file_type.lower()
            if new_decompressor := KINDS[file_type].new_decompressor:
                new_decompressor()  # raises ImportError, with what to install
        self.source = source
        self.file_type = file_type
        self.max_bytes = max_bytes
        self.handle_errors(on_error, can_retry=False)

    def _output(self, item: tuple[str | os.PathLike[str], IO[bytes]]) -> tuple[str, Any]:
        path, stream = path_and_stream(item)
        name = checked_path(path)
        try:
            expect_bytes(stream)
            if self.file_type in _ARCHIVES:
                return name, _ARCHIVES[self.file_type](stream, name, self.max_bytes)
            kind = self.file_type
            if kind is None:
                stream, start = with_start(stream, name)
                kind = kind_of(name, start)
            new_decompressor = KINDS[kind].new_decompressor
            if new_decompressor is None:
                return name, stream
            return name, decompressed(stream, name, new_decompressor, self.max_bytes)
        except Exception:
            close(stream)
            raise


@functional_datapipe("extract")
class Extractor(Decompressor):
    """Yield the path and the decompressed stream of each compressed stream: another name of `decompress`; prefer that.

    >>> import bz2, io
    >>> dp = IterableWrapper([("a.txt.bz2", io.BytesIO(bz2.compress(b"one")))]).extract()
    >>> [(path, stream.read()) for path, stream in dp]
    [('a.txt.bz2', b'one')]
    """


class _SuffixLoader(Decompressor):
    """Decompress files of one type, and remove the suffix of that type from their paths: the base of the loaders."""

    kind: ClassVar[str]
    suffix: ClassVar[str]

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[bytes]]],
        length: int = -1,
        *,
        max_bytes: int = MAX_BYTES,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(source, self.kind, max_bytes=max_bytes, on_error=on_error)
        self.length = check_length(length)

    def _output(self, item: tuple[str | os.PathLike[str], IO[bytes]]) -> tuple[str, Any]:
        path, stream = super()._output(item)
        return path.removesuffix(self.suffix), stream

    def __len__(self) -> int:
        return self.length if self.length >= 0 else super().__len__()


@functional_datapipe("load_from_bz2")
class Bz2FileLoader(_SuffixLoader):
    """Yield the path without `.bz2` and the decompressed stream of each stream: `decompress("bz2")` with shorter paths.

    Prefer `decompress`, for all compressions, where the paths do not matter. `len` returns `length`, or else the length
    of the source. Raises the errors of `decompress`, as do its streams.

    >>> import bz2, io
    >>> dp = IterableWrapper([("a.txt.bz2", io.BytesIO(bz2.compress(b"one")))]).load_from_bz2()
    >>> [(path, stream.read()) for path, stream in dp]
    [('a.txt', b'one')]
    """

    kind = "bz2"
    suffix = ".bz2"


@functional_datapipe("load_from_xz")
class XzFileLoader(_SuffixLoader):
    """Yield the path without `.xz` and the decompressed stream of each stream: `decompress("lzma")` with shorter paths.

    Prefer `decompress`, for all compressions, where the paths do not matter. `len` returns `length`, or else the length
    of the source. Raises the errors of `decompress`, as do its streams.

    >>> import io, lzma
    >>> dp = IterableWrapper([("fizz.xz", io.BytesIO(lzma.compress(b"one")))]).load_from_xz()
    >>> [(path, stream.read()) for path, stream in dp]
    [('fizz', b'one')]
    """

    kind = "lzma"
    suffix = ".xz"
