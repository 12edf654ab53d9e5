"""What a chain will do, in words, before anything is read."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from ..graph import DataPipe
from . import memory, order, places, resuming, sharing
from .how_read import HowRead
from .known import Known
from .mistakes import Mistake, found_by
from .mistakes_of_loaders import LOADERS
from .mistakes_of_memory import MEMORY
from .mistakes_of_order import ORDER
from .mistakes_of_shards import SHARDS

__all__ = ["Explanation", "explained"]

_WIDTH = 110


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a chain will do; its text has a heading for each subject.

    >>> print(Explanation({"Order": ["3 items."]}))
    Order
      3 items.
    """

    said: dict[str, list[str]]
    """Sentences, by their headings."""
    warnings: list[Mistake] = field(default_factory=list)
    """Known mistakes, each with its mend."""

    def __str__(self) -> str:
        lines: list[str] = []
        said = {**self.said, "Watch out": [*map(str, self.warnings)]} if self.warnings else self.said
        for heading, sentences in said.items():
            lines.append(heading)
            for sentence in sentences:
                lines += textwrap.wrap(
                    sentence,
                    _WIDTH,
                    initial_indent="  ",
                    subsequent_indent="    ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        return "\n".join(lines)

    __repr__ = __str__


def explained(end: DataPipe, how: HowRead | None = None) -> Explanation:
    """Return what a chain will do, read by a loader as `how` says, and the known mistakes in it."""
    chain = Known(end, how)
    said = {
        "Order": order.sentences(chain),
        "Shards": sharing.sentences(chain),
        "Memory": memory.sentences(chain),
        "Resume": resuming.sentences(chain),
        "Runs where": places.sentences(chain),
    }
    return Explanation(said, [*found_by((*ORDER, *SHARDS, *MEMORY, *LOADERS), chain)])
