"""Take some of the rows: the first ones, or random ones."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Set
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...registry import (
    IterDataPipe,
    Provenance,
    T,
    derive_seed,
    expect_whole,
    functional_datapipe,
    own,
    provenance_of,
    sharding_points,
    uniform_draws,
    walk,
)
from ...state.foreign import declared, declares
from ...storage.addresses import LOCAL
from ..bases.one_to_one import SameItems
from ..columns.batch_rows import as_batch, sliced, taken
from ..columns.rows_or_batches import gives_batches, is_table
from ..columns.to_arrow import rows_in

_UNKNOWN_PLACE = (
    "random_sample draws the same rows in each pass and for any number of workers, so it must know which row of the "
    "data each one is. It does not here: the stream is {why} before it, and the reader does not say which rows of "
    "which file an item has, as after a filter or a function. Put random_sample or train_test_split right after the "
    "source, or after a reader without a filter; or split the files, as in files.train_test_split(0.2), and read each "
    "part, as by .sharding_filter().read_images()"
)


class _RowCounter(SameItems[T]):
    """Yield some of the rows of items or column batches: a base class, which tells the two apart."""

    def _batch_of(self, item: Any) -> Any:
        """Return an item as a batch of rows; None if it is one row."""
        return as_batch(item) if is_table(item) or (self._gives_batches and isinstance(item, Mapping)) else None

    @property
    def _gives_batches(self) -> bool:
        return gives_batches(self.source) is True


@functional_datapipe("limit")
class RowLimiter(_RowCounter[T]):
    """Yield the first `limit` rows: of column batches, the last one is cut; of other items, each is a row.

    Batches are recognized by the operators before, as after `ps.read_parquet`, or as Arrow tables; `header` counts
    items of any kind. After a `sharding_filter`, the rows of all shards are counted together: in a `DataLoader2`, this
    step and all after it run in the loader's process.

    `len` is exact, so it raises TypeError where the length of the source is unknown, and for batches.

    >>> import pyarrow as pa
    >>> dp = IterableWrapper([pa.record_batch({"id": [0, 1]}), pa.record_batch({"id": [2, 3]})]).limit(3)
    >>> [batch.to_pydict() for batch in dp]
    [{'id': [0, 1]}, {'id': [2]}]
    >>> list(IterableWrapper("abc").limit(2))
    ['a', 'b']
    """

    traits = ("limits",)
    resumes_from_start = False
    given: int = own(0)
    """The rows yielded."""
    _cut_to: int | None = own(None, saved=False)
    """The rows that are left of the last batch, if it was cut."""

    def __init__(self, source: IterDataPipe[T], limit: int) -> None:
        expect_whole("limit", limit, least=0)
        self.source = source
        self._limit = limit

    def __iter__(self) -> Iterator[T]:
        left = self._limit - self.given
        if left <= 0:
            return
        for item in self.source:
            batch: Any = self._batch_of(item)
            rows = 1 if batch is None else rows_in(batch)
            if rows > left:
                item, rows = sliced(batch, 0, left), left
                self._cut_to = rows
            self.given += rows
            left -= rows
            yield item
            if not left:
                return

    def provenance(self) -> Provenance | None:
        found = provenance_of(self.source)
        return found if found is None or self._cut_to is None else found.of_rows(0, self._cut_to)

    def result(self) -> RowLimiter[T]:
        return _ShardsLimiter(self.source, self._limit) if sharding_points(self.source) else self

    def __len__(self) -> int:
        if self._gives_batches:
            raise TypeError("the number of batches that have so many rows is unknown")
        return min(len(self.source), self._limit)


class _ShardsLimiter(RowLimiter[T]):
    """Yield the first rows of all shards: in each worker, a limit would let as many through for each shard."""

    in_main_process = True
    shown_as = "limit"

    def result(self) -> RowLimiter[T]:
        return self


@functional_datapipe("random_sample")
class RowSampler(_RowCounter[T]):
    """Yield a random share of the rows, `fraction`, in their order: each row is drawn by itself.

    The items are column batches, as after `ps.read_parquet`, or rows. The same seed draws the same rows: in each pass,
    for any number of workers, whatever the order of the files. A row of a file is drawn by the file's absolute address
    and its number there, any other row by its place in the stream. Rows of CSV and JSON are numbered by block, so that
    they are the same for the same `block_size`. `complement=True` gives exactly the rows that are not drawn. Batches
    without a row are left out.

    Raises TypeError or ValueError for a `fraction` outside of 0 to 1. While it is read, raises ValueError where the
    place of a row is unknown: after a shuffle, a cycle or a `sharding_filter` of items that are no rows of files, and
    over an iterator or a set.

    >>> dp = IterableWrapper(range(10)).random_sample(0.3, seed=5)
    >>> list(dp)
    [2, 4, 9]
    >>> list(IterableWrapper(range(10)).random_sample(0.3, seed=5, complement=True))
    [0, 1, 3, 5, 6, 7, 8]
    """

    traits = ("drops",)
    resumes_from_start = False
    seen: int = own(0)
    """The rows read."""

    def __init__(self, source: IterDataPipe[T], fraction: float, seed: int = 0, *, complement: bool = False) -> None:
        if not isinstance(fraction, (int, float)) or isinstance(fraction, bool):
            raise TypeError(f"fraction must be a number from 0 to 1, and is {fraction!r:.100}")
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be from 0 to 1, and is {fraction}")
        expect_whole("seed", seed, least=0)
        self.source = source
        self.fraction = fraction
        self.seed = seed
        self.complement = complement

    def __iter__(self) -> Iterator[T]:
        unsettled = self._why_places_change()
        for item in self.source:
            batch: Any = self._batch_of(item)
            rows = 1 if batch is None else rows_in(batch)
            drawn = (self._draws(rows, unsettled) < self.fraction) != self.complement
            self.seen += rows
            if drawn.all():
                yield item
            elif drawn.any():
                yield taken(batch, np.flatnonzero(drawn))

    def _draws(self, rows: int, unsettled: str | None) -> NDArray[np.float64]:
        """Return a random number for each row of the last item."""
        found = provenance_of(self.source)
        places = () if found is None or not found.in_order else found.places
        if not places or any(place.rows is None for place in places):
            if unsettled is not None:
                raise ValueError(_UNKNOWN_PLACE.format(why=unsettled))
            return _from(self.seed, self.seen, rows)
        parts = []
        for place in places:
            assert place.rows is not None
            name = f"{_absolute(place.file)}\n{place.part}".encode()
            seed = derive_seed(self.seed, zlib.crc32(name), zlib.adler32(name))
            parts.append(_from(seed, place.rows.start, len(place.rows)))
        return np.concatenate(parts)

    def _why_places_change(self) -> str | None:
        """Return why the place in the stream does not tell which row it is; None if it does."""
        if sharding_points(self.source):
            return "divided into shards"
        for step in walk(self.source):
            if declares(step, "set_seed"):
                return "shuffled"
            if "cycles" in declared(step, "traits", ()):
                return "read again and again"
            if vars(step).get("ordered") is False:
                return "in no fixed order"
            payload = [vars(step).get(name) for name in declared(step, "payload", ())]
            if any(isinstance(items, (Iterator, Set)) for items in payload):
                return "of an iterator or a set"
        return None

    def provenance(self) -> Provenance | None:
        found = provenance_of(self.source)
        return None if found is None else found.changed()


def _absolute(file: str) -> str:
    """Return the same text for a local file, however its path was given."""
    scheme, mark, path = file.rpartition("://")
    return os.path.abspath(path) if not mark or scheme in LOCAL else file


def _from(seed: int, start: int, rows: int) -> NDArray[np.float64]:
    return np.fromiter(islice(uniform_draws(seed, start), rows), np.float64, rows)
