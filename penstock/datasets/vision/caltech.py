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
from ..facts import facts
from ..fetching import unpacked
from ..files import Access, Files
from ..resource import Resource
from .images import decoded
from .matlab import variables
from .rows import class_folders, drawn, flawed, images_of, kinds_of, one_or_all

_OTHER_FOLDERS = {
    "Faces": "Faces_2",
    "Faces_easy": "Faces_3",
    "Motorbikes": "Motorbikes_16",
    "airplanes": "Airplanes_Side_2",
}
"""Where the annotations of a class lie in a folder of another name."""


@dataset(**facts("caltech101"))
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
    rows = partial(class_folders, images, "101_ObjectCategories", "caltech101", skip=("BACKGROUND_Google",))
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


@dataset(**facts("caltech256"))
def Caltech256(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 256 kinds of things, and of others.

    Items: `(image, label)`, an image of one or three channels, and 0 … 256.
    """
    return images_of(resources["archive"], partial(_rows, resources["archive"]), mode=None)


def _rows(files: Files) -> list[tuple[str, int]]:
    found = []
    for path in files.paths("256_ObjectCategories/*.jpg"):
        if parts := re.fullmatch(r"[^/]+/(\d{3})\.[^/]+/\1_\d{4}\.jpg", path):
            if not 1 <= (number := int(parts[1])) <= 257:
                raise flawed(files, path, f"{number} is none of the 257 classes")
            found.append((path, number - 1))
    return sorted(found)
