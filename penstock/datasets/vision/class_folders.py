"""Photographs in folders, one for each class, some with lists of those of a split."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts, labels
from ..files import Files
from .rows import class_folders, flawed, images_of, label_of, text_lines


@dataset(**facts("eurosat"))
def EuroSAT(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Satellite images of ten kinds of land.

    Items: `(image, label)`, an image of shape (3, 64, 64), and 0 … 9.
    """
    return images_of(resources["archive"], partial(class_folders, resources["archive"], "2750", "eurosat"))


@dataset(**facts("country211"))
def Country211(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs, each with the country in which it was taken.

    Items: `(image, label)`, and 0 … 210.
    """
    files = resources["archive"]
    return images_of(files, partial(class_folders, files, f"country211/{split}", "country211"))


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


@dataset(**facts("food101"))
def Food101(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 101 dishes.

    Items: `(image, label)`, and 0 … 100.
    """
    return images_of(resources["archive"], partial(_dishes, resources["archive"], f"food-101/meta/{split}.json"))


def _dishes(files: Files, path: str) -> list[tuple[str, int]]:
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


@dataset(**facts("dtd"))
def DTD(resources: Mapping[str, Files], split: str, *, partition: int = 1) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 47 kinds of textures.

    Items: `(image, label)`, and 0 … 46. `partition`, 1 … 10, is one of ten divisions into splits.
    """
    if partition not in range(1, 11):
        raise ValueError(f"partition must be in 1 … 10, and is {partition!r}")
    files = resources["archive"]
    return images_of(files, partial(_textures, files, f"dtd/labels/{split}{partition}.txt"))


def _textures(files: Files, path: str) -> list[tuple[str, int]]:
    known = labels("dtd")
    return [
        (f"dtd/images/{line}", label_of(known, line.partition("/")[0], files, path, number))
        for number, line in enumerate(text_lines(files, path), 1)
    ]


@dataset(**facts("gtsrb"))
def GTSRB(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of traffic signs.

    Items: `(image, label)`, and 0 … 42.
    """
    if split == "train":
        rows = partial(class_folders, resources["train"], "GTSRB/Training", "gtsrb", ".ppm")
        return images_of(resources["train"], rows)
    return images_of(resources["test"], partial(_signs, resources["test_labels"]))


def _signs(files: Files) -> Iterator[tuple[str, int]]:
    path = "GT-final_test.csv"
    for number, row in enumerate(csv.DictReader(text_lines(files, path), delimiter=";"), 1):
        name, label = row.get("Filename"), row.get("ClassId") or ""
        if not name or not label.isdecimal() or int(label) not in range(43):
            raise flawed(files, path, "it has no Filename, or no ClassId of 0 … 42", number)
        yield f"GTSRB/Final_Test/Images/{name}", int(label)
