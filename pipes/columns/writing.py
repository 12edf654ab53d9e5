"""Batches, and rows gathered into batches, to tables and arrays for writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch

from ..arrow import pa
from .kinds import is_tensor
from .tensors import tensor_of
from .to_arrow import batch_of, rows_in

Arrays = dict[str, "np.ndarray[Any, Any]"]

_ADVICE = "give all rows one type before they come here: rows as .dataframe(dtype=…) does, batches by a cast"


def columns_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of rows by column name.

    Raises ValueError, which names the column, for a row whose columns differ from the first, and TypeError for a row
    that is no dict.
    """
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"rows must be dicts, which name their columns, and one is of type {type(row).__name__}")
    names = rows[0].keys()
    for row in rows:
        if row.keys() != names:
            _raise_for_names([*row], [*names])
    return {name: [row[name] for row in rows] for name in names}


def table_of(batch: Any) -> pa.Table:
    """Return a batch as a table: a record batch, a table, or a dict of tensors, arrays and lists."""
    if isinstance(batch, Mapping):
        _expect_named([*batch])
        batch = batch_of(batch)
    table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([_expect_batch(batch)])
    _expect_named(table.schema.names)
    return table


def bytes_in(piece: Any) -> int:
    """Return the size of a table or of arrays, in bytes of memory."""
    return sum(array.nbytes for array in piece.values()) if isinstance(piece, dict) else piece.nbytes


def arrays_of(batch: Any, column: str | None = None) -> Arrays:
    """Return the columns of a batch, or a single one, as arrays by name, with their own dtypes.

    Text becomes `str`; Arrow's timestamps, dates and durations become `datetime64` or `timedelta64`. Raises what
    `tensor_of` raises, TypeError for bytes and for values that NumPy holds only as objects.
    """
    columns = batch
    if not isinstance(batch, Mapping):
        table = table_of(batch)
        columns = dict(zip(table.schema.names, table.columns, strict=True))
    _expect_named([*columns])
    if column is not None:
        if column not in columns:
            raise KeyError(f"there is no column {column!r}: the columns are {[*columns]}")
        columns = {column: columns[column]}
    arrays = {name: _array_of(values, name) for name, values in columns.items()}
    rows_in(arrays)  # raises where lengths differ
    return arrays


def types_in(arrays: Arrays) -> dict[str, str]:
    """Return the dtype and row shape of each array in words; for text, `str` without a length."""
    return {
        name: " ".join(
            [
                "str" if array.dtype.kind == "U" else str(array.dtype),
                *([str(array.shape[1:])] if array.ndim > 1 else []),
            ]
        )
        for name, array in arrays.items()
    }


def fitted_arrays(arrays: Arrays, known: Mapping[str, str], widen: bool) -> Arrays:
    """Return arrays with the columns and types of earlier ones; ValueError, with the column, where they differ.

    With `widen`, integers become floats where earlier ones are floats and no value changes.
    """
    if arrays.keys() != known.keys():
        _raise_for_names([*arrays], [*known])
    types = types_in(arrays)
    return {
        name: arrays[name] if types[name] == kind else _widened_array(arrays[name], name, types[name], kind, widen)
        for name, kind in known.items()
    }


def fitted(table: pa.Table, schema: pa.Schema, widen: bool) -> pa.Table:
    """Return a table with the schema of earlier ones; raise ValueError, which names the column, where it differs.

    With `widen`, types inferred from too few rows are converted where no value changes: only nulls or empty lists,
    integers among floats, and lists that happen to have equal length.
    """
    if table.schema.equals(schema):
        return table
    if {*table.schema.names} != {*schema.names}:
        _raise_for_names(table.schema.names, schema.names)
    columns = []
    for field in schema:
        column = table.column(field.name)
        if column.type != field.type:
            column = _widened(column, field) if widen else None
        if column is None:
            _raise_for_type(field.name, table.schema.field(field.name).type, field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _expect_batch(batch: object) -> pa.RecordBatch:
    if not isinstance(batch, pa.RecordBatch):
        raise TypeError(
            "an item must be a batch (a pyarrow.RecordBatch, or a dict of tensors and arrays) or a row (a dict), and "
            f"is of type {type(batch).__name__}; with_format('arrow') turns a data frame into a batch"
        )
    return batch


def _expect_named(names: Sequence[Any]) -> None:
    if not names:
        raise ValueError("there are no columns, so the number of rows would be lost")
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"the names of columns must be strings, and one is {wrong[0]!r:.100}")
    if len({*names}) < len(names):
        raise ValueError(f"there are {len(names)} columns, and some have the same name: {names}")


