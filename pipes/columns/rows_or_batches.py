"""Whether the items of a chain are rows or column batches, judged by its operators and by an item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch

from ...registry import IterDataPipe, sources_of
from ...state.foreign import declares
from ...state.graph import DataPipe, is_one_of_several
from ..arrow import pa
from .to_arrow import is_frame

P = TypeVar("P", bound=IterDataPipe[Any])

DECLARED_BATCHES = (
    "this item counts as a batch, because of batched=True or an earlier operator; for rows give batched=False"
)
"""A note for errors of an item declared to be a batch."""


def giving_rows(pipe: P) -> P:
    """Return a pipe, now declared to give rows, where its operator does not say."""
    pipe.gives = "rows"  # type: ignore[misc]
    return pipe


def gives_batches(pipe: DataPipe) -> bool | None:
    """Say whether a pipe's items are column batches, or rows; None where the chain does not say.

    Raises ValueError for an invalid `gives` of an operator.

    >>> from penstock.pipes.iter import IterableWrapper
    >>> items = IterableWrapper([])
    >>> gives_batches(items.to_tensors().map(dict)), gives_batches(items.rows().shuffle()), gives_batches(items)
    (True, False, None)
    """
    kinds: set[str | None] = set()
    seen: set[int] = set()
    waiting = [pipe]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            kind = _declared_kind(current)
            sources = sources_of(current) if kind == "same" else []
            waiting += sources
            if not sources:
                kinds.add(kind)
    return True if kinds == {"batches"} else False if kinds == {"rows"} else None


def _declared_kind(pipe: Any) -> str | None:
    # Check the class first: a pipe without the attribute would look for an operator of that name, also in plug-ins.
    kind = pipe.gives if declares(pipe, "gives") else None
    if kind not in ("rows", "batches", "same", None):
        raise ValueError(f"{type(pipe).__name__}.gives is {kind!r}, and may be 'rows', 'batches', 'same' or None")
    return "same" if kind is None and is_one_of_several(pipe) else kind


def is_batch(item: object, declared: bool | None) -> bool:
    """Say whether an item is a column batch; with `declared`, all are (True), or only tables and data frames (False).

    With None, a dict is a row, but one of tensors or arrays with dimensions, and otherwise only lists, is ambiguous.
    Raises ValueError for such a dict.

    >>> is_batch({"id": torch.tensor([1, 2])}, True), is_batch({"id": torch.tensor(1), "text": ["a"]}, None)
    (True, False)
    """
    if declared or not isinstance(item, Mapping):
        return bool(declared) or is_table(item)
    if declared is None and _may_be_columns(item):
        raise ValueError(
            "a dict of tensors and arrays may be a batch, whose columns they are, or a row, and the operators before "
            "it do not say which: give batched=True, or batched=False for rows"
        )
    return False


def may_be_batch(item: object) -> bool:
    """Say whether an item is a column batch, or a dict that could be one."""
    return _may_be_columns(item) if isinstance(item, Mapping) else is_table(item)


def is_table(item: object) -> bool:
    """Say whether an item is a table, a record batch or a data frame."""
    return isinstance(item, (pa.RecordBatch, pa.Table)) or is_frame(item)


def _may_be_columns(item: Mapping[Any, Any]) -> bool:
    columns = item.values()
    return any(map(_has_rows, columns)) and all(_has_rows(column) or isinstance(column, list) for column in columns)


def _has_rows(value: object) -> bool:
    return isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim > 0
