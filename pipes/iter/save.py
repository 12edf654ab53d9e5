"""Items written to files, of which the paths go on."""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import IO, Any

import numpy as np

from ...registry import Guard, IterDataPipe, OnError, functional_datapipe
from ..columns import check_function
from ..saving import appearing_whole, sent_whole
from ..streams import checked_path, path_and
from .storage import OF_TEXT, locate
from .transform import OneToOne

__all__ = ["FSSpecSaver", "ItemSaver", "Saver", "open_in_folder", "whole_file", "write_in_parts", "write_whole"]

_LONGEST_NAME = 50
"""Characters of a file's name that the name of its unfinished part ends in; file systems take some 255 bytes."""

_PART = 2**24
"""Bytes that are sent at a time. S3 takes up to 10,000 parts of an object."""


class ItemSaver(OneToOne[str]):
    """Write the second part of each item to the file that the first part names: the base of the operators that do."""

    def __init__(
        self,
        source: IterDataPipe[tuple[Any, Any]],
        mode: str,
        filepath_fn: Callable[[Any], str | os.PathLike[str]] | None,
        on_error: OnError,
    ) -> None:
        if mode not in ("w", "wt", "t", "wb", "b", "a", "at", "ab"):
            raise ValueError(
                "mode must be 'w', 'wt' or 't' for text, 'wb' or 'b' for bytes, or to append 'a', 'at' or 'ab', "
                f"and is {mode!r}"
            )
        if filepath_fn is not None:
            check_function("filepath_fn", filepath_fn, None)
        self.source = source
        self.mode = mode
        self.filepath_fn = filepath_fn
        self.on_error = on_error
        self.guard = Guard(on_error)

    def _write(self, path: str, content: Any) -> None:
        """Write bytes to a file."""
        raise NotImplementedError(f"{type(self).__name__} must define _write")

    def _text_options(self) -> Mapping[str, Any]:
        """Return arguments for TextIOWrapper."""
        return {}

    @property
    def _binary_mode(self) -> str:
        return "ab" if "a" in self.mode else "wb"

    def _function(self) -> Callable[[Any], str]:
        return self._save

    def _save(self, item: Any) -> str:
        place, data = path_and("data", item)
        path = checked_path(place if self.filepath_fn is None else self.filepath_fn(place))
        self._write(path, self._as_bytes(data))  # encoded before anything is opened: what fails leaves no trace
        return path

    def _as_bytes(self, data: Any) -> Any:
        if "b" in self.mode:
            try:
                memoryview(data)
            except TypeError:
                advice = "give mode='w', or encode it" if isinstance(data, str) else "turn it into bytes before"
                raise TypeError(
                    f"mode {self.mode!r} writes bytes, and the data is of type {type(data).__name__}: {advice}"
                ) from None
            return data
        if not isinstance(data, str):
            advice = "give mode='wb'" if isinstance(data, (bytes, bytearray)) else "turn it into a string before"
            raise TypeError(f"mode {self.mode!r} writes text, and the data is of type {type(data).__name__}: {advice}")
        encoded = io.BytesIO()
        with io.TextIOWrapper(encoded, **self._text_options()) as text:
            text.write(data)
            text.flush()
            return encoded.getvalue()