def _raise_for_names(names: Sequence[str], known: Sequence[str]) -> NoReturn:
    missing = [name for name in known if name not in names]
    wrong = missing or [name for name in names if name not in known]
    raise ValueError(
        f"there is {'no' if missing else 'a'} column {wrong[0]!r}, and before it the columns were "
        f"{', '.join(map(repr, known))}: give all rows the same ones"
    )


def _raise_for_type(name: str, kind: object, known: object) -> NoReturn:
    raise ValueError(f"the column {name!r} is {kind}, and before it was {known}: {_ADVICE}")


def _widened(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray | None:
    if is_tensor(column.type):
        kind = column.type.value_type
        for _ in column.type.shape:
            kind = pa.list_(kind)
        column = pa.chunked_array([pa.array(tensor_of(column, field.name).tolist(), kind)])  # type: ignore[union-attr]
    if not _widens(column.type, field.type):
        return None
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), field.type)])
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:  # the float cannot represent an integer
        raise ValueError(f"the column {field.name!r} was {field.type} before: {error}") from error


def _widened_array(array: np.ndarray[Any, Any], name: str, kind: str, known: str, widen: bool) -> np.ndarray[Any, Any]:
    dtype, _, shape = known.partition(" ")
    if not (widen and array.dtype.kind in "iu" and dtype.startswith("float") and kind.partition(" ")[2] == shape):
        _raise_for_type(name, kind, known)
    with np.errstate(over="ignore", invalid="ignore"):
        floats = array.astype(dtype)
        same = floats.astype(array.dtype) == array
    if not same.all():
        raise ValueError(
            f"the column {name!r} was {known} before, which cannot hold the integer {array[~same].flat[0]}"
        )
    return floats


def _widens(kind: pa.DataType, known: pa.DataType) -> bool:
    if pa.types.is_list(kind) and pa.types.is_list(known):
        return _widens(kind.value_type, known.value_type)
    return bool(kind == known or pa.types.is_null(kind) or (pa.types.is_integer(kind) and pa.types.is_floating(known)))


def _array_of(values: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(values, pa.ChunkedArray):
        if pa.types.is_temporal(values.type) and not pa.types.is_time(values.type):
            return np.asarray(values.to_numpy())
        values = tensor_of(values, name)
    array = _stacked(values, name) if isinstance(values, (list, tuple)) else _array_of_tensor(values, name)
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise TypeError(
            f"the column {name!r} must be a tensor, an array or a list with a value for each row, and is of type "
            f"{type(values).__name__}"
        )
    if array.dtype.hasobject:
        raise TypeError(f"the column {name!r} has values that NumPy could only pickle: {array[:1]!r:.100}")
    return array


def _array_of_tensor(value: Any, name: str) -> Any:
    """Return a value, with an array in place of a tensor."""
    if not isinstance(value, torch.Tensor):
        return value
    try:
        return value.detach().cpu().resolve_conj().resolve_neg().numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"the column {name!r} has tensors of {value.dtype}, so convert them before, as with .float(): {error}"
        ) from error


def _stacked(rows: Sequence[Any], name: str) -> np.ndarray[Any, Any]:
    """Return rows stacked as one array."""
    rows = [_array_of_tensor(row, name) for row in rows]
    shapes = [np.shape(row) if isinstance(row, (np.ndarray, np.generic)) else None for row in rows]
    for row, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"the column {name!r} has {_shown(shape)} in row {row} of those that are looked at together, and "
                f"{_shown(shapes[0])} in row 0: the rows of an array have one shape"
            )
    if {*map(type, rows)} & {bytes, bytearray, memoryview}:
        raise TypeError(f"the column {name!r} has bytes, which NumPy would cut short: use write_parquet")
    try:
        array = np.array(rows)
    except ValueError as error:
        raise ValueError(f"the column {name!r}: {error}") from error
    if array.dtype.kind == "U" and array.tolist() != rows:
        raise ValueError(f"the column {name!r} has text that NumPy would cut short, or is mixed with other values")
    if array.dtype.kind == "f" and any(
        isinstance(row, int) and row != number for row, number in zip(rows, array.tolist(), strict=True)
    ):
        raise ValueError(f"the column {name!r} has integers that are none of {array.dtype}, which the others are")
    return array


def _shown(shape: tuple[int, ...] | None) -> str:
    return "a value that is no array" if shape is None else f"the shape {shape}"
