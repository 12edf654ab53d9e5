"""Memory size of items."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch


def size_of(item: Any) -> int:
    """Return the memory of an item in bytes, with all that it references; shared parts count once.

    A tensor counts with its complete storage, a NumPy view with its base array, a Pillow image with its pixels, and an
    object with `nbytes`, such as an Arrow table, with these. Lists, tuples, sets and dicts count with their elements,
    other objects with their attributes. `sys.getsizeof` covers the rest.

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
        # Each access to a storage makes a new Python object, so its address identifies it.
        identity = part.data_ptr() if isinstance(part, torch.UntypedStorage) else id(part)
        if identity not in seen:
            seen.add(identity)
            total += max(sys.getsizeof(part), _own_bytes(part))
            waiting += _parts_within(part)
    return total


def _own_bytes(part: Any) -> int:
    """Return the bytes of a part that `sys.getsizeof` may miss."""
    if isinstance(part, torch.Tensor):
        return 0 if part.layout is torch.strided else part._nnz() * (part.element_size() + 8 * part.dim())
    if hasattr(part, "getbands"):
        return int(part.width * part.height * len(part.getbands()))
    nbytes = getattr(part, "nbytes", 0)
    return nbytes if isinstance(nbytes, int) else 0


def _parts_within(part: Any) -> Iterator[Any]:
    """Yield the objects in a part that count separately."""
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