@functional_datapipe("save_to_disk")
class Saver(ItemSaver):
    """Write each item to a file, and yield its path.

    An item is a pair of a path and the data, or of whatever `filepath_fn` makes the path of. `mode` is `"w"`, `"wt"` or
    `"t"` for text, in the locale's encoding, `"wb"` or `"b"` for bytes, `"a"`, `"at"` or `"ab"` to append. Folders are
    made as needed. A file is written beside its place and put there when it is whole, in the place of an earlier one:
    no interruption leaves half of it. What is appended goes straight to the file.

    `on_error` is what becomes of an item that cannot be written, or for which `filepath_fn` raises; an item that was
    appended in part is not taken back. `save_by_fsspec` writes to all that has a URL.

    Raises TypeError for data that is text where bytes are to be written, or the other way round, and OSError where a
    file cannot be written.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> texts = IterableWrapper([("a.txt", "one"), ("b.txt", "two")])
    >>> dp = texts.save_to_disk(filepath_fn=lambda name: os.path.join(folder, "texts", name))
    >>> [os.path.basename(path) for path in dp]
    ['a.txt', 'b.txt']
    """

    def __init__(
        self,
        source: IterDataPipe[tuple[Any, Any]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str | os.PathLike[str]] | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(source, mode, filepath_fn, on_error)

    def _write(self, path: str, content: Any) -> None:
        write_whole(path, self._binary_mode, content, open)


@functional_datapipe("save_by_fsspec")
class FSSpecSaver(ItemSaver):
    """Write each item to the file at a URL, and yield the URL.

    An item is a pair of a URL and the data, or of whatever `filepath_fn` makes the URL of. `mode` is as for
    `save_to_disk`. `kwargs_for_open` are arguments for opening a file, such as `encoding` or `compression`. Further
    arguments are options of the file system, such as `anon=True`; without them credentials and endpoints come from the
    environment. Folders are made as needed, buckets are not. Local files are written as by `save_to_disk`; in object
    stores such as S3 an object appears, in the place of an earlier one, when it was sent whole, in parts of 16 MiB
    where it is larger. An upload that fails is taken back.

    `on_error` is what becomes of an item that cannot be written, or for which `filepath_fn` raises.

    Raises TypeError for data that is text where bytes are to be written, or the other way round, OSError, or an error
    of the file system's client such as botocore's for a connection, where a file cannot be written, and ImportError
    where the package for a protocol is missing.

    >>> texts = IterableWrapper([("a.txt", b"one"), ("b.txt", b"two")])
    >>> dp = texts.save_by_fsspec("wb", filepath_fn=lambda name: f"memory://texts/{name}")
    >>> list(dp)
    ['memory://texts/a.txt', 'memory://texts/b.txt']
    """

    def __init__(
        self,
        source: IterDataPipe[tuple[Any, Any]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str | os.PathLike[str]] | None = None,
        *,
        kwargs_for_open: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
        **kwargs: Any,
    ) -> None:
        super().__init__(source, mode, filepath_fn, on_error)
        self.kwargs_for_open = kwargs_for_open
        self.options = kwargs  # not under their own name, which repr and the notes of errors would show: secrets

    def _text_options(self) -> Mapping[str, Any]:
        return {name: value for name, value in (self.kwargs_for_open or {}).items() if name in OF_TEXT}

    def _write(self, path: str, content: Any) -> None:
        arguments = {name: value for name, value in (self.kwargs_for_open or {}).items() if name not in OF_TEXT}
        with whole_file(path, self._binary_mode, self.options, **arguments) as file:
            write_in_parts(file, content)


@contextmanager
def whole_file(url: str, mode: str, options: Mapping[str, Any], **arguments: Any) -> Iterator[IO[bytes]]:
    """Open the file at a URL for writing: what is written appears when that was all, and nothing where it fails.

    On a local disk and in object stores, an earlier file stays until then. What is written to a store is sent in parts,
    and no more than some of them are held. `options` are those of the file system, and `arguments` for opening a file.
    """
    from fsspec.compression import compr  # type: ignore[import-untyped]  # slow to import
    from fsspec.core import get_compression  # type: ignore[import-untyped]
    from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

    file_system, place = locate(url, options)
    compression = get_compression(place, arguments.pop("compression", None))

    def open_file(place: str, mode: str) -> IO[bytes]:
        file: IO[bytes] = file_system.open(place, mode, **{"block_size": _PART, **arguments})
        return file

    if isinstance(file_system, LocalFileSystem):
        opened = _whole_local_file(place, mode, open_file)
    else:
        opened = sent_whole(open_in_folder(place, mode, open_file, file_system.makedirs))
    # Not by fsspec: it leaves the file open below the one that compresses, to be sent when somebody collects it.
    with opened as file, compr[compression](file, mode=mode[0]) if compression else nullcontext(file) as outer:
        yield outer


def write_in_parts(file: IO[bytes], content: Any) -> None:
    """Write bytes to a file that is sent somewhere: at one go, it would hold all of them once more."""
    contiguous = np.frombuffer(content, np.uint8).data
    for start in range(0, len(contiguous), _PART):
        file.write(contiguous[start : start + _PART])


def write_whole(path: str, mode: str, content: Any, open_file: Callable[[str, str], IO[Any]]) -> None:
    """Write a local file: beside its place, where it is put when it is whole, or straight to it to append."""
    with _whole_local_file(path, mode, open_file) as file:
        file.write(content)


@contextmanager
def _whole_local_file(path: str, mode: str, open_file: Callable[[str, str], IO[Any]]) -> Iterator[IO[Any]]:
    try:
        kind = os.lstat(path).st_mode
        if stat.S_ISLNK(kind):
            path = os.path.realpath(path)  # the file that it leads to is replaced, not the link
            kind = os.stat(path).st_mode
        is_no_file = not stat.S_ISREG(kind)  # but a device or a pipe, which must not be replaced
    except FileNotFoundError:
        is_no_file = False
    if "a" in mode or is_no_file:
        with open_in_folder(path, mode, open_file, os.makedirs) as file:
            yield file
        return
    folder, name = os.path.split(path)
    # It ends as the name does, since opening may look at that to tell how to compress.
    part = os.path.join(folder, f".{secrets.token_hex(8)}-{name[-_LONGEST_NAME:]}")
    with appearing_whole(path, part), open_in_folder(part, mode, open_file, os.makedirs) as file:
        yield file


def open_in_folder(
    path: str, mode: str, open_file: Callable[[str, str], IO[Any]], make_folders: Callable[..., Any]
) -> IO[Any]:
    """Open a file for writing; where its folder is missing, make it first."""
    try:
        return open_file(path, mode)
    except FileNotFoundError:
        make_folders(os.path.dirname(path), exist_ok=True)
        return open_file(path, mode)
