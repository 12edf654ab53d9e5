"""How much memory items take up."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch

__all__ = ["size_of"]


def size_of(item: Any) -> int:
    """Return how many bytes of memory an item takes up, with all that it holds; what it holds twice counts once.

    A tensor counts with the whole storage that it is a view of, an array with the whole array, a Pillow image with its
    pixels, and what tells its `nbytes`, such as a table of Arrow, with these; lists, tuples, sets and dicts count with
    what is in them, and other objects with their attributes. For the rest `sys.getsizeof` is asked.

    >>> size_of(b"x" * 1000) == sys.getsizeof(b"x" * 1000)
    True
    >>> size_of([torch.zeros(1000)[:1]]) > 4000
    True
    """
    total = 0
    seen: set[int] = set()
    waiting = [item]
    while waiting:
        part = waiting.pop()
        # A storage has a new Python object each time it is asked for, so it is known by its place in memory.
        identity = part.data_ptr() if isinstance(part, torch.UntypedStorage) else id(part)
        if identity not in seen:
            seen.add(identity)
            total += max(sys.getsizeof(part), _own_bytes(part))
            waiting += _parts(part)
    return total


def _own_bytes(part: Any) -> int:
    """What of a part's memory `sys.getsizeof` may not know of."""
    if isinstance(part, torch.Tensor):
        return 0 if part.layout is torch.strided else part._nnz() * (part.element_size() + 8 * part.dim())
    if hasattr(part, "getbands"):
        return int(part.width * part.height * len(part.getbands()))
    nbytes = getattr(part, "nbytes", 0)
    return nbytes if isinstance(nbytes, int) else 0


def _parts(part: Any) -> Iterator[Any]:
    """What a part holds that counts by itself."""
    if isinstance(part, torch.Tensor):
        if part.layout is torch.strided:
            yield part.untyped_storage()
    elif isinstance(part, Mapping):
        yield from part.keys()
        yield from part.values()
    elif isinstance(part, (list, tuple, set, frozenset)):
        yield from part
    elif hasattr(part, "dtype"):
        yield getattr(part, "base", None)
        if getattr(part.dtype, "hasobject", False):
            yield from part.ravel().tolist()
    if not isinstance(part, (type, ModuleType)):
        yield from getattr(part, "__dict__", {}).values()
        for cls in type(part).__mro__:
            slots = vars(cls).get("__slots__", ())
            yield from (getattr(part, name, None) for name in ([slots] if isinstance(slots, str) else slots))
