"""The shards of a chain as read tasks of Ray Data. `ray_data` imports it on first use, since it imports Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import ray  # type: ignore[import-not-found, import-untyped, unused-ignore]
import ray.data  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
from ray.data.block import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
    BlockAccessor,
    BlockMetadata,
)

from ...errors.notes import add_note
from ...pipes.columns.batch_rows import as_batch
from ...pipes.columns.kinds import is_tensor
from ...pipes.columns.rows_or_batches import is_batch
from ...pipes.columns.tensors import tensor_of
from ...pipes.columns.to_arrow import rows_in
from ...registry import IterDataPipe, PassPath, add_error_context
from ...state.seeds import seed_process
from ..options import Division, ReadOptions, WorkerInfo
from ..positions import Epoch, ShardPosition
from ..shards import ShardPass, Shards, settle_all
from ..workers.dispatch import Dispatch, LocalFeed, divided
from ..workers.dispatched import connect_feeds

_ROWS = 256
"""The most rows collected before they go to Ray."""

_BYTES = 2**23
"""The bytes of collected rows at which they go to Ray."""


class PenstockDatasource(ray.data.Datasource):  # type: ignore[misc, unused-ignore]
    """A chain that Ray Data reads, with one task per shard."""

    def __init__(
        self, chain: IterDataPipe[Any], num_shards: int, seed: int, epoch: int | None, batched: bool | None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call, unused-ignore]
        self.num_shards = num_shards
        self._seed = seed
        self._epoch = epoch
        self._batched = batched
        self._chain = ray.put(cloudpickle.dumps(chain))  # stored once for all tasks: it may be large

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ray.data.ReadTask]:
        # How often the dataset was read before: Ray's own file readers shuffle by this count.
        times = getattr(data_context, "_execution_idx", 0)
        epoch = times if self._epoch is None else self._epoch
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        rows = min(_ROWS, per_task_row_limit or _ROWS)
        shards = [(self.num_shards, shard) for shard in range(self.num_shards)]
        begun = Epoch(
            1, self._seed, PassPath(epoch), settled=settle_all(cloudpickle.loads(ray.get(self._chain)), shards)
        )
        return [
            ray.data.ReadTask(
                partial(_blocks_of_shard, self._chain, self.num_shards, shard, begun, self._batched, rows),
                unknown,
                per_task_row_limit=per_task_row_limit,
            )
            for shard in range(self.num_shards)
        ]


def cpus() -> int:
    """Return the number of CPUs that the cluster has."""
    if not ray.is_initialized():
        ray.init()
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call, unused-ignore]
    return max(int(resources.get("CPU", 1)), 1)


def dataset_of(datasource: PenstockDatasource, options: Mapping[str, Any]) -> ray.data.Dataset:
    """Return the dataset that reads a chain."""
    read_datasource: Callable[..., ray.data.Dataset] = ray.data.read_datasource
    return read_datasource(datasource, **{"override_num_blocks": datasource.num_shards, **options})


def _blocks_of_shard(
    chain: Any, num_shards: int, shard: int, epoch: Epoch, batched: bool | None, rows: int
) -> Iterator[Any]:
    reading = _begun_shard(cloudpickle.loads(ray.get(chain)), Division(num_shards, shard, num_shards), shard, epoch)
    try:
        yield from _blocks(reading, batched, rows)
    except Exception as error:
        add_note(error, f"penstock: in shard {shard} of {num_shards}, read by Ray Data")
        raise
    finally:
        reading.close()


def _begun_shard(chain: Any, division: Division, shard: int, epoch: Epoch) -> ShardPass:
    """Return a pass over a shard, as a loader's worker with only this shard would begin it."""
    chain, streams = divided(chain)
    dispatch = Dispatch(streams, division)
    connect_feeds(chain, lambda stream: LocalFeed(dispatch, stream, shard))
    shards = Shards(lambda _: chain, division, WorkerInfo(division.num_shards, shard), ReadOptions())
    return shards.begin(epoch, ShardPosition(shard), seed_process)


