"""`to_ray_dataset`: from a chain to a dataset of Ray Data, each shard of which is read by a task of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..pipes.columns.rows_or_batches import gives_batches
from ..registry import SHARDING_PRIORITIES, IterDataPipe, MapDataPipe, expect_whole, sharding_points, walk
from ..registry.extras import require
from .loader import readable
from .seeds import SeedGenerator
from .services import missing_sharding_point

if TYPE_CHECKING:
    from ray.data import Dataset  # type: ignore[import-not-found, import-untyped, unused-ignore]

__all__ = ["to_ray_dataset"]


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
    """Return a dataset of Ray Data whose rows are those of the chain, read by one task of Ray's for each shard.

    The `num_shards` parts are those that a `DataLoader2` with as many shards reads, with the same items in the same
    order. Without a number, there is one for each CPU of the cluster, or a single one where the chain has no sharding
    point. Ray gives the blocks of the shards as they come, and with `execution_options.preserve_order` of its
    `DataContext` shard after shard. Nothing is read before Ray executes the dataset, which it does to find out the
    schema, too: up to the first block.

    Of the items, dicts and named tuples are rows, with a column for each key or field, and what is neither is the
    column `"item"`. Batches, of Arrow, of pandas or dicts of tensors, arrays and lists, are as many rows. Whether a
    dict is a row or a batch says `batched`, or else the chain, as for `iter_torch_batches`. Tensors and arrays become
    Ray's tensor columns, also where rows differ in their shapes; such a column has a tensor in each row. In others, a
    row that lacks a column has null there; what Arrow has nothing for is pickled by Ray. A task holds no more than 256
    rows, some 8 MiB, or one of the chain's batches, besides what Ray collects to blocks of `target_max_block_size`.

    `seed` is a loader's seed; without one, torch's generator draws it. Each time that Ray executes the dataset is
    another epoch, with an order and random numbers of its own, also where it only counts the rows or looks for the
    schema. With `epoch`, each time is that one, counted from 0, as a loader with this seed reads it. As in a loader's
    workers, the global generators of torch, NumPy and random get a seed before each item.

    The chain travels to the tasks by cloudpickle, once; the modules that its functions are from must be there.
    `read_options` are those of `ray.data.read_datasource`, such as `num_cpus`, `num_gpus`, `memory` and `concurrency`.

    Raises RuntimeError where there are several shards and no sharding point, unless `require_sharding=False` says that
    each is to be all of the chain, and for steps that belong in the main process; ImportError where Ray is missing.
    While it is read, Ray raises what the chain does, as an error that is a `RayTaskError`, too, with the notes that say
    where; that is ValueError for a dict that may be batch or row, TypeError for a tuple or list with tensors, which
    have no names, for a row without columns, for tensors in some rows of a column only, and for tensors of dtypes that
    NumPy does not have.
    """
    require("ray.data", "ray")
    from .ray_shards import PenstockDatasource, cpus, dataset_of

    chain = readable(dp)
    points = sharding_points(chain, SHARDING_PRIORITIES.MULTIPROCESSING)
    if num_shards is None:
        num_shards = cpus() if points else 1
    expect_whole("num_shards", num_shards)
    if seed is not None:
        expect_whole("seed", seed, least=0)
    if epoch is not None:
        expect_whole("epoch", epoch, least=0)
    if num_shards > 1 and require_sharding and not points:
        raise RuntimeError(missing_sharding_point(chain, "shards", num_shards))
    for pipe in walk(chain):
        if getattr(pipe, "in_main_process", False):
            raise RuntimeError(
                f"{type(pipe).__name__} belongs in the process that uses the items, and Ray reads the chain "
                "elsewhere: leave it out"
            )
    told = gives_batches(chain) if batched is None else batched
    return dataset_of(PenstockDatasource(chain, num_shards, SeedGenerator(seed).base_seed, epoch, told), read_options)
