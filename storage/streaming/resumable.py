"""Responses that are read once, from start to end, and go on where they broke."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...errors.policy import ErrorPolicy
from ...errors.secrets import stream_name
from .http_range import Version

_PIECE = 2**20
"""Bytes that are read at once of a response that is read to its end, or up to where it broke."""


class HttpResponse(NamedTuple):
    """A response for a file; its bytes may be unpacked on the way."""

    status: int
    headers: Mapping[str, str]
    read: Callable[[int], bytes]
    close: Callable[[], object]


class ResumableBody(io.RawIOBase):
    """The bytes of a response. Once `retry` was called, a response that breaks is followed by one for the rest.

    `ask` requests the file, with the value of a `Range` header, empty for the whole file; its errors, and those of
    reading, are ones that a `Retry` takes. A server without ranges sends the file again, and what was read is skipped.
    Reading raises OSError if the file was replaced meanwhile.
    """

    def __init__(
        self, response: HttpResponse, ask: Callable[[str], HttpResponse], name: str, fs: object = None
    ) -> None:
        self.fs = fs
        """The file system of fsspec, which tells whether a forked process can read this."""
        self._response: HttpResponse | None = response
        self._ask = ask
        self._name = stream_name(name)
        self._version = Version()
        self._version.check("", response.status, response.headers)
        # Of what is packed for the way, no range has the bytes from a position on.
        self._is_packed = "Content-Encoding" in response.headers
        self._at = 0
        self._attempts: ErrorPolicy | None = None

    def retry(self, attempts: ErrorPolicy) -> None:
        """Retry failed reads from now on."""
        self._attempts = attempts

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes, or all to the end."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(_PIECE), b""))
        if self._attempts is None:
            return self._piece(size)
        piece: Any = self._attempts.wrap(self._piece)(size)  # nothing is skipped
        return piece  # type: ignore[no-any-return]

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        super().close()
        self._drop()

    def _drop(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    def _piece(self, size: int) -> bytes:
        if self.closed:
            raise ValueError("read of a closed file")
        try:
            if self._response is None:
                self._go_on()
            assert self._response is not None
            content = self._response.read(size)
        except Exception as error:
            self._drop()
            if isinstance(error, OSError) and error.errno and error.filename is None:
                error.filename = self._name
            raise
        self._at += len(content)
        return content

    def _go_on(self) -> None:
        """Request the file from where the reading stopped."""
        asked = "" if self._is_packed or not self._at else f"bytes={self._at}-"
        self._response = response = self._ask(asked)
        self._version.check(asked if response.status == 206 else "", response.status, response.headers)
        left = 0 if response.status == 206 else self._at
        while left:
            skipped = len(response.read(min(left, _PIECE)))
            if not skipped:
                raise ConnectionError(errno.EIO, "the answer was cut")
            left -= skipped
