"""Errors say where: which operator raised, on which item, and where that item came from."""

from __future__ import annotations

import reprlib
from types import CodeType, FrameType
from typing import Any

import torch

from .display import step
from .graph import DataPipe, sources_of

__all__ = ["describe_item", "local_of", "notes_of", "place_of", "say_where"]

_PREFIX = "penstock: "
_NOTHING = object()

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxlist = _short.maxtuple = _short.maxdict = 4


def notes_of(error: BaseException) -> list[str]:
    """Return the notes that were added to an error here."""
    return [note for note in getattr(error, "__notes__", ()) if note.startswith(_PREFIX)]


def say_where(error: BaseException, pipe: DataPipe, item: object = _NOTHING) -> None:
    """Add a note to an error that leaves a pipe: the operator, the item it was on, and that item's path or key.

    Only the first pipe that the error leaves adds one: that is where it was raised.
    """
    if notes_of(error):
        return
    try:
        error.add_note(_where(error, pipe, item))
    except Exception:  # a user's item or argument that cannot be shown must not take the error's place
        error.add_note(f"{_PREFIX}raised in {type(pipe).__name__}")


def _where(error: BaseException, pipe: DataPipe, item: object) -> str:
    if item is _NOTHING and all(last_item(source) is _NOTHING for source in sources_of(pipe)):
        item = _item_in_hand(error, pipe)
    return f"{_PREFIX}raised in {place_of(pipe, item)}"


def place_of(pipe: DataPipe, item: object = _NOTHING) -> str:
    """Return, in words, an operator and the item that it is on, with the path or key of what was read last above it."""
    sources = sources_of(pipe)
    if item is _NOTHING:
        item = next((last for source in sources if (last := last_item(source)) is not _NOTHING), _NOTHING)
    where = step(pipe)
    if item is not _NOTHING:
        where += f", on {describe_item(item)}"
        if _origin_of(item) is None:
            # Not "from": a step between that reads ahead or batches has read further than this item.
            origin = next(filter(None, map(_origin_upstream, sources)), None)
            where += f", last read upstream: {origin}" if origin is not None else ""
    return where


def shorten_traceback(error: BaseException, passing_on: CodeType) -> None:
    """Leave, of the frames of the pipes that only passed an error on, none: `passing_on` is their code."""
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
    """Return the item that a pipe handed out last, from the frame of its live iterator."""
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
        if isinstance(variables, dict):  # as before Python 3.13: the frame keeps it, and with it what it holds
            variables.clear()


def _item_in_hand(error: BaseException, pipe: DataPipe) -> Any:
    """The `item` of the method of a pipe that raised: a generator that fails closes at once what it was reading."""
    traceback = error.__traceback__
    while traceback is not None:
        held = traceback.tb_frame.f_locals
        if held.get("self") is pipe and "item" in held:
            return held["item"]
        traceback = traceback.tb_next
    return _NOTHING


def describe_item(item: object) -> str:
    """Return an item in a few words: paths and keys as they are, tensors by shape and dtype, the rest cut short.

    >>> describe_item(("a.txt", b"x" * 1000))
    "('a.txt', bytes of length 1000)"
    """
    try:
        return _described(item)
    except Exception:  # a user's item that cannot be shown, or a list that holds itself
        return f"<{type(item).__name__}>"


def _described(item: object) -> str:
    if isinstance(item, torch.Tensor):
        return f"Tensor of shape {tuple(item.shape)}, {item.dtype}"
    if hasattr(item, "shape") and hasattr(item, "dtype"):
        return f"{type(item).__name__} of shape {tuple(item.shape)}, {item.dtype}"
    if isinstance(item, (bytes, bytearray)) and len(item) > 40:
        return f"{type(item).__name__} of length {len(item)}"
    if type(item) is tuple and len(item) <= 4:
        return "(" + ", ".join(map(_described, item)) + ("," if len(item) == 1 else "") + ")"
    if isinstance(item, list):
        rest = f", … {len(item)} in all" if len(item) > 4 else ""
        return "[" + ", ".join(map(_described, item[:4])) + rest + "]"
    if hasattr(item, "read"):
        return f"<{type(item).__name__}>"
    if isinstance(item, str):
        return repr(item) if len(item) <= 300 else _short.repr(item)
    if isinstance(item, dict) and len(item) <= 6:
        return "{" + ", ".join(f"{key!r}: {_described(value)}" for key, value in item.items()) + "}"
    return _short.repr(item)


def _origin_of(item: object) -> str | None:
    """The path, URL or key that an item carries, if it carries one."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return repr(item[0])
    if isinstance(item, dict) and isinstance(item.get("__key__"), str):
        return repr(item["__key__"])
    return None


def _origin_upstream(pipe: DataPipe) -> str | None:
    """The nearest path, URL or key above a pipe, of the items that its sources are on."""
    last = last_item(pipe)
    found = None if last is _NOTHING else _origin_of(last)
    return found or next(filter(None, map(_origin_upstream, sources_of(pipe))), None)
