"""What the tests of data sets of images compare with: torchvision's own, on the same files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision import datasets as theirs
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

__all__ = ["as_items", "equal", "image_file", "jpeg", "mat", "same", "theirs", "tv_tensors", "v2", "write"]


def image_file(number: int, size: tuple[int, int] = (9, 7), mode: str = "RGB", kind: str = "PNG") -> bytes:
    """An image of noise, of a width and a height."""
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    pixels = np.random.default_rng(number).integers(0, 256, shape, np.uint8)
    image = Image.fromarray(pixels)
    if mode == "P":
        image = Image.fromarray(pixels % 4).convert("P")
        image.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def jpeg(number: int, size: tuple[int, int] = (9, 7), mode: str = "RGB") -> bytes:
    return image_file(number, size, mode, "JPEG")


def mat(**variables: Any) -> bytes:
    """A file of MATLAB's with variables."""
    from scipy.io import savemat

    buffer = io.BytesIO()
    savemat(buffer, variables)
    return buffer.getvalue()


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a folder."""
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return folder


def as_items(theirs: Any) -> list[Any]:
    """The items of a data set of torchvision, by index, with images as tensors."""
    return [theirs[index] for index in range(len(theirs))]


def same(ours: Iterable[Any], theirs: Any) -> None:
    """Check that items are those of torchvision: the images as its tensors, all else as it is."""
    items, expected = list(ours), as_items(theirs)
    assert len(items) == len(expected) > 0
    for number, (item, other) in enumerate(zip(items, expected, strict=True)):
        assert type(item) is tuple
        assert len(item) == len(other)
        assert type(item[0]) is tv_tensors.Image
        assert item[0].dtype == torch.uint8
        assert item[0].is_contiguous()
        for part, theirs_part in zip(item, other, strict=True):
            assert equal(part, theirs_part), f"item {number}: {part!r} is not {theirs_part!r}"


def equal(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, Image.Image):
        expected = functional.pil_to_tensor(theirs)
        # Decoders differ by 1 at most.
        return ours.shape == expected.shape and int((ours.int() - expected.int()).abs().max()) <= 1
    if isinstance(theirs, (tuple, list)):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(equal, ours, theirs))
    if isinstance(theirs, torch.Tensor):
        return bool(torch.equal(ours, theirs) and ours.dtype == theirs.dtype)
    if isinstance(theirs, np.ndarray):
        return type(ours) is np.ndarray and np.array_equal(ours, theirs) and ours.dtype == theirs.dtype
    if isinstance(theirs, np.integer):  # where torchvision forgot to make an int of it
        return type(ours) is int and ours == theirs
    return type(ours) is type(theirs) and bool(ours == theirs)
