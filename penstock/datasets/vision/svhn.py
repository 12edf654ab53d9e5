"""SVHN: house numbers, in MATLAB's files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .arrays import checked, from_arrays
from .matlab import variables
from .rows import flawed

__all__ = ["SVHN"]


@dataset(**facts("svhn"))
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
