"""Digits in lines of text: USPS and SEMEION."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .images import as_image
from .rows import content, drawn, flawed

__all__ = ["SEMEION", "USPS"]

_CATEGORIES = (*"0123456789",)


def _lines(files: Files) -> Iterable[tuple[int, bytes]]:
    return enumerate(content(files).splitlines(), 1)


@dataset(
    "usps",
    splits={"train": 7_291, "test": 2_007},
    categories=_CATEGORIES,
    resources={
        "train": Resource(
            "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/usps.bz2",
            sha256="3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "test": Resource(
            "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/usps.t.bz2",
            sha256="a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
    },
    home_page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
    citation="Hull: A database for handwritten text recognition research, IEEE TPAMI 1994",
)
def USPS(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Grey images of handwritten digits from envelopes.

    Items: `(image, label)`, an image of shape (1, 16, 16), and 0 … 9.
    """
    return drawn(partial(_lines, resources[split]), partial(_usps, resources[split]))


def _usps(files: Files, row: tuple[int, bytes]) -> tuple[torch.Tensor, int]:
    number, line = row
    label, *pairs = line.split()
    try:
        values = np.array([pair.rpartition(b":")[2] for pair in pairs], dtype=np.float32).reshape(16, 16)
        digit = int(label) - 1
    except ValueError as error:
        raise flawed(files, "", f"it is no label and 256 values: {error}", number) from None
    if not 0 <= digit <= 9:
        raise flawed(files, "", f"label {digit + 1} is not in 1 … 10", number)
    return as_image(((values + 1) / 2 * 255).astype(np.uint8)), digit


@dataset(
    "semeion",
    splits={"all": 1_593},
    categories=_CATEGORIES,
    resources={
        "data": Resource(
            "http://archive.ics.uci.edu/ml/machine-learning-databases/semeion/semeion.data",
            sha256="f43228ae3da5ea6a3c95069d53450b86166770e3b719dcc333182128fe08d4b1",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        )
    },
    home_page="https://archive.ics.uci.edu/ml/datasets/Semeion+Handwritten+Digit",
    citation="Semeion Handwritten Digit, UCI Machine Learning Repository",
)
def SEMEION(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Black and white images of handwritten digits.

    Items: `(image, label)`, an image of shape (1, 16, 16) of 0 and 255, and 0 … 9.
    """
    return drawn(partial(_lines, resources["data"]), partial(_semeion, resources["data"]))


def _semeion(files: Files, row: tuple[int, bytes]) -> tuple[torch.Tensor, int]:
    number, line = row
    numbers = line.split()
    try:
        values = np.array(numbers, dtype=np.float32)
    except ValueError as error:
        raise flawed(files, "", f"{error}", number) from None
    if len(values) != 266 or values[256:].sum() != 1:
        raise flawed(files, "", f"it has {len(values)} numbers, not 256 pixels and a 1 among ten classes", number)
    return as_image((values[:256] * 255).astype(np.uint8).reshape(16, 16)), int(values[256:].argmax())
