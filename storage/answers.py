"""What servers answer where a file is read piece by piece: of the range that was asked for, and of one version."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["REPLACED", "OneVersion", "expect_range"]

REPLACED = "the object was replaced while it was read"


def expect_range(asked: str, status: int, told: Mapping[str, str]) -> None:
    """Raise ConnectionError where a good answer does not have all of a range, which a `Range` asked for.

    Some servers send a range with the status of a whole, and some answer with a whole, which is right from its start,
    and elsewhere io.UnsupportedOperation. The page of a gateway, which is short, says nothing of a range.
    """
    wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", asked)
    if wanted is None:
        return
    first, last = int(wanted[1]), int(wanted[2])
    length = told.get("Content-Length")
    if came := re.match(r"bytes (\d+)-(\d+)/(\d+)?", told.get("Content-Range", "")):
        end = min(last, int(came[3]) - 1) if came[3] else last
        is_right = int(came[1]) == first and int(came[2]) == end
        if "Content-Encoding" not in told:
            is_right = is_right and length in (None, str(end + 1 - first))
    elif status == 200 and first and (length is None or int(length) > last + 1 - first):
        raise io.UnsupportedOperation("the server sends whole objects only, which cannot be read from the middle")
    else:
        is_right = status == 200 and not first
    if not is_right:
        text = f"of the bytes {first} to {last} there came {told.get('Content-Range', 'something else')!r}"
        raise ConnectionError(errno.EIO, text)


class OneVersion:
    """A session of aiohttp's by which a file of fsspec's is read, which must stay the one that it was."""

    def __init__(self, session: Any, size: int) -> None:
        self._session = session
        self._size = size
        self._seen: Mapping[str, str] = {}
        self.told_size: int | None = None
        """The size, where answers end where the connection does, so that nothing else says whether all came."""

    async def get(self, url: Any, **kwargs: Any) -> Any:
        """Return the answer, as the session does; raise OSError for one that is no part of the file."""
        answer = await self._session.get(url, **kwargs)
        try:
            self._check(answer, (kwargs.get("headers") or {}).get("Range", ""))
        except OSError:
            answer.close()
            raise
        return answer

    def _check(self, answer: Any, asked: str) -> None:
        told = answer.headers
        if answer.status == 416:  # of a range that the file had
            raise OSError(errno.ESTALE, REPLACED)
        if answer.status not in (200, 206):
            return
        expect_range(asked, answer.status, told)
        of_version = "ETag" if "ETag" in told and "ETag" in self._seen else "Last-Modified"
        if self._seen and told.get(of_version) != self._seen.get(of_version):
            raise OSError(errno.ESTALE, REPLACED)
        is_packed = "Content-Encoding" in told  # for the way, so that it has another length
        total = told.get("Content-Range", "").rpartition("/")[2] or told.get("Content-Length", "")
        if total.isdecimal() and int(total) != self._size and not is_packed:
            raise OSError(errno.ESTALE, REPLACED)
        self._seen = told
        if "Content-Length" not in told and told.get("Transfer-Encoding", "").lower() != "chunked" and not is_packed:
            self.told_size = self._size
