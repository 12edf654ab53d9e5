"""Oxford-IIIT Pet: cats and dogs, with masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .images import decoded, decoded_mask
from .rows import drawn, flawed, kinds_of, one_or_all, text_lines

__all__ = ["OxfordIIITPet"]

_Row = tuple[str, int, int]
"""The name of an image, the label of its breed, and 0 for a cat or 1 for a dog."""


@dataset(
    "oxford_iiit_pet",
    splits={"trainval": 3_680, "test": 3_669},
    categories=(
        *("Abyssinian", "American Bulldog", "American Pit Bull Terrier", "Basset Hound", "Beagle"),
        *("Bengal", "Birman", "Bombay", "Boxer", "British Shorthair", "Chihuahua", "Egyptian Mau"),
        *("English Cocker Spaniel", "English Setter", "German Shorthaired", "Great Pyrenees", "Havanese"),
        *("Japanese Chin", "Keeshond", "Leonberger", "Maine Coon", "Miniature Pinscher", "Newfoundland"),
        *("Persian", "Pomeranian", "Pug", "Ragdoll", "Russian Blue", "Saint Bernard", "Samoyed", "Scottish Terrier"),
        *("Shiba Inu", "Siamese", "Sphynx", "Staffordshire Bull Terrier", "Wheaten Terrier", "Yorkshire Terrier"),
    ),
    resources={
        "images": Resource(
            (
                "https://www.robots.ox.ac.uk/~vgg/data/pets/data/images.tar.gz",
                "https://thor.robots.ox.ac.uk/~vgg/data/pets/images.tar.gz",
            ),
            sha256="67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d",
            size=791_918_971,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "annotations": Resource(
            (
                "https://www.robots.ox.ac.uk/~vgg/data/pets/data/annotations.tar.gz",
                "https://thor.robots.ox.ac.uk/~vgg/data/pets/annotations.tar.gz",
            ),
            sha256="52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
            size=19_173_078,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
    },
    home_page="https://www.robots.ox.ac.uk/~vgg/data/pets/",
    citation="Parkhi, Vedaldi, Zisserman, Jawahar: Cats and Dogs, CVPR 2012",
)
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
