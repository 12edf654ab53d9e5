"""Files that appear complete under their final name, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from typing import IO, Any

import numpy as np

from ..errors.closing import close
from ..errors.notes import add_note
from ..errors.optional import zstandard
from ..errors.policy import ErrorPolicy
from ..errors.secrets import stream_name, without_secrets
from .addresses import Address, address_of, check_written
from .chains import first_link
from .errors import in_plain_words, plain_error
from .file_systems import locate
from .local.atomic import beside
from .streaming.digest import CHUNK, check_digest
from .uploads import is_sent_in_parts, sending

_SENT_BLOCK = 2**24
"""Bytes sent at a time. S3 allows up to 10,000 parts per object."""


@contextmanager
def whole_file(
    url: str, mode: str, options: Mapping[str, Any], *, counted_by: ErrorPolicy | None = None, **arguments: Any
) -> Iterator[IO[bytes]]:
    """Open the file at a URL for writing: it appears once complete, and not at all if writing fails.

    On a local disk and in object stores, an earlier file stays until then. Stores receive the content in parts, and few
    parts are in memory. `options` are for the file system, `arguments` for opening the file. For S3, several parts are
    sent concurrently. Each is retried up to five times after transient errors; `counted_by` counts the retries.
    """
    from fsspec.core import get_compression  # type: ignore[import-untyped]  # slow to import
    from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

    def open_file(place: str, mode: str) -> IO[bytes]:
        try:
            file: IO[bytes] = file_system.open(place, mode, **{"block_size": _SENT_BLOCK, **arguments})
        except NotImplementedError as error:
            what = f"fsspec reads {url.partition('://')[0]}://, and cannot write to it"
            raise OSError(errno.EROFS, what, without_secrets(url)) from error
        return file

    address = address_of(url, options)
    expect_writable(address)
    compression = arguments.pop("compression", None)
    if mode == "wb" and arguments.keys() <= {"block_size"} and is_sent_in_parts(address):
        place = url
        opened = sending(address, arguments.get("block_size", _SENT_BLOCK), counted_by)
    else:
        file_system, place = locate(address)
        if isinstance(file_system, LocalFileSystem):
            opened = _whole_local_file(place, mode, open_file)
        else:
            with naming(url):
                opened = sent_whole(open_in_folder(place, mode, open_file, file_system.makedirs), url)
    compression = get_compression(place, compression)
    # fsspec's compression leaves the underlying file open: it would only be sent at garbage collection.
    with opened as file, _compressing(file, mode[0], compression) if compression else nullcontext(file) as outer:
        yield outer


def expect_writable(address: Address) -> None:
    """Raise OSError for an address that is only read, and ValueError for one that s3fs writes elsewhere."""
    check_written(address)
    link = first_link(address)
    if link is not None and link.keeps_files():
        what = f"{link.name}:: only reads, since it would go on to serve its kept copy: write to the address after it"
        raise OSError(errno.EROFS, what, address.name)
    if link is not None and link.archive():
        what = "archives are only read, since each file would replace its archive: see write_tar"
        raise OSError(errno.EROFS, what, address.name)


def remove_file(url: str, options: Mapping[str, Any]) -> None:
    """Remove the file at a URL, if there is one."""
    file_system, path = locate(address_of(url, options))
    with suppress(FileNotFoundError):
        in_plain_words(url, file_system.rm_file, path)


def _compressing(file: IO[bytes], mode: str, compression: str) -> Any:
    """Return a file that compresses what is written to it and adds a checksum."""
    from fsspec.compression import compr  # type: ignore[import-untyped]  # slow to import

    if compression == "zstd":  # its checksum is off by default
        zstd = zstandard()
        return zstd.ZstdFile(file, mode, options={zstd.CompressionParameter.checksum_flag: 1})
    return compr[compression](file, mode=mode)


def write_in_parts(file: IO[bytes], content: Any) -> None:
    """Write bytes to an upload in pieces: a single write would hold a second copy of all of them."""
    contiguous = np.frombuffer(content, np.uint8).data
    for start in range(0, len(contiguous), _SENT_BLOCK):
        file.write(contiguous[start : start + _SENT_BLOCK])


def write_whole(path: str, mode: str, content: Any, open_file: Callable[[str, str], IO[Any]]) -> None:
    """Write a local file: to a temporary file, renamed when complete; in append mode, directly."""
    with _whole_local_file(path, mode, open_file) as file:
        file.write(content)


@contextmanager
def _whole_local_file(path: str, mode: str, open_file: Callable[[str, str], IO[Any]]) -> Iterator[Any]:
    try:
        kind = os.lstat(path).st_mode
        if stat.S_ISLNK(kind):
            path = os.path.realpath(path)  # replace the target, not the link
            kind = os.stat(path).st_mode
        is_no_file = not stat.S_ISREG(kind)  # a device or a pipe must not be replaced
    except FileNotFoundError:
        is_no_file = False
    if "a" in mode or is_no_file:
        with closing(_Named(open_in_folder(path, mode, open_file, os.makedirs), path)) as file:
            yield file
        return
    # In the same folder: a rename needs the same file system.
    with beside(path) as part, closing(_Named(open_file(part, mode), path)) as file:
        yield file


def open_in_folder(
    path: str, mode: str, open_file: Callable[[str, str], IO[Any]], make_folders: Callable[..., Any]
) -> IO[Any]:
    """Open a file for writing; create its folder if missing."""
    try:
        return open_file(path, mode)
    except FileNotFoundError:
        make_folders(os.path.dirname(path), exist_ok=True)
        return open_file(path, mode)


@contextmanager
def naming(url: str) -> Iterator[None]:
    """Raise errors in plain words and with the file's name, which the system omits for a full disk."""
    try:
        yield
    except Exception as error:
        failure = plain_error(error, stream_name(url))
        if not isinstance(failure, OSError) or failure.errno is None:
            add_note(failure, f"while writing {stream_name(url)}")
        if failure is error:
            raise
        raise failure from None  # the client's own error may show secrets


