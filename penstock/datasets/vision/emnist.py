"""EMNIST: digits and letters as MNIST has its digits, in one archive."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .arrays import checked, from_arrays
from .idx import BYTES_1, BYTES_3, idx
from .names import Names

__all__ = ["EMNIST"]

_CAPITALS = (*"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",)
_MERGED = (*_CAPITALS, *"abdefghnqrt")

_EMNIST: dict[str, tuple[Any, int | None, int | None]] = {
    "balanced": (_MERGED, 112_800, 18_800),
    "byclass": (Names("emnist_byclass.txt"), 697_932, 116_323),
    "bymerge": (_MERGED, 697_932, 116_323),
    "letters": (("N/A", *"abcdefghijklmnopqrstuvwxyz"), None, None),  # torchvision and TFDS name different numbers
    "digits": (_CAPITALS[:10], 240_000, 40_000),
    "mnist": (_CAPITALS[:10], 60_000, 10_000),
}
"""For each set of classes their names, and how many images of them there are."""


def _emnist_categories(split: str, image_set: str) -> Any:
    return _EMNIST[image_set][0] if image_set in _EMNIST else ()


def _emnist_count(split: str, image_set: str) -> int | None:
    return _EMNIST[image_set][1 if split == "train" else 2] if image_set in _EMNIST else None


@dataset(
    "emnist",
    splits={"train": 112_800, "test": 18_800},
    count=_emnist_count,
    categories=_emnist_categories,
    resources={
        "archive": Resource(
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            sha256="fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
            size=561_753_746,
            note="Facts: torchvision, tensorflow-datasets",
        )
    },
    home_page="https://www.westernsydney.edu.au/bens/home/reproducible_research/emnist",
    citation="Cohen, Afshar, Tapson, van Schaik: EMNIST: Extending MNIST to handwritten letters, IJCNN 2017, "
    "doi:10.1109/ijcnn.2017.7966217",
)
def EMNIST(
    resources: Mapping[str, Files], split: str, *, image_set: str = "balanced"
) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Handwritten digits and letters in the format of MNIST.

    Items: `(image, label)`, an image of shape (1, 28, 28) with rows and columns exchanged, as the files have it, and
    the label: 1 … 26 for letters, else from 0 on. `image_set`, which torchvision calls `split`, is `"balanced"`,
    `"byclass"`, `"bymerge"`, `"letters"`, `"digits"` or `"mnist"`.
    """
    if image_set not in _EMNIST:
        raise ValueError(f"image_set must be one of {', '.join(map(repr, _EMNIST))}, and is {image_set!r}")
    return from_arrays(partial(_read_emnist, resources["archive"], split, image_set))


def _read_emnist(files: Files, split: str, image_set: str) -> tuple[Any, Any]:
    images, labels = (f"gzip/emnist-{image_set}-{split}-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1"))
    pixels = idx(files, images, gzip.decompress(files.read(images)), BYTES_3)
    found = idx(files, labels, gzip.decompress(files.read(labels)), BYTES_1)
    first = 1 if image_set == "letters" else 0
    return checked(files, labels, pixels, found, len(_EMNIST[image_set][0]) - first, first)
