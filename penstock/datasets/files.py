"""The files of a resource, as chains or by their paths."""

from __future__ import annotations

import errno
import fnmatch
import functools
import os
import posixpath
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import IO, Protocol

from ..pipes.files.members import inner_path
from ..pipes.files.tars import OtherMembers
from ..pipes.iter import IterableWrapper
from ..registry import IterDataPipe, close, own
from ..storage.addresses import is_local_path
from ..storage.listing import files_below
from ..storage.reading import open_file, open_to_seek, read_whole
from ..storage.streaming.zips import opened_part, opened_zip
from .fetching import fetch, members_of, path_of, unpacked
from .resource import COMPRESSED, Resource, archive_kind, unpacked_name


class Files:
    """The files of one resource: those in an archive, or the one file that it is.

    `open` and `list` give chains, for the definition of a data set; `read` is a function for `map`. A path is that in
    the archive, or the file's name. Archives are read in place, or from their folder where the resource is unpacked.
    The resource is downloaded when the first of these is read.
    """

    def __init__(self, resource: Resource, folder: str) -> None:
        self.resource = resource
        self.folder = folder

    def __repr__(self) -> str:
        return f"<files of {path_of(self.resource, self.folder)}>"

    @property
    def name(self) -> str:
        """The name of the one file that the resource is, without the ending of its compression."""
        return unpacked_name(self.resource.name) if self._is_compressed else self.resource.name

    @property
    def _is_compressed(self) -> bool:
        name = self.resource.name
        return archive_kind(name) is None and name.lower().endswith(COMPRESSED)

    def path(self) -> str:
        """Return the path or URL of the resource; download it first if it is missing."""
        return fetch(self.resource, self.folder)

    def open(self, *patterns: str) -> IterDataPipe[tuple[str, IO[bytes]]]:
        """Return a chain of the path and the stream of each file that one of the patterns matches, or of all files.

        In a pattern, `*` matches any text, slashes too, and `?` one character. A file that is compressed for
        itself, such as `labels.gz`, is decompressed. Reading the chain raises FileNotFoundError for a pattern that
        matches no file.
        """
        name = self.resource.name
        if self.resource.unpack:
            return self.list(*patterns).map(self.stream)
        whole = IterableWrapper([self]).map(Files.path)
        if archive_kind(name):
            return Chosen(members_of(whole, name), self, patterns)
        opened = whole.open_files_by_fsspec(mode="rb")
        return Chosen(opened.decompress() if self._is_compressed else opened, self, patterns)

    def list(self, *patterns: str) -> IterDataPipe[str]:
        """Return a chain of the paths of the files that one of the patterns matches, or of all files, for `read`.

        They come in the order of the archive, or of their names where it is unpacked.
        """
        return Listed(self, patterns)

    def paths(self, *patterns: str) -> Sequence[str]:
        """Return what `list` gives, at once."""
        paths = self.access().paths()
        found = [path for path in paths if _matching(path, patterns)] if patterns else paths
        if absent := [pattern for pattern in patterns if not any(_matching(path, [pattern]) for path in found)]:
            raise self.missing(absent, paths)
        return found

    def read(self, path: str) -> bytes:
        """Return the bytes of a file.

        Raises FileNotFoundError if the archive has no such file, and ValueError for a compressed tar, which can be read
        in order only: such a resource needs `unpack=True`.
        """
        access = self.access()
        try:
            return access.read(path)
        except KeyError:
            raise self.missing([path], access.paths()) from None

    def stream(self, path: str) -> tuple[str, IO[bytes]]:
        """Return the path and a stream of a file in an unpacked archive."""
        return path, open_file(self.place(path), {})[0]

    def place(self, path: str) -> str:
        """Return the path or URL of a file in an unpacked archive, or of a file that was compressed for itself."""
        place = unpacked(self.resource, self.folder)
        return posixpath.join(place, path) if archive_kind(self.resource.name) else place

    def missing(self, patterns: Sequence[str], seen: Sequence[str]) -> FileNotFoundError:
        """Return the error for files that the resource should have."""
        what = ", ".join(map(repr, patterns))
        has = ", ".join(map(repr, seen[:10])) + (", …" if len(seen) > 10 else "")
        reason = f"{self.resource.name} has no {what}: its layout has changed, or the file is another. It has {has}"
        return FileNotFoundError(errno.ENOENT, reason, path_of(self.resource, self.folder))

    def access(self) -> Access:
        """Return what reads the files by their paths."""
        is_archive = archive_kind(self.resource.name) is not None
        if self.resource.unpack:
            place = unpacked(self.resource, self.folder)
            return Folder(place) if is_archive else _Single(place, self.name)
        return archive_at(self.path()) if is_archive else _Single(self.path(), self.name, self._is_compressed)


class Listed(IterDataPipe[str]):
    """Yield the paths of files of a resource."""

    payload = ("files",)

    def __init__(self, files: Files, patterns: tuple[str, ...]) -> None:
        self.files = files
        self.patterns = patterns

    def __iter__(self) -> Iterator[str]:
        return iter(self.files.paths(*self.patterns))


