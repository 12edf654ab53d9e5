"""Flowers 102: flowers, whose labels and splits are in MATLAB's files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .matlab import variables
from .names import Names
from .rows import flawed, images_of

__all__ = ["Flowers102"]

_CATEGORIES = Names("flowers102.txt")
_SPLITS = {"train": "trnid", "val": "valid", "test": "tstid"}


@dataset(
    "flowers102",
    splits={"train": 1_020, "val": 1_020, "test": 6_149},
    categories=_CATEGORIES,
    resources={
        "images": Resource(
            "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/102flowers.tgz",
            sha256="2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
            size=344_862_509,
            unpack=True,
            note="Facts: torchvision, tensorflow-datasets",
        ),
        "labels": Resource(
            "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/imagelabels.mat",
            sha256="4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
            size=502,
            note="Facts: torchvision, tensorflow-datasets",
        ),
        "setid": Resource(
            "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/setid.mat",
            sha256="46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
            size=14_989,
            note="Facts: torchvision, tensorflow-datasets",
        ),
    },
    home_page="https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
    citation="Nilsback, Zisserman: Automated Flower Classification over a Large Number of Classes, ICVGIP 2008",
)
def Flowers102(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 102 kinds of flowers.

    Items: `(image, label)`, and 0 … 101. Needs scipy.
    """
    return images_of(resources["images"], partial(_rows, resources["setid"], resources["labels"], split))


def _rows(setid: Files, of_labels: Files, split: str) -> list[tuple[str, int]]:
    numbers = variables(setid, setid.resource.name, _SPLITS[split])[0].ravel().astype(np.int64)
    labels = variables(of_labels, of_labels.resource.name, "labels")[0].ravel().astype(np.int64) - 1
    if numbers.size and not (numbers.min() >= 1 and numbers.max() <= len(labels)):
        raise flawed(setid, "", f"it names an image {numbers.max()}, and there are labels of {len(labels)}")
    if labels.size and not (labels.min() >= 0 and labels.max() < len(_CATEGORIES)):
        raise flawed(
            of_labels, "", f"its labels are {labels.min() + 1} … {labels.max() + 1}, not 1 … {len(_CATEGORIES)}"
        )
    return [(f"jpg/image_{number:05}.jpg", int(labels[number - 1])) for number in numbers]
