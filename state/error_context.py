"""The context of errors: the operator that raised, its item, and the origin of the item."""

from __future__ import annotations

import sys
from collections.abc import Generator
from types import CodeType, FrameType
from typing import Any

from ..errors.notes import PREFIX, add_note, describe_item, key_of, notes_of
from ..errors.provenance import Provenance
from ..errors.secrets import hide_secrets, without_secrets
from .graph import DataPipe, descend, sources_of
from .origin import asked_once, provenance_of
from .step_text import step

__all__ = ["add_error_context", "asked_by", "describe_step", "last_item", "local_of", "shorten_traceback"]

_NOTHING = object()

_NOT_THE_USERS = ("penstock", "contextlib")


def asked_by() -> str:
    """Return, as the end of a message, the user's line that called Penstock, and the function called."""
    frame: FrameType | None = sys._getframe(1)
    called = ""
    # contextlib calls what its decorators wrap.
    while frame is not None and (at := frame.f_globals.get("__name__", "").partition(".")[0]) in _NOT_THE_USERS:
        called = "" if frame.f_code.co_name.startswith("_") or at != "penstock" else f"{frame.f_code.co_name}() in "
        frame = frame.f_back
    return "" if frame is None else f", by {called}{frame.f_code.co_filename}, line {frame.f_lineno}"


def add_error_context(
    error: BaseException, pipe: DataPipe, item: object = _NOTHING, provenance: Provenance | None = None
) -> None:
    """Add a note to an error that leaves a pipe: the operator, its item, and the origin of the item.

    Only the first pipe that the error leaves adds one: the error was raised there. Without an `item`, the note names
    the last item of the source. With an `item`, the caller gives its `provenance`, if known.
    """
    if notes_of(error):
        return
    hide_secrets(error)
    try:
        add_note(error, _where(error, pipe, item, provenance))
    except Exception:  # a failing repr of an item or argument must not replace the error
        add_note(error, f"{PREFIX}raised in {type(pipe).__name__}")


def _where(error: BaseException, pipe: DataPipe, item: object, provenance: Provenance | None) -> str:
    sources = sources_of(pipe)
    if item is _NOTHING and all(last_item(source) is _NOTHING for source in sources):
        item = _item_in_hand(error, pipe)
        if len(sources) == 1 and not getattr(pipe, "holds_items", True):  # else the item may be an earlier one
            provenance = provenance_of(sources[0])
    return f"{PREFIX}raised in {describe_step(pipe, item, provenance)}{_mend_for_batches(pipe, item)}"


def _mend_for_batches(pipe: DataPipe, item: object) -> str:
    """Return what to do where a function of rows got a batch of columns; empty for other steps and items."""
    if getattr(pipe, "functional_name", None) not in ("filter", "flatmap", "map"):
        return ""
    items = [item] if item is not _NOTHING else map(last_item, sources_of(pipe))
    if not any(type(each).__name__ == "RecordBatch" for each in items):
        return ""
    return (
        "; the item is a batch of columns: for a function of rows put .rows() before it, or take map_batches, or the "
        "reader's filter="
    )


def describe_step(pipe: DataPipe, item: object = _NOTHING, provenance: Provenance | None = None) -> str:
    """Return a text with an operator, its item, and the origin of the item or what was read last upstream."""
    with asked_once():
        if item is _NOTHING:
            for source in sources_of(pipe):
                if (item := last_item(source)) is not _NOTHING:
                    provenance = provenance_of(source)
                    break
        where = step(pipe)
        if item is not _NOTHING:
            where += f", on {describe_item(item)}"
            if provenance is not None:
                where += f", from {provenance}"
            elif key_of(item) is None and (last_read := _last_read_above(pipe)):
                # Not "from": a step in between may read ahead or batch.
                where += f", last read upstream: {last_read}"
        return without_secrets(where)


def shorten_traceback(error: BaseException, passing_on: CodeType) -> None:
    """Remove the frames of pipes that only passed an error on; `passing_on` is their code."""
    top = error.__traceback__
    if top is None:
        return
    deepest, current = top, top.tb_next
    while current is not None:
        if current.tb_frame.f_code is passing_on:
            deepest = current
        current = current.tb_next
    top.tb_next = deepest.tb_next


def last_item(pipe: DataPipe) -> Any:
    """Return the last item of a pipe, from the frame of its live iterator."""
    current = vars(pipe).get("_pass")
    iterator = current.iterator() if current is not None and current.iterator is not None else None
    frame = getattr(iterator, "gi_frame", None)
    return _NOTHING if frame is None else local_of(frame, "item")


def local_of(frame: FrameType, name: str) -> Any:
    """Return a local variable of a frame that may still be running."""
    variables = frame.f_locals
    try:
        return variables.get(name, _NOTHING)
    finally:
        if isinstance(variables, dict):  # before Python 3.13 the frame keeps this dict and its values alive
            variables.clear()


def _item_in_hand(error: BaseException, pipe: DataPipe) -> Any:
    """Return the local `item` of the pipe's method that raised, when its sources are already closed."""
    traceback = error.__traceback__
    while traceback is not None:
        held = traceback.tb_frame.f_locals
        if held.get("self") is pipe and "item" in held:
            return held["item"]
        traceback = traceback.tb_next
    return _NOTHING


def _last_read_above(pipe: DataPipe) -> str | None:
    """Return the origins of the nearest upstream items that have one, or None."""
    known: dict[int, str | None] = {}  # visit shared sources once

    def above(pipe: DataPipe) -> Generator[DataPipe, str | None, str | None]:
        sources = sources_of(pipe)
        for source in (read_now := [source for source in sources if last_item(source) is not _NOTHING] or sources):
            if id(source) not in known:
                known[id(source)] = _last_read(source) or (yield source)
        found = [*dict.fromkeys(filter(None, (known[id(source)] for source in read_now)))]
        return "; ".join(found[:4]) + (f", {len(found)} places in all" if len(found) > 4 else "") or None

    return descend(above, pipe)


def _last_read(pipe: DataPipe) -> str | None:
    last = last_item(pipe)
    key = None if last is _NOTHING else key_of(last)
    if key is not None:
        return key
    provenance = provenance_of(pipe)
    return None if provenance is None else str(provenance)
