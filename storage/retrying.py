"""Which errors are retried, and how often."""

from __future__ import annotations

from ..errors.policy import ErrorPolicy, OnError, Retry

__all__ = ["Transient", "trying_again"]

Transient = (ConnectionError, TimeoutError)
"""Errors worth retrying: no connection, a truncated response, a timeout, a server error."""

_ATTEMPTS = 5
"""Default number of retries."""


def trying_again(on_error: OnError) -> Retry:
    """Return a `Retry` of transient errors that ends in `on_error`; return a given `Retry` unchanged."""
    if isinstance(on_error, Retry):
        return on_error
    ErrorPolicy(on_error)  # an invalid value is reported as `on_error`, the name the user knows
    return Retry(_ATTEMPTS, errors=Transient, then=on_error)
