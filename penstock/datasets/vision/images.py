"""Images, masks and boxes as torchvision's transforms take them: its tensors where it is installed, else plain ones."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import numpy as np
import torch

from ...pipes.files.images import opened_image, pixels_of


@functools.cache
def tv_tensors() -> Any:
    """Return torchvision's module of tensors, or None where it is not installed or does not load."""
    try:
        return import_module("torchvision.tv_tensors")
    except Exception:  # a build for another torch raises more than ImportError
        return None


def as_image(pixels: Any) -> torch.Tensor:
    """Return a uint8 array of shape (height, width) or (channels, height, width) as an image, with channels first."""
    image = _copied(pixels)
    return tv_tensors().Image(image) if tv_tensors() else image


def as_mask(pixels: Any) -> torch.Tensor:
    """Return a uint8 array of shape (height, width) as a mask of shape (1, height, width)."""
    mask = _copied(pixels)
    return tv_tensors().Mask(mask) if tv_tensors() else mask


def as_boxes(rows: Any, image: torch.Tensor) -> torch.Tensor:
    """Return boxes in an image as a tensor of shape (boxes, 4), from rows of left, top, right and bottom."""
    boxes = torch.as_tensor(rows).reshape(-1, 4)
    height, width = image.shape[-2:]
    if tv_tensors() is None:
        return boxes
    made: torch.Tensor = tv_tensors().BoundingBoxes(boxes, format="XYXY", canvas_size=(height, width))
    return made


def decoded(content: bytes, mode: str | None = "RGB") -> torch.Tensor:
    """Return the image in the bytes of a file, converted to a mode of Pillow's: with None, grey images stay grey.

    JPEGs are decoded by the fastest decoder that is installed: values differ from Pillow's by 1 at most. Raises OSError
    for bytes that are no image, or a part of one, and ValueError for more than 8 bits in each channel.
    """
    if mode is None:
        with opened_image(content) as image:
            mode = "L" if image.mode == "L" else "RGB"
    return as_image(np.moveaxis(pixels_of(content, mode), -1, 0))


def decoded_mask(content: bytes) -> torch.Tensor:
    """Return the mask in the bytes of a file: its values, which are indices where the file has a palette."""
    with opened_image(content) as image:
        return as_mask(np.asarray(image if image.mode in ("L", "P") else image.convert("L")))


def _copied(pixels: Any) -> torch.Tensor:
    """Return a tensor that nobody else writes to, with channels first."""
    tensor = torch.from_numpy(np.array(pixels, order="C"))
    return tensor if tensor.ndim == 3 else tensor.unsqueeze(0)
