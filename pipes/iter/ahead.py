"""Reading ahead of the consumer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from ...registry import IterDataPipe, expect_whole, functional_datapipe
from ...registry.metering import as_step
from ..bases.reading_ahead import ReadingThread

T = TypeVar("T")


@functional_datapipe("prefetch")
class Prefetcher(IterDataPipe[T]):
    """Yield the items of the source, read by a thread up to `buffer_size` items ahead.

    The thread starts at the first item requested. It ends with the pass: when that is exhausted, closed or replaced. An
    error from the source is raised in order, after the items before it.

    >>> dp = IterableWrapper(range(4)).prefetch(2)
    >>> list(dp)
    [0, 1, 2, 3]
    """

    buffers = ("buffer_size",)
    gives = "same"
    works_in = "a thread"
    keeps_schema = True
    holds_items = False
    _not_compared = ("buffer_size",)

    def __init__(self, source: IterDataPipe[T], buffer_size: int = 10) -> None:
        expect_whole("buffer_size", buffer_size)
        self.source = source
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[T]:
        items = self.read(self.source)
        with as_step(self.meter):
            reader = ReadingThread(items, self.source, self.buffer_size)
        try:
            for number, item in reader:
                items.keep_from(number + 1)
                yield item
        finally:
            reader.stop()

    def __len__(self) -> int:
        return len(self.source)
