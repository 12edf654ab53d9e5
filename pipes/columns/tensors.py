"""Arrow columns to tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..arrow import pa
from .arrow_values import cast_values, converted, stays_list
from .to_arrow import Values, array_of

Dtypes = torch.dtype | Mapping[str, torch.dtype]
"""One dtype for all numeric columns, or a dict of dtypes by column name."""


def tensor_of(values: Values, name: str, dtype: torch.dtype | None = None) -> torch.Tensor | list[Any]:
    """Return a column as a tensor, with rows as first dimension; text and bytes as a list.

    The column is Arrow's, or anything that `array_of` takes. Types map to:

    - integers and floats: the dtype of the same name, sharing the column's memory, which must not be written to
    - booleans: `torch.bool`
    - timestamps, dates, times of day, durations: `torch.int64`, counted in the unit of the type
    - decimals: only with a `dtype`
    - fixed-size lists, lists of equal length, and Arrow's fixed-shape tensors: tensors with these dimensions after the
      first; lists of text or bytes: a list of lists
    - dictionary and run-end encoded values: the decoded values
    - text and bytes: a list of `str` and `bytes`, with None for null
    - Hugging Face images, which are structs of `bytes` and `path`: a list of their `bytes`

    In tensors, null becomes NaN where `dtype` is a float, and is an error otherwise. `dtype` must represent all values:
    fractions become no integers, and only 0 and 1 are booleans. Floats are rounded, but must not overflow.

    Raises ValueError, which names the column and the row, for a null, for lists of different lengths, and for a value
    that `dtype` cannot represent. Raises TypeError for a column of another type, such as structs or maps, and for text
    and bytes with a `dtype`.

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
    """Return the columns of a batch, or those in `columns`, by name, each as `tensor_of` makes it.

    `dtypes` is one dtype, for all columns but those that stay lists, or a dict of dtypes for some columns.

    Raises KeyError for an unknown column, and what `tensor_of` raises.

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
        if dtype is not None and dtypes is dtype and not isinstance(column, torch.Tensor) and stays_list(column.type):
            dtype = None  # meant for the other columns
        tensors[name] = tensor_of(column, name, dtype)
    return tensors


def column_of(batch: pa.RecordBatch | Mapping[str, Any], name: str) -> pa.Array | torch.Tensor:
    """Return a column of a batch: a tensor as is, anything else as an Arrow array.

    Raises KeyError where no column, or several, have that name.
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
