"""The words by which an operator declares what it does, for those who explain chains."""

from __future__ import annotations

from typing import Literal

__all__ = ["Trait"]

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
