"""COCO: things in photographs, as boxes and outlines, and captions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .images import as_boxes, decoded
from .rows import drawn, flawed

_YEARS = ("2017", "2014")

_Row = tuple[str, int, list[Any]]
"""The name of an image, its number, and its annotations."""


@dataset(**facts("coco"))
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
    if year not in _YEARS:
        raise ValueError(f"year must be one of {', '.join(map(repr, _YEARS))}, and is {year!r}")
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
