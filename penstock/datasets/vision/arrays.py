"""Data sets whose images are rows of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from ...registry import IterDataPipe
from ..files import Files
from .images import as_image
from .rows import drawn, flawed

T = TypeVar("T")


class ImageArrays(Generic[T]):
    """The images and labels of a split, which each process reads once; copies of it, and pickles, are without them."""

    def __init__(self, read: Callable[[], tuple[Any, Any]], make: Callable[[Any, Any], T]) -> None:
        self.read = read
        self.make = make
        self._read: tuple[Any, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_read": None}

    def indices(self) -> range:
        """Return the numbers of the samples."""
        return range(len(self._content()[0]))

    def sample(self, index: int) -> T:
        """Return the sample of a number."""
        images, labels = self._content()
        return self.make(images[index], labels[index])

    def _content(self) -> tuple[Any, Any]:
        if self._read is None:
            self._read = self.read()
        return self._read


def image_and_label(pixels: Any, label: Any) -> tuple[torch.Tensor, int]:
    """Return the image, from its pixels with channels first, and the label as an int."""
    return as_image(pixels), int(label)


def from_arrays(
    read: Callable[[], tuple[Any, Any]],
    make: Callable[[Any, Any], T] = image_and_label,  # type: ignore[assignment]
) -> IterDataPipe[T]:
    """Return a chain of samples, made of each image and label that a function reads."""
    arrays = ImageArrays(read, make)
    return drawn(arrays.indices, arrays.sample)


def checked(files: Files, path: str, images: Any, labels: Any, classes: int, first: int = 0) -> tuple[Any, Any]:
    """Return images and labels; raise ValueError if they are not as many, or a label is none of the classes."""
    if len(images) != len(labels):
        raise flawed(files, path, f"there are {len(labels):,} labels of {len(images):,} images")
    outside = np.flatnonzero((labels < first) | (labels >= first + classes))
    if outside.size:
        row = int(outside[0])
        raise flawed(files, path, f"label {labels[row]} is not in {first} … {first + classes - 1}", row + 1)
    return images, labels
