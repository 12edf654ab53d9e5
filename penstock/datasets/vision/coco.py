"""COCO: things in photographs, as boxes and outlines, and captions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .images import as_boxes, decoded
from .names import Names
from .rows import drawn, flawed

__all__ = ["COCO"]

_COUNTS = {"2017": {"train": 118_287, "val": 5_000}, "2014": {"train": 82_783, "val": 40_504}}
_CATEGORIES = Names("coco.txt")

_Row = tuple[str, int, list[Any]]
"""The name of an image, its number, and its annotations."""


def _count(split: str, year: str, annotations: str) -> int | None:
    return _COUNTS[year][split] if year in _COUNTS else None


@dataset(
    "coco",
    splits=_COUNTS["2017"],
    count=_count,
    categories=_CATEGORIES,
    resources={
        "train2017": Resource(
            "http://images.cocodataset.org/zips/train2017.zip",
            sha256="69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929",
            size=19_336_861_798,
            note="Facts: torchvision's prototype, tensorflow-datasets",
        ),
        "val2017": Resource(
            "http://images.cocodataset.org/zips/val2017.zip",
            sha256="4f7e2ccb2866ec5041993c9cf2a952bbed69647b115d0f74da7ce8f4bef82f05",
            size=815_585_330,
            note="Facts: torchvision's prototype, tensorflow-datasets",
        ),
        "annotations2017": Resource(
            "http://images.cocodataset.org/annotations/annotations_trainval2017.zip",
            sha256="113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268",
            size=252_907_541,
            note="Facts: torchvision's prototype, tensorflow-datasets",
        ),
        "train2014": Resource(
            "http://images.cocodataset.org/zips/train2014.zip",
            sha256="ede4087e640bddba550e090eae701092534b554b42b05ac33f0300b984b31775",
            size=13_510_573_713,
            note="Facts: torchvision's prototype, tensorflow-datasets",
        ),
        "val2014": Resource(
            "http://images.cocodataset.org/zips/val2014.zip",
            sha256="fe9be816052049c34717e077d9e34aa60814a55679f804cd043e3cbee3b9fde0",
            size=6_645_013_297,
            note="Facts: torchvision's prototype, tensorflow-datasets",
        ),
        "annotations2014": Resource(
            "http://images.cocodataset.org/annotations/annotations_trainval2014.zip",
            sha256="031296bbc80c45a1d1f76bf9a90ead27e94e99ec629208449507a4917a3bf009",
            size=252_872_794,
            note="Facts: torchvision's prototype, tensorflow-datasets",
        ),
    },
    home_page="https://cocodataset.org/",
    citation="Lin et al.: Microsoft COCO: Common Objects in Context, 2014, arXiv:1405.0312",
)
def COCO(
    resources: Mapping[str, Files], split: str, *, year: str = "2017", annotations: str = "instances"
) -> IterDataPipe[tuple[torch.Tensor, Any]]:
    """Photographs, each with boxes of the things in it, of 80 kinds, or with captions.

    Items: `(image, target)`, in the order of the images' numbers. With `annotations="captions"` the target is a list of
    texts. With `"instances"` it is a dict of `"image_id"`, `"boxes"` of shape (things, 4), as left, top, right and
    bottom, `"labels"`, 1 … 90 with gaps, and `"annotations"`, the list of dicts that torchvision's `CocoDetection`
    gives, with `segmentation`, `area`, `iscrowd` and all else. Images without things are there, too. `year` is
    `"2017"` or `"2014"`.
    """
    if year not in _COUNTS:
        raise ValueError(f"year must be one of {', '.join(map(repr, _COUNTS))}, and is {year!r}")
    if annotations not in ("instances", "captions"):
        raise ValueError(f"annotations must be 'instances' or 'captions', and is {annotations!r}")
    path = f"annotations/{annotations}_{split}{year}.json"
    rows = partial(_rows, resources[f"annotations{year}"], path)
    make = _with_captions if annotations == "captions" else _with_boxes
    return drawn(rows, partial(make, resources[f"{split}{year}"], f"{split}{year}"))


def _rows(files: Files, path: str) -> list[_Row]:
    try:
        content = json.loads(files.read(path))
        of_images: dict[int, list[Any]] = {image["id"]: [] for image in content["images"]}
        for annotation in content["annotations"]:
            of_images[annotation["image_id"]].append(annotation)
        names = {image["id"]: image["file_name"] for image in content["images"]}
    except (KeyError, TypeError, ValueError) as error:
        raise flawed(files, path, f"it is no JSON of images and their annotations: {error!r}") from None
    return [(names[number], number, of_images[number]) for number in sorted(names)]


def _with_captions(files: Files, folder: str, row: _Row) -> tuple[torch.Tensor, list[str]]:
    name, _, annotations = row
    return decoded(files.read(f"{folder}/{name}")), [annotation["caption"] for annotation in annotations]


def _with_boxes(files: Files, folder: str, row: _Row) -> tuple[torch.Tensor, dict[str, Any]]:
    name, number, annotations = row
    image = decoded(files.read(f"{folder}/{name}"))
    boxes = torch.tensor([annotation["bbox"] for annotation in annotations], dtype=torch.float32).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]  # they are left, top, width and height
    labels = torch.tensor([annotation["category_id"] for annotation in annotations], dtype=torch.int64)
    return image, {
        "image_id": number,
        "boxes": as_boxes(boxes, image),
        "labels": labels,
        "annotations": annotations,
    }
