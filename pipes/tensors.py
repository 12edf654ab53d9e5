"""Columns of Arrow made into tensors, and tensors, arrays and lists made into columns of Arrow."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .arrow_values import cast_values, converted, first_failing, stays_list

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = [
    "array_of",
    "batch_of",
    "batch_of_frame",
    "check_dtypes",
    "column_of",
    "is_frame",
    "listed",
    "names_of",
    "rows_in",
    "tensor_of",
    "tensors_of",
]

Column = Any
"""A column of Arrow, a tensor, an array of NumPy, or a list of values."""
Dtypes = torch.dtype | Mapping[str, torch.dtype]
"""One dtype for all columns of numbers, or one for each of the columns that are named."""


def tensor_of(values: Column, name: str, dtype: torch.dtype | None = None) -> torch.Tensor | list[Any]:
    """Return the values of a column as a tensor, whose first dimension are the rows; text and bytes as a list.

    The column is one of Arrow, or what `array_of` makes one of. What becomes of each type:

    - integers and floats: the dtype of the same name, in the memory of the column, which must not be written to
    - booleans: `torch.bool`
    - timestamps, dates, times of day, durations: `torch.int64`, counted in the unit of the type
    - decimals: only with a `dtype`
    - fixed-size lists, lists that all have one length, and Arrow's fixed-shape tensors: tensors with these dimensions
      after the first; of lists of text or bytes, a list of lists
    - dictionaries, and values that are run-end encoded: the values that they stand for
    - text and bytes: a list of `str` and `bytes`, in which null is None
    - images, as Hugging Face has them, which are structs of `bytes` and `path`: a list of their `bytes`

    Null has no place in a tensor, unless `dtype` is a float: there it is NaN. With `dtype`, all values must be ones of
    it: fractions become no integers, and only 0 and 1 are booleans. In floats they are rounded, but may not overflow.

    Raises ValueError, which names the column and the row, for a null, for lists of different lengths, and for a value
    that the dtype does not have. Raises TypeError for a column of another type, such as of structs or maps, and for
    text and bytes that are to have a `dtype`.

    >>> import pyarrow as pa
    >>> tensor_of(pa.array([[1, 2], [3, 4]]), "pair", torch.float32)
    tensor([[1., 2.],
            [3., 4.]])
    """

    def where(row: int) -> str:
        return f"column {name!r}, row {row}"

    if isinstance(values, torch.Tensor):
        return values if dtype is None else cast_values(values, dtype, where)
    tensor: torch.Tensor | list[Any] = converted(array_of(values, name), name, where, dtype)
    return tensor


def tensors_of(
    batch: pa.RecordBatch | Mapping[str, Any], columns: Sequence[str] | None = None, dtypes: Dtypes | None = None
) -> dict[str, torch.Tensor | list[Any]]:
    """Return the columns of a batch by their names, each as `tensor_of` makes it: all of them, or those in `columns`.

    `dtypes` is one dtype, for all columns but those that stay lists, or a dict that has one for some of the columns.

    Raises KeyError for a column that the batch does not have, and what `tensor_of` raises.

    >>> import pyarrow as pa
    >>> tensors_of(pa.record_batch({"id": [1, 2], "text": ["a", "b"]}))
    {'id': tensor([1, 2]), 'text': ['a', 'b']}
    """
    names = names_of(batch) if columns is None else columns
    if unknown := [name for name in dtypes if name not in names] if isinstance(dtypes, Mapping) else []:
        raise KeyError(f"dtypes has {unknown[0]!r}, and the columns are {[*names]}")
    tensors = {}
    for name in names:
        column = column_of(batch, name)
        dtype = dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes
        if dtypes is dtype and not isinstance(column, torch.Tensor) and stays_list(column.type):
            dtype = None  # it was meant for the others
        tensors[name] = tensor_of(column, name, dtype)
    return tensors


def column_of(batch: pa.RecordBatch | Mapping[str, Any], name: str) -> pa.Array | torch.Tensor:
    """Return a column of a batch, as one of Arrow unless it is a tensor.

    Raises KeyError where there is none of that name, or several.
    """
    if isinstance(batch, Mapping):
        column, times = batch.get(name), int(name in batch)
    else:
        place = batch.schema.get_field_index(name)
        column, times = (batch.column(place), 1) if place >= 0 else (None, batch.schema.names.count(name))
    if times != 1:
        raise KeyError(f"the batch has {times or 'no'} columns {name!r}: its columns are {names_of(batch)}")
    return column if isinstance(column, torch.Tensor) else array_of(column, name)


def names_of(batch: pa.RecordBatch | Mapping[str, Any]) -> list[str]:
    """Return the names of the columns of a batch."""
    return [*batch] if isinstance(batch, Mapping) else batch.schema.names


def check_dtypes(dtypes: object) -> None:
    """Raise TypeError unless `dtypes` is what `tensors_of` takes."""
    values = dtypes.values() if isinstance(dtypes, Mapping) else [] if dtypes is None else [dtypes]
    if not all(isinstance(dtype, torch.dtype) for dtype in values):
        raise TypeError(f"dtypes must be a torch.dtype, or a dict of one for each column, and is {dtypes!r:.100}")


def array_of(values: Column, name: str) -> pa.Array:
    """Return tensors, arrays and other values as a column of Arrow, without a copy where the type allows.

    The first dimension are the rows; a tensor or array with more has Arrow's type of fixed-shape tensors. Tensors that
    are on a device are copied to main memory. Of a list of tensors or arrays that have one shape and dtype, the same
    comes out as of these stacked; where they differ, lists.

    Raises ValueError and TypeError, which name the column, for what has no dimension, for dtypes that Arrow does not
    have, and for values of which `pyarrow.array` makes no column; for these, with the row.

    >>> array_of(torch.zeros(2, 4, 4, dtype=torch.uint8), "image").type.shape
    [4, 4]
    """
    import pyarrow as pa

    if isinstance(values, pa.Array):
        return values
    if isinstance(values, pa.ChunkedArray):
        return _in_one_piece(values)
    if isinstance(values, (str, bytes, Mapping)):
        raise TypeError(f"column {name!r} must be a tensor, an array or a list, and is a {type(values).__name__}")
    if isinstance(values, np.ndarray) and values.dtype == object:
        values = [*values]
    if isinstance(values, (torch.Tensor, np.ndarray)):
        return _of_ndarray(_as_ndarray(values, name), name)
    if not isinstance(values, Sequence):
        return _of_values(values, name)
    if not _are_nested(values):
        return _of_values(values, name)
    values = [_plain(value, name) for value in values]
    return _of_ndarray(np.stack(values), name) if _are_alike(values) else _of_values([*map(_listed, values)], name)


def listed(values: Sequence[Any], name: str) -> Sequence[Any]:
    """Return values as `pyarrow.array` takes them: tensors and arrays in them as lists of arrays of one dimension.

    Raises TypeError, which names the column, for a tensor of a dtype that Arrow does not have.

    >>> listed([torch.zeros(2), np.zeros((1, 2))], "x")
    [array([0., 0.], dtype=float32), [array([0., 0.])]]
    """
    return [_listed(_plain(value, name)) for value in values] if _are_nested(values) else values


def batch_of(columns: Mapping[str, Column]) -> pa.RecordBatch:
    """Return columns, each of which `array_of` takes, as one batch; raise ValueError where their lengths differ.

    >>> batch_of({"id": torch.tensor([1, 2]), "text": ["a", "b"]}).to_pydict()
    {'id': [1, 2], 'text': ['a', 'b']}
    """
    import pyarrow as pa

    arrays = {name: array_of(values, name) for name, values in columns.items()}
    rows_in(arrays)
    return pa.RecordBatch.from_arrays([*arrays.values()], names=[*arrays])


def is_frame(item: object) -> bool:
    """Say whether an item is a data frame of pandas."""
    pandas = sys.modules.get("pandas")  # without which there are none
    return pandas is not None and isinstance(item, pandas.DataFrame)


def batch_of_frame(frame: Any) -> pa.RecordBatch:
    """Return the columns of a data frame of pandas as one batch, without its index.

    Floats that are NaN stay that, as pandas has them; what else is missing becomes null. Raises ValueError where two
    columns have one name.
    """
    names = [*map(str, frame.columns)]
    if len({*names}) < len(names):
        raise ValueError(f"the data frame has several columns of one name: {names}")
    return batch_of({name: _of_series(frame.iloc[:, place]) for place, name in enumerate(names)})


def _of_series(series: Any) -> Column:
    if not isinstance(series.dtype, np.dtype):
        return series
    if series.dtype != object:
        return series.to_numpy()
    return [None if missing else value for value, missing in zip(series, series.isna(), strict=True)]


def rows_in(batch: pa.RecordBatch | Mapping[str, Any]) -> int:
    """Return the number of rows of a batch: of Arrow, or a dict of tensors, arrays and lists.

    Raises TypeError for what is no batch, ValueError for a dict whose columns differ in their number of rows.

    >>> rows_in({"id": torch.tensor([1, 2]), "text": ["a", "b"]})
    2
    """
    if not isinstance(batch, Mapping):
        if not hasattr(batch, "num_rows"):
            raise TypeError(
                f"a batch is a pyarrow.RecordBatch or a dict of columns, and here is a {type(batch).__name__}"
            )
        return int(batch.num_rows)
    try:
        lengths = [*map(len, batch.values())]
    except TypeError as error:
        raise TypeError(f"the columns of a batch must be tensors, arrays or lists of its rows: {error}") from None
    if lengths and lengths.count(lengths[0]) < len(lengths):
        told = ", ".join(f"{name!r} has {length}" for name, length in zip(batch, lengths, strict=True))
        raise ValueError(f"the columns of a batch must have the same number of rows, and {told}")
    return lengths[0] if lengths else 0


def _in_one_piece(array: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

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
            f"column {name!r}: Arrow has nothing for a tensor of {values.dtype}, so convert it before, as with "
            f".float() or .to_dense(): {error}"
        ) from error


def _of_ndarray(values: np.ndarray, name: str) -> pa.Array:
    import pyarrow as pa

    if values.ndim == 0:
        raise ValueError(f"column {name!r} has a single value, without a dimension: its first dimension are the rows")
    if values.dtype.kind == "c" or values.dtype.char == "g":
        raise TypeError(f"column {name!r}: Arrow has nothing for an array of {values.dtype}")
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if values.ndim == 1:
        return _of_values(values, name)
    if values.dtype.kind not in "biufmM":
        return _of_values(values.tolist(), name)
    numbers = _of_values(np.ascontiguousarray(values).reshape(-1), name)
    shape = values.shape[1:]
    rows = pa.Array.from_buffers(pa.list_(numbers.type, prod(shape)), len(values), [None], children=[numbers])
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(numbers.type, shape), rows)


def _of_values(values: Any, name: str) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        where = f"column {name!r}"
        if isinstance(values, list):
            where += f", row {first_failing(values, pa.array)}"
        kind = ValueError if isinstance(error, (ValueError, OverflowError)) else TypeError
        raise kind(f"{where}: {error}") from error


def _are_nested(values: Sequence[Any]) -> bool:
    """Say whether values have tensors or others in them; by their types, since numbers and text are many."""
    nested = (torch.Tensor, np.ndarray, list, tuple, Mapping)
    return any(issubclass(kind, nested) for kind in {*map(type, values)})


def _plain(value: Any, name: str) -> Any:
    """A value without tensors in it: arrays instead."""
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


def _listed(value: Any) -> Any:
    """A value as pyarrow takes it, in which arrays have one dimension."""
    if isinstance(value, np.ndarray):
        return value[()] if value.ndim == 0 else value if value.ndim == 1 else [*map(_listed, value)]
    if isinstance(value, (list, tuple)):
        return [*map(_listed, value)] if _are_nested(value) else value
    if isinstance(value, dict):
        return {key: _listed(part) for key, part in value.items()}
    return value
