"""Ctrl-C while a program reads a loader: the item in use is recorded as not done."""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .position import Requests

_epochs: weakref.WeakSet[Requests] = weakref.WeakSet()
"""The requests of all epochs under way."""
_before: Any = None
"""The handler of the program, which ours calls."""


@contextmanager
def recorded_interrupts(requests: Requests) -> Iterator[None]:
    """Record interrupts of the program while an epoch is under way, and that it failed if the epoch does."""
    _epochs.add(requests)
    install_handler()
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException:
        requests.interrupt()
        raise
    finally:
        _epochs.discard(requests)
        if not _epochs:
            _restore_handler()


def install_handler() -> None:
    """Let interrupts be recorded, if this is the main thread; a notebook sets its own handler in each cell."""
    global _before
    handler = signal.getsignal(signal.SIGINT)
    if handler is not _on_interrupt and callable(handler) and threading.current_thread() is threading.main_thread():
        _before = handler
        signal.signal(signal.SIGINT, _on_interrupt)


def _restore_handler() -> None:
    if signal.getsignal(signal.SIGINT) is _on_interrupt and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _before)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    try:
        _before(number, frame)
    except BaseException:  # else the program only takes note, and goes on
        for requests in [*_epochs]:
            requests.interrupt()
        raise
