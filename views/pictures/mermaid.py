"""A chain as the text of a Mermaid diagram, which many pages and editors draw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..text import cleaned, cut
from .nodes import PictureNode

_MARKUP = re.compile(r"""[\\`*_#\[\](){}|~^$%@&<>"']""")


def mermaid_of(nodes: Sequence[PictureNode]) -> str:
    """Return the Mermaid text of a chain's nodes. A stream that is divided among shards has thick arrows."""
    return "\n".join(["flowchart TD", *_lines(nodes), ""])


def _lines(nodes: Sequence[PictureNode]) -> Iterator[str]:
    for place, node in enumerate(nodes):
        label = f'["{"<br/>".join(map(_plain_text, _words_of(node)))}"]'
        yield f"    s{place}{f'[{label}]' if node.kind == 'map-style' else label}"
    for place, node in enumerate(nodes):
        for source, branches in node.sources.items():
            arrow = "==>" if nodes[source].is_divided else "-->"
            label = _plain_text(branches or nodes[source].item)
            yield f"    s{source} {arrow}" + (f'|"{label}"| ' if label else " ") + f"s{place}"
    if here := [f"s{place}" for place, node in enumerate(nodes) if node.in_main_process]:
        yield '    subgraph main["in the main process"]'
        yield from (f"        {name}" for name in here)
        yield "    end"


def _words_of(node: PictureNode) -> list[str]:
    words = [node.name, cut(node.arguments, 60), *node.lines, *node.marks, node.share[1]]
    return [*filter(None, words)]


def _plain_text(text: str) -> str:
    """Return text without what Mermaid reads as markup or the end of a label."""
    return _MARKUP.sub(lambda found: f"#{ord(found[0])};", cleaned(" ".join(text.split())))
