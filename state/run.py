"""One pass over a pipe: how its iterator begins, ends, fails and is replaced by a newer one.

Only one plain `for` loop runs per item. All else runs when a pass begins, ends, fails or is replaced, or when its
state is taken.
"""

from __future__ import annotations

import atexit
import functools
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from types import GeneratorType
from typing import Any, TypeVar, cast

from ..errors.notes import describe_item
from ..errors.tracebacks import shorten_traceback
from .error_context import NO_ITEM, add_error_context, asked_by, describe_step, local_of
from .foreign import TorchIterDataPipe
from .passes import Pass
from .step_text import step_text

T = TypeVar("T")


class Replaced(BaseException):
    """Thrown into an iterator that a newer one replaces. Not an Exception, so that no operator swallows it."""

    def __init__(self, message: str) -> None:
        self.message = message
        """What the next step of the iterator says."""


def passes_of(iterate: Callable[[Any], Iterable[T]]) -> Callable[[Any], Iterable[T]]:
    """Return an `__iter__` that begins a pass over what the `__iter__` of an operator's class returns."""

    @functools.wraps(iterate)
    def __iter__(self: Any) -> Iterable[T]:  # noqa: N807
        # A call by super().__iter__() is part of a pass that has begun.
        return begin_pass(self, iterate) if type(self).__iter__ is __iter__ else iterate(self)

    return __iter__


def begin_pass(pipe: Any, iterate: Callable[[Any], Iterable[T]]) -> Iterator[T]:
    """Return the iterator of a new pass over a pipe, and close a live iterator of an earlier pass."""
    if (earlier := pipe._pass) is not None and earlier.iterator is not None and earlier.iterator() is not None:
        replace_live_iterator(pipe)
    pipe._pass_opened()
    current = Pass(pipe)
    pipe._pass = current
    iterator = cast("GeneratorType[T, None, None]", _deliver(pipe, current, iterate))
    next(iterator)  # start the generator, so that a newer iterator can throw into it; nothing is pulled
    current.iterator = weakref.ref(iterator)
    if threading.get_ident() == threading.main_thread().ident:
        _open.add(iterator)
    return iterator


_open: weakref.WeakSet[GeneratorType[Any, None, None]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close open iterators at exit, before interpreter shutdown removes what their steps call.

    Iterators of other threads stay open: those threads would mistake a closed iterator for an exhausted one.
    """
    for iterator in [*_open]:
        try:
            iterator.close()
        except Exception as error:
            if not iterator.gi_running:  # it may have been passed to another thread, which runs it
                traceback.print_exception(error)


def _deliver(pipe: Any, current: Pass, iterate: Callable[[Any], Iterable[T]]) -> Generator[Any, None, None]:
    own: Any = None
    counted: Any = None
    observer: Any = None
    item: Any = NO_ITEM
    try:
        yield
        if (observer := pipe._observer) is None:
            own, counted = current.start(pipe, iterate)
            # Not `yield from`: error notes read this frame's `item`.
            for item in counted:
                yield item
        else:  # here, since another generator would take its part of the stack
            observer.enter()
            own, counted = current.start(pipe, iterate)
            for item in counted:
                observer.leave(1)
                yield item
                observer.enter()
        if own is not None:
            pipe.at_end()
        current.ended = True
        if not pipe._is_asked_after_its_end:
            current.freeze()
    except Replaced as replaced:
        message = replaced.message
        if hasattr(own, "close"):  # inline: saves a frame for each of thousands of steps
            own.close()
        own = counted = item = None
        current.close()
        yield  # the result of throw(); the next step of this iterator raises
        raise RuntimeError(message) from None
    except GeneratorExit:
        current.abandon(item)
        if not current.begun:
            pipe._pass_unread()
        raise
    except BaseException as error:  # after Ctrl-C, too, the current item is lost
        current.error = describe_item(error)
        add_error_context(error, pipe)
        shorten_traceback(error, _deliver.__code__)
        raise
    finally:
        if observer is not None:
            observer.leave()
        if hasattr(own, "close"):
            own.close()
        own = counted = None  # closes the sources; a traceback may keep this frame
        current.close()


def running_step(thread_id: int) -> str | None:
    """Return a text with the operator that a thread runs and its item, or None."""
    top = sys._current_frames().get(thread_id)
    for frame, _ in traceback.walk_stack(top) if top is not None else ():
        if frame.f_code is _deliver.__code__:
            return describe_step(local_of(frame, "pipe"))
    return None


def replace_live_iterator(pipe: TorchIterDataPipe[Any], message: str | None = None) -> None:
    """Close the live iterator of a pipe, if any; its next step raises RuntimeError, with a message if one is given."""
    current: Pass | None = vars(pipe).get("_pass")  # other libraries' pipes have none
    earlier = None if current is None else current.live_iterator
    if current is None or earlier is None or earlier.gi_frame is None:
        return
    if earlier.gi_running:
        raise RuntimeError(
            f"{step_text(pipe)} is already being read, by another thread or by itself: a pipe has one live iterator"
        )
    current.iterator = None  # replaced only once
    if message is None:
        message = (
            f"this iterator of {step_text(pipe)} was replaced by a newer one{asked_by()}: a pipe has one live "
            "iterator; peek(n) leaves it alone; to read a pipe twice at once, fork it or build the chain twice, or use "
            "itertools.tee in an operator"
        )
    earlier.throw(Replaced(message))
