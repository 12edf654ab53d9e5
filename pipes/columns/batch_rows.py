"""Rows of column batches (Arrow's, or dicts of columns): slice, take and join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..arrow import pa, pc
from .tensors import tensor_of
from .to_arrow import batch_of_frame, is_frame, rows_in

_ROWS_IN_A_RUN = 1024
"""Rows or pieces of a batch made before the first is yielded."""

Batch = Any
"""A `pyarrow.RecordBatch`, or a dict of tensors, arrays and lists of one length."""


def as_batch(item: Any) -> Batch:
    """Return an item as a batch, Arrow's for a table or a data frame; raise TypeError for other items."""
    if isinstance(item, dict):
        return item
    if isinstance(item, pa.RecordBatch):
        return item
    if isinstance(item, Mapping):
        return dict(item)
    if is_frame(item):
        return batch_of_frame(item)
    if not isinstance(item, pa.Table):
        raise TypeError(
            "column batches are needed, a pyarrow.RecordBatch or pyarrow.Table, data frames, or dicts of "
            f"columns, and this is of type {type(item).__name__}"
        )
    return _one_batch(item)


def _one_batch(table: Any) -> Batch:
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise ValueError(
            f"{table.num_rows} rows are too many for one batch: a column, such as text, has more than 2 GB"
        )
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def sliced(batch: Batch, start: int, end: int) -> Batch:
    """Return rows `start` to `end` of a batch, without a copy."""
    if isinstance(batch, dict):
        return {name: column[start:end] for name, column in batch.items()}
    return batch.slice(start, end - start)


def pieces(batch: Batch, start: int, end: int, size: int) -> Iterator[Batch]:
    """Return rows `start` to `end` of a batch as batches of `size` rows, without a copy.

    `size` must divide the number of rows.
    """
    if not isinstance(batch, dict):
        return map(batch.slice, range(start, end, size), repeat(size))
    run = size * _ROWS_IN_A_RUN
    return chain.from_iterable(
        _batch_pieces(batch, first, min(first + run, end), size) for first in range(start, end, run)
    )


def _batch_pieces(batch: dict[str, Any], start: int, end: int, size: int) -> Iterator[dict[str, Any]]:
    parts = [_column_parts(column, start, end, size) for column in batch.values()]
    return (dict(zip(batch, columns, strict=True)) for columns in zip(*parts, strict=True))


def _column_parts(column: Any, start: int, end: int, size: int) -> Sequence[Any]:
    if isinstance(column, torch.Tensor):
        return torch.split(column[start:end], size)  # one torch call; slices cost ten times as much
    return [column[first : first + size] for first in range(start, end, size)]


def taken(batch: Batch, rows: NDArray[np.int64]) -> Batch:
    """Return the rows with these numbers, in this order, as a new batch."""
    if isinstance(batch, dict):
        return {name: _taken(column, rows) for name, column in batch.items()}
    try:
        return batch.take(rows)
    except pa.ArrowNotImplementedError:
        columns = [_taken_of_arrow(column, rows) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def with_columns(batch: Batch, columns: Any) -> Batch:
    """Return a batch with the columns of a RecordBatch beside its own: arrays, tensors or lists in a dict of them."""
    if not isinstance(batch, dict):
        fields = [*batch.schema, *columns.schema]
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *columns.columns], schema=pa.schema(fields, batch.schema.metadata)
        )
    kinds = {kind for kind in (np.ndarray, torch.Tensor) for column in batch.values() if isinstance(column, kind)}
    more = zip(columns.schema.names, columns.columns, strict=True)
    if torch.Tensor in kinds:
        return {**batch, **{name: tensor_of(column, name) for name, column in more}}
    if np.ndarray in kinds:
        return {**batch, **{name: column.to_numpy(zero_copy_only=False) for name, column in more}}
    return {**batch, **{name: values_of_arrow(name, column) for name, column in more}}


def _taken_of_arrow(column: Any, rows: NDArray[np.int64]) -> Any:
    """Return rows of a column, also of types that pyarrow's take lacks: views and run-end encoded."""
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pc.run_end_decode(column).take(rows), kind.run_end_type)
    return column.cast(_without_views(kind)).take(rows).cast(kind)


def _without_views(kind: Any) -> Any:
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_views(kind.value_type)))
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_without_views(kind.value_type)))
    return kind


def _taken(column: Any, rows: NDArray[np.int64]) -> Any:
    if isinstance(column, np.ndarray):
        return column.take(rows, axis=0)
    if not isinstance(column, torch.Tensor):
        return [column[row] for row in rows.tolist()]
    array = _shared(column)
    if array is None:
        return column.index_select(0, torch.from_numpy(rows).to(column.device))
    return torch.from_numpy(array.take(rows, axis=0))


