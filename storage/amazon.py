"""The HTTP session of s3fs: it follows no redirect to another host, and verifies the ranges it receives.

A module of its own, since aiobotocore is slow to import.
"""

from __future__ import annotations

import errno
import re
from typing import Any

from aiobotocore.httpsession import AIOHTTPSession  # type: ignore[import-untyped]

from .errors import PERHAPS_WRITTEN, REDIRECTED, goes_elsewhere
from .streaming.http_range import REPLACED, expect_range

_SAYS = {
    "PUT": re.compile(rb"^(ETag|Location): |<ETag>", re.IGNORECASE | re.MULTILINE),
    "POST": re.compile(rb"<(UploadId|ETag|DeleteResult|Error)\b"),
}
"""Method → what S3's own answer contains: a gateway's page has status 200, too."""


class Session(AIOHTTPSession):  # type: ignore[misc]  # aiobotocore has no types
    """An aiobotocore session that follows no redirects, as in botocore, and checks its responses."""

    async def _get_session(self, proxy_url: str | None) -> Any:
        return _Staying(await super()._get_session(proxy_url))

    async def send(self, request: Any) -> Any:
        """Return the response to a request; raise OSError for a redirect or a wrong range or version."""
        answer = await super().send(request)
        try:
            _check_answer(request, answer)
            if answer.status_code == 200 and (known_by := _SAYS.get(request.method)):
                headers = "".join(f"{name}: {value}\n" for name, value in answer.headers.items()).encode()
                if not known_by.search(headers + await answer.content):
                    raise OSError(errno.EIO, PERHAPS_WRITTEN)
        except OSError:
            answer.raw.close()
            raise
        return answer


class _Staying:
    """An aiohttp session that follows no redirects."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def request(self, *args: Any, **kwargs: Any) -> Any:
        return self._session.request(*args, allow_redirects=False, **kwargs)


def _check_answer(request: Any, answer: Any) -> None:
    headers = answer.headers
    if goes_elsewhere(answer.status_code, headers):
        raise OSError(errno.EREMOTE, REDIRECTED)
    if answer.status_code not in (200, 206):
        return
    asked = {name.lower(): _text(value) for name, value in request.headers.items()}
    if "range" not in asked:
        return
    expect_range(asked["range"], 206, headers)  # some servers give a range the status 200: they must name it, too
    version = asked.get("if-match", "")
    if version and _bare(headers.get("ETag", version)) != _bare(version):
        raise OSError(errno.ESTALE, REPLACED)
    if came := re.match(r"bytes (\d+)-(\d+)/", headers.get("Content-Range", "")):
        # Set, so that a truncated body is noticed.
        headers.setdefault("Content-Length", str(int(came[2]) + 1 - int(came[1])))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _bare(version: str) -> str:
    """Return an ETag without quotes and weak mark: some servers omit the quotes in listings."""
    return version.removeprefix("W/").strip('"')
