"""`iter_torch_batches` and `iter_batches`: one call from a chain of columns or rows to a loader of batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from ...errors.checks import takes_only
from ...pipes.bases.collating import default_collated
from ...pipes.bases.input_columns import check_function
from ...pipes.bases.one_to_one import OneToOne
from ...pipes.bases.rows.loose_rows import RowGatherer, are_rows, out_of_batch
from ...pipes.columns.batch_formats import converter, own_copy
from ...pipes.columns.batch_rows import as_batch
from ...pipes.columns.rows_or_batches import gives_batches, may_be_batch
from ...pipes.columns.tensors import Dtypes, check_dtypes, tensors_of
from ...pipes.columns.to_arrow import rows_in
from ...pipes.columns.writing import columns_of_rows
from ...pipes.iter.device import DeviceMover
from ...pipes.iter.formats import keeping_times
from ...pipes.iter.rebatch import Rebatcher, RowShuffler
from ...registry import IterDataPipe, MapDataPipe, expect_whole, walk
from ..ranks import DistributedReadingService, SequentialReadingService
from ..services import InProcessReadingService, ReadingServiceInterface
from ..worker_services import MultiProcessingReadingService
from .loader import DataLoader2
from .readable import readable

_BATCH_SIZE = 256


@takes_only()
def iter_torch_batches(
    dp: IterDataPipe[Any] | MapDataPipe[Any],
    batch_size: int | None = _BATCH_SIZE,
    dtypes: Dtypes | None = None,
    device: str | int | torch.device | None = None,
    collate_fn: Callable[[Any], Any] | None = None,
    local_shuffle_buffer_size: int | None = None,
    drop_last: bool = False,
    prefetch_batches: int = 2,
    *,
    local_shuffle_seed: int | None = None,
    num_workers: int = 0,
    batched: bool | None = None,
    reading_service: ReadingServiceInterface | None = None,
) -> DataLoader2[Any]:
    """Return a `DataLoader2` that yields batches of `batch_size` rows as dicts of tensors, epoch after epoch.

    Items are batches of columns, of any number of rows: Arrow's, or dicts of tensors, arrays and lists. `to_tensors`
    converts their columns, with `dtypes`. Or they are rows, such as dicts and tuples, and `collate` stacks them.
    `batched` tells the kind, or else the chain does, as after `ps.read_parquet` or `rows`. Where it does not, Arrow
    batches are batches, and other items are rows; a dict of only tensors and arrays, and perhaps lists, is then an
    error. With `batch_size=None`, each item is a batch, and only converted to tensors. The loader then has the chain's
    length, which is otherwise unknown in advance.

    `local_shuffle_buffer_size` is the number of rows in a shuffle buffer; the loader's seed, `local_shuffle_seed` or
    else a random one, gives each epoch another order. `collate_fn` replaces all conversions. Where the kind of items
    is known, it is called with a dict of arrays for each batch, as the function of `map_batches` is; elsewhere
    with a RecordBatch, a dict, or a list of rows. If `device` is given, tensors are copied there from pinned memory
    while the batch before is used. `drop_last` drops a short last batch.

    A thread, or each of `num_workers` processes, reads `prefetch_batches` ahead; processes divide the stream at the
    chain's sharding points. A `reading_service` replaces these two arguments.

    Raises TypeError or ValueError for wrong arguments; reading raises what `to_tensors`, `rebatch`, `collate` raise.

    >>> import penstock as ps
    >>> rows = ps.iter.IterableWrapper([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}, {"x": 3.0, "name": "c"}])
    >>> list(iter_torch_batches(rows, batch_size=2, dtypes={"x": torch.float32}))
    [{'x': tensor([1., 2.]), 'name': ['a', 'b']}, {'x': tensor([3.]), 'name': ['c']}]
    """
    _check_arguments(batch_size, dtypes, collate_fn, local_shuffle_buffer_size, drop_last, batched)
    service = _service(reading_service, num_workers, prefetch_batches)
    chain = readable(dp)
    known = gives_batches(chain) if batched is None else batched
    chain, collate_fn = _in_arrays(chain, batch_size, known, collate_fn)
    chain = _columns(chain, batch_size, known, dtypes, collate_fn)
    are_tensors = bool(known) and collate_fn is None
    chain = _cut(chain, batch_size, local_shuffle_buffer_size, drop_last, are_tensors and not _is_of_ranks(service))
    chain = chain if are_tensors else _Finisher(chain, collate_fn, dtypes)
    return _loader(chain if device is None else DeviceMover(chain, device), service, local_shuffle_seed)


@takes_only()
def iter_batches(
    dp: IterDataPipe[Any] | MapDataPipe[Any],
    batch_size: int | None = _BATCH_SIZE,
    batch_format: str = "numpy",
    local_shuffle_buffer_size: int | None = None,
    drop_last: bool = False,
    prefetch_batches: int = 2,
    *,
    local_shuffle_seed: int | None = None,
    num_workers: int = 0,
    batched: bool | None = None,
    reading_service: ReadingServiceInterface | None = None,
) -> DataLoader2[Any]:
    """Return a `DataLoader2` that yields batches of `batch_size` rows in a format, epoch after epoch.

    `batch_format` is `"numpy"`, `"torch"`, `"pandas"` or `"arrow"`, as for `with_format`; `"pyarrow"` is the same as
    `"arrow"`. Rows must be dicts. The other arguments are those of `iter_torch_batches`.

    Raises ValueError for an unknown format, TypeError for rows that are no dicts, and what `iter_torch_batches` raises.

    >>> import penstock as ps
    >>> rows = ps.from_items([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
    >>> list(rows.iter_batches(batch_size=2))
    [{'x': array([1., 2.]), 'name': array(['a', 'b'], dtype=object)}]
    """
    converter("batch_format", batch_format)  # raises for an unknown one
    return iter_torch_batches(
        dp,
        batch_size,
        collate_fn=_InFormat(batch_format),
        local_shuffle_buffer_size=local_shuffle_buffer_size,
        drop_last=drop_last,
        prefetch_batches=prefetch_batches,
        local_shuffle_seed=local_shuffle_seed,
        num_workers=num_workers,
        batched=batched,
        reading_service=reading_service,
    )


def _check_arguments(
    batch_size: int | None,
    dtypes: object,
    collate_fn: Any,
    local_shuffle_buffer_size: int | None,
    drop_last: bool,
    batched: bool | None,
) -> None:
    if batch_size is not None:
        expect_whole("batch_size", batch_size)
    elif drop_last:
        raise ValueError("drop_last needs a batch_size: without one, batches are left as they are")
    elif batched is not None:
        raise ValueError("batched needs a batch_size: without one, the items are the batches")
    check_dtypes(dtypes)
    if collate_fn is not None:
        check_function("collate_fn", collate_fn)
        if dtypes is not None:
            raise ValueError("give dtypes or collate_fn, not both: let collate_fn make tensors of these dtypes")
    if local_shuffle_buffer_size is not None:
        expect_whole("local_shuffle_buffer_size", local_shuffle_buffer_size)


class _InFormat:
    """Convert each batch to a format, and call `then` with it."""

    def __init__(self, format: str, then: Callable[[Any], Any] | None = None) -> None:
        self.format = format
        self.then = then

    def __call__(self, batch: Any) -> Any:
        if self.then is not None and isinstance(batch, list) and not isinstance(batch[0], Mapping):
            return self.then(batch)
        columns = columns_of_rows(batch) if isinstance(batch, list) else as_batch(batch)
        converted = own_copy(converter("batch_format", self.format)(columns))
        return converted if self.then is None else self.then(converted)


def _service(
    service: ReadingServiceInterface | None, num_workers: int, prefetch_batches: int
) -> ReadingServiceInterface:
    expect_whole("prefetch_batches", prefetch_batches, least=0)
    expect_whole("num_workers", num_workers, least=0)
    if service is not None and num_workers:
        raise ValueError(
            "a reading_service has its own number of workers: give num_workers or reading_service, not both"
        )
    if service is None and num_workers:
        return MultiProcessingReadingService(
            num_workers, worker_prefetch_cnt=prefetch_batches, main_prefetch_cnt=prefetch_batches
        )
    return service or InProcessReadingService(prefetch_batches)


def _in_arrays(
    chain: IterDataPipe[Any], batch_size: int | None, known: bool | None, collate_fn: Callable[[Any], Any] | None
) -> tuple[IterDataPipe[Any], Callable[[Any], Any] | None]:
    """Let `collate_fn` receive arrays where the kind of the items is known; the chain then keeps their times."""
    if batch_size is None and known is False:
        raise ValueError("the chain's items are rows: give a batch_size, the number of rows in a batch")
    if collate_fn is None:
        return chain, None
    if known is not None and not isinstance(collate_fn, _InFormat):
        collate_fn = _InFormat("numpy", collate_fn)
    if known and isinstance(collate_fn, _InFormat):
        chain = keeping_times(chain, collate_fn.format)
    return chain, collate_fn


def _columns(
    chain: IterDataPipe[Any],
    batch_size: int | None,
    batched: bool | None,
    dtypes: Dtypes | None,
    collate_fn: Callable[[Any], Any] | None,
) -> IterDataPipe[Any]:
    """Return a chain of column batches: rows are gathered, and columns are tensors unless `collate_fn` makes them."""
    leave: Callable[[Any], bool] = partial(_is_no_batch, dtypes)
    if batch_size is not None:
        chain, leave = RowGatherer(chain, batch_size, batched), are_rows
    if collate_fn is not None:
        return chain
    # Convert before cutting: large tensors are cheapest to cut.
    return _ColumnsInTensors(chain, dtypes, leave, copies=_keeps_items(chain))


def _cut(
    chain: IterDataPipe[Any], batch_size: int | None, buffer_size: int | None, drop_last: bool, in_main_process: bool
) -> IterDataPipe[Any]:
    """Return a chain of column batches with their rows shuffled, and cut to a size."""
    if buffer_size is not None:
        chain = RowShuffler(chain, buffer_size)
    if batch_size is None:
        return chain
    cutter = _Cutter if in_main_process else Rebatcher
    return cutter(chain, batch_size, drop_last)


def _loader(chain: IterDataPipe[Any], service: ReadingServiceInterface, seed: int | None) -> DataLoader2[Any]:
    loader = DataLoader2[Any](chain, reading_service=service)
    if seed is not None:
        loader.seed(seed)
    return loader


class _ColumnsInTensors(OneToOne[Any]):
    """Yield batches of columns as dicts of tensors, and anything else as it is: rows, and pairs of tensors."""

    keeps_rows = True
    shown_as = "iter_torch_batches"

    def __init__(
        self, source: IterDataPipe[Any], dtypes: Dtypes | None, leave: Callable[[Any], bool], copies: bool
    ) -> None:
        self.source = source
        self.dtypes = dtypes
        self.leave = leave
        self.copies = copies

    def _function(self) -> Callable[[Any], Any]:
        return lambda item: item if self.leave(item) else self._tensors(as_batch(item))

    def _tensors(self, batch: Any) -> dict[str, Any]:
        rows_in(batch)  # raises where columns differ in it
        tensors = tensors_of(batch, dtypes=self.dtypes)
        return own_copy(tensors) if self.copies else tensors


def _keeps_items(chain: Any) -> bool:
    """Say whether a step keeps items for later passes, which a program that changes a batch would change."""
    steps: Any = walk(chain)
    return any(type(step).payload or "caches" in type(step).traits for step in steps if isinstance(step, IterDataPipe))


def _is_of_ranks(service: ReadingServiceInterface) -> bool:
    if isinstance(service, SequentialReadingService):
        return any(map(_is_of_ranks, service.reading_services))
    return isinstance(service, DistributedReadingService)


def _is_no_batch(dtypes: Dtypes | None, item: Any) -> bool:
    if may_be_batch(item):
        return False
    if dtypes is not None:
        raise TypeError("dtypes are those of columns, and this item is no batch: give a batch_size for rows")
    return True


class _Cutter(Rebatcher):
    """Yield column batches cut to a size, in the main process: many small ones would be slow to receive."""

    in_main_process = True
    shown_as = "iter_torch_batches"


class _Finisher(OneToOne[Any]):
    """Yield the loader's final batches: collated, and with their dtypes."""

    shown_as = "iter_torch_batches"

    def __init__(
        self,
        source: IterDataPipe[Any],
        collate_fn: Callable[[Any], Any] | None = None,
        dtypes: Dtypes | None = None,
    ) -> None:
        self.source = source
        self.collate_fn = collate_fn
        self.dtypes = dtypes

    def _function(self) -> Callable[[Any], Any]:
        collate_fn = self.collate_fn
        return self._collated if collate_fn is None else lambda batch: collate_fn(out_of_batch(batch))

    def _collated(self, batch: Any) -> Any:
        rows = out_of_batch(batch)
        if rows is batch:
            return batch
        collated = default_collated(rows)
        if self.dtypes is None:
            return collated
        if not isinstance(collated, Mapping):
            kind = type(rows[0]).__name__
            raise TypeError(f"dtypes are those of columns, and the rows have none: they are of type {kind}")
        return tensors_of(collated, dtypes=self.dtypes)
