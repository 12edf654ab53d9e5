"""The Arrow types of times that became int64 tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...registry import sources_of
from ...state.foreign import declared, declares
from ...state.graph import is_one_of_several
from ..arrow import pa
from .to_arrow import array_of

TimeTypes = dict[str, "pa.DataType"]
"""The types of columns of timestamps, dates, times of day and durations, by name."""


def times_of(pipe: Any) -> TimeTypes:
    """Return the types that columns of times had before a step of the chain made tensors of them.

    They are those of the items so far. There are none where a step between may have changed the columns.

    Raises ValueError for a column with one type in one source of a `concat` or its like, and another type in another.
    """
    found: dict[str, pa.DataType] = {}
    for schema in _schemas_made_of(pipe) or ():
        for field in schema:
            before = found.setdefault(field.name, field.type)
            if before != field.type and (pa.types.is_temporal(before) or pa.types.is_temporal(field.type)):
                raise ValueError(
                    f"the column {field.name!r} is {before} in one source and {field.type} in another, and tensors "
                    "only count: cast one of them before to_tensors"
                )
    return {name: kind for name, kind in found.items() if pa.types.is_temporal(kind)}


def keeps_schema(pipe: Any) -> bool:
    """Say whether the items of a pipe have the fields of its source's items; a branch of a splitter passes them on."""
    # Check the class first: a pipe without the attribute would look for an operator of that name, also in plug-ins.
    return is_one_of_several(pipe) or bool(declares(pipe, "keeps_schema") and pipe.keeps_schema)


def _schemas_made_of(pipe: Any) -> list[pa.Schema] | None:
    """Return the schemas of the batches that became a pipe's items, one for each branch that has yielded some.

    None where a step between may have changed the columns.
    """
    changes: list[Any] = []
    while not callable(declared(pipe, "made_of", None)):
        sources = sources_of(pipe)
        if callable(declared(pipe, "schema_after", None)):
            changes.append(pipe.schema_after)
        elif not keeps_schema(pipe):
            return None
        if len(sources) != 1:
            schemas = _of_branches(sources)
            break
        pipe = sources[0]
    else:
        schemas = pipe.made_of()
    return schemas and [_changed(schema, changes) for schema in schemas]


def _changed(schema: pa.Schema, changes: list[Any]) -> pa.Schema:
    for change in reversed(changes):
        schema = change(schema)
    return schema


def _of_branches(sources: Sequence[Any]) -> list[pa.Schema] | None:
    schemas: list[pa.Schema] = []
    for branch in map(_schemas_made_of, sources):
        if branch is None:
            return None
        schemas += branch
    return schemas or None


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
