"""GTSRB: German traffic signs."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .rows import class_folders, flawed, images_of, text_lines

__all__ = ["GTSRB"]

_CATEGORIES = tuple(f"{number:05}" for number in range(43))
_TRUTH = "GT-final_test.csv"


@dataset(
    "gtsrb",
    splits={"train": 26_640, "test": 12_630},
    categories=_CATEGORIES,
    resources={
        "train": Resource(
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/GTSRB-Training_fixed.zip",
            sha256="df4144942083645bd60b594de348aa6930126c3e0e5de09e39611630abf8455a",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "test": Resource(
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/GTSRB_Final_Test_Images.zip",
            sha256="48ba6fab7e877eb64eaf8de99035b0aaecfbc279bee23e35deca4ac1d0a837fa",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "test_labels": Resource(
            "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/GTSRB_Final_Test_GT.zip",
            sha256="f94e5a7614d75845c74c04ddb26b8796b9e483f43541dd95dd5b726504e16d6d",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
    },
    home_page="https://benchmark.ini.rub.de",
    citation="Stallkamp et al.: The German Traffic Sign Recognition Benchmark, IJCNN 2011",
)
def GTSRB(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of traffic signs.

    Items: `(image, label)`, and 0 … 42.
    """
    if split == "train":
        rows = partial(class_folders, resources["train"], "GTSRB/Training", _CATEGORIES, ".ppm")
        return images_of(resources["train"], rows)
    return images_of(resources["test"], partial(_of_test, resources["test_labels"]))


def _of_test(files: Files) -> Iterator[tuple[str, int]]:
    for number, row in enumerate(csv.DictReader(text_lines(files, _TRUTH), delimiter=";"), 1):
        name, label = row.get("Filename"), row.get("ClassId") or ""
        if not name or not label.isdecimal() or int(label) not in range(43):
            raise flawed(files, _TRUTH, "it has no Filename, or no ClassId of 0 … 42", number)
        yield f"GTSRB/Final_Test/Images/{name}", int(label)
