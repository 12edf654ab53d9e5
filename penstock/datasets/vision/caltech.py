"""Caltech 101 and Caltech 256: photographs of things, a folder for each kind."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..fetching import unpacked
from ..files import Access, Files
from ..resource import Resource
from .images import decoded
from .matlab import variables
from .names import Names
from .rows import class_folders, drawn, flawed, images_of, kinds_of, one_or_all

__all__ = ["Caltech101", "Caltech256"]

_OF_101, _OF_256 = Names("caltech101.txt"), Names("caltech256.txt")
_OTHER_FOLDERS = {
    "Faces": "Faces_2",
    "Faces_easy": "Faces_3",
    "Motorbikes": "Motorbikes_16",
    "airplanes": "Airplanes_Side_2",
}
"""Where the annotations of a class lie in a folder of another name."""


@dataset(
    "caltech101",
    splits={"all": 8_677},
    categories=_OF_101,
    resources={
        "archive": Resource(
            "https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
            sha256="331234750fc7f77520e50d9565e8b6907b03565e30320da1401130db08c61f91",
            size=137_414_764,
            unpack=True,
            note="Facts: torchvision, tensorflow-datasets",
        )
    },
    home_page="https://data.caltech.edu/records/mzrjq-6wc02",
    citation="Fei-Fei, Fergus, Perona: Learning Generative Visual Models from Few Training Examples, "
    "CVPR Workshop 2004",
)
def Caltech101(
    resources: Mapping[str, Files], split: str, *, target_type: str | Sequence[str] = "category"
) -> IterDataPipe[tuple[torch.Tensor, Any]]:
    """Photographs of 101 kinds of things.

    Items: `(image, target)`, an image of one or three channels, and for `target_type` `"category"` 0 … 100, for
    `"annotation"` the outline, a float64 array of shape (2, points), for several a tuple. Outlines need scipy.
    """
    kinds = kinds_of("target_type", target_type, ("category", "annotation"))
    images = _Inner(resources["archive"], "caltech-101/101_ObjectCategories.tar.gz")
    outlines = _Inner(resources["archive"], "caltech-101/Annotations.tar", unpack=False)
    rows = partial(class_folders, images, "101_ObjectCategories", _OF_101, skip=("BACKGROUND_Google",))
    return drawn(rows, partial(_sample, images, outlines, kinds))


def _sample(images: Files, outlines: Files, kinds: Sequence[str], row: tuple[str, int]) -> tuple[torch.Tensor, Any]:
    path, label = row
    targets: list[Any] = []
    for kind in kinds:
        if kind == "category":
            targets.append(label)
            continue
        _, folder, name = path.split("/")
        number = re.sub(r"\D", "", name)
        place = f"Annotations/{_OTHER_FOLDERS.get(folder, folder)}/annotation_{number}.mat"
        targets += variables(outlines, place, "obj_contour")
    return decoded(images.read(path), None), one_or_all(targets)


class _Inner(Files):
    """The files of an archive that lies in another one."""

    def __init__(self, outer: Files, path: str, unpack: bool = True) -> None:
        place = posixpath.join(outer.folder, posixpath.basename(outer.resource.name).partition(".")[0], path)
        super().__init__(Resource(name=posixpath.basename(path), unpack=unpack), posixpath.dirname(place))
        self.outer = outer

    def access(self) -> Access:
        unpacked(self.outer.resource, self.outer.folder)
        return super().access()


@dataset(
    "caltech256",
    splits={"all": 30_607},
    categories=_OF_256,
    resources={
        "archive": Resource(
            "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
            sha256="08ff01b03c65566014ae88eb0490dbe4419fc7ac4de726ee1163e39fd809543e",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        )
    },
    home_page="https://data.caltech.edu/records/nyy15-4j048",
    citation="Griffin, Holub, Perona: Caltech-256 Object Category Dataset, Caltech technical report "
    "CNS-TR-2007-001, 2007",
)
def Caltech256(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 256 kinds of things, and of others.

    Items: `(image, label)`, an image of one or three channels, and 0 … 256.
    """
    return images_of(resources["archive"], partial(_rows, resources["archive"]), mode=None)


def _rows(files: Files) -> list[tuple[str, int]]:
    found = []
    for path in files.paths("256_ObjectCategories/*.jpg"):
        if parts := re.fullmatch(r"[^/]+/(\d{3})\.[^/]+/\1_\d{4}\.jpg", path):
            label = int(parts[1]) - 1
            if label not in range(len(_OF_256)):
                raise flawed(files, path, f"{label + 1} is none of the {len(_OF_256)} classes")
            found.append((path, label))
    return sorted(found)
