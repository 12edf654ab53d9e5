"""Keep items in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, islice

from ...errors.checks import expect_number
from ...registry import IterDataPipe, T, functional_datapipe
from ...state.node import Node
from ...state.replay import ReplayLog
from ...state.seeds import FIRST_PASS, seeds_of
from ..bases.sizes import size_of


@functional_datapipe("in_memory_cache")
class InMemoryCacheHolder(IterDataPipe[T]):
    """Yield the items of the source, and keep them: after a complete pass, later ones read from memory.

    With a `size`, in megabytes (of 2**20 bytes), items are kept up to the first one over the limit, and a warning gives
    their number. Each pass reads the rest from the source. The size of an item includes the tensors, arrays, bytes and
    text in its containers and objects. If a pass is abandoned before the limit is reached, its items are dropped.

    Every pass yields the same objects. Changes in place are permanent, and a stream is at its end after the first pass:
    read streams before the cache. All passes have the order of the first: shuffle after the cache, not before. Cache
    before a fork: with a cache in one branch only, the branches are not read in step from the second pass on. Items are
    kept per process, so per worker. Pickles, copies and states do not contain them, and a resumed pass reads the source
    again from its start.

    >>> dp = IterableWrapper(range(3)).map(lambda x: print("reading", x) or x).in_memory_cache()
    >>> list(dp), list(dp)
    reading 0
    reading 1
    reading 2
    ([0, 1, 2], [0, 1, 2])
    """

    traits = ("caches",)
    buffers = ("size",)
    gives = "same"
    keeps_schema = True
    payload = ("_kept",)
    transient = ("_kept", "_rest", "_filled", "_seeds")

    _kept: list[T]
    _rest: tuple[Node | None, int] | None = None
    """Where the source continues after the kept items: a state, and the number of items to skip from there."""
    _filled = False
    """Whether the cache is complete or full."""
    _seeds: list[int | None] = []
    """The seeds of the source when the items were kept."""

    def __init__(self, source: IterDataPipe[T], size: float | None = None) -> None:
        if size is not None:
            expect_number("size", size)
        if size is not None and not size >= 0:
            raise ValueError(f"size must be in megabytes, at least 0, and is {size}")
        self.source = source
        self.size = size

    def __iter__(self) -> Iterator[T]:
        assert self._pass is not None
        link = self._pass.link_of(self.source)
        link.path = FIRST_PASS  # a pass that reads the source again keeps the order of the first
        link.begin_at(None)
        if self._filled and self._seeds == seeds_of(self.source):
            self._warn_of_streams()
            return chain(self._kept, self._behind_the_kept())
        self._kept, self._rest, self._filled, self._seeds = [], None, False, seeds_of(self.source)
        return self._fill()

    def __len__(self) -> int:
        return len(self.source)

    def _fill(self) -> Iterator[T]:
        kept = self._kept
        if self.size is None:
            for item in self.source:
                kept.append(item)
                yield item
        else:
            assert self._pass is not None
            room = self.size * 2**20
            log = ReplayLog(self._pass.link_of(self.source).source(), None, 0)  # no part of the state
            log.needed = lambda: len(kept)
            for item in log.items():
                if not self._filled:
                    room -= size_of(item)
                    if room >= 0:
                        kept.append(item)
                    else:
                        node, [at, oldest, _] = log.restart()
                        self._rest = node, oldest - at
                        self._filled = True
                        warnings.warn(
                            f"in_memory_cache has room for {len(kept)} items in its {self.size} MB, and reads those "
                            "after them from its source in each pass",
                            stacklevel=2,
                        )
                yield item
        self._filled = True

    def _warn_of_streams(self) -> None:
        first = self._kept[0] if self._kept else None
        parts = first.values() if isinstance(first, dict) else first if isinstance(first, (tuple, list)) else (first,)
        if any(callable(getattr(part, "read", None)) for part in parts):
            warnings.warn(
                "in_memory_cache keeps open streams, which an earlier pass has read to their end: read them before the "
                "cache, as by .read_from_stream()",
                stacklevel=2,
            )

    def _behind_the_kept(self) -> Iterator[T]:
        if self._rest is not None and self._pass is not None:
            node, skip = self._rest
            self._pass.link_of(self.source).begin_at(node)
            yield from islice(self.source, skip, None)
