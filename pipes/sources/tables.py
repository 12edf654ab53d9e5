"""Chains over data in memory: tables, data frames, arrays, items, and torch datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset

from ...errors.checks import takes_only
from ...errors.optional import require
from ...registry import IterDataPipe, T
from ..arrow import pa
from ..bases.rows.column_reader import BATCH_SIZE
from ..columns.rows_or_batches import giving_rows
from ..columns.to_arrow import batch_of, batch_of_frame, columns_of
from ..iter.create import IterableWrapper
from ..iter.rebatch import Rebatcher
from ..map.create import SequenceWrapper

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


def from_items(items: Iterable[T]) -> IterDataPipe[T]:
    """Return a pipe of items in memory, each a row, such as a dict. They are not copied.

    Operators on rows or batches treat these dicts, and those that `map` makes of them, as rows. For other items, use
    `IterableWrapper`, which does not say what its items are. A function that changes a row in place changes it for the
    next pass, too.

    Raises TypeError for items that are not iterable.

    >>> import penstock as ps
    >>> dp = ps.from_items([{"id": 1}, {"id": 2}])
    >>> list(dp)
    [{'id': 1}, {'id': 2}]
    """
    return giving_rows(IterableWrapper(items, deepcopy=False))


@takes_only()
def from_arrow(
    tables: pa.Table | pa.RecordBatch | Sequence[pa.Table | pa.RecordBatch], batch_size: int = BATCH_SIZE
) -> IterDataPipe[pa.RecordBatch]:
    """Return a pipe of record batches, of `batch_size` rows, from one or several Arrow tables or batches.

    Contiguous rows are not copied.

    Raises TypeError for other types; the pipe raises ValueError where schemas differ.

    >>> import penstock as ps
    >>> import pyarrow as pa
    >>> dp = ps.from_arrow(pa.table({"id": [1, 2, 3]}), batch_size=2)
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [1, 2]}, {'id': [3]}]
    """
    batches: list[pa.RecordBatch] = []
    for table in tables if isinstance(tables, (list, tuple)) else [tables]:
        if not isinstance(table, (pa.Table, pa.RecordBatch)):
            raise TypeError(f"from_arrow takes pyarrow tables and record batches, and this is a {type(table).__name__}")
        batches += table.to_batches() if isinstance(table, pa.Table) else [table]
    return _in_batches(batches, batch_size)


@takes_only()
def from_pandas(
    frames: pd.DataFrame | Sequence[pd.DataFrame], batch_size: int = BATCH_SIZE
) -> IterDataPipe[pa.RecordBatch]:
    """Return a pipe of record batches, of `batch_size` rows, from one or several pandas data frames.

    The index is left out, with a warning if it has a name: `frame.reset_index()` makes it a column. NaN floats stay
    NaN, as in pandas; other missing values become null.

    Raises ImportError without pandas, TypeError for other types, ValueError for a column that Arrow cannot hold, with
    the row, and where several columns have the same name; the pipe raises ValueError where the frames' columns differ.

    >>> import pandas as pd
    >>> import penstock as ps
    >>> dp = ps.from_pandas(pd.DataFrame({"id": [1, 2], "text": ["a", "b"]}))
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [1, 2], 'text': ['a', 'b']}]
    """
    pd = require("pandas", "pandas")
    some = frames if isinstance(frames, (list, tuple)) else [frames]
    for frame in some:
        if not isinstance(frame, pd.DataFrame):
            raise TypeError(f"from_pandas takes pandas data frames, and this is a {type(frame).__name__}")
    made = map(partial(batch_of_frame, stacklevel=4), some)  # the caller's line: this function is wrapped
    return _in_batches([*made], batch_size)


@takes_only()
def from_numpy(
    arrays: np.ndarray | Mapping[str, np.ndarray] | Sequence[np.ndarray], batch_size: int = BATCH_SIZE
) -> IterDataPipe[pa.RecordBatch]:
    """Return a pipe of record batches, of `batch_size` rows, from NumPy arrays, not copied where Arrow can share them.

    The first dimension is the rows. An array, or several in sequence, become the column `"data"`, or, if structured, a
    column for each field; a dict has an array per column. Columns of more dimensions have Arrow's fixed-shape tensor
    type, which `to_tensors` converts without a copy. Tensors work as well.

    Raises TypeError for other types and for dtypes that Arrow lacks, ValueError for an array without a dimension and
    for columns of different lengths.

    >>> import numpy as np
    >>> import penstock as ps
    >>> dp = ps.from_numpy({"x": np.zeros((3, 2)), "y": np.arange(3)}, batch_size=2).to_tensors()
    >>> [batch["x"].shape for batch in dp]
    [torch.Size([2, 2]), torch.Size([1, 2])]
    """
    if isinstance(arrays, Mapping):
        some: list[Mapping[str, Any]] = [arrays]
    else:
        some = [columns_of(array) for array in (arrays if isinstance(arrays, (list, tuple)) else [arrays])]
    for columns in some:
        for name, array in columns.items():
            if not isinstance(array, (np.ndarray, torch.Tensor)):
                raise TypeError(f"from_numpy takes arrays, and column {name!r} is a {type(array).__name__}")
    read_only = [{name: _read_only(array) for name, array in columns.items()} for columns in some]
    return _in_batches([*map(batch_of, read_only)], batch_size)


def _read_only(array: np.ndarray | torch.Tensor) -> np.ndarray | torch.Tensor:
    """Return an array that says that it may not be changed: tensors made of it are copies, so it is not."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def from_torch(dataset: Dataset[T]) -> IterDataPipe[T]:
    """Return a pipe of the items of a torch dataset: by index if map-style, else as it yields them.

    Operators on rows or batches treat items read by index as rows. A `sharding_filter` right after it reads only its
    own items by index.

    Raises TypeError unless the dataset is map-style, with a length, or iterable.

    >>> import penstock as ps
    >>> import torch
    >>> dp = ps.from_torch(torch.utils.data.TensorDataset(torch.arange(3), torch.ones(3)))
    >>> next(iter(dp))
    (tensor(0), tensor(1.))
    """
    if isinstance(dataset, IterableDataset):
        return IterableWrapper(dataset, deepcopy=False)
    items: IterDataPipe[T] = SequenceWrapper(dataset, deepcopy=False).to_iter_datapipe()
    return giving_rows(items)


def _in_batches(batches: list[pa.RecordBatch], batch_size: int) -> IterDataPipe[pa.RecordBatch]:
    # Not sliced here: a pickled slice would take its complete batch to workers.
    return Rebatcher(IterableWrapper(batches, deepcopy=False), batch_size)
