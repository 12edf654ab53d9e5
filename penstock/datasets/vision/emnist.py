"""EMNIST: digits and letters as MNIST has its digits, in one archive."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import entry, facts
from ..files import Files
from .arrays import checked, from_arrays
from .idx import BYTES_1, BYTES_3, idx

__all__ = ["EMNIST"]

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
    pixels = idx(files, images, gzip.decompress(files.read(images)), BYTES_3)
    found = idx(files, labels, gzip.decompress(files.read(labels)), BYTES_1)
    first = 1 if image_set == "letters" else 0
    return checked(files, labels, pixels, found, len(_SETS[image_set]) - first, first)
