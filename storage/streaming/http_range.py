"""Checks on responses to range requests: the requested range, and the same version each time."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["REPLACED", "OneVersion", "expect_range"]

REPLACED = "the object was replaced while it was read"


def expect_range(asked: str, status: int, headers: Mapping[str, str]) -> None:
    """Raise ConnectionError if a successful response lacks the range that a `Range` header requested.

    Some servers send a range with status 200. Some send the complete object: that is right for a range from its start,
    and otherwise raises io.UnsupportedOperation. A gateway's error page is short, and names no range.
    """
    wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", asked)
    if wanted is None:
        return
    first, last = int(wanted[1]), int(wanted[2])
    length = headers.get("Content-Length")
    if came := re.match(r"bytes (\d+)-(\d+)/(\d+)?", headers.get("Content-Range", "")):
        end = min(last, int(came[3]) - 1) if came[3] else last
        is_right = int(came[1]) == first and int(came[2]) == end
        if "Content-Encoding" not in headers:
            is_right = is_right and length in (None, str(end + 1 - first))
    elif status == 200 and first and (length is None or int(length) > last + 1 - first):
        raise io.UnsupportedOperation("the server sends whole objects only, which cannot be read from the middle")
    else:
        is_right = status == 200 and not first
    if not is_right:
        text = f"bytes {first} to {last} were requested, and {headers.get('Content-Range', 'something else')!r} came"
        raise ConnectionError(errno.EIO, text)


class OneVersion:
    """The aiohttp session of one fsspec file, which fails if the file changes."""

    def __init__(self, session: Any, size: int) -> None:
        self._session = session
        self._size = size
        self._seen: Mapping[str, str] = {}
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
        if answer.status == 416:  # the file used to have this range
            raise OSError(errno.ESTALE, REPLACED)
        if answer.status not in (200, 206):
            return
        expect_range(asked, answer.status, headers)
        of_version = "ETag" if "ETag" in headers and "ETag" in self._seen else "Last-Modified"
        if self._seen and headers.get(of_version) != self._seen.get(of_version):
            raise OSError(errno.ESTALE, REPLACED)
        packed = "Content-Encoding" in headers  # compressed for transfer, so the length differs
        total = headers.get("Content-Range", "").rpartition("/")[2] or headers.get("Content-Length", "")
        if total.isdecimal() and int(total) != self._size and not packed:
            raise OSError(errno.ESTALE, REPLACED)
        self._seen = headers
        if "Content-Length" not in headers and headers.get("Transfer-Encoding", "").lower() != "chunked" and not packed:
            self.declared_size = self._size
