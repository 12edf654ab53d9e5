"""Oxford-IIIT Pet: cats and dogs, with masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .images import decoded, decoded_mask
from .rows import drawn, flawed, kinds_of, one_or_all, text_lines

_Row = tuple[str, int, int]
"""The name of an image, the label of its breed, and 0 for a cat or 1 for a dog."""


@dataset(**facts("oxford_iiit_pet"))
def OxfordIIITPet(
    resources: Mapping[str, Files], split: str, *, target_types: str | Sequence[str] = "category"
) -> IterDataPipe[tuple[torch.Tensor, Any]]:
    """Photographs of cats and dogs of 37 breeds.

    Items: `(image, target)`, and for `target_types` `"category"` 0 … 36, for `"binary-category"` 0 for a cat and 1 for
    a dog, for `"segmentation"` a mask of shape (1, height, width), for several a tuple, for none None.
    """
    kinds = kinds_of("target_types", target_types, ("category", "binary-category", "segmentation"))
    rows = partial(_rows, resources["annotations"], f"annotations/{split}.txt")
    return drawn(rows, partial(_sample, resources["images"], resources["annotations"], kinds))


def _rows(files: Files, path: str) -> list[_Row]:
    found = []
    for number, line in enumerate(text_lines(files, path), 1):
        try:
            name, breed, species, _ = line.split()
            row = (name, int(breed) - 1, int(species) - 1)
        except ValueError:
            raise flawed(files, path, f"it is no name with three numbers: {line!r:.100}", number) from None
        if row[1] not in range(37) or row[2] not in range(2):
            raise flawed(files, path, f"{breed} is no breed of 1 … 37, or {species} no species", number)
        found.append(row)
    return found


def _sample(images: Files, annotations: Files, kinds: Sequence[str], row: _Row) -> tuple[torch.Tensor, Any]:
    name, breed, species = row
    targets = [
        breed
        if kind == "category"
        else species
        if kind == "binary-category"
        else decoded_mask(annotations.read(f"annotations/trimaps/{name}.png"))
        for kind in kinds
    ]
    return decoded(images.read(f"images/{name}.jpg")), one_or_all(targets)
