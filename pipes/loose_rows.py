"""Rows that come one by one, on their way through operators that take batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch

from ..registry import IterDataPipe

__all__ = ["RowGatherer", "is_batch", "out_of_batch"]

_ROWS = "rows that came one by one"
"""The name of the only column of a batch of loose rows."""


class RowGatherer(IterDataPipe[Any]):
    """Yield column batches as they are, and all other items, which are rows, `n` at a time as one column of a batch.

    >>> from penstock.pipes.iter import IterableWrapper
    >>> [out_of_batch(batch) for batch in RowGatherer(IterableWrapper(range(5)), 2)]
    [[0, 1], [2, 3], [4]]
    """

    holds_items = False

    def __init__(self, source: IterDataPipe[Any], n: int) -> None:
        self.source = source
        self.n = n

    def __iter__(self) -> Iterator[Any]:
        items = iter(self.source)
        for item in items:
            # Only the first is looked at: of another kind than the others, it would be an error in what follows.
            yield item if is_batch(item) else {_ROWS: [item, *islice(items, self.n - 1)]}


def out_of_batch(batch: Any) -> Any:
    """Return the rows of a batch that were gathered into it, as a list; any other batch as it is."""
    return batch[_ROWS] if isinstance(batch, Mapping) and [*batch] == [_ROWS] else batch


def is_batch(item: Any) -> bool:
    """Say whether an item is a column batch: of Arrow, or a dict of tensors, arrays and lists, not of lists alone.

    Raises ValueError for such a dict whose columns differ in their number of rows.

    >>> is_batch({"id": torch.tensor([1, 2]), "text": ["a", "b"]}), is_batch({"id": torch.tensor(1), "text": ["a"]})
    (True, False)
    """
    if not isinstance(item, Mapping):
        import pyarrow as pa  # type: ignore[import-untyped]  # here, since importing it takes a while

        return isinstance(item, (pa.RecordBatch, pa.Table))
    columns = item.values()
    if not any(map(_is_array, columns)) or not all(_is_array(column) or isinstance(column, list) for column in columns):
        return False
    if len({*map(len, columns)}) > 1:
        lengths = ", ".join(f"{name!r} has {len(column)}" for name, column in item.items())
        raise ValueError(
            f"a dict of tensors is taken for a batch, whose columns have the same number of rows, and {lengths}: "
            "if it is a row, gather rows before, as with .batch(32)"
        )
    return True


def _is_array(column: object) -> bool:
    return isinstance(column, (torch.Tensor, np.ndarray)) and column.ndim > 0
