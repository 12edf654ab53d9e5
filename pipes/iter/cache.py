"""Items that are kept in memory once they were read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, islice
from typing import TypeVar

from ...registry import IterDataPipe, functional_datapipe
from ...registry.reading import Node, Trail
from ...registry.seeds import seeds_of
from ..bases.sizes import size_of

T = TypeVar("T")


@functional_datapipe("in_memory_cache")
class InMemoryCacheHolder(IterDataPipe[T]):
    """Yield the items of the source, and keep them: every pass after a whole one gives the same again from memory.

    With a `size`, in megabytes (of 2**20 bytes), the items up to the first that would be too much are kept, and a
    warning says how many; the rest is read from the source in each pass. An item counts with all the memory that it
    holds: tensors, arrays, bytes, text, and what containers and objects have in them. What a pass that was given up
    had read is dropped, unless the limit was reached.

    The same objects are handed out in every pass, so what changes them in place changes them for ever, and streams are
    at their end: read these before. All passes have the order of the first: shuffle behind, not before. Where only one
    branch of a fork has a cache, the others find, from the second pass on, that it is not read in step with them: cache
    before the fork. The items belong to the process, which is to say to each worker: they do not travel with pickles,
    copies or states, and a resumed pass reads the source again from its start.

    >>> dp = IterableWrapper(range(3)).map(lambda x: print("reading", x) or x).in_memory_cache()
    >>> list(dp), list(dp)
    reading 0
    reading 1
    reading 2
    ([0, 1, 2], [0, 1, 2])
    """

    gives = "same"
    keeps_schema = True
    payload = ("_kept",)
    transient = ("_kept", "_rest", "_filled", "_seeds")

    _kept: list[T]
    _rest: tuple[Node | None, int] | None = None
    """Where the source goes on behind the kept items: a state of it, and how many items to skip from there."""
    _filled = False
    """Whether the kept items are all there are, or all that there is room for."""
    _seeds: list[int | None] = []
    """The seeds of the source when they were kept."""

    def __init__(self, source: IterDataPipe[T], size: float | None = None) -> None:
        if size is not None and not size >= 0:
            raise ValueError(f"size must be in megabytes, at least 0, and is {size}")
        self.source = source
        self.size = size

    def __iter__(self) -> Iterator[T]:
        assert self._pass is not None
        self._pass.as_the_first()  # so a pass that has to read the source anew has the order of the first
        if self._filled and self._seeds == seeds_of(self.source):
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
            room = self.size * 2**20
            trail = Trail(self.source, None, 0)
            trail.needed = lambda: len(kept)
            for item in trail.items():
                if not self._filled:
                    room -= size_of(item)
                    if room >= 0:
                        kept.append(item)
                    else:
                        node, [at, oldest, _] = trail.way_back()
                        self._rest = node, oldest - at
                        self._filled = True
                        warnings.warn(
                            f"in_memory_cache has room for {len(kept)} items in its {self.size} MB, and reads those "
                            "after them from its source in each pass",
                            stacklevel=2,
                        )
                yield item
        self._filled = True

    def _behind_the_kept(self) -> Iterator[T]:
        if self._rest is not None and self._pass is not None:
            node, skip = self._rest
            self._pass.begin_at(self.source, node)
            yield from islice(self.source, skip, None)
