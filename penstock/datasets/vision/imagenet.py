"""ImageNet (ILSVRC 2012), from the archives that users have got themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts, labels
from ..files import Files, TarAccess
from .images import decoded
from .matlab import variables
from .rows import drawn, flawed, images_of, label_of, text_lines

_DEVKIT = "ILSVRC2012_devkit_t12/data"

_Row = tuple[str, int, int, int]
"""The name of an image, where it begins in the archive, its bytes and its label."""


@dataset(**facts("imagenet"))
def ImageNet(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of a thousand kinds of things.

    Items: `(image, label)`, and 0 … 999, in the order of the classes' WordNet ids and of the names. You put the
    archives into the root yourself. They are read in place: where the images are in that of the train split, each
    process looks up first. The val split needs scipy.
    """
    if split == "train":
        files = resources["train"]
        return drawn(partial(_places, files), partial(_sample, files))
    return images_of(resources["val"], partial(_of_val, resources["val"], resources["devkit"]))


def _of_val(files: Files, devkit: Files) -> list[tuple[str, int]]:
    path = f"{_DEVKIT}/ILSVRC2012_validation_ground_truth.txt"
    labels = _labels_of_devkit(devkit)
    names = sorted(files.paths("ILSVRC2012_val_*.JPEG"))
    numbers = text_lines(devkit, path)
    if len(names) != len(numbers):
        raise flawed(devkit, path, f"there are {len(numbers):,} labels of {len(names):,} images")
    rows = [
        (label_of(labels, number.strip(), devkit, path, row), name)
        for row, (name, number) in enumerate(zip(names, numbers, strict=True), 1)
    ]
    return [(name, label) for label, name in sorted(rows)]


def _labels_of_devkit(devkit: Files) -> dict[str, int]:
    """Return the label of each of the numbers that the devkit gives to classes: they have another order."""
    path = f"{_DEVKIT}/meta.mat"
    known = labels("imagenet", "wnids")
    synsets = np.atleast_1d(variables(devkit, path, "synsets", simple=True)[0])
    try:
        leaves = [(str(row[0]), str(row[1])) for row in synsets.tolist() if row[4] == 0]
    except (IndexError, TypeError) as error:
        raise flawed(devkit, path, f"its synsets have other fields: {error}") from None
    return {number: label_of(known, wnid, devkit, path) for number, wnid in leaves}


def _places(files: Files) -> Iterator[_Row]:
    """Yield where each image of the train split lies, in a tar of tars, one for each class."""
    tar = _tar(files)
    known = labels("imagenet", "wnids")
    for path in sorted(tar.paths()):
        label = label_of(known, path.removesuffix(".tar"), files, path)
        for name, (offset, size) in sorted(tar.inner(path).items()):
            yield name, offset, size, label


def _sample(files: Files, row: _Row) -> tuple[torch.Tensor, int]:
    name, offset, size, label = row
    return decoded(_tar(files).read_at(offset, size, name)), label


def _tar(files: Files) -> TarAccess:
    return cast("TarAccess", files.access())
