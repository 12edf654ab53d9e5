"""Stanford Cars: photographs of cars, whose labels are in MATLAB's files."""

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

__all__ = ["StanfordCars"]

_CLASSES = 196
_OF_TEST = "cars_test_annos_withlabels.mat"


@dataset(**facts("stanford_cars"))
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
        if int(label) - 1 not in range(_CLASSES):
            raise flawed(files, path, f"label {label} is not in 1 … {_CLASSES}", number)
        found.append((f"{folder}/{name}", int(label) - 1))
    return found
