"""Images in folders, one for each class, wherever a URL leads to."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Literal, overload

import torch

from ...errors.secrets import without_secrets
from ...pipes.files.extensions import IMAGES
from ...storage.addresses import is_local_path
from ..files import Access, Files, Folder, archive_at
from ..resource import Resource, archive_kind
from ..sample_pipes import Info, IterDataset, MapDataset, arranged
from .rows import images_of

Sample = tuple[torch.Tensor, int]


@overload
def ImageFolder(
    root: str | os.PathLike[str],
    *,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
    shuffle: bool = False,
    map_style: Literal[False] = False,
) -> IterDataset[Sample]: ...


@overload
def ImageFolder(
    root: str | os.PathLike[str],
    *,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
    shuffle: Literal[False] = False,
    map_style: Literal[True],
) -> MapDataset[Sample]: ...


def ImageFolder(
    root: str | os.PathLike[str],
    *,
    is_valid_file: Callable[[str], bool] | None = None,
    allow_empty: bool = False,
    shuffle: bool = False,
    map_style: bool = False,
) -> IterDataset[Sample] | MapDataset[Sample]:
    """Images in folders, one folder for each class, wherever they are: on a disk, in an archive, behind a URL.

    `root` is a folder, a zip or a plain tar, or the URL of one. Each folder in it is a class, and its images, and those
    in folders below it, are samples: `(image, label)`, an image of shape (3, height, width), and the place of the class
    among the sorted names, which `.info.categories` has. An archive that has one folder only begins in that. Samples
    come class by class, in the order of torchvision's `ImageFolder`. Files are taken whose ending is one of an image,
    as by `ps.read_images`; `is_valid_file(path)` decides instead of that. With `map_style=True`, a pipe is returned
    that is read by index.

    Reading raises FileNotFoundError if there is no folder, and, unless `allow_empty`, for a class without an image.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> import penstock as ps
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("cat", "dog"):
    ...     (root / name).mkdir()
    ...     Image.new("RGB", (4, 2)).save(root / name / "one.png")
    >>> images = ps.datasets.ImageFolder(root)
    >>> [(tuple(image.shape), label) for image, label in images], images.info.categories[1]
    ([((3, 2, 4), 0), ((3, 2, 4), 1)], 'dog')
    """
    files = _Place(os.fspath(root))
    found = _Found(files, is_valid_file, allow_empty)
    summary = (ImageFolder.__doc__ or "").partition("\n")[0]
    place = without_secrets(files.url)
    info = _Info(
        "ImageFolder", "image_folder", summary, "all", {"root": place}, {"all": None}, found, "", "", "", {}, place
    )
    return arranged(images_of(files, found.rows), info, shuffle, map_style)


class _Place(Files):
    """The files in a folder or an archive that is there already."""

    def __init__(self, place: str) -> None:
        self.url = place.rstrip("/")
        super().__init__(Resource(name=posixpath.basename(self.url)), posixpath.dirname(self.url))

    def access(self) -> Access:
        return archive_at(self.url) if archive_kind(self.url) else Folder(self.url)


class _Found(Sequence[str]):
    """The classes in a folder, and its images. It is listed once in each process, when first asked."""

    def __init__(self, files: _Place, is_valid_file: Callable[[str], bool] | None, allow_empty: bool) -> None:
        self.files = files
        self.is_valid_file = is_valid_file
        self.allow_empty = allow_empty
        self.listed: tuple[list[str], list[tuple[str, int]]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "listed": None}

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._content()[0][index]

    def __len__(self) -> int:
        return len(self._content()[0])

    def rows(self) -> list[tuple[str, int]]:
        """Return the path and the label of each image."""
        return self._content()[1]

    def _content(self) -> tuple[list[str], list[tuple[str, int]]]:
        if self.listed is None:
            self.listed = self._list()
        return self.listed

    def _list(self) -> tuple[list[str], list[tuple[str, int]]]:
        place = self.files.url
        paths = [path for path in self.files.paths() if "/" in path and not path.startswith("__MACOSX/")]
        top = f"{paths[0].partition('/')[0]}/" if paths and archive_kind(place) else ""
        start = len(top) if all(path.startswith(top) and "/" in path[len(top) :] for path in paths) else 0
        names = {path[start:].partition("/")[0] for path in paths}
        if is_local_path(place) and os.path.isdir(place):
            names |= {each.name for each in os.scandir(place) if each.is_dir()}  # one may be empty
        classes = sorted(names)
        if not classes:
            raise FileNotFoundError(errno.ENOENT, "there are no folders, one for each class, in", place)
        labels = {name: label for label, name in enumerate(classes)}
        found = [(path, labels[path[start:].partition("/")[0]]) for path in paths if self._is_valid(path)]
        empty = sorted({*classes} - {classes[label] for _, label in found})
        if empty and not self.allow_empty:
            raise FileNotFoundError(errno.ENOENT, f"there are no images of the classes {', '.join(empty)} in", place)
        return classes, sorted(found, key=lambda row: (row[1], *posixpath.split(row[0])))

    def _is_valid(self, path: str) -> bool:
        if self.is_valid_file is not None:
            return self.is_valid_file(posixpath.join(self.files.url, path))
        return path.lower().endswith(IMAGES)


class _Info(Info):
    """Shows the classes once they are known: printing a data set lists no folder."""

    def __str__(self) -> str:
        known = {each.name: getattr(self, each.name) for each in fields(Info)}
        categories = self.categories.listed and [*self.categories] if isinstance(self.categories, _Found) else ()
        return str(Info(**{**known, "categories": categories or ()}))
