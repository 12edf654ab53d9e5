"""STL-10: labelled and unlabelled images of 96 × 96 pixels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ...storage.addresses import is_local_path
from ..definition import dataset
from ..facts import entry, facts
from ..files import Files
from .arrays import checked, from_arrays
from .rows import flawed, text_lines

_COUNTS: Mapping[str, int] = entry("stl10")["splits"]
_IN_A_FOLD = 1_000


def _count(split: str, folds: int | None) -> int:
    return _COUNTS[split] - (_COUNTS["train"] - _IN_A_FOLD if folds is not None and split.startswith("train") else 0)


@dataset(**facts("stl10") | {"count": _count})
def STL10(
    resources: Mapping[str, Files], split: str, *, folds: int | None = None
) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of animals and vehicles, most of them without a label.

    Items: `(image, label)`, an image of shape (3, 96, 96), and 0 … 9, or -1 where there is no label. `folds`, 0 … 9,
    chooses the thousand training images of a fold.
    """
    if folds is not None and folds not in range(10):
        raise ValueError(f"folds must be None or in 0 … 9, and is {folds!r}")
    return from_arrays(partial(_read, resources["archive"], split, folds))


def _read(files: Files, split: str, folds: int | None) -> tuple[Any, Any]:
    parts = [_part(files, name, folds) for name in split.split("+")]
    return _Joined([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def _part(files: Files, name: str, folds: int | None) -> tuple[Any, Any]:
    path = f"stl10_binary/{name}_X.bin"
    values = _values(files, path)
    if len(values) % (3 * 96 * 96):
        raise flawed(files, path, f"it has {len(values):,} bytes, which are no whole number of images")
    images = values.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)  # columns come first
    if name == "unlabeled":
        return images, np.full(len(images), -1)
    of_labels = f"stl10_binary/{name}_y.bin"
    images, labels = checked(files, of_labels, images, _values(files, of_labels).astype(np.int64) - 1, 10)
    if name == "train" and folds is not None:
        path = "stl10_binary/fold_indices.txt"
        lines = text_lines(files, path)
        if len(lines) <= folds:
            raise flawed(files, path, f"it has {len(lines)} lines, and no fold {folds}")
        chosen = np.array(lines[folds].split(), dtype=np.int64)
        return images[chosen], labels[chosen]
    return images, labels


def _values(files: Files, path: str) -> Any:
    """Return the bytes of a file: where they lie on a disk, read as they are needed."""
    place = files.place(path)
    if is_local_path(place) and path in files.paths(path):
        return np.memmap(place, np.uint8, mode="r")
    return np.frombuffer(files.read(path), np.uint8)


class _Joined:
    """Arrays one after the other, without a copy."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __getitem__(self, index: int) -> Any:
        for part in self.parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(index)
