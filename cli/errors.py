"""Errors of the command line: wrong uses of it, and errors of the user's code, shown as theirs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors.tracebacks import folded_traceback


class WrongUse(Exception):
    """What the user typed cannot be right."""


class TheirError(Exception):
    """The user's code raised an error."""

    def __init__(self, raised: Exception) -> None:
        super().__init__(repr(raised))
        self.raised = raised


@contextmanager
def their_code() -> Iterator[None]:
    """Raise TheirError for an error of the user's code, which runs in the block."""
    try:
        yield
    except Exception as error:
        raise TheirError(error) from error


def print_as_theirs(error: BaseException) -> None:
    """Print an error to stderr, as Python does, without the frames of Penstock and of imports."""
    shown: list[BaseException] = []
    rest: list[BaseException | None] = [error]
    while rest:
        each = rest.pop()
        if each is not None and each not in shown:
            shown.append(each)
            each.__traceback__ = folded_traceback(each.__traceback__, with_deepest=False)
            rest += [each.__cause__, each.__context__]
    traceback.print_exception(error)
