"""What is tried again, and how often."""

from __future__ import annotations

from ..registry import Guard, OnError, Retry

__all__ = ["Transient", "trying_again"]

Transient = (ConnectionError, TimeoutError)
"""The errors after which another attempt may go well: no connection, a cut answer, silence, a server in trouble."""

_ATTEMPTS = 5
"""How often what failed is tried again, where nothing else is said."""


def trying_again(on_error: OnError) -> Retry:
    """Return an `on_error` by which what may pass is tried again; one that is a `Retry` says itself what that is."""
    if isinstance(on_error, Retry):
        return on_error
    Guard(on_error)  # says what is wrong with it under the name that the user knows
    return Retry(_ATTEMPTS, errors=Transient, then=on_error)
