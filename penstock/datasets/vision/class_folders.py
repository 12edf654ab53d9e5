"""Data sets that have a folder for each class: EuroSAT, Country211 and SUN397."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts, labels
from ..files import Files
from .rows import class_folders, images_of, label_of

__all__ = ["SUN397", "Country211", "EuroSAT"]


@dataset(**facts("eurosat"))
def EuroSAT(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Satellite images of ten kinds of land.

    Items: `(image, label)`, an image of shape (3, 64, 64), and 0 … 9.
    """
    return images_of(resources["archive"], partial(class_folders, resources["archive"], "2750", labels("eurosat")))


@dataset(**facts("country211"))
def Country211(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs, each with the country in which it was taken.

    Items: `(image, label)`, and 0 … 210.
    """
    files = resources["archive"]
    return images_of(files, partial(class_folders, files, f"country211/{split}", labels("country211")))


@dataset(**facts("sun397"))
def SUN397(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 397 kinds of places.

    Items: `(image, label)`, and 0 … 396. They come in the order of the paths; torchvision has no fixed order.
    """
    return images_of(resources["archive"], partial(_scenes, resources["archive"]))


def _scenes(files: Files) -> list[tuple[str, int]]:
    known = labels("sun397")
    paths = sorted(files.paths("SUN397/?/*/sun_*.jpg"))
    return [(path, label_of(known, path.rpartition("/")[0].split("/", 2)[2], files, path)) for path in paths]
