"""PASCAL VOC: things in photographs, as boxes, as masks, and as what an image has in it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts, labels
from ..files import Files
from .images import as_boxes, decoded, decoded_mask
from .rows import drawn, flawed, text_lines

_CLASSES = tuple(labels("voc_classification"))
_WITH_BACKGROUND = ("__background__", *_CLASSES)
_YEARS = [str(year) for year in range(2007, 2013)]


def _samples(
    resources: Mapping[str, Files], split: str, year: str, kind: str, target: Callable[[Files, str, str, Any], Any]
) -> IterDataPipe[tuple[torch.Tensor, Any]]:
    """Return a chain of the image and what a function of files, a folder, a name and the image returns."""
    if year not in _YEARS:
        raise ValueError(f"year must be one of {', '.join(map(repr, _YEARS))}, and is {year!r}")
    if split == "test" and year != "2007":
        raise ValueError(f"there is a test split of the year '2007' only, and year is {year!r}")
    files = resources["2007-test" if split == "test" else year]
    folder = f"{'TrainVal/' if year == '2011' else ''}VOCdevkit/VOC{year}"
    names = partial(text_lines, files, f"{folder}/ImageSets/{kind}/{split}.txt")
    return drawn(names, partial(_sample, files, folder, target))


def _sample(
    files: Files, folder: str, target: Callable[[Files, str, str, Any], Any], line: str
) -> tuple[torch.Tensor, Any]:
    name = line.strip()
    image = decoded(files.read(f"{folder}/JPEGImages/{name}.jpg"))
    return image, target(files, folder, name, image)


@dataset(**facts("voc_detection"))
def VOCDetection(
    resources: Mapping[str, Files], split: str, *, year: str = "2012"
) -> IterDataPipe[tuple[torch.Tensor, dict[str, Any]]]:
    """Photographs, each with boxes of the things in it, of 20 kinds.

    Items: `(image, target)`, a dict of `"annotation"`, the tree of the annotation as torchvision gives it, whose leaves
    are texts and whose `"object"` is a list, `"boxes"` of shape (things, 4), as left, top, right and bottom, and
    `"labels"`, 1 … 20. `year` is `"2007"` … `"2012"`; the split is what torchvision calls `image_set`.
    """
    return _samples(resources, split, year, "Main", _with_boxes)


def _with_boxes(files: Files, folder: str, name: str, image: torch.Tensor) -> dict[str, Any]:
    path, annotation = _annotation(files, folder, name)
    boxes, labels = [], []
    for number, thing in enumerate(annotation["object"], 1):
        try:
            boxes.append([int(float(thing["bndbox"][side])) for side in ("xmin", "ymin", "xmax", "ymax")])
            labels.append(_WITH_BACKGROUND.index(thing["name"]))
        except (KeyError, TypeError, ValueError) as error:
            raise flawed(files, path, f"object {number} is no class with a box: {error!r}") from None
    return {
        "annotation": annotation,
        "boxes": as_boxes(boxes, image),
        "labels": torch.tensor(labels, dtype=torch.int64),
    }


def _annotation(files: Files, folder: str, name: str) -> tuple[str, dict[str, Any]]:
    """Return the path of an annotation, and its tree: texts at the leaves, lists where a tag is repeated."""
    path = f"{folder}/Annotations/{name}.xml"
    content = files.read(path)
    try:
        if b"<!DOCTYPE" in content:
            raise ElementTree.ParseError("it declares a DOCTYPE")  # whose entities may grow without bounds
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise flawed(files, path, f"it is no XML: {error}") from None
    tree = _tree(root)
    if root.tag != "annotation" or not isinstance(tree, dict):
        raise flawed(files, path, f"it begins with {root.tag!r}, not with an annotation")
    tree.setdefault("object", [])
    return path, tree


def _tree(node: Any) -> Any:
    children = [*node]
    if not children:
        return (node.text or "").strip()
    values: dict[str, list[Any]] = {}
    for child in children:
        values.setdefault(child.tag, []).append(_tree(child))
    in_lists = ("object",) if node.tag == "annotation" else ()
    return {tag: found if len(found) > 1 or tag in in_lists else found[0] for tag, found in values.items()}


@dataset(**facts("voc_segmentation"))
def VOCSegmentation(
    resources: Mapping[str, Files], split: str, *, year: str = "2012"
) -> IterDataPipe[tuple[torch.Tensor, torch.Tensor]]:
    """Photographs, each with a mask of the things in it, of 20 kinds.

    Items: `(image, mask)`, a mask of shape (1, height, width) of 0, the background, 1 … 20, and 255 for borders.
    `year` is `"2007"` … `"2012"`; the split is what torchvision calls `image_set`.
    """
    return _samples(resources, split, year, "Segmentation", _mask)


def _mask(files: Files, folder: str, name: str, image: torch.Tensor) -> torch.Tensor:
    return decoded_mask(files.read(f"{folder}/SegmentationClass/{name}.png"))


@dataset(**facts("voc_classification"))
def VOCClassification(
    resources: Mapping[str, Files], split: str, *, year: str = "2012"
) -> IterDataPipe[tuple[torch.Tensor, torch.Tensor]]:
    """Photographs, each with the kinds of things in it, of 20 kinds.

    Items: `(image, labels)`, an int64 tensor of 20 numbers, 1 for each kind that is there. torchvision has no such
    class. `year` is `"2007"` … `"2012"`.
    """
    return _samples(resources, split, year, "Main", _kinds)


def _kinds(files: Files, folder: str, name: str, image: torch.Tensor) -> torch.Tensor:
    path, annotation = _annotation(files, folder, name)
    labels = torch.zeros(len(_CLASSES), dtype=torch.int64)
    for thing in annotation["object"]:
        if not isinstance(thing, dict) or thing.get("name") not in _CLASSES:
            raise flawed(files, path, f"{thing!r:.100} is none of the {len(_CLASSES)} classes")
        labels[_CLASSES.index(thing["name"])] = 1
    return labels
