"""Download a file, and go on where an earlier download of it stopped."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import IO, Any
from urllib.parse import urlsplit

from ..pipes.iter import GDriveReader, IterableWrapper
from ..registry import Guard
from ..registry.extras import require
from ..registry.secrets import without_secrets
from ..storage.reading import open_file
from ..storage.retrying import trying_again
from ..storage.web import new_session

__all__ = ["download", "progress"]

_PIECE = 2**20
_PATIENCE = (10.0, 60.0)
"""Seconds until a server accepts a connection, and of its longest silence."""
_DRIVE_HOSTS = ("drive.google.com", "docs.google.com")
_PASSING = (408, 429, 500, 502, 503, 504)


def download(url: str, part: str) -> None:
    """Write the file behind a URL to the local path `part`. What an earlier call left there is completed.

    A web server is asked for the rest only, on the condition that the file is the same as before (`If-Range`); without
    an ETag or a date of change the download begins again. Transient errors are retried five times.

    Raises FileNotFoundError, PermissionError, ConnectionError, TimeoutError or another OSError.
    """
    place = urlsplit(url)
    if place.scheme not in ("http", "https"):
        with _writing(part, "wb", url, None) as write, closing(open_file(url, {})[0]) as stream:
            _copy(stream, write)
    elif place.hostname in _DRIVE_HOSTS:
        for _, stream in GDriveReader(IterableWrapper([url])):
            with _writing(part, "wb", url, None) as write, closing(stream):
                _copy(stream, write)
    else:
        Guard(trying_again("raise")).wrap(lambda url: _from_the_web(url, part))(url)
    with suppress(FileNotFoundError):
        os.unlink(_note_of(part))


def _from_the_web(url: str, part: str) -> None:
    requests = require("requests", "http")
    have, version = _what_is_there(url, part)
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    try:
        with new_session() as session, session.get(url, headers=headers, stream=True, timeout=_PATIENCE) as answer:
            _check_status(answer, url)
            goes_on = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
            if answer.status_code == 206 and not goes_on:
                os.unlink(part)
                raise ConnectionError(errno.EIO, "the server sent another range than it was asked for", _shown(url))
            have = have if goes_on else 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length is not None else None
            if not goes_on:
                _note_version(url, part, answer.headers)
            with _writing(part, "ab" if goes_on else "wb", url, total) as write:
                for piece in answer.iter_content(_PIECE):
                    write(piece)
    except requests.Timeout:
        raise TimeoutError(errno.ETIMEDOUT, "the server did not answer in time", _shown(url)) from None
    except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        raise ConnectionError(errno.ECONNABORTED, "no connection, or an answer that was cut", _shown(url)) from None
    if total is not None and os.path.getsize(part) != total:
        raise ConnectionError(errno.ECONNABORTED, "the answer was cut", _shown(url))


def _check_status(answer: Any, url: str) -> None:
    status = answer.status_code
    if status in (404, 410):
        raise FileNotFoundError(errno.ENOENT, "there is no such file", _shown(url))
    if status in (401, 403):
        raise PermissionError(errno.EACCES, f"the server refused: {status}", _shown(url))
    if status in _PASSING:
        raise ConnectionError(errno.EIO, f"the server is in trouble: {status}", _shown(url))
    if status not in (200, 206):
        raise OSError(errno.EIO, f"the server refused: {status}", _shown(url))


def _note_of(part: str) -> str:
    return f"{part}.json"


def _note_version(url: str, part: str, headers: Any) -> None:
    """Write down which version of the file is being downloaded, if the server tells."""
    etag, date = headers.get("ETag", ""), headers.get("Last-Modified", "")
    with suppress(FileNotFoundError):
        os.unlink(part)
    with open(_note_of(part), "w", encoding="utf-8") as note:
        json.dump({"url": url, "version": date if not etag or etag.startswith("W/") else etag}, note)


def _what_is_there(url: str, part: str) -> tuple[int, str]:
    """Return how many bytes of a file are there already, and of which version of it."""
    try:
        with open(_note_of(part), encoding="utf-8") as note:
            told = json.load(note)
        size = os.path.getsize(part)
    except (OSError, ValueError):
        return 0, ""
    goes_on = isinstance(told, dict) and told.get("url") == url and told.get("version")
    return (size, str(told["version"])) if goes_on else (0, "")


@contextmanager
def _writing(part: str, mode: str, url: str, total: int | None) -> Iterator[Any]:
    """Give a function that writes bytes to a file and shows the progress; a full disk removes what is there."""
    name = re.sub(r"\.part$", "", os.path.basename(part))
    try:
        with open(part, mode) as file, progress(name, total, file.tell()) as advance:
            if total is not None and (free := shutil.disk_usage(os.path.dirname(part)).free) < total - file.tell():
                raise OSError(errno.ENOSPC, f"it needs {total - file.tell():,} bytes, and {free:,} are free", part)

            def write(piece: bytes) -> None:
                file.write(piece)
                advance(len(piece))

            yield write
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            for left in (part, _note_of(part)):
                with suppress(FileNotFoundError):
                    os.unlink(left)
            raise OSError(
                error.errno, f"the disk is full: {error.strerror} (while getting {_shown(url)})", part
            ) from None
        raise


@contextmanager
def progress(what: str, total: int | None, done: int = 0) -> Iterator[Any]:
    """Show a bar on a terminal, if tqdm is installed, and give a function that advances it by so many bytes."""
    try:
        from tqdm import TqdmWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TqdmWarning)  # in a notebook without widgets the bar is one of text
            from tqdm.auto import tqdm
    except ImportError:
        yield lambda n: None
        return
    with tqdm(desc=what, total=total, initial=done, unit="B", unit_scale=True, disable=None, leave=False) as bar:
        yield bar.update


def _copy(stream: IO[bytes], write: Any) -> None:
    while piece := stream.read(_PIECE):
        write(piece)


def _shown(url: str) -> str:
    return without_secrets(url)
