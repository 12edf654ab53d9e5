"""FER2013: faces in rows of a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .images import as_image
from .rows import content, drawn, flawed

_USAGES = {"train": ("Training",), "test": ("PublicTest", "PrivateTest")}


@dataset(**facts("fer2013"))
def FER2013(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int | None]]:
    """Grey images of faces, each with what it expresses.

    Items: `(image, label)`, an image of shape (1, 48, 48), and 0 … 6. You put the files there yourself: `fer2013.csv`
    is read, or else `icml_face_data.csv`, or `train.csv` and `test.csv`, whose 3,589 test rows have the label None.
    """
    candidates = [resources["fer2013"], resources["icml"], resources[split]]
    return drawn(partial(_rows, candidates, split), _sample)


_Row = tuple[str, int, str, str | None]
"""The place of a file, the number of a row, its pixels and its label."""


def _rows(candidates: list[Files], split: str) -> Iterator[_Row]:
    files = _first_there(candidates)
    table = csv.DictReader(io.StringIO(content(files).decode(), newline=""), skipinitialspace=True)
    named = {*(table.fieldnames or ())}
    if "pixels" not in named or (files is not candidates[2] and not {"emotion", "Usage"} <= named):
        raise flawed(files, "", f"its columns are {', '.join(sorted(named))}, and not emotion, pixels and Usage")
    for number, row in enumerate(table, 1):
        if None in row.values():
            raise flawed(files, "", "it has too few columns", number)
        if row.get("Usage", _USAGES[split][0]) in _USAGES[split]:
            yield repr(files), number, row["pixels"], row.get("emotion")


def _first_there(candidates: list[Files]) -> Files:
    for files in candidates[:-1]:
        try:
            files.path()
        except FileNotFoundError:
            continue
        return files
    candidates[-1].path()
    return candidates[-1]


def _sample(row: _Row) -> tuple[torch.Tensor, int | None]:
    place, number, pixels, label = row
    try:
        image = np.array(pixels.split(), dtype=np.uint8).reshape(48, 48)
        emotion = None if label is None else int(label)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{place}, row {number}: {error}") from None
    if emotion not in (None, *range(7)):
        raise ValueError(f"{place}, row {number}: label {emotion} is not in 0 … 6")
    return as_image(image), emotion
