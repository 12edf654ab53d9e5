"""The explanation of a chain in words, before anything is read."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field

from ..state.graph import DataPipe
from .chain_info import ChainInfo, ReadPlan
from .lints import Mistake, mistakes_in
from .sentences import sentences
from .text import escaped, sentence_in_page

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
        wrapper = textwrap.TextWrapper(
            _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
        lines = ([heading, *map(wrapper.fill, texts)] for heading, texts in self._sections().items())
        return "\n".join(line for section in lines for line in section)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # Without colours: the text has those of the page, light or dark.
        parts = []
        for heading, texts in self._sections().items():
            lines = "".join(f"<li>{sentence_in_page(text)}</li>" for text in texts)
            parts.append(f"<b>{escaped(heading)}</b>")
            parts.append(f'<ul style="margin:2px 0 8px;padding-left:1.5em">{lines}</ul>')
        return f'<div style="max-width:80ch;line-height:1.4">{"".join(parts)}</div>'

    def _sections(self) -> dict[str, list[str]]:
        return {**self.said, "Watch out": [*map(str, self.warnings)]} if self.warnings else self.said


def explained(end: DataPipe, plan: ReadPlan | None = None) -> Explanation:
    """Return the explanation of a chain, read by a loader as `plan` says, with the known mistakes in it."""
    chain = ChainInfo(end, plan)
    return Explanation(sentences(chain), [*mistakes_in(chain)])
