"""Notes on errors, and short texts of the items that they name."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

import torch

from .secrets import Short, shown_text, without_secrets
from .short_values import array_in_words, date_in_words, table_in_words

PREFIX = "penstock: "
"""The beginning of each note that tells where an error was raised."""

_short_item = Short()
_short_item.maxstring = _short_item.maxother = 80
_short_item.maxlist = _short_item.maxtuple = _short_item.maxdict = 4

_DEEPEST = 8
"""The most levels of an item that is shown: each may hold the next several times."""


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, without calling an overridden `add_note`, which may raise."""
    with suppress(Exception):
        BaseException.add_note(error, note)


def notes_of(error: BaseException) -> list[str]:
    """Return the notes that this module added to an error."""
    return [note for note in all_notes_of(error) if isinstance(note, str) and note.startswith(PREFIX)]


def all_notes_of(error: BaseException) -> list[str]:
    """Return the notes of an error, also of one whose class fails to look up attributes."""
    try:
        return [*getattr(error, "__notes__", ())]
    except Exception:
        return []


def describe_item(item: object) -> str:
    """Return a short text for an item: paths and keys in full, tensors by shape and dtype, other values truncated.

    >>> describe_item(("a.txt", b"x" * 1000))
    "('a.txt', bytes of length 1000)"
    """
    try:
        return without_secrets(_item_text(item))
    except Exception:  # a failing repr, or a list that contains itself
        return f"<{type(item).__name__}>"


def _item_text(item: object, depth: int = 0) -> str:
    if depth > _DEEPEST:
        raise RecursionError("the item is nested too deep, or contains itself")
    if isinstance(item, torch.Tensor):  # a parameter, say, is one too
        return f"Tensor of shape {tuple(item.shape)}, {item.dtype}"
    if text := array_in_words(item) or date_in_words(item):
        return text
    if isinstance(item, (bytes, bytearray)) and len(item) > 40:
        return f"{type(item).__name__} of length {len(item)}"
    if type(item) is tuple or isinstance(item, list):
        rest = f", … {len(item)} in all" if len(item) > 4 else "," * (len(item) == 1 and type(item) is tuple)
        shown = ", ".join(_item_text(part, depth + 1) for part in item[:4]) + rest
        return f"[{shown}]" if isinstance(item, list) else f"({shown})"
    if hasattr(item, "read"):
        return f"<{type(item).__name__}>"
    if isinstance(item, str):
        text = shown_text(item)
        return repr(text) if len(text) <= 300 else _short_item.repr(text)
    if isinstance(item, dict):
        pairs = [*islice(item.items(), len(item) if len(item) <= 6 else 4)]
        rest = f", … {len(item)} in all" if len(item) > len(pairs) else ""
        return "{" + ", ".join(f"{key!r}: {_item_text(value, depth + 1)}" for key, value in pairs) + rest + "}"
    if isinstance(item, tuple) and hasattr(item, "_fields") and len(item) <= 6:
        values = ", ".join(
            f"{name}={_item_text(value, depth + 1)}" for name, value in zip(item._fields, item, strict=True)
        )
        return f"{type(item).__name__}({values})"
    return table_in_words(item) or " ".join(_short_item.repr(item).splitlines())


def key_of(item: object) -> str | None:
    """Return the path, URL or key in an item, or None."""
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return repr(item[0])
    if isinstance(item, dict) and isinstance(item.get("__key__"), str):
        return repr(item["__key__"])
    return None
