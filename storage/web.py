"""Web clients that send headers, cookies and keys to no other host when redirected."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from ..errors.optional import require
from .clients import timeouts

DRIVE_HOSTS = ("drive.google.com", "docs.google.com")

_HARMLESS = {"accept", "accept-encoding", "connection", "content-length", "content-type", "range", "user-agent"}
"""Headers kept on a redirect to another host; any other may hold a key."""


def new_session() -> Any:
    """Return a requests session whose headers, cookies and keys go only to the host they are for."""
    requests = require("requests", "http")

    class Session(requests.Session):  # type: ignore[name-defined,misc]  # requests is imported on demand
        def rebuild_auth(self, prepared_request: Any, response: Any) -> None:
            super().rebuild_auth(prepared_request, response)
            if self.should_strip_auth(response.request.url, prepared_request.url):
                _keep_harmless(prepared_request.headers)
                prepared_request._cookies = requests.cookies.RequestsCookieJar()  # or requests rebuilds the header

    return Session()


def for_the_web(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return fsspec's HTTP options for options given as for S3: with our session and its timeouts."""
    client = {**(options.get("client_kwargs") or {})}
    client.pop("region_name", None)  # for S3 only, as are retries
    config = options.get("config_kwargs") or {}
    if unknown := config.keys() - {"connect_timeout", "read_timeout", "retries"}:
        raise TypeError(f"the web is not read with {', '.join(map(repr, sorted(unknown)))} in config_kwargs")
    if config.keys() & {"connect_timeout", "read_timeout"}:
        client.setdefault("timeout", _patience(options))
    others = {name: value for name, value in options.items() if name not in ("client_kwargs", "config_kwargs")}
    return {"get_client": keeping_to_itself, **others, **({"client_kwargs": client} if client else {})}


def _patience(options: Mapping[str, Any]) -> Any:
    import aiohttp

    connect, read = timeouts(options)
    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read)


async def keeping_to_itself(**kwargs: Any) -> Any:
    """Return an aiohttp session for fsspec, as `new_session` does for requests, with our timeouts."""
    import aiohttp

    async def forget(session: Any, context: Any, redirect: Any) -> None:
        location = redirect.response.headers.get("Location") or redirect.response.headers.get("URI") or ""
        if redirect.url.join(type(redirect.url)(location)).origin() != redirect.url.origin():
            _keep_harmless(redirect.headers)

    # A session would send these to every host. As headers, they are removed on a redirect with the others.
    auth, cookies = kwargs.pop("auth", None), kwargs.pop("cookies", None)
    headers = {**(kwargs.pop("headers", None) or {})}
    if auth is not None:
        name, password, *encoding = auth  # a pair, as for requests, or aiohttp's BasicAuth
        headers["Authorization"] = "Basic " + b64encode(f"{name}:{password}".encode(*encoding)).decode()
    if cookies:
        headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in dict(cookies).items())
    kwargs.setdefault("timeout", _patience({}))
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(forget)
    return aiohttp.ClientSession(trace_configs=[trace], headers=headers, **kwargs)


def _keep_harmless(headers: Any) -> None:
    for name in [name for name in headers if name.lower() not in _HARMLESS]:
        headers.pop(name, None)
