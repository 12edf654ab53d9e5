"""Read the files in RAR archives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import IO, Any

from ...errors.optional import require
from ...registry import IterDataPipe, OnError, functional_datapipe
from ...storage.streaming.decompression_limit import MAX_BYTES
from ..files.members import Member, seekable
from .archive import ArchiveLoader

_WITHOUT_END = 20
"""The last version of RAR without an end mark."""


@functional_datapipe("load_from_rar")
class RarArchiveLoader(ArchiveLoader):
    """Yield the path and the stream of each file in RAR archives.

    Takes pairs of an archive's path and its stream of bytes, which is closed at the end of the archive. A stream that
    cannot seek is copied first, to memory or, above 16 MiB, to a temporary file. The path of a file is `archive
    path/name in the archive`. Directories and symbolic links are left out. `len` returns `length`; without `length` it
    raises TypeError. A stream stays readable until it is dropped. Files up to 16 MiB are in memory. A larger
    file, read at once, may have `max_bytes`, or a hundred times its compressed size where that is more. Stored files
    are read directly; a program unpacks compressed ones: unrar, unar, 7-Zip or bsdtar.

    `on_error` handles an archive that fails; files already yielded from it stay. It cannot be a `Retry`.

    Raises rarfile.BadRarFile for an archive that is truncated or corrupt, rarfile.RarCannotExec for a compressed file
    without a program to unpack it, RuntimeError for an archive that is encrypted or one volume of several, ValueError
    for a name that is absolute or leaves the archive by `..`, TypeError for a stream of text, and ImportError without
    the extra `rar`.

    >>> import base64, io
    >>> packed = base64.b64decode(
    ...     "UmFyIRoHAM+QcwAADQAAAAAAAAAI93QAgCUAAwAAAAMAAAAD8YZsegAAIQAdMAUApIEAAGEudHh0b25lxD17AEAHAA=="
    ... )
    >>> dp = IterableWrapper([("pack.rar", io.BytesIO(packed))]).load_from_rar()
    >>> [(path, stream.read()) for path, stream in dp]
    [('pack.rar/a.txt', b'one')]
    """

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[bytes]]],
        *,
        length: int = -1,
        max_bytes: int = MAX_BYTES,
        on_error: OnError = "raise",
    ) -> None:
        self.damaged = require("rarfile", "rar").BadRarFile
        super().__init__(source, length, max_bytes, on_error)

    def _members(self, stream: IO[bytes], opened: ExitStack) -> Iterator[Member]:
        rarfile = require("rarfile", "rar")
        headers: list[Any] = []
        try:
            archive = opened.enter_context(
                # Strict, or damage would pass for the end of the archive.
                rarfile.RarFile(seekable(stream, opened), part_only=True, info_callback=headers.append, errors="strict")
            )
        except rarfile.NotRarFile as error:
            raise rarfile.BadRarFile("this is no RAR archive") from error
        entries = archive.infolist()
        if archive.needs_password() and not entries:
            raise RuntimeError("the names in the archive are encrypted, and no password can be given")
        if any(_is_part(rarfile, header) for header in headers):
            raise RuntimeError("the archive is one volume of several: it cannot be unpacked alone")
        ended = headers and headers[-1].type == rarfile.RAR_BLOCK_ENDARC
        if not ended and (not entries or any(entry.extract_version > _WITHOUT_END for entry in entries)):
            raise rarfile.BadRarFile("the archive is cut: it has no end mark")
        for entry in entries:
            if entry.needs_password():
                raise RuntimeError(f"{entry.filename!r} is encrypted, and no password can be given")
            if entry.is_file():
                opening = partial(_open_entry, rarfile, archive, entry)
                yield Member(entry.filename, entry.file_size, opening, packed=entry.compress_size)


def _is_part(rarfile: Any, header: Any) -> bool:
    """Say whether a header belongs to a volume of several."""
    if header.type == rarfile.RAR_BLOCK_FILE:
        return bool(header.flags & (rarfile.RAR_FILE_SPLIT_BEFORE | rarfile.RAR_FILE_SPLIT_AFTER))
    return bool(header.type == rarfile.RAR_BLOCK_ENDARC and header.flags & rarfile.RAR_ENDARC_NEXT_VOLUME)


def _open_entry(rarfile: Any, archive: Any, entry: Any) -> Any:
    try:
        return archive.open(entry)
    except rarfile.RarCannotExec as error:
        raise rarfile.RarCannotExec(
            f"{entry.filename!r} is compressed, and there is no program here that unpacks it: install unrar, unar, "
            "7-Zip or bsdtar"
        ) from error
