"""Which errors are retried, and how often."""

from __future__ import annotations

from dataclasses import replace

from ..errors.policy import ErrorPolicy, OnError, Retry

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


def attempts_of(retry: Retry | None, counted_by: ErrorPolicy | None) -> ErrorPolicy:
    """Return the policy for parts of an item, of which none can be skipped: by default five retries."""
    again = trying_again("raise") if retry is None else replace(retry, then="raise")
    return ErrorPolicy(again, counted_by=counted_by)
