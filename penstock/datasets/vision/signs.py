"""GTSRB: German traffic signs."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts, labels
from ..files import Files
from .rows import class_folders, flawed, images_of, text_lines

__all__ = ["GTSRB"]

_TRUTH = "GT-final_test.csv"


@dataset(**facts("gtsrb"))
def GTSRB(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of traffic signs.

    Items: `(image, label)`, and 0 … 42.
    """
    if split == "train":
        rows = partial(class_folders, resources["train"], "GTSRB/Training", labels("gtsrb"), ".ppm")
        return images_of(resources["train"], rows)
    return images_of(resources["test"], partial(_of_test, resources["test_labels"]))


def _of_test(files: Files) -> Iterator[tuple[str, int]]:
    for number, row in enumerate(csv.DictReader(text_lines(files, _TRUTH), delimiter=";"), 1):
        name, label = row.get("Filename"), row.get("ClassId") or ""
        if not name or not label.isdecimal() or int(label) not in range(43):
            raise flawed(files, _TRUTH, "it has no Filename, or no ClassId of 0 … 42", number)
        yield f"GTSRB/Final_Test/Images/{name}", int(label)
