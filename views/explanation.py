"""The explanation of a chain in words, before anything is read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..state.graph import DataPipe
from .chain_info import ChainInfo, ReadPlan
from .lints import Mistake, mistakes_in
from .lints.loaders import LOADERS
from .lints.memory import MEMORY
from .lints.order import ORDER
from .lints.shards import SHARDS
from .sentences import sentences
from .text import escaped, sentence_in_page

__all__ = ["Explanation", "explained"]

_WIDTH = 110


@dataclass(frozen=True, repr=False)
class Explanation:
    """An explanation of a chain. Its text has a heading for each subject, and a notebook shows it as HTML.

    >>> print(Explanation({"Order": ["3 items."]}))
    Order
      3 items.
    """

    said: dict[str, list[str]]
    """Sentences, by their headings."""
    warnings: list[Mistake] = field(default_factory=list)
    """Known mistakes, each with its fix."""

    def __str__(self) -> str:
        lines: list[str] = []
        said = {**self.said, "Watch out": [*map(str, self.warnings)]} if self.warnings else self.said
        for heading, texts in said.items():
            lines.append(heading)
            for text in texts:
                lines += textwrap.wrap(
                    text,
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


def explained(end: DataPipe, plan: ReadPlan | None = None) -> Explanation:
    """Return the explanation of a chain, read by a loader as `plan` says, with the known mistakes in it."""
    chain = ChainInfo(end, plan)
    return Explanation(sentences(chain), [*mistakes_in(chain, (*ORDER, *SHARDS, *MEMORY, *LOADERS))])
