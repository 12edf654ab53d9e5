"""Download a file, and go on where an earlier download of it stopped."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import IO, Any
from urllib.parse import urlsplit

from ..errors.optional import require
from ..errors.secrets import without_secrets
from ..pipes.bases.progress_bar import progress_bar
from ..pipes.iter import GDriveReader, IterableWrapper
from ..registry import ErrorPolicy
from ..storage.errors import PASSING
from ..storage.reading import open_file
from ..storage.retrying import trying_again
from ..storage.web import DRIVE_HOSTS, new_session

_PIECE = 2**20
_PATIENCE = (10.0, 60.0)
"""Seconds until a server accepts a connection, and of its longest silence."""


def download(url: str, part: str, size: int | None = None) -> None:
    """Write the file behind a URL to the local path `part`. What an earlier call left there is completed.

    A web server is asked for the rest only, on the condition that the file is the same as before (`If-Range`); without
    an ETag or a date of change the download begins again. Transient errors are retried five times. `size` is how many
    bytes the file should have, if known. `forget` removes what is kept for completing it.

    Raises FileNotFoundError, PermissionError, ConnectionError, TimeoutError or another OSError, and RuntimeError for a
    page in place of a file, and for another size.
    """
    place = urlsplit(url)
    if place.scheme not in ("http", "https"):
        with _writing(part, "wb", url, size) as write, closing(open_file(url, {})[0]) as stream:
            _copy(stream, write)
    elif place.hostname in DRIVE_HOSTS:
        for _, stream in GDriveReader(IterableWrapper([url])):
            with _writing(part, "wb", url, size) as write, closing(stream):
                _copy(stream, write)
    else:
        ErrorPolicy(trying_again("raise")).wrap(lambda url: _from_the_web(url, part, size))(url)
    if size is not None and (found := os.path.getsize(part)) != size:
        raise RuntimeError(f"{_shown(url)} has {found} bytes, and {size} were expected of it")


def forget(part: str) -> None:
    """Remove what an unfinished download left."""
    for left in (part, _note_of(part)):
        with suppress(FileNotFoundError):
            os.unlink(left)


def _from_the_web(url: str, part: str, size: int | None) -> None:
    requests = require("requests", "http")
    have, version = _what_is_there(url, part)
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    try:
        with new_session() as session, session.get(url, headers=headers, stream=True, timeout=_PATIENCE) as answer:
            if answer.status_code == 416 and answer.headers.get("Content-Range", "") == f"bytes */{have}":
                return  # an earlier call left the whole file
            if not _fits(answer, have, version):
                forget(part)
                what = "the server sent another range, or another version, than it was asked for"
                raise ConnectionError(errno.EIO, what, _shown(url))
            _check_status(answer, url)
            total = _total_of(answer, have)
            if size is not None and total not in (None, size):
                raise RuntimeError(f"{_shown(url)} has {total} bytes, and {size} were expected of it")
            if answer.status_code == 200:
                _note_version(url, part, answer.headers)
            with _writing(part, "ab" if answer.status_code == 206 else "wb", url, size or total) as write:
                for piece in answer.iter_content(_PIECE):
                    write(piece)
    except requests.Timeout:
        raise TimeoutError(errno.ETIMEDOUT, "the server did not answer in time", _shown(url)) from None
    except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        raise ConnectionError(errno.ECONNABORTED, "no connection, or an answer that was cut", _shown(url)) from None
    if total is not None and os.path.getsize(part) != total:
        raise ConnectionError(errno.ECONNABORTED, "the answer was cut", _shown(url))


def _fits(answer: Any, have: int, version: str) -> bool:
    """Say whether an answer is the whole file, or the rest of the requested version."""
    if answer.status_code == 206:
        goes_on = have and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        return bool(goes_on) and _version_of(answer.headers) in ("", version)
    return answer.status_code not in (412, 416)


def _total_of(answer: Any, have: int) -> int | None:
    """Return the bytes of the whole file, if the server tells."""
    _, _, whole = answer.headers.get("Content-Range", "").partition("/")
    length = answer.headers.get("Content-Length", "")
    if answer.status_code == 206 and whole.isdecimal():
        return int(whole)
    return int(length) + (have if answer.status_code == 206 else 0) if length.isdecimal() else None


def _check_status(answer: Any, url: str) -> None:
    status = answer.status_code
    if status in (404, 410):
        raise FileNotFoundError(errno.ENOENT, "there is no such file", _shown(url))
    if status in (401, 403):
        raise PermissionError(errno.EACCES, f"the server refused: {status}", _shown(url))
    if status in PASSING:
        raise ConnectionError(errno.EIO, f"the server is in trouble: {status}", _shown(url))
    if status not in (200, 206):
        raise OSError(errno.EIO, f"the server refused: {status}", _shown(url))
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == "text/html" and not urlsplit(url).path.endswith((".html", ".htm")):
        raise RuntimeError(f"{_shown(url)} sends a page, such as one for signing in, and no file")


def _note_of(part: str) -> str:
    return f"{part}.json"


def _version_of(headers: Any) -> str:
    """Return what names the version of a file; empty where the server does not tell."""
    etag, date = headers.get("ETag", ""), headers.get("Last-Modified", "")
    return str(date if not etag or etag.startswith("W/") else etag)


def _note_version(url: str, part: str, headers: Any) -> None:
    """Write down which version of the file is being downloaded."""
    forget(part)
    with open(_note_of(part), "w", encoding="utf-8") as note:
        json.dump({"url": _digest(url), "version": _version_of(headers)}, note)


def _what_is_there(url: str, part: str) -> tuple[int, str]:
    """Return how many bytes of a file are there already, and of which version of it."""
    try:
        with open(_note_of(part), encoding="utf-8") as note:
            noted = json.load(note)
        size = os.path.getsize(part)
        if noted["url"] == _digest(url) and noted["version"] and os.access(part, os.W_OK):
            return size, str(noted["version"])
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return 0, ""


def _digest(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()  # the URL itself may have secrets


@contextmanager
def _writing(part: str, mode: str, url: str, total: int | None) -> Iterator[Any]:
    """Give a function that writes bytes to a file and shows the progress; a full disk removes what is there."""
    name = re.sub(r"\.part$", "", os.path.basename(part))
    try:
        with open(part, mode) as file:
            done = file.tell()
            if total is not None and (free := shutil.disk_usage(os.path.dirname(part)).free) < total - done:
                raise OSError(errno.ENOSPC, f"it needs {total - done:,} bytes, and {free:,} are free", part)

            def write(piece: bytes) -> None:
                nonlocal done
                if total is not None and done + len(piece) > total:
                    raise RuntimeError(f"{_shown(url)} has more than the {total} bytes that were expected of it")
                file.write(piece)
                done += len(piece)

            with progress_bar(name, lambda: done, total=total, unit="B"):
                yield write
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            forget(part)
            raise OSError(
                error.errno, f"the disk is full: {error.strerror} (while getting {_shown(url)})", part
            ) from None
        raise


def _copy(stream: IO[bytes], write: Any) -> None:
    while piece := stream.read(_PIECE):
        write(piece)


def _shown(url: str) -> str:
    return without_secrets(url)
