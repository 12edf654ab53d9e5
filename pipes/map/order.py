"""The same items in another order."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Self, TypeVar

import numpy as np

from ...registry import MapDataPipe, Seeded, functional_datapipe
from ..iter.convert import MapToIterConverter

T = TypeVar("T")

_AT_A_TIME = 4096


@functional_datapipe("shuffle", on=MapDataPipe)
class Shuffler(Seeded, MapToIterConverter[T]):
    """Yield the items of a map-style pipe in a random order, another one in each pass.

    The result is read item by item, since it has an order. `indices` are those to shuffle, by default 0, 1, 2, …; a
    pipe that is read by other keys needs them.

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

    def _order(self) -> Iterable[Any]:
        in_order = super()._order()
        if not self._enabled:
            return in_order
        indices = in_order if isinstance(in_order, range) else list(in_order)
        order = np.random.default_rng(self.pass_seed).permutation(len(indices))
        # Numbers of Python's are quicker to use than NumPy's, but larger: they are made as they are needed.
        numbers = chain.from_iterable(order[at : at + _AT_A_TIME].tolist() for at in range(0, len(order), _AT_A_TIME))
        return numbers if self.indices is None else map(indices.__getitem__, numbers)
