"""Shuffle items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...registry import DataChunk, IterDataPipe, T, expect_whole, functional_datapipe, own
from ..bases.drawing import Shuffling, in_random_order


@functional_datapipe("shuffle")
class Shuffler(Shuffling[T]):
    """Yield the items in a random order, drawn from a buffer of `buffer_size` items.

    The buffer is filled first. Then each item is drawn from it uniformly, and the next item of the source takes its
    place. A buffer at least as large as the stream shuffles it fully; size 1 keeps the order. With `unbatch_level`, the
    source is first unbatched by that many levels.

    A state has the numbers of the items in the buffer, not the items; resuming reads them again.

    >>> dp = IterableWrapper(range(6)).shuffle().set_seed(1)
    >>> sorted(dp)
    [0, 1, 2, 3, 4, 5]
    """

    traits = ("shuffles",)
    buffers = ("buffer_size",)
    gives = "same"
    keeps_schema = True
    resumes_from_start = False
    held: list[int] = own(list)
    """The numbers of the items in the buffer, slot by slot."""

    def __init__(self, source: IterDataPipe[T], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        expect_whole("buffer_size", buffer_size)
        self.source = source.unbatch(unbatch_level=unbatch_level) if unbatch_level else source
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[T]:
        if not self.is_random:
            yield from self.source
            return
        size, draws, numbers = self.buffer_size, self._draws(), self.held
        items = self.read(self.source)
        items.keep_from(lambda: min(numbers, default=None))
        again = items.again(numbers)
        buffer: list[T] = [again.pop(number) for number in numbers]
        for number, item in items:
            if len(buffer) < size:
                buffer.append(item)
                numbers.append(number)
                continue
            slot = int(next(draws) * size)
            drawn, buffer[slot], numbers[slot] = buffer[slot], item, number
            yield drawn
        while buffer:
            slot = int(next(draws) * len(buffer))
            buffer[slot], buffer[-1] = buffer[-1], buffer[slot]
            numbers[slot] = numbers[-1]
            numbers.pop()
            yield buffer.pop()

    def __len__(self) -> int:
        return len(self.source)


@functional_datapipe("in_batch_shuffle")
class InBatchShuffler(Shuffling[DataChunk[T]]):
    """Yield each batch with its items in a random order, as a new list.

    Raises TypeError for an item without a length or without an index.

    >>> dp = IterableWrapper(range(6)).batch(3).in_batch_shuffle().set_seed(1)
    >>> [sorted(batch) for batch in dp]
    [[0, 1, 2], [3, 4, 5]]
    """

    resumes_from_start = False

    def __init__(self, source: IterDataPipe[Any]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[DataChunk[T]]:
        draws = self._draws()
        for item in self.source:
            if not hasattr(item, "__len__") or not hasattr(item, "__getitem__"):
                raise TypeError(f"in_batch_shuffle reads batches, such as lists, and this is a {type(item).__name__}")
            yield DataChunk(in_random_order(item, draws)) if self.is_random else item

    def __len__(self) -> int:
        return len(self.source)
