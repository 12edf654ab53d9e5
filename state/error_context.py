"""The context of errors: the operator that raised, its item, and the origin of the item."""

from __future__ import annotations

import inspect
import math
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from ..errors.notes import PREFIX, add_note, describe_item, key_of, notes_of
from ..errors.provenance import Provenance
from ..errors.secrets import hide_secrets, without_secrets
from .foreign import declared
from .graph import DataPipe, sources_first, sources_of
from .step_text import step_text

NO_ITEM = object()

_NOT_THE_USERS = ("penstock", "contextlib")  # contextlib calls what its decorators wrap


def asked_by() -> str:
    """Return, as the end of a message, the user's line that called Penstock, and the function called."""
    called = ""
    for frame, _ in traceback.walk_stack(inspect.currentframe()):
        module = frame.f_globals.get("__name__", "").partition(".")[0]
        if module not in _NOT_THE_USERS:
            return f", by {called}{frame.f_code.co_filename}, line {frame.f_lineno}"
        called = "" if frame.f_code.co_name.startswith("_") or module != "penstock" else f"{frame.f_code.co_name}() in "
    return ""


def add_error_context(
    error: BaseException, pipe: DataPipe, item: object = NO_ITEM, provenance: Provenance | None = None
) -> None:
    """Add a note to an error that leaves a pipe: the operator, its item, and the origin of the item.

    Only the first pipe that the error leaves adds one: the error was raised there. Without an `item`, the note names
    the last item of the source. With an `item`, the caller gives its `provenance`, if known.
    """
    if notes_of(error):
        return
    with suppress(Exception):  # its class may fail to look up attributes
        hide_secrets(error)
    try:
        add_note(error, f"{PREFIX}raised in {describe_step(pipe, item, provenance)}{_mend_for_batches(pipe, item)}")
    except Exception:  # a failing repr of an item or argument must not replace the error
        add_note(error, f"{PREFIX}raised in {type(pipe).__name__}")


def _mend_for_batches(pipe: DataPipe, item: object) -> str:
    """Return what to do where a function of rows got a batch of columns; empty for other steps and items."""
    if getattr(pipe, "functional_name", None) not in ("filter", "flatmap", "map"):
        return ""
    items = [item] if item is not NO_ITEM else map(last_item, sources_of(pipe))
    if not any(type(each).__name__ == "RecordBatch" for each in items):
        return ""
    return (
        "; the item is a batch of columns: for a function of rows put .rows() before it, or take map_batches, or the "
        "reader's filter="
    )


def describe_step(pipe: DataPipe, item: object = NO_ITEM, provenance: Provenance | None = None) -> str:
    """Return a text with an operator, its item, and the origin of the item or what was read last upstream."""
    with asked_once():
        if item is NO_ITEM:
            source = _source_read_last(pipe)
            if source is not None:
                item, provenance = last_item(source), provenance_of(source)
        where = step_text(pipe)
        shown = "" if item is NO_ITEM else describe_item(item)
        if shown:
            where += f", on {shown}"
        if provenance is not None:
            where += f", from {provenance}"
        elif (item is NO_ITEM or key_of(item) is None) and (last_read := _last_read_above(pipe)) not in (None, shown):
            # Not "from": a step in between may read ahead or batch.
            where += f", last read upstream: {last_read}"
        return without_secrets(where)


def last_item(pipe: DataPipe) -> Any:
    """Return the last item of a pipe: of its live iterator, or of one that an error of its reader has closed."""
    current = vars(pipe).get("_pass")
    if current is None:
        return NO_ITEM
    frame = getattr(current.live_iterator, "gi_frame", None)
    if frame is not None:
        return local_of(frame, "item")
    return NO_ITEM if current.kept_last_item is None else current.kept_last_item[1]


def _source_read_last(pipe: DataPipe) -> DataPipe | None:
    """Return the first source that is being read, or else the one that was closed last, if its item is known."""
    known = [source for source in sources_of(pipe) if last_item(source) is not NO_ITEM]
    closed = {id(source): vars(source)["_pass"].kept_last_item for source in known}
    return max(known, key=lambda source: closed[id(source)] or (math.inf,), default=None)


def local_of(frame: FrameType, name: str) -> Any:
    """Return a local variable of a frame that may still be running."""
    variables = frame.f_locals
    try:
        return variables.get(name, NO_ITEM)
    finally:
        if isinstance(variables, dict):  # before Python 3.13 the frame keeps this dict and its values alive
            variables.clear()


def _last_read_above(pipe: DataPipe) -> str | None:
    """Return the origins of the nearest upstream items that have one, or None."""
    origins: dict[str, None] = {}
    seen: set[int] = set()
    waiting = [pipe]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        origin = None if current is pipe else _last_read(current)
        if origin:
            origins[origin] = None
            continue
        sources = sources_of(current)
        waiting += reversed([source for source in sources if last_item(source) is not NO_ITEM] or sources)
    found = [*origins]
    return "; ".join(found[:4]) + (f", {len(found)} places in all" if len(found) > 4 else "") or None


def _last_read(pipe: DataPipe) -> str | None:
    last = last_item(pipe)
    key = None if last is NO_ITEM else key_of(last)
    if key is not None:
        return key
    try:
        provenance = provenance_of(pipe)
    except Exception:  # of an operator's own: the error at hand matters more
        return None
    return None if provenance is None else str(provenance)


# Provenance

_answers: dict[int, dict[int, Provenance | Exception | None]] = {}
"""By thread id, for threads in `asked_once`: the results or errors of pipes, by their ids."""


@contextmanager
def asked_once() -> Iterator[None]:
    """Cache the provenance of each pipe in this thread. Nothing may be read meanwhile."""
    thread = threading.get_ident()
    if thread in _answers:
        yield
        return
    _answers[thread] = {}
    try:
        yield
    finally:
        del _answers[thread]


def provenance_of(pipe: Any) -> Provenance | None:
    """Return the provenance of the last item of a pipe, or None if unknown."""
    answers = _answers.get(threading.get_ident()) if _answers else None
    if answers is None:
        try:
            return _provenance_now(pipe)
        except RecursionError:  # a long chain: each pipe calls its source
            with asked_once():
                return provenance_of(pipe)
    for part in sources_first(pipe, stop=lambda part: id(part) in answers):
        if id(part) not in answers:
            try:
                answers[id(part)] = _provenance_now(part)
            except Exception as error:
                answers[id(part)] = error
    answer = answers[id(pipe)]
    if isinstance(answer, Exception):
        raise answer
    return answer


def _provenance_now(pipe: Any) -> Provenance | None:
    find = declared(pipe, "provenance", None)
    current = vars(pipe).get("_pass")  # other libraries' pipes have none
    if find is None or current is None or not current.begun:
        return None
    found: Provenance | None = find(pipe)
    return found if found is not None and found.places else None
