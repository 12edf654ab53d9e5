"""Check contents against expected digests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

from ...registry import IterDataPipe, OnError, close, functional_datapipe
from ...storage.objects import LARGE
from ...storage.streaming.digest import check_digest, check_hash_type
from ...storage.streaming.streams import can_seek, checked_path, expect_bytes, stream_over
from ..bases.one_to_one import OneToOne
from ..files.streams import path_and_content


@functional_datapipe("check_hash")
class HashChecker(OneToOne[tuple[str, Any]]):
    """Yield the path and the content of each file whose content has the expected digest.

    Takes pairs of a path and a content: a stream of bytes, bytes, or text, which counts as UTF-8. `hash_dict` maps
    paths to hexadecimal digests, and `hash_type` is the name of a hash in hashlib, such as `"sha256"` or `"md5"`. A
    stream is read and, with `rewind`, set back to its position; a stream that cannot seek is replaced by a copy, in
    memory or, above 16 MiB, in a temporary file. Without `rewind`, a stream is left at its end. `on_error` handles a
    file that fails; it cannot be a `Retry`.

    Raises RuntimeError for a content with another digest, and for a path missing in `hash_dict`, TypeError for a stream
    of text, and ValueError for an unknown hash.

    >>> import hashlib
    >>> dp = IterableWrapper([("a.txt", b"one")]).check_hash({"a.txt": hashlib.sha256(b"one").hexdigest()})
    >>> list(dp)
    [('a.txt', b'one')]
    """

    traits = ("expensive",)

    def __init__(
        self,
        source: IterDataPipe[tuple[str, Any]],
        hash_dict: Mapping[str, str],
        hash_type: str = "sha256",
        rewind: bool = True,
        *,
        on_error: OnError = "raise",
    ) -> None:
        if not isinstance(hash_dict, Mapping):
            raise TypeError(f"hash_dict must map paths to their digests, and is {hash_dict!r:.100}")
        self.source = source
        self.hash_dict = hash_dict
        self.hash_type = check_hash_type(hash_type)
        self.rewind = rewind
        self.handle_errors(on_error, can_retry=False)

    def _output(self, item: tuple[str, Any]) -> tuple[str, Any]:
        path, content = path_and_content(item, "a content")
        name = checked_path(path)
        try:
            if name not in self.hash_dict:
                raise RuntimeError(f"hash_dict has no digest for {name!r}, only for {len(self.hash_dict)} other paths")
            expected = self.hash_dict[name]
            if isinstance(content, (str, bytes, bytearray, memoryview)):
                check_digest(name, content, expected, self.hash_type)
                return path, content
            if not hasattr(content, "read"):
                raise TypeError(f"the content must be a stream, bytes or text, and is of type {type(content).__name__}")
            return path, self._checked_stream(name, content, expected)
        except Exception:
            close(content)
            raise

    def _checked_stream(self, name: str, stream: IO[bytes], expected: str) -> IO[bytes]:
        expect_bytes(stream)
        if not self.rewind:
            check_digest(name, stream, expected, self.hash_type)
        elif can_seek(stream):
            start = stream.tell()
            check_digest(name, stream, expected, self.hash_type)
            stream.seek(start)
        else:
            copy: Any = tempfile.SpooledTemporaryFile(max_size=LARGE)  # noqa: SIM115  the stream over it closes it
            copied = stream_over(copy, name, None)
            check_digest(name, _copying(stream, copy), expected, self.hash_type)
            close(stream)
            copied.seek(0)
            return copied
        return stream


def _copying(stream: IO[bytes], copy: IO[bytes]) -> Iterator[bytes]:
    """Yield a stream piece by piece, after writing each piece to a copy."""
    while piece := stream.read(2**20):
        copy.write(piece)
        yield piece
