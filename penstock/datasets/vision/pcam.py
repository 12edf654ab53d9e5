"""PatchCamelyon: patches of tissue, in HDF5."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ...errors.optional import require
from ...registry import IterDataPipe
from ...storage.addresses import is_local_path
from ...storage.reading import open_to_seek
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .arrays import checked, from_arrays
from .images import as_image
from .rows import flawed


@dataset(**facts("pcam"))
def PCAM(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Patches of lymph nodes, and whether their centre has a pixel of a tumour.

    Items: `(image, label)`, an image of shape (3, 96, 96), and 0 or 1. Needs h5py.
    """
    return from_arrays(partial(_read, resources[f"{split}_images"], resources[f"{split}_targets"]), _image_and_label)


def _read(images: Files, targets: Files) -> tuple[Any, Any]:
    pixels, labels = _array(images, "x"), _array(targets, "y")
    if pixels.ndim != 4 or pixels.shape[1:] != (96, 96, 3):
        raise flawed(images, "", f"x has the shape {pixels.shape}, not (images, 96, 96, 3)")
    return checked(targets, "", pixels, labels[()].reshape(len(labels), -1)[:, 0].astype(np.int64), 2)


def _array(files: Files, name: str) -> Any:
    """Return an array in a file that stays open: its rows are read one by one."""
    h5py = require("h5py", "datasets-vision")
    place = files.place("")
    try:
        return h5py.File(place if is_local_path(place) else open_to_seek(place, {}), "r")[name]
    except (KeyError, OSError) as error:
        raise flawed(files, "", f"it is no HDF5 file with an array {name}: {error}") from None


def _image_and_label(pixels: Any, label: Any) -> tuple[torch.Tensor, int]:
    return as_image(np.moveaxis(pixels, -1, 0)), int(label)
