"""Stanford Cars: photographs of cars, whose labels are in MATLAB's files."""

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

__all__ = ["StanfordCars"]

_CATEGORIES = Names("stanfordcars.txt")
_OF_TEST = "cars_test_annos_withlabels.mat"


@dataset(
    "stanford_cars",
    splits={"train": 8_144, "test": 8_041},
    categories=_CATEGORIES,
    resources={
        "train": Resource(
            "https://ai.stanford.edu/~jkrause/car196/cars_train.tgz",
            sha256="512b227b30e2f0a8aab9e09485786ab4479582073a144998da74d64b801fd288",
            size=979_269_282,
            unpack=True,
            note="Facts: torchvision, tensorflow-datasets; the address does not answer any more",
        ),
        "test": Resource(
            "https://ai.stanford.edu/~jkrause/car196/cars_test.tgz",
            sha256="bffea656d6f425cba3c91c6d83336e4c5f86c6cffd8975b0f375d3a10da8e243",
            size=977_350_468,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets; the address does not answer any more",
        ),
        "test_labels": Resource(
            "https://ai.stanford.edu/~jkrause/car196/cars_test_annos_withlabels.mat",
            sha256="790f75be8ea34eeded134cc559332baf23e30e91367e9ddca97d26ed9b895f05",
            size=185_758,
            note="Facts: torchvision and its prototype, tensorflow-datasets; the address does not answer any more",
        ),
        "devkit": Resource(
            "https://ai.stanford.edu/~jkrause/cars/car_devkit.tgz",
            sha256="b97deb463af7d58b6bfaa18b2a4de9829f0f79e8ce663dfa9261bf7810e9accd",
            size=330_960,
            unpack=True,
            note="Facts: torchvision, tensorflow-datasets; the address does not answer any more",
        ),
    },
    home_page="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
    citation="Krause, Stark, Deng, Fei-Fei: 3D Object Representations for Fine-Grained Categorization, 3dRR-13, 2013",
)
def StanfordCars(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 196 models of cars.

    Items: `(image, label)`, and 0 … 195. Needs scipy. The addresses do not answer any more: put the files there
    yourself, if you have them.
    """
    if split == "train":
        rows = partial(_rows, resources["devkit"], "devkit/cars_train_annos.mat", "cars_train")
    else:
        rows = partial(_rows, resources["test_labels"], _OF_TEST, "cars_test")
    return images_of(resources[split], rows)


def _rows(files: Files, path: str, folder: str) -> list[tuple[str, int]]:
    annotations = np.atleast_1d(variables(files, path, "annotations", simple=True)[0])
    if not {"fname", "class"} <= {*(annotations.dtype.names or ())}:
        raise flawed(files, path, "its annotations have no fname and class")
    found = []
    for number, (name, label) in enumerate(zip(annotations["fname"], annotations["class"], strict=True), 1):
        if int(label) - 1 not in range(len(_CATEGORIES)):
            raise flawed(files, path, f"label {label} is not in 1 … {len(_CATEGORIES)}", number)
        found.append((f"{folder}/{name}", int(label) - 1))
    return found
