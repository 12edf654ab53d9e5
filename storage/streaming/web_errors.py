"""Errors of requests after which another attempt may succeed: they are those of Python, too, which a `Retry` takes."""

from __future__ import annotations

from typing import Any

import requests
from urllib3 import exceptions as urllib3

from ..errors import PASSING

__all__ = ["passing"]


class ServerInTrouble(requests.HTTPError, ConnectionError):
    """A response with a status that may pass."""


class NoConnection(requests.ConnectionError, ConnectionError):
    """No connection, or one that was lost before the response."""


class NoAnswer(requests.ConnectTimeout, requests.ReadTimeout, TimeoutError):
    """A server that does not respond in time."""


class CutAnswer(urllib3.ProtocolError, ConnectionError):
    """A response that ends too early."""


class SilentAnswer(urllib3.ReadTimeoutError, TimeoutError):
    """A response that does not go on in time."""

    def __init__(self, message: str) -> None:
        urllib3.HTTPError.__init__(self, message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args


def passing(error: Exception) -> Exception:
    """Return an error of requests or urllib3 as one of Python too, where another attempt may succeed; else itself."""
    if isinstance(error, urllib3.ReadTimeoutError):
        return SilentAnswer(str(error))
    if isinstance(error, urllib3.ProtocolError):
        return CutAnswer(str(error))
    if not isinstance(error, requests.RequestException):
        return error
    kind: Any = {
        requests.HTTPError: ServerInTrouble,
        requests.ConnectionError: NoConnection,
        requests.ConnectTimeout: NoAnswer,
        requests.ReadTimeout: NoAnswer,
    }.get(type(error))  # not those of certificates and proxies, which derive from them
    answer = error.response
    if kind is None or (answer is not None and answer.status_code not in PASSING):
        return error
    made: Exception = kind(str(error), response=answer)
    return made
