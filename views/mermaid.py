"""A chain as the text of a Mermaid diagram, which many pages and editors draw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .steps import Step
from .text import cleaned, cut

__all__ = ["mermaid_of"]

_SHAPES = {"map-style": ('[["', '"]]'), "branch": ('(["', '"])'), "unread": ('(["', '"])')}
_MARKUP = re.compile(r"""[\\`*_#\[\](){}|~^$%@&<>"']""")


def mermaid_of(steps: Sequence[Step]) -> str:
    """Return the Mermaid text of a chain's steps. A stream that is divided among shards has thick arrows."""
    return "\n".join(["flowchart TD", *_lines(steps), ""])


def _lines(steps: Sequence[Step]) -> Iterator[str]:
    for place, step in enumerate(steps):
        opening, closing = _SHAPES.get(step.kind, ('["', '"]'))
        yield f"    s{place}{opening}{'<br/>'.join(map(_plain_text, _words_of(step)))}{closing}"
    for place, step in enumerate(steps):
        for source in step.sources:
            arrow = "==>" if steps[source].is_divided else "-->"
            label = "read twice" if source in step.reads_twice else _plain_text(steps[source].item)
            yield f"    s{source} {arrow}" + (f'|"{label}"| ' if label else " ") + f"s{place}"
    if here := [f"s{place}" for place, step in enumerate(steps) if step.in_main_process]:
        yield '    subgraph main["in the main process"]'
        yield from (f"        {name}" for name in here)
        yield "    end"


def _words_of(step: Step) -> list[str]:
    share = [step.share[1]] if step.share is not None else []
    return [step.name, *([cut(step.arguments, 60)] if step.arguments else []), *step.lines, *step.marks, *share]


def _plain_text(text: str) -> str:
    """Return text without what Mermaid reads as markup or the end of a label."""
    return _MARKUP.sub(lambda found: f"#{ord(found[0])};", cleaned(" ".join(text.split())))
