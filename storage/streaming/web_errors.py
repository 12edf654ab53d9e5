"""Errors of requests after which another attempt may succeed: they are those of Python, too, which a `Retry` takes."""

from __future__ import annotations

from typing import Any

import requests
from urllib3 import exceptions as urllib3

from ..errors import PASSING


class TransientStatusError(requests.HTTPError, ConnectionError):
    """A response with a status that may pass."""


class ConnectionLostError(requests.ConnectionError, ConnectionError):
    """No connection, or one that was lost before the response."""


class ResponseTimeoutError(requests.ConnectTimeout, requests.ReadTimeout, TimeoutError):
    """A server that does not respond in time."""


class IncompleteResponseError(urllib3.ProtocolError, ConnectionError):
    """A response that ends too early."""


class BodyTimeoutError(urllib3.ReadTimeoutError, TimeoutError):
    """A response that does not go on in time."""

    def __init__(self, message: str) -> None:
        urllib3.HTTPError.__init__(self, message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args


def as_transient(error: Exception) -> Exception:
    """Return an error of requests or urllib3 as one of Python too, where another attempt may succeed; else itself."""
    if isinstance(error, urllib3.ReadTimeoutError):
        return BodyTimeoutError(str(error))
    if isinstance(error, urllib3.ProtocolError):
        return IncompleteResponseError(str(error))
    if not isinstance(error, requests.RequestException):
        return error
    kind: Any = {
        requests.HTTPError: TransientStatusError,
        requests.ConnectionError: ConnectionLostError,
        requests.ConnectTimeout: ResponseTimeoutError,
        requests.ReadTimeout: ResponseTimeoutError,
    }.get(type(error))  # not those of certificates and proxies, which derive from them
    answer = error.response
    if kind is None or (answer is not None and answer.status_code not in PASSING):
        return error
    made: Exception = kind(str(error), response=answer)
    return made
