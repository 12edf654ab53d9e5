"""Items that are kept in memory once they were read."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, TypeVar

from ...registry import IterDataPipe, Node, Tally, Trail, capture, functional_datapipe, hand_down
from ..sizes import size_of

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
    holds_items = False
    payload = ("_kept",)
    transient = ("_kept", "_rest", "_filled", "_origin", "_tally", "_skip")

    _kept: list[T]
    _origin: Node | None = None
    """Where the source stood before the first pass: one that has to read it anew has the order of the first."""
    _rest: tuple[Node, int] | None = None
    """Where the source goes on behind the kept items: a state of it, and how many items to skip from there."""
    _filled = False
    """Whether the kept items are all there are, or all that there is room for."""

    def __init__(self, source: IterDataPipe[T], size: float | None = None) -> None:
        if size is not None and not size >= 0:
            raise ValueError(f"size must be in megabytes, at least 0, and is {size}")
        self.source = source
        self.size = size

    def reset(self) -> None:
        self._skip = 0

    def node_of_repeated_pass(self) -> Node | None:
        return {"at": "start", "sources": [self._origin]} if self._origin else None

    def seeds_taken(self) -> None:
        self._origin, self._filled = None, False  # what is kept may be of another pass than that to come

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        return {"position": self._skip + self._tally.items}, [self._origin or {}]

    def set_state(self, state: dict[str, Any]) -> None:
        self._skip = state["position"]

    def __iter__(self) -> Iterator[T]:
        if not self._filled:
            self._kept, self._rest = [], None
            if self._origin is None:
                self._origin = capture(self.source)
            else:
                hand_down(self.source, self._origin)
        self._tally = Tally()
        items = chain(self._kept, self._behind_the_kept()) if self._filled else self._fill()
        return self._tally.follow(islice(items, self._skip, None))

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
            trail = Trail(self.source, lambda: len(kept))
            for item in trail:
                if not self._filled:
                    room -= size_of(item)
                    if room >= 0:
                        kept.append(item)
                    else:
                        self._rest = trail.way_back()
                        self._filled = True
                        warnings.warn(
                            f"in_memory_cache has room for {len(kept)} items in its {self.size} MB, and reads those "
                            "after them from its source in each pass",
                            stacklevel=2,
                        )
                yield item
        self._filled = True

    def _behind_the_kept(self) -> Iterator[T]:
        if self._rest is not None:
            node, skip = self._rest
            hand_down(self.source, node)
            yield from islice(self.source, skip, None)
