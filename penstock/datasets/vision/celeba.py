"""CelebA: faces, with what they look like and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .images import decoded
from .rows import drawn, flawed, kinds_of, one_or_all, text_lines

_PARTS = {"train": "0", "valid": "1", "test": "2"}
_TABLES = {
    "attr": ("attributes", 40, 2),
    "identity": ("identity", 1, 0),
    "bbox": ("bbox", 4, 2),
    "landmarks": ("landmarks", 10, 2),
}
"""For each kind of target the resource, how many numbers it has, and how many lines precede them."""


@dataset(**facts("celeba"))
def CelebA(
    resources: Mapping[str, Files], split: str, *, target_type: str | Sequence[str] = "attr"
) -> IterDataPipe[tuple[torch.Tensor, Any]]:
    """Faces of 10,177 people, each with 40 attributes.

    Items: `(image, target)`, and int64 tensors: for `target_type` `"attr"` of 40 numbers, 0 or 1, for `"identity"` of
    none, for `"bbox"` of 4, for `"landmarks"` of 10, for several a tuple, for none None. The box, as left, top, width
    and height, is one in the photograph that the face was cut from, so it is no box of the image. The categories are
    the attributes. Google Drive often refuses: get the files with a browser then.
    """
    kinds = kinds_of("target_type", target_type, tuple(_TABLES))
    rows = partial(_rows, resources["partition"], [(kind, resources[_TABLES[kind][0]]) for kind in kinds], split)
    return drawn(rows, partial(_sample, resources["images"], kinds))


def _rows(partition: Files, tables: Sequence[tuple[str, Files]], split: str) -> Iterator[tuple[str, list[Any]]]:
    found = [_table(files, *_TABLES[kind][1:]) for kind, files in tables]
    path = partition.resource.name
    for number, line in enumerate(text_lines(partition, path), 1):
        name, _, part = line.partition(" ")
        if (part := part.strip()) not in _PARTS.values():
            raise flawed(partition, path, f"it is no name with 0, 1 or 2: {line!r:.100}", number)
        if split == "all" or part == _PARTS[split]:
            if not all(name in table for table in found):
                raise flawed(partition, path, f"{name} is not in all tables of targets", number)
            yield name, [table[name] for table in found]


def _table(files: Files, width: int, first: int) -> dict[str, Any]:
    """Return the numbers of each image by its name."""
    path = files.resource.name
    table = {}
    for number, line in enumerate(text_lines(files, path)[first:], first + 1):
        name, *numbers = line.split()
        try:
            table[name] = np.array(numbers, dtype=np.int64).reshape(width)
        except ValueError:
            raise flawed(files, path, f"it is no name with {width} numbers: {line!r:.100}", number) from None
    return table


def _sample(images: Files, kinds: Sequence[str], row: tuple[str, list[Any]]) -> tuple[torch.Tensor, Any]:
    name, found = row
    targets = [_target(kind, numbers) for kind, numbers in zip(kinds, found, strict=True)]
    return decoded(images.read(f"img_align_celeba/{name}")), one_or_all(targets)


def _target(kind: str, numbers: Any) -> torch.Tensor:
    target = torch.from_numpy(numbers.copy())
    if kind == "attr":
        return (target + 1) // 2  # they are -1 and 1
    return target[0] if kind == "identity" else target
