"""CIFAR-10 and CIFAR-100: images of 32 × 32 pixels, in pickles."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..facts import facts
from ..files import Files
from .arrays import checked, from_arrays
from .rows import flawed


class _Unpickler(pickle.Unpickler):
    """Loads arrays and plain data: what else a pickle asks for is refused, since it could run anything."""

    _ALLOWED: Mapping[tuple[str, str], Callable[..., Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): np.zeros(0).__reduce__()[0],  # type: ignore[dict-item]
        ("numpy._core.multiarray", "_reconstruct"): np.zeros(0).__reduce__()[0],  # type: ignore[dict-item]
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("_codecs", "encode"): str.encode,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array")
        return self._ALLOWED[module, name]


def _read(files: Files, names: Sequence[str], key: str, classes: int) -> tuple[Any, Any]:
    batches = [_batch(files, name, key, classes) for name in names]
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])


def _batch(files: Files, path: str, key: str, classes: int) -> tuple[Any, Any]:
    try:
        batch = _Unpickler(io.BytesIO(files.read(path)), encoding="latin1").load()
        images = np.asarray(batch["data"], np.uint8).reshape(-1, 3, 32, 32)
        labels = np.asarray(batch[key], np.int64)
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError) as error:
        raise flawed(files, path, f"it is no pickle of data and {key}: {error!r}") from None
    return checked(files, path, images, labels, classes)


@dataset(**facts("cifar10"))
def CIFAR10(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Small photographs of animals and vehicles.

    Items: `(image, label)`, an image of shape (3, 32, 32), and 0 … 9.
    """
    names = [f"data_batch_{number}" for number in range(1, 6)] if split == "train" else ["test_batch"]
    paths = [f"cifar-10-batches-py/{name}" for name in names]
    return from_arrays(partial(_read, resources["archive"], paths, "labels", 10))


@dataset(**facts("cifar100"))
def CIFAR100(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Small photographs of a hundred kinds of things.

    Items: `(image, label)`, an image of shape (3, 32, 32), and 0 … 99: the fine label.
    """
    return from_arrays(partial(_read, resources["archive"], [f"cifar-100-python/{split}"], "fine_labels", 100))
