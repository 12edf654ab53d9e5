"""Several items made into one, and one into several."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, TypeVar

from ...registry import DataChunk, IterDataPipe, functional_datapipe
from ..arguments import expect_batching

T = TypeVar("T")


@functional_datapipe("batch")
class Batcher(IterDataPipe[DataChunk[T]]):
    """Yield lists of `batch_size` items; the last may be shorter, or is dropped with `drop_last`.

    `wrapper_class` makes the batch out of a list; a `DataChunk` is a list.

    >>> dp = IterableWrapper(range(5)).batch(2)
    >>> list(dp)
    [[0, 1], [2, 3], [4]]
    >>> list(IterableWrapper(range(5)).batch(2, drop_last=True, wrapper_class=tuple))
    [(0, 1), (2, 3)]
    """

    holds_items = False

    def __init__(
        self,
        source: IterDataPipe[T],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[T]], Any] = DataChunk,
    ) -> None:
        expect_batching(batch_size, wrapper_class)
        self.source = source
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[DataChunk[T]]:
        items = iter(self.source)
        while batch := list(islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe[Any]):
    """Yield the items of each batch, which is a list; at `unbatch_level` 2 the items of the lists in it, and so on.

    At level -1 lists in lists are flattened however deep they are, and what is no list is yielded as it is. At level 0
    nothing is flattened. Tuples are items, not batches.

    Raises IndexError for a batch that is nested less deep than `unbatch_level`.

    >>> dp = IterableWrapper([[1, 2], [3]]).unbatch()
    >>> list(dp)
    [1, 2, 3]
    >>> list(IterableWrapper([[1, [2, [3, 4]]], 5]).unbatch(-1))
    [1, 2, 3, 4, 5]
    """

    def __init__(self, source: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        if operator.index(unbatch_level) < -1:
            raise ValueError(f"unbatch_level must be -1 or at least 0, and is {unbatch_level}")
        self.source = source
        self.unbatch_level = unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for item in self.source:
            yield from self._flat(item, self.unbatch_level)
            self.mark()

    def _flat(self, item: Any, level: int) -> Iterable[Any]:
        if isinstance(item, list) and level:
            return item if level == 1 else chain.from_iterable(self._flat(part, level - 1) for part in item)
        if level <= 0:
            return (item,)
        raise IndexError(
            f"unbatch_level {self.unbatch_level} is deeper than the batch, which has a {type(item).__name__} there"
        )
