"""Get the files of a data set into its root: once, whole, and verified."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import IO

from ..pipes.iter import IterableWrapper
from ..registry import IterDataPipe
from ..registry.notes import add_note
from ..registry.secrets import without_secrets
from ..storage.addresses import is_local_path
from ..storage.digest import check_digest
from ..storage.locks import FileLock
from ..storage.parts import lock_beside
from ..storage.reading import open_file
from ..storage.writing import whole_file
from .download import download, progress
from .resource import Resource

__all__ = ["COMPRESSED", "archive_kind", "fetch", "members_of", "place_of", "unpacked"]

_WAIT = 600.0
"""Seconds in which another process must get on with a file, or this one gives up waiting for it."""

_KINDS = {
    "zip": (".zip",),
    "tar": (".tar",),
    "compressed tar": (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst"),
}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lzma")
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)

_verified: dict[str, tuple[int, int]] = {}
"""Size and time of change of the files that this process has verified."""

_in_store: set[str] = set()
"""The objects that this process has found: `read` asks for its archive each time."""


def archive_kind(name: str) -> str | None:
    """Return `"zip"`, `"tar"` or `"compressed tar"` for the name of an archive, None for another file."""
    return next((kind for kind, endings in _KINDS.items() if name.lower().endswith(endings)), None)


def members_of(archives: IterDataPipe[str], name: str) -> IterDataPipe[tuple[str, IO[bytes]]]:
    """Return a chain of the path and the stream of each file in archives, or compressed files, as a name tells."""
    opened = archives.open_files_by_fsspec(mode="rb")
    if archive_kind(name) is None:
        return opened.decompress()
    return opened.load_from_zip() if archive_kind(name) == "zip" else opened.load_from_tar()


def place_of(resource: Resource, folder: str) -> str:
    """Return the path or URL of a resource in its data set's folder, or in the package that it is part of."""
    return resource.installed or _joined(folder, resource.name)


def fetch(resource: Resource, folder: str) -> str:
    """Return the path or URL of a resource in a folder; get it first if it is not there.

    One process of a machine gets it, and the others wait. It appears once it is whole and its digest is right. A file
    that somebody else put there is verified, too: once, which is noted beside it.

    Raises FileNotFoundError if it is missing and cannot be had, RuntimeError for another digest, and OSError if the
    folder cannot be written to.
    """
    place = place_of(resource, folder)
    if resource.is_installed or _is_there(resource, place):
        return place
    if os.environ.get("PENSTOCK_OFFLINE", "0") not in ("", "0"):
        raise _missing(resource, folder, "PENSTOCK_OFFLINE is set")
    if not _candidates(resource, folder):
        raise _missing(resource, folder, "it cannot be downloaded")
    with _one_at_a_time(resource, place, folder):
        if not _is_there(resource, place):
            _get(resource, folder, place)
    return place


def unpacked(resource: Resource, folder: str) -> str:
    """Return the path or URL of the folder of an archive's files; unpack it first if that was not done.

    Of a file that is compressed for itself, such as `cells.h5.gz`, return that of what it holds.
    """
    place = place_of(resource, folder)
    ending = next(end for ends in (*_KINDS.values(), COMPRESSED) for end in ends if resource.name.lower().endswith(end))
    target = place[: -len(ending)]
    done = _joined(folder, f".{resource.name}.unpacked")
    if _exists(done):
        return target
    archive = fetch(resource, folder)
    with _one_at_a_time(resource, target, folder) as lock_path:
        if not _exists(done):
            with progress(f"unpack {resource.name}", None) as advance:
                for path, stream in members_of(IterableWrapper([archive]), resource.name):
                    inner = path[len(archive) + 1 :]  # its loader refuses one that leads out of the archive
                    place = _joined(target, inner) if archive_kind(resource.name) else target
                    with closing(stream), whole_file(place, "wb", {}) as file:
                        shutil.copyfileobj(stream, file, 2**20)
                        advance(file.tell())
                    os.utime(lock_path)  # others wait while it gets on
            _write(done, b"")
    return target