class _Named:
    """A file whose write errors name it; errors of the source being read are not renamed."""

    def __init__(self, file: IO[Any], url: str) -> None:
        self._file = file
        self._url = url

    def write(self, content: Any) -> int:
        with naming(self._url):
            return self._file.write(content)

    def flush(self) -> None:
        with naming(self._url):
            self._file.flush()

    def close(self) -> None:
        with naming(self._url):
            self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def save_whole(
    content: Any,
    path: str,
    text: bool = False,
    hash_dict: Mapping[str, str] | None = None,
    hash_type: str = "sha256",
) -> None:
    """Write a content to a file: a stream (read in pieces, then closed), bytes or text, or an iterable of these.

    A temporary file beside `path` is renamed when complete, and removed on failure. With a `hash_dict`, the file must
    have the digest given there for `path`.

    Raises TypeError if the content is text where bytes are needed or the reverse, RuntimeError if the digest differs or
    is not given, and OSError if the file cannot be written.
    """
    open_file = partial(open, mode="w", encoding="utf-8") if text else partial(open, mode="wb")
    try:
        if hash_dict is not None and path not in hash_dict:
            raise RuntimeError(f"hash_dict has no digest for {path!r}, only for {len(hash_dict)} other paths")
        with beside(path) as part:
            with closing(_Named(open_file(part), path)) as file:
                _write(content, file)
            if hash_dict is not None:
                with open(part, "rb") as written:
                    check_digest(path, written, hash_dict[path], hash_type)
    except TypeError as error:
        add_note(error, f"the file is open for {'text' if text else 'bytes'}: mode decides which")
        raise
    finally:
        close(content)


@contextmanager
def sent_whole(file: IO[bytes], url: str) -> Iterator[Any]:
    """Close an upload after all was written, so that the object appears; discard it on an error.

    By default, fsspec also sends an incomplete file when writing fails or the file is garbage collected.
    """
    try:
        yield _Named(file, url)
        with naming(url):
            file.close()
    except BaseException as error:
        _take_back(file, error)
        raise


def _take_back(file: Any, error: BaseException) -> None:
    if not hasattr(file, "discard"):  # this file system shows writes immediately: nothing to discard
        with suppress(Exception):
            file.close()
        return
    try:
        file.discard()
    except Exception as failure:
        add_note(
            error,
            "the parts sent so far could not be removed, and take space until the store drops them: "
            + without_secrets(repr(failure)),
        )
    with suppress(AttributeError):  # read-only for a file in memory, which is not sent
        file.closed = True


def _write(content: Any, file: Any) -> None:
    if hasattr(content, "read"):
        shutil.copyfileobj(content, file, CHUNK)
    elif isinstance(content, (str, bytes, bytearray, memoryview)):
        file.write(content)
    else:
        file.writelines(content)
