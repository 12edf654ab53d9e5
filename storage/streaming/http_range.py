"""Checks on responses to range requests: the requested range, and the same version each time."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Mapping
from typing import Any

REPLACED = "the object was replaced while it was read"

_NO_END = 2**63
"""The last byte of a range without an end: no file is as large."""


def expect_range(asked: str, status: int, headers: Mapping[str, str]) -> None:
    """Raise ConnectionError if a successful response lacks the range that a `Range` header requested.

    Some servers send a range with status 200. Some send the complete object: that is right for a range from its start,
    and otherwise raises io.UnsupportedOperation. A gateway's error page is short, and names no range.
    """
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
    if wanted is None:
        return
    first, last = int(wanted[1]), int(wanted[2] or _NO_END)
    length = headers.get("Content-Length")
    if came := re.match(r"bytes (\d+)-(\d+)/(\d+)?", headers.get("Content-Range", "")):
        end = min(last, int(came[3]) - 1) if came[3] else last
        is_right = int(came[1]) == first and end in (_NO_END, int(came[2]))
        if "Content-Encoding" not in headers:
            is_right = is_right and length in (None, str(int(came[2]) + 1 - first))
    elif status == 200 and first and (length is None or int(length) > last + 1 - first):
        raise io.UnsupportedOperation("the server sends whole objects only, which cannot be read from the middle")
    else:
        is_right = status == 200 and not first
    if not is_right:
        text = f"bytes {first} to {last} were requested, and {headers.get('Content-Range', 'something else')!r} came"
        raise ConnectionError(errno.EIO, text)


class Version:
    """The version of a file, which all responses for it must have; `size` is None if unknown."""

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self._seen: Mapping[str, str] = {}

    def check(self, asked: str, status: int, headers: Mapping[str, str]) -> None:
        """Raise OSError for a wrong range or another version of the file; `asked` is the `Range` header."""
        if status == 416:  # the file used to have this range
            raise OSError(errno.ESTALE, REPLACED)
        if status not in (200, 206):
            return
        expect_range(asked, status, headers)
        of_version = "ETag" if "ETag" in headers and "ETag" in self._seen else "Last-Modified"
        if self._seen and headers.get(of_version) != self._seen.get(of_version):
            raise OSError(errno.ESTALE, REPLACED)
        total = headers.get("Content-Range", "").rpartition("/")[2] or headers.get("Content-Length", "")
        if total.isdecimal() and "Content-Encoding" not in headers:  # compressed for transfer, the length differs
            if self._size not in (None, int(total)):
                raise OSError(errno.ESTALE, REPLACED)
            self._size = int(total)
        self._seen = headers


class OneVersion:
    """The aiohttp session of one fsspec file, which fails if the file changes."""

    def __init__(self, session: Any, size: int) -> None:
        self._session = session
        self._size = size
        self._version = Version(size)
        self.declared_size: int | None = None
        """The size, if responses end with the connection: nothing else shows whether all bytes came."""

    async def get(self, url: Any, **kwargs: Any) -> Any:
        """Return the session's response; raise OSError for a wrong range or another version of the file."""
        answer = await self._session.get(url, **kwargs)
        try:
            self._check(answer, (kwargs.get("headers") or {}).get("Range", ""))
        except OSError:
            answer.close()
            raise
        return answer

    def _check(self, answer: Any, asked: str) -> None:
        headers = answer.headers
        self._version.check(asked, answer.status, headers)
        ends_itself = "Content-Length" in headers or "Content-Encoding" in headers
        is_chunked = headers.get("Transfer-Encoding", "").lower() == "chunked"
        if answer.status in (200, 206) and not ends_itself and not is_chunked:
            self.declared_size = self._size
