"""Whether a source gives its items in the order that it had when a state was taken.

A state has a check value of the last item of each source. A resumed pass compares it with the item at that place.
"""

from __future__ import annotations

import zlib
from pathlib import PurePath
from typing import Any

from ..errors.notes import describe_item

__all__ = ["check_value", "expect_same_order"]

_PLAIN = (str, bytes, int, float, type(None), PurePath)
_MOST_PARTS, _MOST_CHARACTERS = 16, 1000


def check_value(item: object) -> int | None:
    """Return a number that equal items share; None for an item of which too little is known.

    Only numbers, text, paths, and those in a tuple count: a program may change the others after it got them.

    >>> check_value(("a.tar", object())) == check_value(("a.tar", object())) != check_value(("b.tar", object()))
    True
    """
    parts = [_text(part) for part in (item[:_MOST_PARTS] if isinstance(item, tuple) else (item,))]
    return zlib.crc32("\n".join(parts).encode()) if any(parts) else None


def _text(part: Any) -> str:
    if not isinstance(part, _PLAIN):
        return ""
    return repr(part[:_MOST_CHARACTERS] if isinstance(part, (str, bytes)) else part)


def expect_same_order(item: object, last: int | None) -> None:
    """Raise RuntimeError if an item has another check value than the last one had when the state was taken."""
    if last is not None and check_value(item) != last:
        raise RuntimeError(
            f"the state was taken after another item than {describe_item(item)}: the source now has other items, or "
            "another order, so some items would come twice and others never. Give it the same order, for example by "
            "sorted(…); load_state_dict(state, strict=False) goes on anyway"
        )
