"""Archives: one file in, the files that it holds out."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import IO, Any, TypeVar

from ...registry import Guard, IterDataPipe, OnError, expect_whole, functional_datapipe, own
from ...storage.growth import MAX_BYTES
from ...storage.streams import checked_path, expect_bytes, is_damage
from ...storage.zips import opened_part, opened_zip
from ..bases.listing import check_length, promised
from ..files.members import Member, OpenArchive, inner_path, seekable
from ..files.streams import close_parts, path_and_stream
from ..files.tars import HEADER_BYTES, MODES, opened_tar

__all__ = ["ArchiveLoader", "TarArchiveLoader", "Unpacker", "ZipArchiveLoader"]

R = TypeVar("R")

_ENCRYPTED = 0x1
"""The flag of an encrypted file in a zip."""


class Unpacker(IterDataPipe[R]):
    """Yield the parts of each file: the base of the operators that take files apart.

    A subclass reads the files from `_files_left()`, leaves out the first `given` parts of each, and counts there those
    that it gives.
    """

    holds_items = False
    given: int = own(0)
    """The parts of the file that were handed out."""

    source: IterDataPipe[tuple[str, IO[bytes]]]

    def _files_left(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield the source's items, from the one that the pass stands in."""
        items = self.read(self.source, drop=close_parts)
        for number, item in items:
            items.keep_from(number)
            yield item
            self.given = 0


class ArchiveLoader(Unpacker[tuple[str, IO[bytes]]]):
    """Yield the path and the stream of each file in archives: the base of the operators that do."""

    holds_items = False
    damaged: type[Exception]
    """What is raised for an archive that is cut or corrupt."""

    def __init__(
        self, source: IterDataPipe[tuple[str, IO[bytes]]], length: int, max_bytes: int, on_error: OnError
    ) -> None:
        expect_whole("max_bytes", max_bytes)
        self.source = source
        self.length = check_length(length)
        self.max_bytes = max_bytes
        self.on_error = on_error
        self.guard = Guard(on_error, can_retry=False)

    @property
    def _most_at_once(self) -> int:
        """Bytes to which a file may grow that is read at once."""
        return self.max_bytes

    def _members(self, stream: IO[bytes], opened: ExitStack) -> Iterator[Member]:
        """Yield the files of an archive, and enter what is opened for that into `opened`."""
        raise NotImplementedError(f"{type(self).__name__} must define _members")

    def __iter__(self) -> Iterator[tuple[str, IO[bytes]]]:
        outputs_of = self.guard.outputs(self._unpack)
        for item in self._files_left():
            yield from outputs_of(item)

    def _unpack(self, item: tuple[str | os.PathLike[str], IO[Any]]) -> Iterator[tuple[str, IO[bytes]]]:
        path, stream = path_and_stream(item)
        archive = OpenArchive(stream, self.damaged, self._most_at_once)
        try:
            expect_bytes(stream)
            for member in islice(self._members(stream, archive.opened), self.given, None):
                name = f"{checked_path(path)}/{inner_path(member.name)}"
                file = archive.read(member, name)
                self.given += 1
                yield name, file
        except Exception as error:
            archive.opened.close()  # the error's traceback holds the archive, and nobody else will read from it
            if is_damage(error):
                raise archive.damage(error) from error
            raise

    def __len__(self) -> int:
        return promised(self.length)


