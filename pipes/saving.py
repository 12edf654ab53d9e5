"""Files that appear whole, under their name, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..registry import close
from .digest import check_digest

__all__ = ["save"]

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
    partial = path + suffix
    try:
        if hash_dict is not None and path not in hash_dict:
            raise RuntimeError(f"hash_dict has no digest for {path!r}, only for {len(hash_dict)} other paths")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(partial, "w" if text else "wb", encoding="utf-8" if text else None) as file:
            _write(content, file)
        if hash_dict is not None:
            with open(partial, "rb") as file:
                check_digest(path, file, hash_dict[path], hash_type)
        os.replace(partial, path)
    except BaseException as error:
        if isinstance(error, TypeError):
            error.add_note(f"the file is open for {'text' if text else 'bytes'}: what of the two it is, mode says")
        with suppress(FileNotFoundError):
            os.unlink(partial)
        raise
    finally:
        close(content)


def _write(content: Any, file: Any) -> None:
    if hasattr(content, "read"):
        shutil.copyfileobj(content, file, _CHUNK)
    elif isinstance(content, (str, bytes, bytearray, memoryview)):
        file.write(content)
    else:
        file.writelines(content)
