"""The words by which an operator declares what it does, for those who explain chains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

from ..errors.checks import AUTO, MOST_AHEAD
from ..state.graph import DataPipe

Trait = Literal[
    "batches",
    "caches",
    "cycles",
    "drops",
    "forks",
    "gathers",
    "expensive",
    "limits",
    "merges",
    "opens",
    "pairs",
    "sets_length",
    "shuffles",
    "unbatches",
    "unpacks",
]
"""What an operator does.

- `"batches"`: makes a batch of several items; `"unbatches"` makes several items of a batch.
- `"caches"`: keeps all items, and reads its source once.
- `"cycles"`: reads its source again and again, `count` times or for ever.
- `"drops"`: leaves items out, depending on what they are; `"limits"` ends early, after a number of items.
- `"forks"`: gives each item to all of its branches.
- `"gathers"`: makes one item of neighbours that belong together, and needs them side by side.
- `"expensive"`: takes long for each item: decodes it, loads it, or calls a function on many at once.
- `"merges"`: gives the items of several sources; `"pairs"` pairs the items at the same place of several sources.
- `"opens"`: gives open streams, each with its name; `"unpacks"` makes many items of one file.
- `"sets_length"`: gives `len` of the chain.
- `"shuffles"`: gives its items in another, random order.
"""

IN_BYTES = {"max_bytes": 1, "size": 2**20}
"""The parameters that bound memory in bytes, with their unit; others count items."""


_ENDLESS = (itertools.count, itertools.cycle)


def has_trait(pipe: DataPipe, *traits: Trait) -> bool:
    """Say whether the class of a pipe declares one of these traits."""
    return not set(traits).isdisjoint(getattr(type(pipe), "traits", ()))


def is_endless(pipe: DataPipe, sources: Sequence[bool]) -> bool:
    """Say whether a step is known to give items for ever; `sources` says it of each of its sources."""
    attributes = vars(pipe)
    if has_trait(pipe, "limits"):
        return any(sources) and attributes.get("_limit") is None
    if has_trait(pipe, "cycles"):
        return any(sources) or attributes.get("_count", attributes.get("count", 0)) is None
    if has_trait(pipe, "merges", "pairs"):
        return bool(sources) and all(sources)
    return sources[0] if sources else isinstance(attributes.get("iterable"), _ENDLESS)


def buffers_of(pipe: DataPipe) -> dict[str, Any]:
    """Return the parameters that bound how much a step holds, each with its argument; None is unbounded."""
    attributes, kind = vars(pipe), type(pipe)
    names = getattr(kind, "buffers", ())
    given = {name: attributes.get(name, attributes.get(f"_{name}", getattr(kind, name, None))) for name in names}
    return {name: None if type(bound) is int and bound < 0 else bound for name, bound in given.items()}


def product_of_buffers(pipe: DataPipe) -> int | None:
    """Return the product of the bounds that count items: 0 without any buffer, None if one is unbounded."""
    buffers = buffers_of(pipe)
    bounds = [MOST_AHEAD if bound == AUTO else bound for name, bound in buffers.items() if name not in IN_BYTES]
    if not buffers:
        return 0
    return math.prod(bounds) if bounds and all(isinstance(bound, int) for bound in bounds) else None
