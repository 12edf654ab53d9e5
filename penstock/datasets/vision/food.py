"""Food-101: photographs of dishes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts, labels
from ..files import Files
from .rows import flawed, images_of, label_of

__all__ = ["Food101"]


@dataset(**facts("food101"))
def Food101(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 101 dishes.

    Items: `(image, label)`, and 0 … 100.
    """
    return images_of(resources["archive"], partial(_rows, resources["archive"], f"food-101/meta/{split}.json"))


def _rows(files: Files, path: str) -> list[tuple[str, int]]:
    known = labels("food101")
    try:
        names = json.loads(files.read(path))
        return [
            (f"food-101/images/{name}.jpg", label_of(known, dish, files, path))
            for dish, names_of_dish in names.items()
            for name in names_of_dish
        ]
    except (AttributeError, TypeError, json.JSONDecodeError) as error:
        raise flawed(files, path, f"it is no JSON of lists of names: {error}") from None
