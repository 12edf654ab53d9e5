"""Files that appear whole, under their name, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

from ..registry import close
from .digest import check_digest

__all__ = ["appearing_whole", "save", "sent_whole"]

_CHUNK = 2**20


def save(
    content: Any,
    path: str,
    suffix: str,
    text: bool = False,
    hash_dict: Mapping[str, str] | None = None,
    hash_type: str = "sha256",
) -> None:
    """Write a content to a file: a stream, which is read in pieces and closed, bytes or text, or an iterable of these.

    The file is written beside `path`, under its name with the suffix, and gets its own name when it is whole. Where
    there is a `hash_dict`, it must have, for the path, the digest that the file has. Nothing stays of one that fails.

    Raises TypeError where the content is text and should be bytes or the other way round, RuntimeError where the digest
    is another or is not given, and OSError where the file cannot be written.
    """
    part = path + suffix
    try:
        if hash_dict is not None and path not in hash_dict:
            raise RuntimeError(f"hash_dict has no digest for {path!r}, only for {len(hash_dict)} other paths")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with appearing_whole(path, part):
            with open(part, "w" if text else "wb", encoding="utf-8" if text else None) as file:
                _write(content, file)
            if hash_dict is not None:
                with open(part, "rb") as file:
                    check_digest(path, file, hash_dict[path], hash_type)
    except TypeError as error:
        error.add_note(f"the file is open for {'text' if text else 'bytes'}: what of the two it is, mode says")
        raise
    finally:
        close(content)


@contextmanager
def appearing_whole(path: str, part: str) -> Iterator[None]:
    """Give a file that is written under another name, `part`, its own name afterwards; remove it where that fails."""
    try:
        yield
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


@contextmanager
def sent_whole(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Close a file that is sent to an object store, which makes it appear, when all was written; or take it back.

    As it is, fsspec would also send what there is of it when writing fails, or when the file is collected.
    """
    try:
        yield file
        file.close()
    except BaseException as error:
        _take_back(file, error)
        raise


def _take_back(file: Any, error: BaseException) -> None:
    if not hasattr(file, "discard"):  # of a file system that shows what is written at once
        with suppress(Exception):
            file.close()
        return
    try:
        file.discard()
    except Exception as failure:
        error.add_note(
            f"what was sent of it takes space until the store drops it, as it could not be removed: {failure!r}"
        )
    with suppress(AttributeError):  # in memory, a file is not sent
        file.closed = True


def _write(content: Any, file: Any) -> None:
    if hasattr(content, "read"):
        shutil.copyfileobj(content, file, _CHUNK)
    elif isinstance(content, (str, bytes, bytearray, memoryview)):
        file.write(content)
    else:
        file.writelines(content)
