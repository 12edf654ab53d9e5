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
from ..files import Files
from ..resource import Resource
from .arrays import checked, from_arrays
from .images import as_image
from .rows import flawed

__all__ = ["PCAM"]


@dataset(
    "pcam",
    splits={"train": 262_144, "test": 32_768, "val": 32_768},
    categories=("0", "1"),
    resources={
        "train_images": Resource(
            (
                "https://zenodo.org/record/2546921/files/camelyonpatch_level_2_split_train_x.h5.gz",
                "https://drive.google.com/uc?export=download&id=1Ka0XfEMiwgCYPdTI-vv6eUElOBnKFKQ2",
            ),
            sha256="d619e741468a7ab35c7e4a75e6821b7e7e6c9411705d45708f2a0efc8960656c",
            size=6_421_353_462,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "train_targets": Resource(
            (
                "https://zenodo.org/record/2546921/files/camelyonpatch_level_2_split_train_y.h5.gz",
                "https://drive.google.com/uc?export=download&id=1269yhu3pZDP8UYFQs-NYs3FPwuK-nGSG",
            ),
            sha256="b74126d2c01b20d3661f9b46765d29cf4e4fba6faba29c8e0d09d406331ab75a",
            size=21_378,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test_images": Resource(
            (
                "https://zenodo.org/record/2546921/files/camelyonpatch_level_2_split_test_x.h5.gz",
                "https://drive.google.com/uc?export=download&id=1qV65ZqZvWzuIVthK8eVDhIwrbnsJdbg_",
            ),
            sha256="79174c2201ad521602a5888be8f36ee10875f37403dd3f2086caf2182ef87245",
            size=800_875_929,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test_targets": Resource(
            (
                "https://zenodo.org/record/2546921/files/camelyonpatch_level_2_split_test_y.h5.gz",
                "https://drive.google.com/uc?export=download&id=17BHrSrwWKjYsOgTMmoqrIjDy6Fa2o_gP",
            ),
            sha256="0a522005fccc8bbd04c5a117bfaf81d8da2676f03a29d7499f71d0a0bd6068ef",
            size=3_040,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "val_images": Resource(
            (
                "https://zenodo.org/record/2546921/files/camelyonpatch_level_2_split_valid_x.h5.gz",
                "https://drive.google.com/uc?export=download&id=1hgshYGWK8V-eGRy8LToWJJgDU_rXWVJ3",
            ),
            sha256="f82ee1670d027b4ec388048d9eabc2186b77c009655dae76d624c0ecb053ccb2",
            size=805_965_320,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "val_targets": Resource(
            (
                "https://zenodo.org/record/2546921/files/camelyonpatch_level_2_split_valid_y.h5.gz",
                "https://drive.google.com/uc?export=download&id=1bH8ZRbhSVAhScTS0p9-ZzGnX91cHT3uO",
            ),
            sha256="ce1ae30f08feb468447971cfd0472e7becd0ad96d877c64120c72571439ae48c",
            size=3_038,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
    },
    licence="CC0 1.0",
    home_page="https://github.com/basveeling/pcam",
    citation="Veeling, Linmans, Winkens, Cohen, Welling: Rotation Equivariant CNNs for Digital Pathology, MICCAI 2018, "
    "arXiv:1806.03962",
)
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
