"""Clients of web servers that keep to themselves, on the way to another host, what they were given for the first."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from ..registry.extras import require

__all__ = ["keeping_to_itself", "new_session"]

_HARMLESS = {"accept", "accept-encoding", "connection", "content-length", "content-type", "range", "user-agent"}
"""Headers that go along where a server sends one on to another host; any other may hold a key."""


def new_session() -> Any:
    """Return a session of requests whose headers, cookies and keys go to no other host than the one they are for."""
    requests = require("requests", "http")

    class Session(requests.Session):  # type: ignore[name-defined,misc]  # requests is imported when it is needed
        def rebuild_auth(self, prepared_request: Any, response: Any) -> None:
            super().rebuild_auth(prepared_request, response)
            if self.should_strip_auth(response.request.url, prepared_request.url):
                _keep_harmless(prepared_request.headers)
                prepared_request._cookies = requests.cookies.RequestsCookieJar()  # of which it makes a header again

    return Session()


async def keeping_to_itself(**kwargs: Any) -> Any:
    """Return a session of aiohttp's for fsspec, as `new_session` does for requests."""
    import aiohttp

    async def forget(session: Any, context: Any, redirect: Any) -> None:
        location = redirect.response.headers.get("Location") or redirect.response.headers.get("URI") or ""
        if redirect.url.join(type(redirect.url)(location)).origin() != redirect.url.origin():
            _keep_harmless(redirect.headers)

    # A session would send these to every host; as headers they are some of many.
    auth, cookies = kwargs.pop("auth", None), kwargs.pop("cookies", None)
    headers = {**(kwargs.pop("headers", None) or {})}
    if auth is not None:
        name, password, *encoding = auth  # a pair, as requests has it, or a BasicAuth of aiohttp's
        headers["Authorization"] = "Basic " + b64encode(f"{name}:{password}".encode(*encoding)).decode()
    if cookies:
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in dict(cookies).items())
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(forget)
    return aiohttp.ClientSession(trace_configs=[trace], headers=headers, **kwargs)


def _keep_harmless(headers: Any) -> None:
    for name in [name for name in headers if name.lower() not in _HARMLESS]:
        headers.pop(name, None)
