"""Flowers 102: flowers, whose labels and splits are in MATLAB's files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .matlab import variables
from .rows import flawed, images_of

__all__ = ["Flowers102"]

_CLASSES = 102
_SPLITS = {"train": "trnid", "val": "valid", "test": "tstid"}


@dataset(**facts("flowers102"))
def Flowers102(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 102 kinds of flowers.

    Items: `(image, label)`, and 0 … 101. Needs scipy.
    """
    return images_of(resources["images"], partial(_rows, resources["setid"], resources["labels"], split))


def _rows(setid: Files, of_labels: Files, split: str) -> list[tuple[str, int]]:
    numbers = variables(setid, setid.resource.name, _SPLITS[split])[0].ravel().astype(np.int64)
    labels = variables(of_labels, of_labels.resource.name, "labels")[0].ravel().astype(np.int64) - 1
    if numbers.size and not (numbers.min() >= 1 and numbers.max() <= len(labels)):
        raise flawed(setid, "", f"it names an image {numbers.max()}, and there are labels of {len(labels)}")
    if labels.size and not (labels.min() >= 0 and labels.max() < _CLASSES):
        raise flawed(of_labels, "", f"its labels are {labels.min() + 1} … {labels.max() + 1}, not 1 … {_CLASSES}")
    return [(f"jpg/image_{number:05}.jpg", int(labels[number - 1])) for number in numbers]
