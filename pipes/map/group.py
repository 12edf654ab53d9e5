"""Several items become one."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ...registry import DataChunk, MapDataPipe, T, add_error_context, functional_datapipe
from ..bases.arguments import expect_batching
from ..bases.indexing import FetchItems, fetch_items, fetcher, from_start


@functional_datapipe("batch")
class Batcher(MapDataPipe[Any]):
    """Give batches of `batch_size` items; the last may be shorter, or is left out with `drop_last`.

    The source is read by 0, 1, 2, …. Batches are numbered from 0, and negative numbers count from the end.
    `wrapper_class` makes a batch of a list; torch's `unbatch` knows the default. Where the source has `__getitems__`,
    one call of it reads a batch.

    >>> dp = SequenceWrapper("abcde").batch(2)
    >>> dp[0], dp[-1], len(dp)
    (['a', 'b'], ['e'], 3)
    """

    traits = ("batches",)

    def __init__(
        self,
        source: MapDataPipe[T],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[T]], Any] = DataChunk,
    ) -> None:
        expect_batching(batch_size, wrapper_class)
        self.source = source
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class: Callable[[list[Any]], Any] = wrapper_class

    def __getitem__(self, index: Any) -> Any:
        source, size = self.source, self.batch_size
        try:
            if type(index) is slice:
                return self._sliced(index)
            length = len(source)
            start = operator.index(index) * size
            if not 0 <= start <= length - size:  # no full batch starts there
                start = from_start(index, self._batches_of(length)) * size
            numbers = range(start, min(start + size, length))
            if self._together is None:
                return self.wrapper_class([source[number] for number in numbers])
            return self.wrapper_class([*fetch_items(self, self._together, [*numbers])])
        except Exception as error:
            add_error_context(error, self, index)
            raise

    @functools.cached_property
    def _together(self) -> FetchItems[Any] | None:
        return fetcher(self.source)

    def __len__(self) -> int:
        return self._batches_of(len(self.source))

    def _batches_of(self, length: int) -> int:
        full, rest = divmod(length, self.batch_size)
        return full + (rest > 0 and not self.drop_last)