def _blocks(reading: ShardPass, batched: bool | None, most: int) -> Iterator[Any]:
    """Yield the items of a shard as Ray blocks: one per batch, and one per group of rows."""
    rows: list[Mapping[str, Any]] = []
    size = 0
    are_tensors: dict[str, bool] = {}
    for item in reading.items:
        try:
            row = None if is_batch(item, batched) else _row_of(item)
            if row is not None:
                _expect_kinds(row, are_tensors)
            batch = _block_of(item) if row is None else None
        except Exception as error:
            add_error_context(error, reading.chain, item)
            raise
        if row is not None:
            rows.append(row)
            size += sum(map(_bytes_of, row.values()))
        if rows and (row is None or len(rows) == most or size >= _BYTES):
            yield _block_of_rows(rows)
            rows, size = [], 0
        if batch is not None:
            yield batch
    if rows:
        yield _block_of_rows(rows)


def _row_of(item: Any) -> Mapping[str, Any]:
    if isinstance(item, tuple) and hasattr(item, "_asdict"):
        item = item._asdict()
    if not isinstance(item, Mapping):
        if isinstance(item, (tuple, list)) and any(isinstance(part, (torch.Tensor, np.ndarray)) for part in item):
            raise TypeError(
                f"a row of Ray's has columns with names, and this is a {type(item).__name__} with tensors: convert it "
                'to a dict, as with .map(lambda pair: {"image": pair[0], "label": pair[1]})'
            )
        return {"item": _without_tensor("item", item)}
    return {_name(name): _without_tensor(name, value) for name, value in item.items()}


def _expect_kinds(row: Mapping[str, Any], are_tensors: dict[str, bool]) -> None:
    """Record which columns have tensors; TypeError for a row that differs from any before, in any block."""
    if not row:
        raise TypeError("the row has no columns, which Ray Data cannot represent: drop it, or give it one")
    is_first = not are_tensors
    for name in {**are_tensors, **row}:
        is_one = isinstance(row.get(name), np.ndarray)
        if are_tensors.setdefault(name, is_one and is_first) != is_one:
            raise TypeError(
                f"column {name!r} has a tensor in some rows and none in others, which Ray Data cannot represent: put "
                "one in each row, or in none"
            )


def _block_of_rows(rows: list[Mapping[str, Any]]) -> Any:
    names = dict.fromkeys(name for row in rows for name in row)
    return BlockAccessor.batch_to_block({name: [row.get(name) for row in rows] for name in names})


def _block_of(item: Any) -> Any:
    """Return a batch as a block; None for one without rows, whose column types Ray could not infer."""
    batch = as_batch(item)
    if rows_in(batch) == 0:
        return None
    if isinstance(batch, dict):
        return BlockAccessor.batch_to_block(
            {_name(name): _without_tensor(name, column) for name, column in batch.items()}
        )
    table = pa.Table.from_batches([batch])
    for place, field in enumerate(batch.schema):
        column = batch.column(place)
        if is_tensor(field.type):
            if column.null_count:
                raise ValueError(f"column {field.name!r} has no tensor in some rows, which Ray Data cannot read")
            array = tensor_of(column, field.name).numpy()  # type: ignore[union-attr]
            made = BlockAccessor.batch_to_block({field.name: array})
            table = table.set_column(place, made.schema.field(0), made.column(0))
    return table


def _without_tensor(name: str, value: Any) -> Any:
    """Return a tensor as an array, and any other value as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    try:
        return value.numpy(force=True)
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"column {name!r}: NumPy, and so Ray, has no type for a tensor of {value.dtype}: convert it first, as "
            f"with .float() or .to_dense(): {error}"
        ) from error


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the names of columns must be strings, and one is {name!r:.100}")
    return name


def _bytes_of(value: Any) -> int:
    """Return the bytes of a value that may be large; 0 for other types."""
    return len(value) if isinstance(value, (str, bytes)) else getattr(value, "nbytes", 0)
