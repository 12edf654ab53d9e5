"""Food-101: photographs of dishes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .names import Names
from .rows import flawed, images_of, label_of

__all__ = ["Food101"]

_CATEGORIES = Names("food101.txt")


@dataset(
    "food101",
    splits={"train": 75_750, "test": 25_250},
    categories=_CATEGORIES,
    resources={
        "archive": Resource(
            "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
            sha256="d97d15e438b7f4498f96086a4f7e2fa42a32f2712e87d3295441b2b6314053a4",
            size=4_996_278_331,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        )
    },
    home_page="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101/",
    citation="Bossard, Guillaumin, Van Gool: Food-101 - Mining Discriminative Components with Random Forests, "
    "ECCV 2014",
)
def Food101(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 101 dishes.

    Items: `(image, label)`, and 0 … 100.
    """
    return images_of(resources["archive"], partial(_rows, resources["archive"], f"food-101/meta/{split}.json"))


def _rows(files: Files, path: str) -> list[tuple[str, int]]:
    labels = {name: label for label, name in enumerate(_CATEGORIES)}
    try:
        names = json.loads(files.read(path))
        return [
            (f"food-101/images/{name}.jpg", label_of(labels, dish, files, path))
            for dish, names_of_dish in names.items()
            for name in names_of_dish
        ]
    except (AttributeError, TypeError, json.JSONDecodeError) as error:
        raise flawed(files, path, f"it is no JSON of lists of names: {error}") from None