def _get(resource: Resource, folder: str, place: str) -> None:
    """Download a resource from the first place that has it."""
    failures: list[Exception] = []
    for url in _candidates(resource, folder):
        try:
            if is_local_path(place):
                _get_to_disk(resource, url, place)
            else:
                _get_to_store(resource, url, place)
        except (OSError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise
            failures.append(error)
        else:
            return
    if len(failures) == 1 and not isinstance(failures[0], (ConnectionError, FileNotFoundError, TimeoutError)):
        raise failures[0]
    raise _missing(resource, folder, "; ".join(f"{error}" for error in failures)) from failures[-1]


def _get_to_disk(resource: Resource, url: str, place: str) -> None:
    part = f"{place}.part"
    download(url, part)
    try:
        _verify(resource, part, url)
    except RuntimeError:
        os.unlink(part)
        raise
    os.replace(part, place)
    _note_verified(resource, place)


def _get_to_store(resource: Resource, url: str, place: str) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        part = os.path.join(folder, f"{resource.name}.part")
        download(url, part)
        _verify(resource, part, url)
        with open(part, "rb") as content, whole_file(place, "wb", {}) as file:
            shutil.copyfileobj(content, file, 2**20)
    _in_store.add(place)


def _candidates(resource: Resource, folder: str) -> list[str]:
    """Return where to look for a resource: first in the mirror that the environment names."""
    mirror = os.environ.get("PENSTOCK_MIRROR", "").rstrip("/")
    named = [f"{mirror}/{posixpath.basename(folder.rstrip('/'))}/{resource.name}"] if mirror else []
    return [*named, *resource.urls]


def _is_there(resource: Resource, place: str) -> bool:
    if not is_local_path(place):
        return _is_in_store(place, resource.size)
    try:
        status = os.stat(place)
    except FileNotFoundError:
        return False
    stamp = (status.st_size, status.st_mtime_ns)
    if _verified.get(place) == stamp:
        return True
    if _noted(place) != _note(resource, stamp):
        _verify(resource, place, place)
        _note_verified(resource, place)
    _verified[place] = stamp
    return True


def _is_in_store(url: str, expected: int | None = None) -> bool:
    """Say whether an object is there. It was verified when it was written; only its size is compared again."""
    if url not in _in_store:
        try:
            stream, size = open_file(url, {})
        except FileNotFoundError:
            return False
        stream.close()
        if None not in (size, expected) and size != expected:
            told = f"{without_secrets(url)} has {size} bytes, and {expected} were expected of it: remove it"
            raise RuntimeError(told)
        _in_store.add(url)
    return True


def _verify(resource: Resource, path: str, origin: str) -> None:
    """Raise RuntimeError if a file has another size or digest than it should."""
    try:
        size = os.path.getsize(path)
        if resource.size is not None and size != resource.size:
            raise RuntimeError(f"{resource.name} has {size} bytes, and {resource.size} were expected of it")
        if resource.digest is not None:
            kind, digest = resource.digest
            with open(path, "rb") as file:
                check_digest(resource.name, file, digest, kind)
    except RuntimeError as error:
        add_note(error, f"it came from {without_secrets(origin)}: the file there has changed, or is no file but a page")
        raise


def _note(resource: Resource, stamp: tuple[int, int]) -> str:
    kind, digest = resource.digest or ("none", "")
    return f"{kind}:{digest} {stamp[0]} {stamp[1]}\n"


def _note_beside(place: str) -> str:
    return os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.verified")


def _noted(place: str) -> str | None:
    with suppress(OSError), open(_note_beside(place), encoding="utf-8") as file:
        return file.read()
    return None


def _note_verified(resource: Resource, place: str) -> None:
    status = os.stat(place)
    with suppress(OSError):  # a folder that cannot be written to: each process verifies for itself
        _write(_note_beside(place), _note(resource, (status.st_size, status.st_mtime_ns)).encode())


@contextmanager
def _one_at_a_time(resource: Resource, place: str, folder: str) -> Iterator[str]:
    """Hold the lock on a place, and give its path. While its owner gets on with the file, the others wait."""
    if is_local_path(place):
        lock_path = lock_beside(place)
        try:
            os.makedirs(folder, exist_ok=True)
            if not os.access(folder, os.W_OK):
                raise PermissionError(errno.EACCES, "the folder is read-only", folder)
        except OSError as error:
            if error.errno in _READ_ONLY:
                raise _missing(resource, folder, f"the folder cannot be written to ({error.strerror})") from None
            raise
    else:  # a store has no locks: at least the processes of this machine go one by one
        name = hashlib.sha256(place.encode()).hexdigest()[:24]
        lock_path = os.path.join(tempfile.gettempdir(), f"penstock-{os.getuid()}-{name}.lock")
    with ExitStack() as held:
        while True:
            before = _progress_of(place, lock_path)
            try:
                held.enter_context(FileLock(lock_path, _WAIT, threading.Event()))
                break
            except TimeoutError:
                if _progress_of(place, lock_path) == before:
                    raise
        yield lock_path


def _progress_of(place: str, lock_path: str) -> tuple[float, ...]:
    """Return what changes while another process downloads a file, or unpacks it."""
    told = []
    for path, figure in ((f"{place}.part", os.path.getsize), (lock_path, os.path.getmtime)):
        try:
            told.append(figure(path))
        except OSError:
            told.append(-1)
    return tuple(told)


def _missing(resource: Resource, folder: str, reason: str) -> FileNotFoundError:
    where = " or ".join(map(without_secrets, resource.urls)) or "its home page"
    digest = f" ({resource.digest[0]} {resource.digest[1]})" if resource.digest else ""
    note = f". {resource.note}" if resource.note and not resource.urls else ""
    return FileNotFoundError(
        errno.ENOENT,
        f"{resource.name} is missing, and {reason}. Get {where}{digest}, and put it there{note}",
        place_of(resource, folder),
    )


def _exists(place: str) -> bool:
    return os.path.exists(place) if is_local_path(place) else _is_in_store(place)


def _write(place: str, content: bytes) -> None:
    with whole_file(place, "wb", {}) as file:
        file.write(content)
    if not is_local_path(place):
        _in_store.add(place)


def _joined(folder: str, name: str) -> str:
    return os.path.join(folder, name) if is_local_path(folder) else f"{folder.rstrip('/')}/{name}"