class Chosen(IterDataPipe[tuple[str, IO[bytes]]]):
    """Yield the files of a resource that a pattern matches, each by its path in the resource."""

    resumes_from_start = False
    payload = ("files",)
    found: list[str] = own(list)
    """The patterns that have matched a file."""

    def __init__(
        self, source: IterDataPipe[tuple[str, IO[bytes]]], files: Files, patterns: tuple[str, ...] = ()
    ) -> None:
        self.source = source
        self.files = files
        self.patterns = patterns

    def __iter__(self) -> Iterator[tuple[str, IO[bytes]]]:
        place = path_of(self.files.resource, self.files.folder)
        archived = archive_kind(self.files.resource.name) is not None
        are_paths = all(pattern == pattern.translate(_NO_PATTERN) for pattern in self.patterns)
        seen: list[str] = []
        for path, stream in self.source:
            inner = path[len(place) + 1 :] if archived else self.files.name
            seen.append(inner)
            matched = _matching(inner, self.patterns)
            if self.patterns and not matched:
                close(stream)
                continue
            self.found = [*{*self.found, *matched}]
            yield inner, stream
            if are_paths and self.patterns and len(self.found) == len({*self.patterns}):
                return  # the rest of the archive has none of them
        if absent := [pattern for pattern in self.patterns if pattern not in self.found]:
            raise self.files.missing(absent, seen)


_NO_PATTERN = str.maketrans("", "", "*?")


def _matching(path: str, patterns: Sequence[str]) -> list[str]:
    return [each for each in patterns if each == path or fnmatch.fnmatchcase(path, each.replace("[", "[[]"))]


class Access(Protocol):
    """Files by their paths; `read` raises KeyError for one that is not there."""

    def paths(self) -> list[str]: ...

    def read(self, path: str) -> bytes: ...


class _Single:
    def __init__(self, place: str, name: str, is_compressed: bool = False) -> None:
        self._place = place
        self._name = name
        self._is_compressed = is_compressed

    def paths(self) -> list[str]:
        return [self._name]

    def read(self, path: str) -> bytes:
        if path != self._name:
            raise KeyError(path)
        if self._is_compressed:
            ((_, stream),) = members_of(IterableWrapper([self._place]), self._place)
            with closing(stream):
                return stream.read()
        return read_whole(self._place, {})


class Folder:
    """The files in a folder and those below it."""

    def __init__(self, place: str) -> None:
        self._place = place

    def paths(self) -> list[str]:
        if not is_local_path(self._place):
            return sorted(url[len(self._place) + 1 :] for url in files_below(f"{self._place}/", {}))
        found = [
            os.path.join(folder, name) for folder, _, names in os.walk(self._place, followlinks=True) for name in names
        ]
        return sorted(os.path.relpath(path, self._place).replace(os.sep, "/") for path in found)

    def read(self, path: str) -> bytes:
        try:
            return read_whole(posixpath.join(self._place, path), {})
        except FileNotFoundError:
            raise KeyError(path) from None


class _Zip:
    def __init__(self, place: str) -> None:
        self._archive = opened_zip(open_to_seek(place, {}))
        self._parts = {inner_path(part.filename): part for part in self._archive.infolist() if not part.is_dir()}

    def paths(self) -> list[str]:
        return [*self._parts]

    def read(self, path: str) -> bytes:
        with opened_part(self._archive, self._parts[path]) as stream:
            return stream.read()


class TarAccess:
    """The files in a plain tar, and those in tars in it."""

    def __init__(self, place: str) -> None:
        self._stream = open_to_seek(place, {})
        self._place = place
        self._turn = threading.Lock()
        self._parts = self._table()
        self._inner: dict[str, dict[str, tuple[int, int]]] = {}

    def paths(self) -> list[str]:
        return [*self._parts]

    def read(self, path: str) -> bytes:
        return self.read_at(*self._parts[path], path)

    def read_at(self, offset: int, size: int, path: str) -> bytes:
        """Return bytes of the archive; the path is for the error of one that is cut."""
        with self._turn:
            self._stream.seek(offset)
            content: bytes = self._stream.read(size)
        if len(content) < size:
            raise tarfile.ReadError(f"{path!r} in {self._place!r} is cut")
        return content

    def inner(self, path: str) -> dict[str, tuple[int, int]]:
        """Return where the files of a tar in this one begin, and their sizes, by their names."""
        if path not in self._inner:
            offset, size = self._parts[path]
            try:
                with self._turn:
                    self._stream.seek(offset)
                    parts = self._table()
            except tarfile.ReadError as error:
                raise tarfile.ReadError(f"{path!r} in {self._place!r} is cut, or no tar: {error}") from None
            if any(begin + length > offset + size for begin, length in parts.values()):
                raise tarfile.ReadError(f"{path!r} in {self._place!r} is cut")
            self._inner[path] = parts
        return self._inner[path]

    def _table(self) -> dict[str, tuple[int, int]]:
        """Return the table of the archive that begins at the stream's position."""
        table: dict[str, tuple[int, int]] = {}
        left_out = OtherMembers(self._place)
        with tarfile.open(fileobj=self._stream, mode="r:") as tar:
            for header in tar:
                if header.islnk() and inner_path(header.linkname) in table:
                    table[inner_path(header.name)] = table[inner_path(header.linkname)]
                elif header.isreg() and not header.sparse:
                    table[inner_path(header.name)] = (header.offset_data, header.size)
                else:
                    left_out.add(header)
            self._stream.seek(tar.offset)
            if self._stream.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError(f"{self._place!r} is cut: its end mark is missing")
        left_out.tell()
        return table


def archive_at(place: str) -> Access:
    """Return the files in a zip or a plain tar; raise ValueError for a compressed tar."""
    kind = archive_kind(place)
    if kind == "compressed tar":
        name = posixpath.basename(place)
        raise ValueError(f"{name} can be read in order only: give its Resource unpack=True, or unpack it")
    status = os.stat(place) if is_local_path(place) else None
    return _opened_once(place, str(kind), (status.st_size, status.st_mtime_ns) if status else (0, 0), os.getpid())


@functools.lru_cache(maxsize=64)
def _opened_once(place: str, kind: str, stamp: tuple[int, int], process: int) -> Access:
    """Return an archive that stays open in this process: its table of files is read once."""
    return _Zip(place) if kind == "zip" else TarAccess(place)
