"""What a chain will do, in words, before anything is read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..state.graph import DataPipe
from . import memory, order, places, resuming, sharing
from .how_read import HowRead
from .known import Known
from .mistakes import Mistake, found_by
from .mistakes_of_loaders import LOADERS
from .mistakes_of_memory import MEMORY
from .mistakes_of_order import ORDER
from .mistakes_of_shards import SHARDS
from .text import escaped, sentence_in_page

__all__ = ["Explanation", "explained"]

_WIDTH = 110


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a chain will do; its text has a heading for each subject, and a notebook shows it as HTML.

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

    def _repr_html_(self) -> str:
        # Colours that are readable on light and dark pages; the text has the page's.
        parts = [_section(heading, map(sentence_in_page, said), "") for heading, said in self.said.items()]
        if self.warnings:
            warned = [sentence_in_page(str(warning)) for warning in self.warnings]
            parts.append(_section("Watch out", warned, "border-left:3px solid #d98324;padding-left:10px;"))
        return f'<div style="max-width:80ch;line-height:1.4">{"".join(parts)}</div>'


def _section(heading: str, sentences: Iterable[str], style: str) -> str:
    lines = "".join(f"<li>{sentence}</li>" for sentence in sentences)
    return (
        f'<div style="{style}margin:0 0 8px"><b>{escaped(heading)}</b>'
        f'<ul style="margin:2px 0 0;padding-left:1.5em">{lines}</ul></div>'
    )


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
