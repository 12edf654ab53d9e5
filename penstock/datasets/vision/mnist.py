"""MNIST and the data sets that come as it does: one file of images and one of labels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import Dataset, dataset
from ..facts import facts
from ..files import Files
from .arrays import checked, from_arrays
from .idx import BYTES_1, BYTES_3, INTS_2, idx
from .images import as_image
from .rows import content, flawed

__all__ = ["KMNIST", "MNIST", "QMNIST", "FashionMNIST"]


def _read(images: Files, labels: Files) -> tuple[Any, Any]:
    pixels = idx(images, "", content(images), BYTES_3)
    return checked(labels, "", pixels, idx(labels, "", content(labels), BYTES_1), 10)


def _mnist(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Small grey images, each of one of ten classes.

    Items: `(image, label)`, an image of shape (1, 28, 28), and 0 … 9.
    """
    return from_arrays(partial(_read, resources[f"{split}_images"], resources[f"{split}_labels"]))


MNIST = Dataset(pipe=_mnist, **facts("mnist"))

FashionMNIST = Dataset(pipe=_mnist, **facts("fashion_mnist"))

KMNIST = Dataset(pipe=_mnist, **facts("kmnist"))

_PARTS_OF_TEST = {"test10k": slice(10_000), "test50k": slice(10_000, None)}


@dataset(**facts("qmnist"))
def QMNIST(
    resources: Mapping[str, Files], split: str, *, compat: bool = True
) -> IterDataPipe[tuple[torch.Tensor, Any]]:
    """MNIST's digits reconstructed from those of NIST, with who wrote them.

    Items: `(image, label)`, an image of shape (1, 28, 28) and 0 … 9. With `compat=False` the label is an int64 tensor
    of eight numbers: class, series, writer, the digit of this writer, class of NIST, the digit of NIST, and two unused
    ones. The split is what torchvision calls `what`: `"test10k"` and `"test50k"` are parts
    of `"test"`.
    """
    part = "test" if split in _PARTS_OF_TEST else split
    read = partial(_read_qmnist, resources[f"{part}_images"], resources[f"{part}_labels"], split)
    return from_arrays(read, _image_and_class if compat else _image_and_columns)


def _read_qmnist(images: Files, labels: Files, split: str) -> tuple[Any, Any]:
    pixels = idx(images, "", content(images), BYTES_3)
    columns = idx(labels, "", content(labels), INTS_2)
    if columns.shape[1] != 8:
        raise flawed(labels, "", f"its rows have {columns.shape[1]} numbers, not 8")
    checked(labels, "", pixels, columns[:, 0], 10)
    chosen = _PARTS_OF_TEST.get(split, slice(None))
    return pixels[chosen], columns[chosen]


def _image_and_class(pixels: Any, columns: Any) -> tuple[torch.Tensor, Any]:
    return as_image(pixels), int(columns[0])


def _image_and_columns(pixels: Any, columns: Any) -> tuple[torch.Tensor, Any]:
    return as_image(pixels), torch.from_numpy(columns.astype(np.int64))
