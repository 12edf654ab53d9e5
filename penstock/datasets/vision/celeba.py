"""CelebA: faces, with what they look like and whose they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .images import decoded
from .rows import drawn, flawed, kinds_of, one_or_all, text_lines

__all__ = ["CelebA"]

_PARTS = {"train": "0", "valid": "1", "test": "2"}
_TABLES = {
    "attr": ("attributes", 40, 2),
    "identity": ("identity", 1, 0),
    "bbox": ("bbox", 4, 2),
    "landmarks": ("landmarks", 10, 2),
}
"""For each kind of target the resource, how many numbers it has, and how many lines precede them."""


@dataset(
    "celeba",
    splits={"train": 162_770, "valid": 19_867, "test": 19_962, "all": 202_599},
    categories=(
        *("5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs"),
        *("Big_Lips", "Big_Nose", "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows"),
        *("Chubby", "Double_Chin", "Eyeglasses", "Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones"),
        *("Male", "Mouth_Slightly_Open", "Mustache", "Narrow_Eyes", "No_Beard", "Oval_Face", "Pale_Skin"),
        *("Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks", "Sideburns", "Smiling", "Straight_Hair"),
        *("Wavy_Hair", "Wearing_Earrings", "Wearing_Hat", "Wearing_Lipstick", "Wearing_Necklace"),
        *(
            "Wearing_Necktie",
            "Young",
        ),
    ),
    resources={
        "images": Resource(
            "https://drive.google.com/uc?export=download&id=0B7EVK8r0v71pZjFTYXZWM3FlRnM",
            sha256="46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
            size=1_443_490_838,
            name="img_align_celeba.zip",
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "partition": Resource(
            "https://drive.google.com/uc?export=download&id=0B7EVK8r0v71pY0NSMzRuSXJEVkk",
            sha256="fc955bcb3ef8fbdf7d5640d9a8693a8431b5f2ee291a5c1449a1549e7e073fe7",
            size=2_836_386,
            name="list_eval_partition.txt",
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "attributes": Resource(
            "https://drive.google.com/uc?export=download&id=0B7EVK8r0v71pblRyaVFSWGxPY0U",
            sha256="f0e5da289d5ccf75ffe8811132694922b60f2af59256ed362afa03fefba324d0",
            size=26_721_026,
            name="list_attr_celeba.txt",
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "identity": Resource(
            "https://drive.google.com/uc?export=download&id=1_ee_0u7vcNLOfNLegJRHmolfH5ICW-XS",
            sha256="c6143857c3e2630ac2da9f782e9c1232e5e59be993a9d44e8a7916c78a6158c0",
            size=3_424_458,
            name="identity_CelebA.txt",
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "bbox": Resource(
            "https://drive.google.com/uc?export=download&id=0B7EVK8r0v71pbThiMVRxWXZ4dU0",
            sha256="7487a82e57c4bb956c5445ae2df4a91ffa717e903c5fa22874ede0820c8ec41b",
            name="list_bbox_celeba.txt",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "landmarks": Resource(
            "https://drive.google.com/uc?export=download&id=0B7EVK8r0v71pd0FJY3Blby1HUTQ",
            sha256="6c02a87569907f6db2ba99019085697596730e8129f67a3d61659f198c48d43b",
            size=12_156_055,
            name="list_landmarks_align_celeba.txt",
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
    },
    home_page="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    citation="Liu, Luo, Wang, Tang: Deep Learning Face Attributes in the Wild, ICCV 2015",
)
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
