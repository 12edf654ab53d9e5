"""Get the files of a data set into its root: once, whole, and verified."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import shutil
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import IO

from ..errors.notes import add_note
from ..errors.secrets import without_secrets
from ..pipes.bases.progress_bar import progress_bar
from ..pipes.iter import IterableWrapper
from ..registry import IterDataPipe
from ..storage.addresses import is_local_path
from ..storage.local.atomic import lock_beside
from ..storage.local.locks import FileLock
from ..storage.reading import open_file, read_whole
from ..storage.streaming.digest import check_digest
from ..storage.writing import whole_file
from .download import download, forget
from .resource import Resource, archive_kind, unpacked_name

_WAIT = 24 * 3600.0
"""Seconds until others give up waiting for the process that gets a file: archives may take hours."""

_MAGIC = {".gz": b"\x1f\x8b", ".tgz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ", ".zst": b"\x28\xb5\x2f\xfd"}
"""How compressed files begin."""

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)

_verified: dict[str, str] = {}
"""The notes on the files that this process has verified."""

_in_store: set[str] = set()
_unpacked: dict[str, str | None] = {}
"""The objects that this process has found, and their notes on unpacking: each `read` asks for both."""


def members_of(archives: IterDataPipe[str], name: str) -> IterDataPipe[tuple[str, IO[bytes]]]:
    """Return a chain of the path and the stream of each file in archives, or compressed files, as a name tells."""
    opened = archives.open_files_by_fsspec(mode="rb")
    if archive_kind(name) is None:
        return opened.decompress()
    return opened.load_from_zip() if archive_kind(name) == "zip" else opened.load_from_tar()


def path_of(resource: Resource, folder: str) -> str:
    """Return the path or URL of a resource in its data set's folder, or in the package that it is part of."""
    return resource.installed or _joined(folder, resource.name)


