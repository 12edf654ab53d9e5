"""DTD: photographs of textures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts, labels
from ..files import Files
from .rows import images_of, label_of, text_lines

__all__ = ["DTD"]


@dataset(**facts("dtd"))
def DTD(resources: Mapping[str, Files], split: str, *, partition: int = 1) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 47 kinds of textures.

    Items: `(image, label)`, and 0 … 46. `partition`, 1 … 10, is one of ten divisions into splits.
    """
    if partition not in range(1, 11):
        raise ValueError(f"partition must be in 1 … 10, and is {partition!r}")
    files = resources["archive"]
    return images_of(files, partial(_rows, files, f"dtd/labels/{split}{partition}.txt"))


def _rows(files: Files, path: str) -> list[tuple[str, int]]:
    known = labels("dtd")
    return [
        (f"dtd/images/{line}", label_of(known, line.partition("/")[0], files, path, number))
        for number, line in enumerate(text_lines(files, path), 1)
    ]
