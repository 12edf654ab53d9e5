"""Functions of Ray Data that begin a chain: those of Penstock, with rows as Ray gives them.

Differences to Ray: a chain reads when it is read, in this process or in the workers of a `DataLoader2`, so that a
writer writes by `.run()`. Operators on rows, such as `map` and `filter`, take the items as they are: after `read_csv`
and `read_parquet` these are column batches, and `.rows()` makes rows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from ...errors.checks import takes_only
from ...pipes.columns.rows_or_batches import giving_rows
from ...pipes.sources import files, tables
from ...pipes.sources.columns import Paths, read_csv, read_json, read_orc, read_parquet
from ...pipes.sources.files import read_numpy, read_text
from ...pipes.sources.tables import from_arrow, from_numpy, from_pandas
from ...registry import IterDataPipe, expect_whole

__all__ = [
    "ActorPoolStrategy",
    "from_arrow",
    "from_items",
    "from_numpy",
    "from_pandas",
    "from_torch",
    "range",
    "read_csv",
    "read_images",
    "read_json",
    "read_numpy",
    "read_orc",
    "read_parquet",
    "read_text",
]


_ONE_SIZE = "all of its processes start at once: give their number, as in ActorPoolStrategy(size=2)"


@dataclass(init=False)
class ActorPoolStrategy:
    """The number of processes that `map_batches(fn, compute=…)` calls a class in."""

    size: int

    @takes_only(min_size=_ONE_SIZE, max_size=_ONE_SIZE, initial_size=_ONE_SIZE)
    def __init__(self, size: int) -> None:
        expect_whole("size", size)
        self.size = size


def read_images(paths: Paths, *, include_paths: bool = False, **options: Any) -> IterDataPipe[dict[str, Any]]:
    """Return a chain that yields a dict with the `"image"` of each file, an array of (height, width, channel).

    `ps.read_images` documents the options; its images are tensors of the shape (channel, height, width).

    >>> import os, tempfile
    >>> from PIL import Image
    >>> from penstock.compat import ray
    >>> folder = tempfile.mkdtemp()
    >>> Image.new("RGB", (4, 2), "red").save(os.path.join(folder, "red.png"))
    >>> [row["image"].shape for row in ray.data.read_images(folder)]
    [(2, 4, 3)]
    """
    return files.read_images(paths, include_paths, **options).map(_with_channels_last)


def from_items(items: Iterable[Any]) -> IterDataPipe[dict[str, Any]]:
    """Return a chain of items in memory; what is no dict becomes the column `"item"`.

    >>> from penstock.compat import ray
    >>> ray.data.from_items([1, 2]).take_all()
    [{'item': 1}, {'item': 2}]
    """
    return tables.from_items(items).map(_as_row)


def from_torch(dataset: Dataset[Any]) -> IterDataPipe[dict[str, Any]]:
    """Return a chain of the items of a torch dataset, each as the column `"item"`.

    >>> import torch
    >>> from penstock.compat import ray
    >>> ray.data.from_torch(torch.utils.data.TensorDataset(torch.arange(2))).take_all()
    [{'item': (tensor(0),)}, {'item': (tensor(1),)}]
    """
    return giving_rows(tables.from_torch(dataset).map(_as_item))


def range(n: int) -> IterDataPipe[Any]:
    """Return a chain of batches with a column `"id"`, of the numbers from 0 to `n` - 1.

    >>> from penstock.compat import ray
    >>> ray.data.range(3).rows().take_all()
    [{'id': 0}, {'id': 1}, {'id': 2}]
    """
    expect_whole("n", n, least=0)
    return from_numpy({"id": np.arange(n)})


def _with_channels_last(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "image": row["image"].permute(1, 2, 0).squeeze(2).numpy()}


def _as_row(item: Any) -> Any:
    return item if isinstance(item, Mapping) else _as_item(item)


def _as_item(item: Any) -> dict[str, Any]:
    return {"item": item}
