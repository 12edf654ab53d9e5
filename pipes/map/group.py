"""Several items become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...registry import DataChunk, MapDataPipe, functional_datapipe
from ..arguments import expect_batching
from .index import from_start

T = TypeVar("T")


@functional_datapipe("batch")
class Batcher(MapDataPipe[Any]):
    """Give batches of `batch_size` items; the last one is shorter, or left out with `drop_last`, where they do not fit.

    The source is read by 0, 1, 2, …. Batches are numbered from 0, and negative numbers count from the end.
    `wrapper_class` makes a batch of a list; the default is a list that torch's `unbatch` knows.

    >>> dp = SequenceWrapper("abcde").batch(2)
    >>> dp[0], dp[-1], len(dp)
    (['a', 'b'], ['e'], 3)
    """

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

    def __getitem__(self, index: int) -> Any:
        start = from_start(index, len(self)) * self.batch_size
        stop = min(start + self.batch_size, len(self.source))
        return self.wrapper_class([self.source[number] for number in range(start, stop)])

    def __len__(self) -> int:
        full, rest = divmod(len(self.source), self.batch_size)
        return full + (rest > 0 and not self.drop_last)
