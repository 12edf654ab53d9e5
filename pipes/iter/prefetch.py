"""Reading ahead of the consumer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ...errors.checks import AUTO
from ...registry import IterDataPipe, T, expect_whole, functional_datapipe
from ..bases.ahead.reading_ahead import reader_of
from ..bases.ahead.tuning import Setting, Tuner

_FIRST, _MOST = 4, 1024
"""Where the search for `buffer_size` begins and ends."""


@functional_datapipe("prefetch")
class Prefetcher(IterDataPipe[T]):
    """Yield the items of the source, read by a thread up to `buffer_size` items ahead.

    The thread starts at the first item requested. It ends with the pass: when that is exhausted, closed or replaced. An
    error from the source is raised in order, after the items before it.

    `buffer_size="auto"` finds how many: more while the reader and the thread wait for each other in turn, as for items
    that come or go in bursts. They may take a tenth of the free memory. `stats()` has what was found.

    >>> dp = IterableWrapper(range(4)).prefetch(2)
    >>> list(dp)
    [0, 1, 2, 3]
    """

    buffers = ("buffer_size",)
    gives = "same"
    works_in = "a thread"
    keeps_schema = True
    resumes_from_start = False
    _not_compared = ("buffer_size",)

    def __init__(self, source: IterDataPipe[T], buffer_size: int | Literal["auto"] = 10) -> None:
        expect_whole("buffer_size", buffer_size, or_word=AUTO)
        self.source = source
        self.buffer_size = buffer_size
        self._room = Setting.of("buffer_size", buffer_size, _FIRST, _MOST)
        self.tuner = Tuner("prefetch", Setting.of("threads", 1, 1, 1), self._room) if buffer_size == AUTO else None

    def __iter__(self) -> Iterator[T]:
        items = self.read(self.source)
        reader = reader_of(self.source, self._room.value)
        arriving = iter(reader)
        if self.tuner is not None:
            arriving = self.tuner.follow(arriving, lambda: reader.blocked, lambda _, room: reader.resize(room))
        try:
            reader.start(items)
            for number, item in arriving:
                items.keep_from(number + 1)
                yield item
        finally:
            reader.stop()

    def __len__(self) -> int:
        return len(self.source)
