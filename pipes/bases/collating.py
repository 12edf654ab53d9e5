"""Batches collated to tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.utils.data import default_collate

from ...errors.notes import add_note, describe_item
from ..columns.arrow_values import first_failing
from ..columns.writing import columns_of_rows

_ON_COLLATE = (
    "default_collate stacks tensors and arrays of one shape, numbers, and tuples, lists and dicts of these that are "
    "laid out alike: pad, resize or convert what differs before collate, or give collate a function of your own"
)


def default_collated(batch: Any) -> Any:
    """Return a batch collated by torch's `default_collate`; errors get a note with advice."""
    try:
        return default_collate(batch)
    except Exception as error:
        if where := _failing(batch):
            add_note(error, where)
        add_note(error, _ON_COLLATE)
        raise


def _failing(batch: Any) -> str | None:
    """Say which column of a batch of rows fails, and its first row that does; None for other batches."""
    if not (isinstance(batch, Sequence) and batch and isinstance(batch[0], Mapping)):
        return None
    try:
        columns = columns_of_rows(batch)
    except (TypeError, ValueError) as error:
        return str(error)
    for name, values in columns.items():
        try:
            default_collate(values)
        except Exception as error:
            row, _ = first_failing(values, default_collate, error)
            return f"column {name!r}, row {row} of the batch: {describe_item(values[row])}"
    return None


def collated_columns(conversion: Mapping[Any, Callable[..., Any]], batch: Sequence[Any]) -> Any:
    """Return a batch of rows by column, each collated by its function, or by `default_collated`."""
    columns = _columns_of(batch)
    if unknown := conversion.keys() - columns.keys():
        raise KeyError(f"the batch has no column {', '.join(map(repr, unknown))}: its columns are {[*columns]}")
    functions: dict[Any, Callable[..., Any]] = {**dict.fromkeys(columns, default_collated), **conversion}
    results = {column: functions[column](values) for column, values in columns.items()}
    return results if isinstance(batch[0], Mapping) else tuple(results.values())


def _columns_of(batch: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return the values of a batch of rows by column; ValueError where the rows have different columns."""
    if isinstance(batch[0], Mapping):
        return columns_of_rows(batch)
    return {column: [*values] for column, values in enumerate(zip(*batch, strict=True))}
