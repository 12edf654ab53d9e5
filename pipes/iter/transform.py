"""One item in, what a function makes of it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from ...registry import IterDataPipe, functional_datapipe
T = TypeVar("T")
R = TypeVar("R")

@functional_datapipe("map")
class Mapper(IterDataPipe[R]):
    """Yield fn(item) for each item.

    >>> dp = IterableWrapper(range(3)).map(lambda x: x + 1)
    >>> list(dp)
    [1, 2, 3]
    """
    holds_items = False
    def __init__(self, source, fn, input_col=None, output_col=None):
        self.source = source
        self.fn = fn
    def __iter__(self):
        return map(self.fn, self.source)
    def __len__(self): return len(self.source)

@functional_datapipe("filter")
class Filter(IterDataPipe[R]):
    holds_items = False
    def __init__(self, source, filter_fn):
        self.source = source
        self.filter_fn = filter_fn
    def __iter__(self):
        return filter(self.filter_fn, self.source)

@functional_datapipe("flatmap")
class FlatMapper(IterDataPipe[R]):
    def __init__(self, source, fn):
        self.source = source
        self.fn = fn
    def __iter__(self):
        for item in self.source:
            yield from self.fn(item)
            self.mark()

@functional_datapipe("batch")
class Batcher(IterDataPipe[R]):
    holds_items = False
    def __init__(self, source, batch_size):
        self.source = source
        self.batch_size = batch_size
    def __iter__(self):
        items = iter(self.source)
        from itertools import islice
        from ...registry import DataChunk
        while batch := DataChunk(islice(items, self.batch_size)):
            yield batch
