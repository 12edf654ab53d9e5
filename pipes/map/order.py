"""The same items in another order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np

from ...registry import MapDataPipe, Seeded, functional_datapipe
from ..bases.permutation import Permutation
from ..iter.convert import MapToIterConverter

T = TypeVar("T")

_AT_A_TIME = 8192
"""Numbers computed together: fewer cost more each, more wait in memory, of each of the shards that a process reads."""


@functional_datapipe("shuffle", on=MapDataPipe)
class Shuffler(Seeded, MapToIterConverter[T]):
    """Yield the items of a map-style pipe in a random order, another one in each pass.

    The result is read item by item, since it has an order. `indices` are those to shuffle, by default 0, 1, 2, …; a
    pipe that is read by other keys needs them.

    The shuffle is global, over all items, and takes no memory: the order is computed piece by piece (see
    `penstock.pipes.bases.permutation`), and one of 10**9 begins, and resumes anywhere, at once. Up to 65,536 items
    all orders are equally likely. A `sharding_filter` right after it has only its own items read, and a `batch` right
    after either has those of each batch read by one call of `__getitems__`, where `source` has that.

    >>> dp = SequenceWrapper(range(6)).shuffle().set_seed(1)
    >>> sorted(dp)
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, source: MapDataPipe[T], *, indices: Iterable[Any] | None = None) -> None:
        super().__init__(source, indices)
        self._enabled = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Switch shuffling on or off from the next pass on."""
        self._enabled = shuffle
        return self

    def _order(self, start: int, step: int) -> Iterable[Any]:
        if not self._enabled:
            return super()._order(start, step)
        if self.indices is None:
            return self._places(len(self.source), start, step)
        indices = self.indices if isinstance(self.indices, range) else [*self.indices]
        return map(indices.__getitem__, self._places(len(indices), start, step))

    def _places(self, n: int, start: int, step: int) -> Iterator[int]:
        """The numbers below n in this pass's order, from place `start` on, every `step`-th of them."""
        order = Permutation(self.pass_seed, n)
        places = range(n)[start::step]
        some = (places[at : at + _AT_A_TIME] for at in range(0, len(places), _AT_A_TIME))
        # Numbers of Python's are quicker to use than NumPy's, but larger: they are made as they are needed.
        return chain.from_iterable(
            order.at(np.arange(each.start, each.stop, each.step, dtype=np.uint64)).tolist() for each in some
        )
