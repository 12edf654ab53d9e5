"""SVHN: house numbers, in MATLAB's files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .arrays import checked, from_arrays
from .matlab import variables
from .rows import flawed

__all__ = ["SVHN"]


@dataset(
    "svhn",
    splits={"train": 73_257, "test": 26_032, "extra": 531_131},
    categories=(*"0123456789",),
    resources={
        "train": Resource(
            "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
            sha256="435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            size=182_040_794,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test": Resource(
            "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
            sha256="cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            size=64_275_384,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "extra": Resource(
            "http://ufldl.stanford.edu/housenumbers/extra_32x32.mat",
            sha256="a133a4beb38a00fcdda90c9489e0c04f900b660ce8a316a5e854838379a71eb3",
            size=1_329_278_602,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
    },
    home_page="http://ufldl.stanford.edu/housenumbers/",
    citation="Netzer et al.: Reading Digits in Natural Images with Unsupervised Feature Learning, NIPS workshop, 2011",
)
def SVHN(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Digits cut from photographs of house numbers.

    Items: `(image, label)`, an image of shape (3, 32, 32), and 0 … 9. Needs scipy.
    """
    return from_arrays(partial(_read, resources[split]))


def _read(files: Files) -> tuple[Any, Any]:
    images, labels = variables(files, files.resource.name, "X", "y")
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise flawed(files, "", f"X has the shape {images.shape}, not (32, 32, 3, images)")
    images, labels = checked(files, "", images.transpose(3, 2, 0, 1), labels.ravel().astype(np.int64), 10, first=1)
    return images, labels % 10  # a zero is written as 10
