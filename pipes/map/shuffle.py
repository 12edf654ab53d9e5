"""The same items in another order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Self

import numpy as np

from ...registry import MapDataPipe, Seeded, T, functional_datapipe
from ..bases.permutation import Permutation
from ..iter.convert import MapToIterConverter

_AT_A_TIME = 8192
"""Numbers computed together: fewer cost more each, more take memory in each shard that a process reads."""


@functional_datapipe("shuffle", on=MapDataPipe)
class Shuffler(Seeded, MapToIterConverter[T]):
    """Yield the items of a map-style pipe in a random order, a new one in each pass.

    The result is read item by item, since it has an order. `indices` are those to shuffle, by default 0, 1, 2, …; a
    pipe with other keys needs them.

    The shuffle is global, over all items, and takes no memory: the order is computed in pieces (see
    `penstock.pipes.bases.permutation`), so a shuffle of 10**9 items begins, and resumes anywhere, at once. Up to 65,536
    items all orders are equally likely. A `sharding_filter` right after it reads only its own items. A `batch` right
    after either reads each batch by one `__getitems__` call, where `source` has that.

    >>> dp = SequenceWrapper(range(6)).shuffle().set_seed(1)
    >>> sorted(dp)
    [0, 1, 2, 3, 4, 5]
    """

    traits = ("shuffles",)

    def __init__(self, source: MapDataPipe[T], *, indices: Iterable[Any] | None = None) -> None:
        super().__init__(source, indices)
        self.is_random = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Switch shuffling on or off from the next pass on."""
        self.is_random = shuffle
        return self

    def _order(self, start: int, step: int) -> Iterable[Any]:
        if not self.is_random:
            return super()._order(start, step)
        if self.indices is None:
            return self._places(len(self.source), start, step)
        indices = self.indices if isinstance(self.indices, range) else [*self.indices]
        return map(indices.__getitem__, self._places(len(indices), start, step))

    def _places(self, n: int, start: int, step: int) -> Iterator[int]:
        """Return every `step`-th number below n in this pass's order, from position `start` on."""
        order = Permutation(self.pass_seed, n)
        places = range(n)[start::step]
        some = (places[at : at + _AT_A_TIME] for at in range(0, len(places), _AT_A_TIME))
        # Python ints are faster to use than NumPy's, but larger, so they are made on demand.
        return chain.from_iterable(
            order.at(np.arange(each.start, each.stop, each.step, dtype=np.uint64)).tolist() for each in some
        )
