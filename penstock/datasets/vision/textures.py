"""DTD: photographs of textures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .rows import images_of, label_of, text_lines

__all__ = ["DTD"]

_CATEGORIES = (
    *("banded", "blotchy", "braided", "bubbly", "bumpy", "chequered", "cobwebbed", "cracked"),
    *("crosshatched", "crystalline", "dotted", "fibrous", "flecked", "freckled", "frilly", "gauzy"),
    *("grid", "grooved", "honeycombed", "interlaced", "knitted", "lacelike", "lined", "marbled"),
    *("matted", "meshed", "paisley", "perforated", "pitted", "pleated", "polka-dotted", "porous"),
    *("potholed", "scaly", "smeared", "spiralled", "sprinkled", "stained", "stratified", "striped"),
    *(
        "studded",
        "swirly",
        "veined",
        "waffled",
        "woven",
        "wrinkled",
        "zigzagged",
    ),
)


@dataset(
    "dtd",
    splits={"train": 1_880, "val": 1_880, "test": 1_880},
    categories=_CATEGORIES,
    resources={
        "archive": Resource(
            "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
            sha256="e42855a52a4950a3b59612834602aa253914755c95b0cff9ead6d07395f8e205",
            size=625_239_812,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        )
    },
    home_page="https://www.robots.ox.ac.uk/~vgg/data/dtd/",
    citation="Cimpoi et al.: Describing Textures in the Wild, CVPR 2014",
)
def DTD(resources: Mapping[str, Files], split: str, *, partition: int = 1) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 47 kinds of textures.

    Items: `(image, label)`, and 0 … 46. `partition`, 1 … 10, is one of ten divisions into splits.
    """
    if partition not in range(1, 11):
        raise ValueError(f"partition must be in 1 … 10, and is {partition!r}")
    files = resources["archive"]
    return images_of(files, partial(_rows, files, f"dtd/labels/{split}{partition}.txt"))


def _rows(files: Files, path: str) -> list[tuple[str, int]]:
    labels = {name: label for label, name in enumerate(_CATEGORIES)}
    return [
        (f"dtd/images/{line}", label_of(labels, line.partition("/")[0], files, path, number))
        for number, line in enumerate(text_lines(files, path), 1)
    ]
