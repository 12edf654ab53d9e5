"""Bounds on how large a compressed file, or a line, may become in memory."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...errors.notes import add_note
from ...errors.secrets import without_secrets

P = ParamSpec("P")
R = TypeVar("R")

MAX_BYTES = 2**30
"""Default bound on the bytes of a decompressed file."""

LINE_BYTES = 64 * 2**20
"""Default bound on the bytes of a line."""

_HONEST = 100
"""Compression ratio that is always allowed; that of decompression bombs is about 1000."""


class TooLarge(ValueError):
    """A file would exceed its memory bound: probably a decompression bomb."""


def expect_within_limit(grown: int, packed: int, max_bytes: float) -> None:
    """Raise TooLarge if bytes decompress to more than `max_bytes` and to more than 100 times their size."""
    if grown > max(max_bytes, _HONEST * packed):
        raise TooLarge(
            f"{packed:,} bytes grow to {grown:,} or more, and max_bytes is {max_bytes:,}: this may be a decompression "
            "bomb; if the file is right, give a larger max_bytes"
        )


class Bound:
    """A bound on the bytes that a call of a `BoundedReader` holds."""

    def __init__(self, name: object, max_bytes: float, packed: int = 0) -> None:
        self.packed = packed
        """The compressed bytes of which they were made."""
        self._name = name
        self._max_bytes = max_bytes
        self._held = 0
        self._is_whole = False

    def expect(self, grown: int) -> None:
        """Raise TooLarge, with the name of the file, for more bytes than a call may hold."""
        try:
            expect_within_limit(grown, self.packed, self._max_bytes)
        except TooLarge as error:
            add_note(error, f"when {without_secrets(repr(self._name))} was read")
            raise

    def begin(self, is_whole: bool) -> None:
        """Begin a call that holds all bytes from now on, or else only those after the last line end."""
        self._held, self._is_whole = 0, is_whole

    def add(self, content: bytes) -> None:
        """Count the next bytes; raise TooLarge for more than a call may hold."""
        ended = 0 if self._is_whole else content.rfind(b"\n") + 1
        self._held = len(content) - ended if ended else self._held + len(content)
        self.expect(self._held)


def _bounded(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method of a reader; one call holds no more bytes than the bound allows."""

    @functools.wraps(method)
    def called(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._bound.begin(is_whole=True)
        try:
            return method(self, *args, **kwargs)
        finally:
            self._bound.begin(is_whole=False)

    return called


class BoundedReader(io.BufferedReader):
    """A buffered reader of which one call returns no more bytes than a bound allows, to which its raw stream adds.

    Without an override, `readline` and the iterator stay as fast as they are: the raw stream looks for line ends.
    """

    def __init__(self, raw: Any, bound: Bound, buffer_size: int = io.DEFAULT_BUFFER_SIZE) -> None:
        super().__init__(raw, buffer_size)
        self._bound = bound

    read = _bounded(io.BufferedReader.read)
    read1 = _bounded(io.BufferedReader.read1)
    readinto = _bounded(io.BufferedReader.readinto)
    readinto1 = _bounded(io.BufferedReader.readinto1)
    readlines = _bounded(io.BufferedReader.readlines)
    peek = _bounded(io.BufferedReader.peek)
