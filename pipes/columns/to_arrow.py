"""Tensors, arrays, lists and data frames to Arrow columns."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch

from ..arrow import pa
from .arrow_values import first_failing

Values = Any
"""An Arrow column, a tensor, a NumPy array, or a list of values."""


def array_of(values: Values, name: str) -> pa.Array:
    """Return tensors, arrays and other values as an Arrow array, without a copy where the type allows.

    The first dimension is the rows; more dimensions give Arrow's fixed-shape tensor type. Tensors on a device are
    copied to main memory. A list of tensors or arrays of one shape and dtype is stacked; others become lists. NumPy's
    records become structs.

    Raises ValueError and TypeError, which name the column, for values without a dimension, for dtypes that Arrow lacks,
    and, with the row, for values that `pyarrow.array` refuses.

    >>> array_of(torch.zeros(2, 4, 4, dtype=torch.uint8), "image").type.shape
    [4, 4]
    """
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, pa.ChunkedArray):
        return _one_array(values)
    if np.isscalar(values) or isinstance(values, Mapping):
        raise TypeError(
            f"column {name!r} must be a tensor, an array or a list, and is of type {type(values).__name__}: "
            "if the items are rows, batch them first, as in .batch(n).collate()"
        )
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = [*values]
    if isinstance(values, (torch.Tensor, np.ndarray)):
        return _of_ndarray(_as_ndarray(values, name), name)
    if not isinstance(values, Sequence):
        return _of_values(values, name)
    if not _are_nested(values):
        return _of_values(values, name)
    values = [_plain(value, name) for value in values]
    return _of_ndarray(np.stack(values), name) if _are_alike(values) else _of_values([*map(_as_lists, values)], name)


def listed(values: Sequence[Any], name: str) -> Sequence[Any]:
    """Return values as `pyarrow.array` takes them: tensors and arrays in them as lists of one-dimensional arrays.

    Raises TypeError, which names the column, for a tensor of a dtype that Arrow lacks.

    >>> listed([torch.zeros(2), np.zeros((1, 2))], "x")
    [array([0., 0.], dtype=float32), [array([0., 0.])]]
    """
    return [_as_lists(_plain(value, name)) for value in values] if _are_nested(values) else values


def batch_of(columns: Mapping[str, Values]) -> pa.RecordBatch:
    """Return columns that `array_of` takes as one batch; raise ValueError where their lengths differ.

    >>> batch_of({"id": torch.tensor([1, 2]), "text": ["a", "b"]}).to_pydict()
    {'id': [1, 2], 'text': ['a', 'b']}
    """
    arrays = {name: array_of(values, name) for name, values in columns.items()}
    rows_in(arrays)
    return pa.RecordBatch.from_arrays([*arrays.values()], names=[*arrays])


def by_fields(value: Any) -> Any:
    """Return the values of NumPy's records, or of one, by the names of their fields; other values as they are.

    >>> by_fields(np.zeros(2, [("x", "f4"), ("y", "i8")]))["y"].tolist()
    [0, 0]
    """
    names = value.dtype.names if isinstance(value, (np.ndarray, np.void)) else None
    return {name: value[name] for name in names} if names else value


def columns_of(array: Any) -> dict[str, Any]:
    """Return an array as the column `"data"`, or a structured one as a column for each field."""
    fields = by_fields(array)
    return {"data": array} if fields is array else fields


def is_frame(item: object) -> bool:
    """Say whether an item is a pandas data frame."""
    pandas = sys.modules.get("pandas")  # not imported: no frames exist
    return pandas is not None and isinstance(item, pandas.DataFrame)


def batch_of_frame(frame: Any, stacklevel: int = 2) -> pa.RecordBatch:
    """Return the columns of a pandas data frame as one batch, without its index.

    NaN floats stay NaN, as in pandas; other missing values become null. Warns of an index that has a name, at
    `stacklevel`. Raises ValueError where two columns have the same name.
    """
    if named := [name for name in frame.index.names if name is not None]:
        warnings.warn(
            f"the index {', '.join(map(repr, named))} of the data frame is left out: give frame.reset_index(), which "
            "makes it a column, or frame.reset_index(drop=True)",
            stacklevel=stacklevel,
        )
    names = [*map(str, frame.columns)]
    if len({*names}) < len(names):
        raise ValueError(f"the data frame has several columns of one name: {names}")
    return batch_of({name: _of_series(frame.iloc[:, place]) for place, name in enumerate(names)})


def _of_series(series: Any) -> Values:
    if not isinstance(series.dtype, np.dtype):
        return series
    if series.dtype != object:
        return series.to_numpy()
    return [None if missing else value for value, missing in zip(series, series.isna(), strict=True)]


def rows_in(batch: pa.RecordBatch | Mapping[str, Any]) -> int:
    """Return the number of rows of a batch: Arrow's, or a dict of tensors, arrays and lists.

    Raises TypeError for other items, ValueError for a dict with columns of different lengths.

    >>> rows_in({"id": torch.tensor([1, 2]), "text": ["a", "b"]})
    2
    """
    if not isinstance(batch, Mapping):
        if not hasattr(batch, "num_rows"):
            raise TypeError(
                f"a batch is a pyarrow.RecordBatch or a dict of columns, and this is a {type(batch).__name__}"
            )
        return int(batch.num_rows)
    try:
        lengths = [*map(len, batch.values())]
    except TypeError as error:
        raise TypeError(f"the columns of a batch must be tensors, arrays or lists of its rows: {error}") from None
    if lengths and lengths.count(lengths[0]) < len(lengths):
        counts = ", ".join(f"{name!r} has {length}" for name, length in zip(batch, lengths, strict=True))
        raise ValueError(f"the columns of a batch must have the same number of rows, and {counts}")
    return lengths[0] if lengths else 0


def _one_array(array: pa.ChunkedArray) -> pa.Array:
    if array.num_chunks == 1:
        return array.chunk(0)
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)


def _as_ndarray(values: torch.Tensor | np.ndarray, name: str) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values
    try:
        return values.detach().cpu().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"column {name!r}: Arrow has no type for a tensor of {values.dtype}: convert it first, as with "
            f".float() or .to_dense(): {error}"
        ) from error


def _of_ndarray(values: np.ndarray, name: str) -> pa.Array:
    if values.ndim == 0:
        raise ValueError(f"column {name!r} is a single value, and needs a first dimension for the rows")
    if values.dtype.kind == "c" or values.dtype.char == "g":
        raise TypeError(f"column {name!r}: Arrow has no type for an array of {values.dtype}")
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.dtype.names:
        return _of_records(values, name)
    if values.ndim == 1:
        return _of_values(values, name)
    if values.dtype.kind not in "biufmM":
        return _of_values(values.tolist(), name)
    numbers = _of_values(np.ascontiguousarray(values).reshape(-1), name)
    shape = values.shape[1:]
    rows = pa.Array.from_buffers(pa.list_(numbers.type, prod(shape)), len(values), [None], children=[numbers])
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(numbers.type, shape), rows)


def _of_records(values: np.ndarray, name: str) -> pa.Array:
    """Return records as structs, in lists for the dimensions after the first."""
    columns = {field: _of_ndarray(column, f"{name}.{field}") for field, column in by_fields(values.reshape(-1)).items()}
    array = pa.StructArray.from_arrays([*columns.values()], [*columns])
    for axis in range(values.ndim - 1, 0, -1):
        offsets = np.arange(prod(values.shape[:axis]) + 1) * values.shape[axis]
        array = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array)
    return array


def _of_values(values: Any, name: str) -> pa.Array:
    try:
        made = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        where = f"column {name!r}"
        if isinstance(values, list):
            where += f", row {first_failing(values, pa.array, error)[0]}"
        kind = ValueError if isinstance(error, (ValueError, OverflowError)) else TypeError
        raise kind(f"{where}: {error}") from error
    return _one_array(made) if isinstance(made, pa.ChunkedArray) else made  # frames put together keep their chunks


def _are_nested(values: Sequence[Any]) -> bool:
    """Say whether values include tensors or containers; checks the set of types, since values are many."""
    nested = (torch.Tensor, np.ndarray, np.void, list, tuple, Mapping)
    return any(issubclass(kind, nested) for kind in {*map(type, values)})


def _plain(value: Any, name: str) -> Any:
    """Return a value with arrays in place of tensors."""
    if isinstance(value, torch.Tensor):
        return _as_ndarray(value, name)
    if isinstance(value, (list, tuple)):
        return [_plain(part, name) for part in value] if _are_nested(value) else value
    if isinstance(value, Mapping):
        return {key: _plain(part, name) for key, part in value.items()}
    return value


def _are_alike(values: list[Any]) -> bool:
    """Say whether values are arrays of one shape and dtype."""
    first = values[0]
    return isinstance(first, np.ndarray) and all(
        isinstance(value, np.ndarray) and value.shape == first.shape and value.dtype == first.dtype for value in values
    )


def _as_lists(value: Any) -> Any:
    """Return a value as pyarrow takes it, with one-dimensional arrays."""
    value = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(value, np.ndarray):
        return value if value.ndim == 1 and not value.dtype.names else [*map(_as_lists, value)]
    if isinstance(value, np.void):
        value = by_fields(value)
    if isinstance(value, (list, tuple)):
        return [*map(_as_lists, value)] if _are_nested(value) else value
    if isinstance(value, dict):
        return {key: _as_lists(part) for key, part in value.items()}
    return value