def joined(batches: Sequence[Batch]) -> Batch:
    """Return batches as one; a single one as is.

    Raises ValueError where their columns or column types differ.
    """
    first = batches[0]
    if len(batches) == 1:
        return first
    for batch in batches:
        if isinstance(batch, dict) != isinstance(first, dict):
            raise ValueError("an Arrow batch cannot be joined with a dict of columns: give both one format first")
    if isinstance(first, dict):
        return _joined_dicts(first, batches)
    for batch in batches:
        if not batch.schema.equals(first.schema):
            differing = "\n".join(
                f"- {field}"
                for field in (*first.schema, *batch.schema)
                if (field in first.schema) != (field in batch.schema)
            )
            raise ValueError(f"batches of different schemas cannot be joined; these fields differ:\n{differing}")
    return _one_batch(pa.Table.from_batches(batches))


def _joined_dicts(first: dict[str, Any], batches: Sequence[dict[str, Any]]) -> Batch:
    for batch in batches:
        if batch.keys() != first.keys():
            raise ValueError(f"batches of different columns cannot be joined: {[*first]} and {[*batch]}")
    return {name: _joined_columns(name, [batch[name] for batch in batches]) for name in first}


def _joined_columns(name: str, columns: list[Any]) -> Any:
    first = columns[0]
    for column in columns:
        if _kind_of_column(column) != _kind_of_column(first):
            raise ValueError(
                f"batches cannot be joined: column {name!r} is {' of '.join(_kind_of_column(first))} in one and "
                f"{' of '.join(_kind_of_column(column))} in another"
            )
    if isinstance(first, torch.Tensor):
        return _joined_tensors(columns)
    return np.concatenate(columns) if isinstance(first, np.ndarray) else [*chain.from_iterable(columns)]


def _joined_tensors(tensors: list[torch.Tensor]) -> torch.Tensor:
    arrays = [array for tensor in tensors if (array := _shared(tensor)) is not None]
    if len(arrays) < len(tensors):
        return torch.cat(tensors)
    # torch.cat uses several threads for what one copies in a moment. On few busy cores, they wait for each other a
    # hundred times as long.
    return torch.from_numpy(np.concatenate(arrays))


def _shared(tensor: torch.Tensor) -> NDArray[Any] | None:
    """Return an array that shares a tensor's memory; None on a device, with gradients, or for a torch-only dtype."""
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):
        return None


def _kind_of_column(column: Any) -> tuple[str, ...]:
    """Describe what two columns must share to be joined."""
    if isinstance(column, (torch.Tensor, np.ndarray)):
        return type(column).__name__, f"{column.dtype} with rows of the shape {(*column.shape[1:],)}"
    return ("list",)


def row_dicts(batch: Batch) -> Iterator[dict[str, Any]]:
    """Return each row of a batch as a dict.

    Numbers are Python's; tensors and arrays of more than one dimension give the slice of the row.

    Raises ValueError where several columns have the same name: a dict can hold only one.
    """
    rows = rows_in(batch)
    if not isinstance(batch, dict) and len({*batch.schema.names}) < batch.num_columns:
        raise ValueError(f"a row is a dict, and there are several columns of one name: {batch.schema.names}")
    parts = (sliced(batch, start, start + _ROWS_IN_A_RUN) for start in range(0, rows, _ROWS_IN_A_RUN))
    return chain.from_iterable(map(_row_dicts, parts))


def dtyped_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Return each row of a batch as a dict, as `row_dicts` does; numbers of arrays and tensors keep their dtypes.

    >>> [*dtyped_rows({"x": np.array([0.5], np.float32)})]
    [{'x': np.float32(0.5)}]
    """
    batch = as_batch(batch)
    if not isinstance(batch, dict):
        return row_dicts(batch)
    rows_in(batch)  # raises where lengths differ
    return (dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True))


def _row_dicts(batch: Batch) -> Iterator[dict[str, Any]]:
    if isinstance(batch, dict):
        names, columns = [*batch], [*map(_column_values, batch.values())]
    else:
        names, columns = batch.schema.names, [*map(values_of_arrow, batch.schema.names, batch.columns)]
    if not columns:
        return ({} for _ in range(rows_in(batch)))
    return (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))


def _column_values(column: Any) -> Sequence[Any]:
    if isinstance(column, (torch.Tensor, np.ndarray)):
        return column.tolist() if column.ndim == 1 else [*column]
    return column  # type: ignore[no-any-return]


def values_of_arrow(name: str, column: Any) -> Sequence[Any]:
    """Return the value of each row of a column, as `row_dicts` has them."""
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        if not column.null_count:
            return _column_values(tensor_of(column, name))
        of_rows = iter(_column_values(tensor_of(column.filter(column.is_valid()), name)))
        return [next(of_rows) if valid else None for valid in column.is_valid().to_pylist()]
    if (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not column.null_count:
        return _column_values(column.to_numpy())  # ten times as fast
    return column.to_pylist()  # type: ignore[no-any-return]
