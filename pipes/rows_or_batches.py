"""Whether the items of a chain are rows or column batches: what its operators tell, and what an item does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch

from ..registry import sources_of
from ..registry.graph import DataPipe, is_one_of_several
from .arrow_columns import is_frame

__all__ = ["TOLD_BATCHES", "UNCHANGED", "gives_batches", "giving_rows", "is_batch", "may_be_batch"]

P = TypeVar("P", bound=DataPipe)

TOLD_BATCHES = "it is taken for a batch, as the operators before tell, or batched=True: batched=False is for rows"
"""What an error is to say that comes of an item which is told to be a batch."""

UNCHANGED = {
    "SampleMultiplexer", "concat", "cycle", "demux", "filter", "fork", "fullsync", "header", "in_memory_cache", "mix",
    "mux", "mux_longest", "pin_memory", "prefetch", "random_split", "repeat", "round_robin_demux", "set_length",
    "sharding_filter", "sharding_round_robin_dispatch", "shuffle", "to_device", "to_iter_datapipe",
}  # fmt: skip
"""Operators that give items which they read, as they are, or on another device."""

_EACH_FROM_ONE = {
    "add_index", "drop", "flatten", "map", "map_batches", "map_pool", "processpool_map", "routed_decode", "slice",
    "threadpool_map", "vmap",
}  # fmt: skip
"""Operators that make another item of each: of a row a row, of a batch a batch."""

_BATCHES = {
    "collate", "dataframe", "load_parquet_as_df", "read_csv", "read_ipc", "read_json", "read_numpy", "read_orc",
    "read_parquet", "rebatch", "rows2columnar", "shuffle_rows", "to_tensors", "with_format",
}  # fmt: skip
_ROWS = {
    "HuggingFaceHubReader", "load_from_tfrecord", "pack", "parse_csv", "parse_csv_as_dict", "read_images", "read_text",
    "rows", "webdataset",
}  # fmt: skip


def giving_rows(pipe: P) -> P:
    """Return a pipe, which from now on says that its items are rows, where its operator does not tell."""
    pipe.gives_batches = False  # type: ignore[union-attr]
    return pipe


def gives_batches(pipe: DataPipe) -> bool | None:
    """Say whether a pipe's items are column batches, or rows; None where the chain does not tell.

    >>> from penstock.pipes.iter import IterableWrapper
    >>> items = IterableWrapper([])
    >>> gives_batches(items.to_tensors().map(dict)), gives_batches(items.rows().shuffle()), gives_batches(items)
    (True, False, None)
    """
    while True:
        told: bool | None = vars(pipe).get("gives_batches")
        name = getattr(pipe, "functional_name", None) or type(pipe).__name__
        if told is not None or name in _BATCHES or name in _ROWS:
            return name in _BATCHES if told is None else told
        sources = sources_of(pipe)
        if not sources or not (name in UNCHANGED or name in _EACH_FROM_ONE or is_one_of_several(pipe)):
            return None
        if len(sources) > 1:
            kinds = {*map(gives_batches, sources)}
            return kinds.pop() if len(kinds) == 1 else None
        (pipe,) = sources


def is_batch(item: object, told: bool | None) -> bool:
    """Say whether an item is a column batch: where it is `told`, all are or only those of Arrow.

    Where nothing is told, a dict is a row, unless it has tensors or arrays with dimensions and nothing else but lists.
    Raises ValueError for such a one, which may be either.

    >>> is_batch({"id": torch.tensor([1, 2])}, told=True), is_batch({"id": torch.tensor(1), "text": ["a"]}, told=None)
    (True, False)
    """
    if told or not isinstance(item, Mapping):
        return bool(told) or _is_table(item)
    if told is None and _may_be_columns(item):
        raise ValueError(
            "a dict of tensors and arrays may be a batch, whose columns they are, or a row, and the operators before "
            "do not tell: say batched=True, or batched=False for rows"
        )
    return False


def may_be_batch(item: object) -> bool:
    """Say whether an item is a column batch, or a dict that may be one by what it has in it."""
    return _may_be_columns(item) if isinstance(item, Mapping) else _is_table(item)


def _is_table(item: object) -> bool:
    import pyarrow as pa  # type: ignore[import-untyped]  # here, since importing it takes a while

    return isinstance(item, (pa.RecordBatch, pa.Table)) or is_frame(item)


def _may_be_columns(item: Mapping[Any, Any]) -> bool:
    columns = item.values()
    return any(map(_has_rows, columns)) and all(_has_rows(column) or isinstance(column, list) for column in columns)


def _has_rows(value: object) -> bool:
    return isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim > 0
