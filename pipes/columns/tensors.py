"""Columns of Arrow made into tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from .arrow_values import cast_values, converted, stays_list
from .to_arrow import Column, array_of

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["Dtypes", "check_dtypes", "column_of", "names_of", "tensor_of", "tensors_of"]

Dtypes = torch.dtype | Mapping[str, torch.dtype]
"""One dtype for all columns of numbers, or one for each of the columns that are named."""


def tensor_of(values: Column, name: str, dtype: torch.dtype | None = None) -> torch.Tensor | list[Any]:
    """Return the values of a column as a tensor, whose first dimension are the rows; text and bytes as a list.

    The column is one of Arrow, or what `array_of` makes one of. Types map to:

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
        if dtype is not None and dtypes is dtype and not isinstance(column, torch.Tensor) and stays_list(column.type):
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
