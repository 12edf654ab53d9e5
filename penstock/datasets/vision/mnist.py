"""MNIST and the data sets in its format: one file of images and one of labels."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import Dataset, dataset
from ..facts import entry, facts
from ..files import Files
from .arrays import checked, from_arrays
from .images import as_image
from .rows import content, flawed

_BYTES_1, _BYTES_3, _INTS_2 = 0x0801, 0x0803, 0x0C02
"""What the files begin with: the type of the numbers, and how many dimensions there are."""


def _idx(files: Files, path: str, data: bytes, magic: int) -> Any:
    """Return the array of an idx file."""
    if data[:4] != magic.to_bytes(4, "big"):
        raise flawed(files, path, f"it begins with {data[:4].hex()}, not with {magic:08x}: it is another kind of file")
    start = 4 + 4 * (magic & 0xFF)
    shape = np.frombuffer(data[4:start], ">u4").tolist() if len(data) >= start else [0]
    kind = np.dtype(">i4" if magic >> 8 == 0x0C else ">u1")
    size = start + int(np.prod(shape)) * kind.itemsize
    if len(data) != size:
        raise flawed(files, path, f"it has {len(data):,} bytes, and {size:,} by its header: it is cut or damaged")
    return np.frombuffer(data, kind, offset=start).reshape(shape)


def _read(images: Files, labels: Files) -> tuple[Any, Any]:
    pixels = _idx(images, "", content(images), _BYTES_3)
    return checked(labels, "", pixels, _idx(labels, "", content(labels), _BYTES_1), 10)


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
    pixels = _idx(images, "", content(images), _BYTES_3)
    columns = _idx(labels, "", content(labels), _INTS_2)
    if columns.shape[1] != 8:
        raise flawed(labels, "", f"its rows have {columns.shape[1]} numbers, not 8")
    checked(labels, "", pixels, columns[:, 0], 10)
    chosen = _PARTS_OF_TEST.get(split, slice(None))
    return pixels[chosen], columns[chosen]


def _image_and_class(pixels: Any, columns: Any) -> tuple[torch.Tensor, Any]:
    return as_image(pixels), int(columns[0])


def _image_and_columns(pixels: Any, columns: Any) -> tuple[torch.Tensor, Any]:
    return as_image(pixels), torch.from_numpy(columns.astype(np.int64))


_SETS: Mapping[str, list[str]] = entry("emnist")["categories"]["image_set"]


@dataset(**facts("emnist"))
def EMNIST(
    resources: Mapping[str, Files], split: str, *, image_set: str = "balanced"
) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Handwritten digits and letters in the format of MNIST.

    Items: `(image, label)`, an image of shape (1, 28, 28) with rows and columns exchanged, as the files have it, and
    the label: 1 … 26 for letters, else from 0 on. `image_set`, which torchvision calls `split`, is `"balanced"`,
    `"byclass"`, `"bymerge"`, `"letters"`, `"digits"` or `"mnist"`.
    """
    if image_set not in _SETS:
        raise ValueError(f"image_set must be one of {', '.join(map(repr, _SETS))}, and is {image_set!r}")
    return from_arrays(partial(_read_emnist, resources["archive"], split, image_set))


def _read_emnist(files: Files, split: str, image_set: str) -> tuple[Any, Any]:
    images, labels = (f"gzip/emnist-{image_set}-{split}-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1"))
    pixels = _idx(files, images, gzip.decompress(files.read(images)), _BYTES_3)
    found = _idx(files, labels, gzip.decompress(files.read(labels)), _BYTES_1)
    first = 1 if image_set == "letters" else 0
    return checked(files, labels, pixels, found, len(_SETS[image_set]) - first, first)
