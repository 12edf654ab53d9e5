"""Read the files in archives."""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import IO, Any, ClassVar

from ...registry import IterDataPipe, OnError, R, expect_whole, functional_datapipe, own
from ...registry.traits import Trait
from ...state.replay import after
from ...storage.streaming.decompression_limit import MAX_BYTES
from ...storage.streaming.streams import checked_path, expect_bytes, is_damage
from ...storage.streaming.zips import opened_part, opened_zip
from ..bases.listers_and_openers import GivenLength, check_length
from ..files.members import Member, MemberPath, OpenArchive, inner_path, seekable
from ..files.streams import close_parts, path_and_stream
from ..files.tars import HEADER_BYTES, MODES, OtherMembers, opened_tar

_ENCRYPTED = 0x1
"""The flag bit of an encrypted file in a zip."""


class Unpacker(IterDataPipe[R]):
    """Yield the parts of each file: the base of the operators that take files apart.

    A subclass reads the files from `_files_left()`, skips the first `given` parts of each, and counts the parts it
    yields in `given`.
    """

    traits: ClassVar[tuple[Trait, ...]] = ("unpacks",)
    resumes_from_start = False
    given: int = own(0)
    """How many parts of the current file were yielded."""

    source: IterDataPipe[tuple[str, IO[bytes]]]

    def _files_left(self) -> Iterator[tuple[str, IO[bytes]]]:
        """Yield the items of the source, from the current one on."""
        items = self.read(self.source, drop=close_parts)
        for number, item in items:
            items.keep_from(number)
            yield item
            self.given = 0


class ArchiveLoader(GivenLength, Unpacker[tuple[str, IO[bytes]]]):
    """Yield the path and the stream of each file in archives: the base of the archive operators."""

    traits = ("opens", "unpacks")
    resumes_from_start = False
    damaged: type[Exception]
    """The error raised for a truncated or corrupt archive."""

    def __init__(
        self, source: IterDataPipe[tuple[str, IO[bytes]]], length: int, max_bytes: int, on_error: OnError
    ) -> None:
        expect_whole("max_bytes", max_bytes)
        self.source = source
        self.length = check_length(length)
        self.max_bytes = max_bytes
        self.handle_errors(on_error, can_retry=False)

    @property
    def _most_at_once(self) -> int:
        """The most bytes a file may have when it is read at once."""
        return self.max_bytes

    def _members(self, stream: IO[bytes], opened: ExitStack) -> Iterator[Member]:
        """Yield the files of an archive; enter the resources that this opens into `opened`."""
        raise NotImplementedError(f"{type(self).__name__} must define _members")

    def __iter__(self) -> Iterator[tuple[str, IO[bytes]]]:
        outputs_of = self.error_policy.outputs(self._unpack)
        for item in self._files_left():
            yield from outputs_of(item)

    def _unpack(self, item: tuple[str | os.PathLike[str], IO[Any]]) -> Iterator[tuple[str, IO[bytes]]]:
        path, stream = path_and_stream(item)
        archive = OpenArchive(stream, self.damaged, self._most_at_once)
        try:
            expect_bytes(stream)
            for member in after(iter(self._members(stream, archive.opened)), self.given):
                name = MemberPath(checked_path(path), inner_path(member.name))
                file = archive.read(member, name)
                self.given += 1
                yield name, file
        except Exception as error:
            archive.opened.close()  # otherwise the traceback keeps it open
            if is_damage(error):
                raise archive.damage(error) from error
            raise


@functional_datapipe("load_from_tar")
class TarArchiveLoader(ArchiveLoader):
    """Yield the path and the stream of each file in tar archives.

    Takes pairs of an archive's path and its stream of bytes, which is closed at the end of the archive. The path of a
    file is `archive path/name in the archive`. `mode` is as for `tarfile.open`: `"r:*"` detects the compression, and
    `"r|*"` never seeks. A stream that cannot seek is always read with `|`. Directories, symbolic links and devices hold
    no data and are left out; a warning at the end of the archive counts the links and devices. A hard link has the
    content of the file it names. `len` returns `length`; without `length` it raises TypeError.

    The stream of a file stays readable until it is dropped, whatever is read from the archive meanwhile. Files up to 16
    MiB are in memory. In an archive that cannot seek, read a larger file before requesting the next one; later its
    stream raises tarfile.StreamError.

    Checksums of compressed data are verified, the final one after the last file. The header of a file, with its name
    and metadata, may have `max_bytes` bytes. A large file of a compressed archive, read at once, may have the largest
    of 1 GiB, `max_bytes` and a hundred times the compressed bytes.

    `on_error` handles an archive that fails; files already yielded from it stay. It cannot be a `Retry`.

    Raises tarfile.ReadError for an archive that is corrupt, truncated or without an end mark. Raises ValueError for a
    name that is absolute or leaves the archive by `..`, and for a header of more than `max_bytes`. Raises TypeError for
    a stream of text.

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
        left_out = OtherMembers(str(getattr(stream, "name", "an archive")))
        while (header := tar.next()) is not None:
            tar.members.clear()  # tarfile keeps all headers, which may be long
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
                left_out.add(header)
                continue
            content = files[header.name]
            parts: Any = content.sparse  # (offset, size) of each stored part of a sparse file
            written = None if parts is None else sum(size for _, size in parts)
            opening = partial(tar.extractfile, content)
            yield Member(header.name, content.size, opening, tar.can_go_back, packed=written, taken=tar.taken)
        tar.read_to_end()
        left_out.tell()


@functional_datapipe("load_from_zip")
class ZipArchiveLoader(ArchiveLoader):
    """Yield the path and the stream of each file in zip archives.

    Takes pairs of an archive's path and its stream of bytes, which is closed at the end of the archive. A stream that
    cannot seek is copied first, to memory or, above 16 MiB, to a temporary file. The path of a file is `archive
    path/name in the archive`. Of several files of one name, the last is yielded, as `unzip` writes it. Directories are
    left out. A symbolic link is yielded as a file that holds the name of its target, as in torchdata, since the link
    flag has no checksum. `len` returns `length`; without `length` it raises TypeError. A file's stream stays
    readable until dropped. Files up to 16 MiB are in memory. A larger file, read at once, may have `max_bytes`, or a
    hundred times its compressed size where that is more.

    `on_error` handles an archive that fails; files already yielded from it stay. It cannot be a `Retry`.

    Raises zipfile.BadZipFile for an archive that is truncated or corrupt, and RuntimeError for an encrypted file.
    Raises ValueError for a name that is absolute or leaves the archive by `..`, and for a file beyond `max_bytes`.
    Raises TypeError for a stream of text.

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
        for entry in archive.NameToInfo.values():  # of several files of one name, it has the last
            is_encrypted = entry.flag_bits & _ENCRYPTED
            if entry.filename.endswith("/"):
                if not is_encrypted:
                    opened_part(archive, entry).close()  # checks the name: it may be corrupt
                continue
            if is_encrypted:
                raise RuntimeError(f"{entry.filename!r} is encrypted, and no password can be given")
            opening = partial(opened_part, archive, entry)
            yield Member(entry.filename, entry.file_size, opening, packed=entry.compress_size)
