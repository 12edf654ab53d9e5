"""Digests of contents, and their comparison with expected ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

CHUNK = 2**20
"""Bytes read at a time."""


def check_hash_type(hash_type: str) -> str:
    """Return the name of a hash; raise ValueError if hashlib does not have it or its digests have no fixed length."""
    try:
        size = hashlib.new(hash_type, usedforsecurity=False).digest_size
    except (ValueError, TypeError):
        size = 0
    if not size:
        raise ValueError(
            f"hash_type must be the name of a hash with digests of a fixed length, such as 'sha256' or 'md5', "
            f"and is {hash_type!r:.100}"
        )
    return hash_type


def digest_of(content: Any, hash_type: str = "sha256") -> str:
    """Return the digest, in hexadecimal, of bytes, text (as UTF-8), a stream of either, or an iterable of pieces.

    A stream is read from its position to its end, in pieces of 1 MiB, and stays open.
    """
    digest = hashlib.new(hash_type, usedforsecurity=False)
    for piece in _chunks(content):
        digest.update(piece.encode() if isinstance(piece, str) else piece)
    return digest.hexdigest()


def check_digest(path: str, content: Any, expected: str, hash_type: str = "sha256") -> None:
    """Raise RuntimeError if a content (what `digest_of` takes) does not have the expected digest."""
    found = digest_of(content, hash_type)
    if found != expected.lower():
        raise RuntimeError(f"{path!r} has the {hash_type} digest {found}, and {expected} was expected of it")


def _chunks(content: Any) -> Iterable[Any]:
    if isinstance(content, (str, bytes, bytearray, memoryview)):
        return (content,)
    if hasattr(content, "read"):
        return iter(lambda: content.read(CHUNK), type(content.read(0))())
    return content  # type: ignore[no-any-return]
