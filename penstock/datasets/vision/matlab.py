"""Data sets whose images or labels are in MATLAB's files, which scipy reads."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ...errors.optional import require
from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .arrays import checked, from_arrays
from .rows import flawed, images_of


def variables(files: Files, path: str, *names: str, simple: bool = False) -> list[Any]:
    """Return variables of a `.mat` file of a resource; with `simple`, without dimensions of size 1.

    Raises ValueError for a file that is none, or has no such variable, and ImportError without scipy.
    """
    scipy_io = require("scipy.io", "datasets-vision")
    try:
        found = scipy_io.loadmat(io.BytesIO(files.read(path)), squeeze_me=simple, variable_names=names)
    except OSError:
        raise
    except Exception as error:  # scipy's reader raises much, such as zlib.error
        raise flawed(files, path, f"it is no MATLAB file: {error!r}") from None
    if absent := [name for name in names if name not in found]:
        raise flawed(files, path, f"it has no variable {', '.join(absent)}")
    return [found[name] for name in names]


@dataset(**facts("stanford_cars"))
def StanfordCars(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 196 models of cars.

    Items: `(image, label)`, and 0 … 195. Needs scipy. The addresses do not answer any more: put the files there
    yourself, if you have them.
    """
    if split == "train":
        rows = partial(_cars, resources["devkit"], "devkit/cars_train_annos.mat", "cars_train")
    else:
        rows = partial(_cars, resources["test_labels"], "cars_test_annos_withlabels.mat", "cars_test")
    return images_of(resources[split], rows)


def _cars(files: Files, path: str, folder: str) -> list[tuple[str, int]]:
    annotations = np.atleast_1d(variables(files, path, "annotations", simple=True)[0])
    if not {"fname", "class"} <= {*(annotations.dtype.names or ())}:
        raise flawed(files, path, "its annotations have no fname and class")
    found = []
    for number, (name, label) in enumerate(zip(annotations["fname"], annotations["class"], strict=True), 1):
        if int(label) - 1 not in range(196):
            raise flawed(files, path, f"label {label} is not in 1 … 196", number)
        found.append((f"{folder}/{name}", int(label) - 1))
    return found


@dataset(**facts("flowers102"))
def Flowers102(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 102 kinds of flowers.

    Items: `(image, label)`, and 0 … 101. Needs scipy.
    """
    return images_of(resources["images"], partial(_flowers, resources["setid"], resources["labels"], split))


def _flowers(setid: Files, of_labels: Files, split: str) -> list[tuple[str, int]]:
    name = {"train": "trnid", "val": "valid", "test": "tstid"}[split]
    numbers = variables(setid, setid.resource.name, name)[0].ravel().astype(np.int64)
    labels = variables(of_labels, of_labels.resource.name, "labels")[0].ravel().astype(np.int64) - 1
    if numbers.size and not (numbers.min() >= 1 and numbers.max() <= len(labels)):
        raise flawed(setid, "", f"it names an image {numbers.max()}, and there are labels of {len(labels)}")
    if labels.size and not (labels.min() >= 0 and labels.max() < 102):
        raise flawed(of_labels, "", f"its labels are {labels.min() + 1} … {labels.max() + 1}, not 1 … 102")
    return [(f"jpg/image_{number:05}.jpg", int(labels[number - 1])) for number in numbers]


@dataset(**facts("svhn"))
def SVHN(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Digits cut from photographs of house numbers.

    Items: `(image, label)`, an image of shape (3, 32, 32), and 0 … 9. Needs scipy.
    """
    return from_arrays(partial(_house_numbers, resources[split]))


def _house_numbers(files: Files) -> tuple[Any, Any]:
    images, labels = variables(files, files.resource.name, "X", "y")
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise flawed(files, "", f"X has the shape {images.shape}, not (32, 32, 3, images)")
    images, labels = checked(files, "", images.transpose(3, 2, 0, 1), labels.ravel().astype(np.int64), 10, first=1)
    return images, labels % 10  # a zero is written as 10
