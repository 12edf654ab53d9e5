"""Digits in lines of text: USPS and SEMEION."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .images import as_image
from .rows import content, drawn, flawed


def _lines(files: Files) -> Iterable[tuple[int, bytes]]:
    return enumerate(content(files).splitlines(), 1)


@dataset(**facts("usps"))
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


@dataset(**facts("semeion"))
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
