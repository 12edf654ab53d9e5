"""The Arrow types of times that became int64 tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from ...registry import sources_of
from .to_arrow import array_of

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["TimeTypes", "times_in", "times_of", "with_times"]

TimeTypes = dict[str, "pa.DataType"]
"""The types of columns of timestamps, dates, times of day and durations, by name."""


def times_in(schema: pa.Schema) -> TimeTypes:
    """Return the types of the columns of times of a schema."""
    import pyarrow.types as types  # type: ignore[import-untyped]

    return {field.name: field.type for field in schema if types.is_temporal(field.type)}


def times_of(pipe: Any) -> TimeTypes:
    """Return the types that columns of times had before a step of the chain made tensors of them.

    They are those of the last item. There are none where a step between may have changed the columns.
    """
    changes: list[Any] = []
    while not callable(getattr(type(pipe), "times", None)):
        sources = sources_of(pipe)
        if callable(getattr(type(pipe), "schema_after", None)):
            changes.append(pipe.schema_after)
        # Check the class first: a pipe without the attribute would look for an operator of that name, also in plug-ins.
        elif not (hasattr(type(pipe), "keeps_schema") and pipe.keeps_schema):
            return {}
        if len(sources) != 1:
            return {}
        pipe = sources[0]
    times: TimeTypes = pipe.times()
    for change in reversed(changes):
        import pyarrow as pa

        times = times_in(change(pa.schema([*times.items()])))
    return times


def with_times(batch: Any, times: TimeTypes) -> Any:
    """Return a batch, where it is a dict with int64 tensors in the columns of times as Arrow's times."""
    if not times or not isinstance(batch, Mapping):
        return batch
    return {
        name: _as_time(column, name, times[name]) if name in times and is_count(column) else column
        for name, column in batch.items()
    }


def is_count(column: Any) -> bool:
    """Say whether a column is a tensor that may hold times."""
    return isinstance(column, torch.Tensor) and column.dtype == torch.int64 and column.ndim == 1


def _as_time(column: torch.Tensor, name: str, kind: pa.DataType) -> pa.Array:
    counts = array_of(column, name)
    return counts.cast("int32").cast(kind) if kind.bit_width == 32 else counts.cast(kind)
