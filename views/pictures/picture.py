"""A chain as a picture: in a notebook, in a file, or as text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ...errors.optional import require
from ...state.graph import DataPipe
from ..display import show_tree
from .mermaid import mermaid_of
from .nodes import Share, nodes_of
from .svg import svg_of


class Picture:
    """The picture of a chain as it was when the picture was made.

    `shares` has, by the `id` of a pipe, a share of the whole between 0 and 1, and a short text: the step shows them as
    a bar. `workers` says in a few words where the steps run that do not run in the main process.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(4)).map(str)
    >>> picture = Picture(dp, shares={id(dp): (0.82, "82 % · 3.1 ms")})
    >>> print(picture.mermaid)
    flowchart TD
        s0["IterableWrapper<br/>range#40;0, 4#41;"]
        s1[".map<br/>str<br/>82 #37; · 3.1 ms"]
        s0 -->|"int"| s1
    <BLANKLINE>
    """

    def __init__(self, chain: DataPipe, shares: Mapping[int, Share] | None = None, workers: str | None = None) -> None:
        self._text = show_tree(chain)
        self._nodes = nodes_of(chain, shares)
        self._workers = workers

    def __repr__(self) -> str:
        return self._text

    @cached_property
    def svg(self) -> str:
        """The picture as SVG, with colours for light and for dark pages."""
        return svg_of(self._nodes, self._workers)

    @cached_property
    def mermaid(self) -> str:
        """The picture as the text of a Mermaid diagram."""
        return mermaid_of(self._nodes)

    @property
    def png(self) -> bytes:
        """The picture in light colours as PNG. It needs resvg-py: ImportError says how to install it."""
        return bytes(require("resvg_py", "pictures").svg_to_bytes(svg_string=self.svg, zoom=2, background="#ffffff"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file whose name ends in .svg, .png or .mmd; ValueError for another ending."""
        match Path(path).suffix.lower():
            case ".svg":
                content = self.svg.encode()
            case ".png":
                content = self.png
            case ".mmd":
                content = self.mermaid.encode()
            case _:
                raise ValueError(f"a picture is written as .svg, .png or .mmd, and the name is {os.fspath(path)!r}")
        Path(path).write_bytes(content)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        # As HTML, the picture is a part of the page, follows its colours, and shows more where one points.
        html = f'<div style="overflow-x:auto">{self.svg}</div>'
        return {"text/plain": self._text, "text/html": html, "image/svg+xml": self.svg}