@functional_datapipe("load_from_tar")
class TarArchiveLoader(ArchiveLoader):
    """Yield the path and the stream of each file in tar archives.

    Takes pairs of an archive's path and its stream of bytes, which is closed at the archive's end. A file's path is
    that of the archive, a slash, and its name in it. `mode` is as for `tarfile.open`: `"r:*"` finds the compression by
    itself, and `"r|*"` never seeks; where a stream cannot seek, the latter is taken. Directories, symbolic links and
    devices hold no data and are left out; a hard link has the content of the file that it names. `length` is what
    `len` is to say; without it `len` raises TypeError.

    A file's stream can be read for as long as somebody holds it, whatever is read from the archive meanwhile. Files up
    to 16 MiB are in memory. Of an archive that cannot seek, a larger one must be read before the next file is asked
    for; later its stream raises tarfile.StreamError.

    The checksums of what is compressed are verified, that at its end when the last file was read. The header of a file
    may have `max_bytes`; in it are its name and what else is said of it. A large file of a compressed archive that is
    read at once may grow to 1 GiB, to `max_bytes`, or to a hundred times the compressed bytes.

    `on_error` handles an archive that fails: where it is left out, the files that came out of it before the
    failure are not taken back. It cannot be a `Retry`.

    Raises tarfile.ReadError for an archive that is corrupt or cut, as is one without an end mark, ValueError for a file
    whose name is absolute or leads out of the archive by `..`, or whose header has more than `max_bytes`, and TypeError
    for a stream of text.

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

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[bytes]]],
        mode: str = "r:*",
        length: int = -1,
        *,
        max_bytes: int = HEADER_BYTES,
        on_error: OnError = "raise",
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be 'r:' or 'r|' and a compression, such as 'r:*' or 'r|gz', and is {mode!r}")
        super().__init__(source, length, max_bytes, on_error)
        self.mode = mode

    @property
    def _most_at_once(self) -> int:
        return max(self.max_bytes, MAX_BYTES)

    def _members(self, stream: IO[bytes], opened: ExitStack) -> Iterator[Member]:
        tar = opened.enter_context(opened_tar(stream, self.mode, self.max_bytes))
        files: dict[str, tarfile.TarInfo] = {}
        while (header := tar.next()) is not None:
            tar.members.clear()  # which tarfile keeps, and their names may be long
            if header.isreg():
                files[header.name] = header
            elif header.islnk():
                if not tar.can_go_back or header.linkname not in files:
                    reason = (
                        "no such file comes before it" if tar.can_go_back else "the archive cannot seek back to that"
                    )
                    raise tarfile.ReadError(f"{header.name!r} is a hard link to {header.linkname!r}, and {reason}")
                files[header.name] = files[header.linkname]
            else:
                continue
            content = files[header.name]
            parts: Any = content.sparse  # of a sparse file, where and how many bytes; all else are zeros
            written = None if parts is None else sum(size for _, size in parts)
            yield Member(header.name, content.size, partial(tar.extractfile, content), tar.can_go_back, packed=written)
        tar.read_to_end()


@functional_datapipe("load_from_zip")
class ZipArchiveLoader(ArchiveLoader):
    """Yield the path and the stream of each file in zip archives.

    Takes pairs of an archive's path and its stream of bytes, which is closed at the archive's end; one that cannot seek
    is copied first, to memory or, above 16 MiB, to a temporary file. A file's path is that of the archive, a slash, and
    its name in it. Directories are left out; a symbolic link is a file that holds its target's name, as in
    torchdata: what makes it one has no checksum. `length` is what `len` is to say; without it `len` raises TypeError. A
    file's stream can be read for as long as somebody holds it; files up to 16 MiB are in memory.
    Larger ones that are read at once may grow to `max_bytes`, or to a hundred times what they have in the archive.

    `on_error` handles an archive that fails: where it is left out, the files that came out of it before the
    failure are not taken back. It cannot be a `Retry`.

    Raises zipfile.BadZipFile for an archive that is cut or corrupt, RuntimeError for a file that is encrypted,
    ValueError for one whose name is absolute or leads out of the archive by `..`, or that grows beyond `max_bytes`, and
    TypeError for a stream of text.

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

    def __init__(
        self,
        source: IterDataPipe[tuple[str, IO[bytes]]],
        length: int = -1,
        *,
        max_bytes: int = MAX_BYTES,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(source, length, max_bytes, on_error)

    def _members(self, stream: IO[bytes], opened: ExitStack) -> Iterator[Member]:
        archive = opened.enter_context(opened_zip(seekable(stream, opened)))
        for entry in archive.infolist():
            is_encrypted = entry.flag_bits & _ENCRYPTED
            if entry.filename.endswith("/"):
                if not is_encrypted:
                    opened_part(archive, entry).close()  # where the name stands again: a wrong bit may have made it so
                continue
            if is_encrypted:
                raise RuntimeError(f"{entry.filename!r} is encrypted, and no password can be given")
            opening = partial(opened_part, archive, entry)
            yield Member(entry.filename, entry.file_size, opening, packed=entry.compress_size)
