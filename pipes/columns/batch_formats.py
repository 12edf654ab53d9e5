"""Column batches in the formats of libraries: tensors, arrays, data frames, Arrow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from ..arrow import pa, pc
from .arrow_values import stays_list
from .tensors import column_of, names_of, tensor_of, tensors_of
from .to_arrow import batch_of


def converter(argument: str, name: str) -> Callable[[Any], Any]:
    """Return the function that converts a batch to a format; `"pyarrow"` and `"default"` are Ray Data's names.

    Raises ValueError, which names the argument, for an unknown format.

    >>> converter("format", "numpy")({"id": [1, 2], "text": ["a", "b"]})
    {'id': array([1, 2]), 'text': array(['a', 'b'], dtype=object)}
    """
    known = _NAMES_OF_RAY.get(name, name)
    if known not in FORMATS:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, FORMATS))}, and is {name!r}")
    return FORMATS[known]


def own_copy(batch: Any) -> Any:
    """Return a dict of columns with copies of its arrays and tensors, which may be changed; another batch as it is."""
    if not isinstance(batch, dict):
        return batch
    return {name: _copied(column) for name, column in batch.items()}


def kinds_with_nulls(batch: pa.RecordBatch) -> dict[str, pa.DataType]:
    """Return the types of the columns of numbers that have nulls, which are NaN in a data frame."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    kinds = {name: column.type for name, column in columns if column.null_count}
    return {name: kind for name, kind in kinds.items() if pa.types.is_integer(kind) or pa.types.is_floating(kind)}


def with_nulls(batch: pa.RecordBatch, kinds: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Return a batch made of a data frame, with null for NaN in the columns of `kinds`, and integers where all fit."""
    for place, name in enumerate(batch.schema.names):
        column = batch.column(place)
        if name not in kinds or not pa.types.is_floating(column.type):
            continue
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        with suppress(pa.ArrowInvalid):  # fractions, and numbers that the type does not hold
            column = column.cast(kinds[name]) if pa.types.is_integer(kinds[name]) else column
        batch = batch.set_column(place, name, column)
    return batch


def _copied(column: Any) -> Any:
    if isinstance(column, torch.Tensor):
        return column.clone()
    return column.copy() if isinstance(column, (np.ndarray, list)) else column


def _as_arrow(batch: Any) -> pa.RecordBatch:
    return batch_of(batch) if isinstance(batch, dict) else batch


def _as_pandas(batch: Any) -> Any:
    batch = _as_arrow(batch)
    frame = batch.to_pandas()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if isinstance(column.type, pa.FixedShapeTensorType):  # pyarrow would make flat lists
            frame[name] = [*_as_array(column, name)]
    return frame


def _as_numpy(batch: Any) -> dict[str, np.ndarray]:
    return {name: _array_in(batch, name) for name in names_of(batch)}


def _array_in(batch: Any, name: str) -> np.ndarray:
    column = batch[name] if isinstance(batch, dict) else None
    if isinstance(column, np.ndarray):
        return column
    if isinstance(column, list) and any(isinstance(value, (torch.Tensor, np.ndarray)) for value in column):
        return _of_arrays([np.asarray(value) for value in column])
    return _as_array(column_of(batch, name), name)


def _of_arrays(arrays: list[np.ndarray]) -> np.ndarray:
    """Return arrays stacked, or in an array of objects where their shapes differ."""
    if len({(array.shape, array.dtype) for array in arrays}) == 1:
        return np.stack(arrays)
    return np.fromiter(arrays, object, len(arrays))


def _as_array(column: Any, name: str) -> np.ndarray:
    if not isinstance(column, torch.Tensor):
        kind = column.type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind):
            return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
        records = (pa.types.is_struct(kind) or pa.types.is_map(kind)) and not stays_list(kind)
        if records or pa.types.is_decimal(kind) or pa.types.is_time(kind) or pa.types.is_interval(kind):
            return np.fromiter(column.to_pylist(), object, len(column))
    values = tensor_of(column, name)
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    return np.fromiter(values, object, len(values))


FORMATS: dict[str, Callable[[Any], Any]] = {
    "torch": tensors_of,
    "numpy": _as_numpy,
    "pandas": _as_pandas,
    "arrow": _as_arrow,
}
_NAMES_OF_RAY = {"default": "numpy", "pyarrow": "arrow"}
