"""`to_ray_dataset`: converts a chain to a dataset of Ray Data, with a read task for each shard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors.optional import require
from ...pipes.columns.rows_or_batches import gives_batches
from ...registry import SHARDING_PRIORITIES, IterDataPipe, MapDataPipe, expect_whole, sharding_points, walk
from ..loading.readable import readable
from ..seeds import SeedGenerator
from ..services import missing_sharding_point

if TYPE_CHECKING:
    from ray.data import Dataset  # type: ignore[import-not-found, import-untyped, unused-ignore]


def to_ray_dataset(
    dp: IterDataPipe[Any] | MapDataPipe[Any],
    num_shards: int | None = None,
    *,
    seed: int | None = None,
    epoch: int | None = None,
    batched: bool | None = None,
    require_sharding: bool = True,
    **read_options: Any,
) -> Dataset:
    """Return a dataset of Ray Data with the rows of the chain; one Ray task reads each shard.

    Each of the `num_shards` shards has the same items in the same order as in a `DataLoader2` with that many shards.
    The default is one shard per CPU of the cluster, or a single one for a chain without a sharding point. Ray gives
    blocks in the order of arrival. With `execution_options.preserve_order` of its `DataContext`, it gives one shard
    after the other. Rows are read when Ray executes the dataset. What all shards must agree on, such as the newest
    version of a table, is looked up here, and again for each execution. For the schema, Ray reads the first block.

    A dict or named tuple is a row, with a column for each key or field. A batch (Arrow, pandas, or a dict of tensors,
    arrays and lists) becomes as many rows as it has. Any other item becomes the column `"item"`. `batched`, or else the
    chain, tells whether a dict is a row or a batch, as for `iter_torch_batches`. Tensors and arrays become Ray's tensor
    columns, even if their shapes differ; every row must then have a tensor. In other columns, missing values are null,
    and Ray pickles values without an Arrow type. A task collects up to 256 rows, about 8 MiB, or one batch of the
    chain, before Ray adds them to a block of `target_max_block_size`.

    `seed` is a loader's seed; without one, torch's generator draws it. Each execution by Ray is a new epoch, with its
    own order and random numbers, even if Ray only counts rows or looks for the schema. With `epoch`, each execution is
    that epoch, counted from 0, as a loader with this seed reads it. As in a loader's workers, the global generators of
    torch, NumPy and random are seeded before each item.

    cloudpickle sends the chain to the tasks once; the modules of its functions must be installed there. `read_options`
    are those of `ray.data.read_datasource`, such as `num_cpus`, `num_gpus`, `memory` and `concurrency`.

    Raises RuntimeError for several shards without a sharding point, unless `require_sharding=False` lets each shard
    read the whole chain; RuntimeError for steps that belong in the main process; ImportError if Ray is missing. While
    the dataset is read, Ray raises the chain's errors, with their notes, as errors that are also a `RayTaskError`:
    ValueError for a dict that may be a batch or a row; TypeError for a tuple or list with tensors, which have no names,
    for a row without columns, for a column with tensors in some rows only, and for tensors of dtypes that NumPy lacks.
    """
    require("ray.data", "ray")
    from .ray_shards import PenstockDatasource, cpus, dataset_of

    chain = readable(dp)
    points = sharding_points(chain, SHARDING_PRIORITIES.MULTIPROCESSING)
    if num_shards is None:
        num_shards = cpus() if points else 1
    _expect_numbers(num_shards, seed, epoch)
    _expect_readable(chain, num_shards, is_divided=bool(points) or not require_sharding)
    known = gives_batches(chain) if batched is None else batched
    return dataset_of(PenstockDatasource(chain, num_shards, SeedGenerator(seed).base_seed, epoch, known), read_options)


def _expect_readable(chain: IterDataPipe[Any], num_shards: int, is_divided: bool) -> None:
    """Raise RuntimeError for shards that would read the same items, and for steps that belong in the main process."""
    if num_shards > 1 and not is_divided:
        raise RuntimeError(missing_sharding_point(chain, "shards", num_shards))
    for pipe in walk(chain):
        if getattr(pipe, "in_main_process", False):
            raise RuntimeError(
                f"{type(pipe).__name__} belongs in the process that uses the items, but Ray reads the chain "
                "elsewhere: leave it out"
            )


def _expect_numbers(num_shards: int, seed: int | None, epoch: int | None) -> None:
    expect_whole("num_shards", num_shards)
    for name, number in {"seed": seed, "epoch": epoch}.items():
        if number is not None:
            expect_whole(name, number, least=0)
