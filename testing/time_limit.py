"""A time limit for what an author's operator does, with an error that shows where it hangs."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from itertools import takewhile
from typing import Any

from ..errors.tracebacks import is_ours


class Hangs(AssertionError):
    """The error of what takes too long."""


def within(seconds: float, act: Callable[..., Any], *args: Any) -> Any:
    """Return what a function returns, or raise what it raises; raise `Hangs` if it takes longer.

    The function runs in a thread of its own: no signal is needed, and locks that it waits for do not matter. Nothing
    can stop a thread, so one that hangs goes on until the program ends.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(act(*args))
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="penstock-law", daemon=True)
    thread.start()
    thread.join(seconds)
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None or outcome.done():
        return outcome.result()
    deepest, *others = takewhile(lambda each: each[0].f_code is not run.__code__, traceback.walk_stack(frame))
    stack = traceback.StackSummary.extract([*[each for each in others if not is_ours(each[0])][::-1], deepest])
    raise Hangs(f"it takes longer than {seconds:g} seconds; where it is now:\n{''.join(stack.format())}".rstrip())
