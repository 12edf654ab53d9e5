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
from ..files import Files
from ..resource import Resource
from .images import as_image
from .rows import content, drawn, flawed

__all__ = ["FER2013"]

_NOTE = (
    "Download it from https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-recognition-"
    "challenge, which asks for an account; its size could not be confirmed"
)
_USAGES = {"train": ("Training",), "test": ("PublicTest", "PrivateTest")}


@dataset(
    "fer2013",
    splits={"train": 28_709, "test": None},
    categories=("angry", "disgust", "fear", "happy", "sad", "surprise", "neutral"),
    resources={
        "fer2013": Resource(name="fer2013.csv", md5="f8428a1edbd21e88f42c73edd2a14f95", note=_NOTE),
        "icml": Resource(name="icml_face_data.csv", md5="b114b9e04e6949e5fe8b6a98b3892b1d", note=_NOTE),
        "train": Resource(name="train.csv", md5="3f0dfb3d3fd99c811a1299cb947e3131", note=_NOTE),
        "test": Resource(name="test.csv", md5="b02c2298636a634e8c2faabbf3ea9a23", note=_NOTE),
    },
    home_page="https://www.kaggle.com/c/challenges-in-representation-learning-facial-expression-recognition-challenge",
    citation="Goodfellow et al.: Challenges in Representation Learning: A report on three machine learning contests, "
    "2013",
)
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