def fetch(resource: Resource, folder: str) -> str:
    """Return the path or URL of a resource in a folder; get it first if it is not there.

    One process of a machine gets it, and the others wait. It appears once it is whole and its digest is right. A file
    that somebody else put there is verified, too: by one process, which notes it beside the file. Where the folder
    cannot be written to, each process verifies the file for itself.

    Raises FileNotFoundError if it is missing and cannot be had, RuntimeError for another digest, and OSError if the
    folder cannot be written to.
    """
    place = path_of(resource, folder)
    if resource.is_installed or _is_known(resource, place):
        return place
    placed = is_local_path(place) and os.path.exists(place)
    if not placed:
        _candidates(resource, folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(_one_at_a_time(resource, place, folder))
        except TimeoutError:
            raise
        except OSError:  # of a read-only folder, or another user's lock: verifying the file needs neither
            if not placed:
                raise
        if not _is_there(resource, place):
            _get(resource, folder, place)
    return place


def unpacked(resource: Resource, folder: str) -> str:
    """Return the path or URL of the folder of an archive's files; unpack it first if that was not done.

    Of a file that is compressed for itself, such as `cells.h5.gz`, return that of its content.
    """
    target = _joined(folder, unpacked_name(resource.name))
    done, digest = _joined(folder, f".{resource.name}.unpacked"), _digest_text(resource)
    if _was_unpacked(target, done, digest):
        return target
    archive = fetch(resource, folder)
    with _one_at_a_time(resource, target, folder):
        if not _was_unpacked(target, done, digest):
            written = 0
            with progress_bar(f"unpack {resource.name}", lambda: written, unit="B"):
                for path, stream in members_of(IterableWrapper([archive]), resource.name):
                    inner = path[len(archive) + 1 :]  # its loader refuses one that leads out of the archive
                    place = _joined(target, inner) if archive_kind(resource.name) else target
                    with closing(stream), whole_file(place, "wb", {}) as file:
                        shutil.copyfileobj(stream, file, 2**20)
                        written += file.tell()
            with whole_file(done, "wb", {}) as file:
                file.write(digest.encode())
            _unpacked[done] = digest
    return target


def _was_unpacked(target: str, done: str, digest: str) -> bool:
    """Say whether the archive of this digest was unpacked; in a store, this process asks once."""
    if is_local_path(target):
        return os.path.exists(target) and _content_of(done) == digest
    if done not in _unpacked:
        _unpacked[done] = _content_of(done)
    return _unpacked[done] == digest


def _content_of(place: str) -> str | None:
    """Return the text of a small file; None where it is missing."""
    try:
        return read_whole(place, {}).decode(errors="replace")
    except FileNotFoundError:
        return None


def _get(resource: Resource, folder: str, place: str) -> None:
    """Download a resource from the first place that has it."""
    failures: list[Exception] = []
    for url in _candidates(resource, folder):
        try:
            if is_local_path(place):
                _get_to_disk(resource, url, place)
            else:
                _get_to_store(resource, url, place)
        except (OSError, RuntimeError, ValueError) as error:  # a wrong URL is a ValueError
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
    try:
        download(url, part, resource.size)
        _verify(resource, part, url)
    except RuntimeError:
        forget(part)
        raise
    os.replace(part, place)
    forget(part)  # only now, so that a kill while it was verified costs no second download
    _keep_note(place, _note(resource, place))


def _get_to_store(resource: Resource, url: str, place: str) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        part = os.path.join(folder, f"{resource.name}.part")
        download(url, part, resource.size)
        _verify(resource, part, url)
        with open(part, "rb") as content, whole_file(place, "wb", {}) as file:
            shutil.copyfileobj(content, file, 2**20)
    _in_store.add(place)


def _candidates(resource: Resource, folder: str) -> list[str]:
    """Return where to look for a resource: first in the mirror that the environment names.

    Raises FileNotFoundError if it may not, or cannot, be downloaded.
    """
    if os.environ.get("PENSTOCK_OFFLINE", "").strip().lower() not in ("", "0", "false", "no", "off"):
        raise _missing(resource, folder, "PENSTOCK_OFFLINE is set")
    mirror = os.environ.get("PENSTOCK_MIRROR", "").rstrip("/")
    named = [f"{mirror}/{posixpath.basename(folder.rstrip('/'))}/{resource.name}"] if mirror else []
    if not (found := [*named, *resource.urls]):
        raise _missing(resource, folder, "it cannot be downloaded")
    return found


def _is_there(resource: Resource, place: str) -> bool:
    """Say whether a resource is there; verify its file unless a note says that it was."""
    if _is_known(resource, place):
        return True
    if not is_local_path(place) or not os.path.exists(place):
        return False
    note = _note(resource, place)  # taken before, so that a change meanwhile shows
    _verify(resource, place, place)
    _keep_note(place, note)
    return True


def _is_known(resource: Resource, place: str) -> bool:
    """Say whether a resource is there, and this or another process has verified it as it is now."""
    if not is_local_path(place):
        return _is_in_store(place, resource.size)
    try:
        note = _note(resource, place)
    except FileNotFoundError:
        return False
    if _verified.get(place) != note and _noted(place) != note:
        return False
    _verified[place] = note
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
            text = f"{without_secrets(url)} has {size} bytes, and {expected} were expected of it: remove it"
            raise RuntimeError(text)
        _in_store.add(url)
    return True


def _verify(resource: Resource, path: str, origin: str) -> None:
    """Raise RuntimeError for a file of a wrong size, digest or kind."""
    try:
        size = os.path.getsize(path)
        if resource.size is not None and size != resource.size:
            raise RuntimeError(f"{resource.name} has {size} bytes, and {resource.size} were expected of it")
        if resource.digest is not None:
            kind, digest = resource.digest
            with open(path, "rb") as file:
                check_digest(resource.name, file, digest, kind)
        elif not size or not _begins_as_it_should(resource.name, path):
            raise RuntimeError(f"{resource.name} is empty, or no file of its kind")
    except RuntimeError as error:
        add_note(error, f"it came from {without_secrets(origin)}: the file there has changed, or is no file but a page")
        raise


def _begins_as_it_should(name: str, path: str) -> bool:
    """Say whether an archive or a compressed file is one; of other files nothing is known."""
    kind = archive_kind(name)
    if kind == "zip":
        return zipfile.is_zipfile(path)
    if kind == "tar":
        return tarfile.is_tarfile(path)
    with open(path, "rb") as file:
        start = file.read(8)
    return all(start.startswith(magic) for ending, magic in _MAGIC.items() if name.lower().endswith(ending))


def _digest_text(resource: Resource) -> str:
    return ":".join(resource.digest or ("none", ""))


def _note(resource: Resource, place: str) -> str:
    status = os.stat(place)
    return f"{_digest_text(resource)} {resource.size} {status.st_size} {status.st_mtime_ns}\n"


def _note_beside(place: str) -> str:
    return os.path.join(os.path.dirname(place), f".{os.path.basename(place)}.verified")


def _noted(place: str) -> str | None:
    with suppress(OSError), open(_note_beside(place), encoding="utf-8") as file:
        return file.read()
    return None


def _keep_note(place: str, note: str) -> None:
    _verified[place] = note
    with suppress(OSError), whole_file(_note_beside(place), "wb", {}) as file:  # the folder may be read-only
        file.write(note.encode())


@contextmanager
def _one_at_a_time(resource: Resource, place: str, folder: str) -> Iterator[None]:
    """Hold the lock on a place, which ends with its owner, even by a kill. The others wait."""
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
    with FileLock(lock_path, _WAIT, threading.Event()):
        yield


def _missing(resource: Resource, folder: str, reason: str) -> FileNotFoundError:
    where = " or ".join(map(without_secrets, resource.urls)) or "its home page"
    digest = f" ({resource.digest[0]} {resource.digest[1]})" if resource.digest else ""
    note = f". {resource.note}" if resource.note and not resource.urls else ""
    return FileNotFoundError(
        errno.ENOENT,
        f"{resource.name} is missing, and {reason}. Get {where}{digest}, and put it there{note}",
        path_of(resource, folder),
    )


def _joined(folder: str, name: str) -> str:
    return os.path.join(folder, name) if is_local_path(folder) else f"{folder.rstrip('/')}/{name}"
