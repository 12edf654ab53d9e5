"""ImageNet (ILSVRC 2012), from the archives that users have got themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files, TarAccess
from ..resource import Resource
from .images import decoded
from .matlab import variables
from .names import Names
from .rows import drawn, flawed, images_of, label_of, text_lines

__all__ = ["ImageNet"]

_WNIDS = Names("imagenet_wnids.txt")
_NOTE = "Download it from https://image-net.org/challenges/LSVRC/2012/2012-downloads.php, which asks for an account"
_DEVKIT = "ILSVRC2012_devkit_t12/data"

_Row = tuple[str, int, int, int]
"""The name of an image, where it begins in the archive, its bytes and its label."""


@dataset(
    "imagenet",
    splits={"train": 1_281_167, "val": 50_000},
    categories=Names("imagenet.txt"),
    resources={
        "train": Resource(
            sha256="b08200a27a8e34218a0e58fde36b0fe8f73bc377f4acea2d91602057c3ca45bb",
            size=147_897_477_120,
            name="ILSVRC2012_img_train.tar",
            note=_NOTE,
        ),
        "val": Resource(
            sha256="c7e06a6c0baccf06d8dbeb6577d71efff84673a5dbdd50633ab44f8ea0456ae0",
            size=6_744_924_160,
            name="ILSVRC2012_img_val.tar",
            note=_NOTE,
        ),
        "devkit": Resource(
            sha256="b59243268c0d266621fd587d2018f69e906fb22875aca0e295b48cafaa927953",
            name="ILSVRC2012_devkit_t12.tar.gz",
            unpack=True,
            note=_NOTE,
        ),
    },
    home_page="https://www.image-net.org/",
    citation="Russakovsky et al.: ImageNet Large Scale Visual Recognition Challenge, IJCV 115(3), 2015, "
    "doi:10.1007/s11263-015-0816-y",
)
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
    labels = {wnid: label for label, wnid in enumerate(_WNIDS)}
    synsets = np.atleast_1d(variables(devkit, path, "synsets", simple=True)[0])
    try:
        leaves = [(str(row[0]), str(row[1])) for row in synsets.tolist() if row[4] == 0]
    except (IndexError, TypeError) as error:
        raise flawed(devkit, path, f"its synsets have other fields: {error}") from None
    return {number: label_of(labels, wnid, devkit, path) for number, wnid in leaves}


def _places(files: Files) -> Iterator[_Row]:
    """Yield where each image of the train split lies, in a tar of tars, one for each class."""
    tar = _tar(files)
    labels = {wnid: label for label, wnid in enumerate(_WNIDS)}
    for path in sorted(tar.paths()):
        label = label_of(labels, path.removesuffix(".tar"), files, path)
        for name, (offset, size) in sorted(tar.inner(path).items()):
            yield name, offset, size, label


def _sample(files: Files, row: _Row) -> tuple[torch.Tensor, int]:
    name, offset, size, label = row
    return decoded(_tar(files).read_at(offset, size, name)), label


def _tar(files: Files) -> TarAccess:
    return cast("TarAccess", files.access())
