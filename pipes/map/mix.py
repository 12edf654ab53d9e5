"""Several map-style pipes in constant proportions."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

from ...registry import MapDataPipe, T, add_error_context, functional_datapipe
from ...state.foreign import TorchMapDataPipe
from ..bases.arguments import expect_pipes, expect_weights
from ..bases.indexing import Fetching, from_start


@functional_datapipe("mix")
class Mixer(Fetching[T]):
    """Give the items of several sources, in order, in the proportions of `weights`: nothing is drawn.

    `weights` has one number for each source, the first included; without them all are equal. Among the first n items, a
    source has its share of n, but for less than one item for each source. The mix ends before a source would have to
    give more items than it has: repeat the short ones, as by `a.repeat(3).mix(b, weights=[1, 2])`. The sources are read
    by 0, 1, 2, …: shuffle the mix, or what is in the sources.

    Raises TypeError for weights that are not a list of numbers, and ValueError where their number differs from that of
    the sources, or a weight is not finite and positive.

    >>> dp = SequenceWrapper("aaaa").mix(SequenceWrapper("bb"), weights=[2, 1])
    >>> list(dp), dp[-1]
    (['a', 'a', 'b', 'a', 'a', 'b'], 'b')
    """

    traits = ("merges",)
    gives = "same"
    keeps_schema = True

    def __init__(self, *sources: MapDataPipe[T], weights: Sequence[float] | None = None) -> None:
        expect_pipes(type(self).__name__, sources, TorchMapDataPipe)
        if weights is not None:
            expect_weights(weights, len(sources))
        self.sources = sources
        self.weights = None if weights is None else [*map(float, weights)]

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            source, at = _place(self._shares, from_start(index, len(self)))
            return self.sources[source][at]
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _fetch(self, indices: list[Any]) -> Sequence[T]:
        length = len(self)
        places = [_place(self._shares, from_start(index, length)) for index in indices]
        found: dict[tuple[int, int], T] = {}
        for number, source in enumerate(self.sources):
            if mine := [at for each, at in places if each == number]:
                items = source.__getitems__(mine)  # type: ignore[attr-defined]
                found.update(zip([(number, at) for at in mine], items, strict=True))
        return [found[place] for place in places]

    @functools.cached_property
    def _shares(self) -> tuple[Fraction, ...]:
        """The share of each source in what is left to it and the sources after it."""
        weights = [Fraction(weight) for weight in self.weights or [1] * len(self.sources)]
        left = [*accumulate(reversed(weights))][::-1]
        return tuple(weight / rest for weight, rest in zip(weights, left, strict=True))

    def __len__(self) -> int:
        return _length(self._shares, tuple(map(len, self.sources)))


def _place(shares: tuple[Fraction, ...], number: int) -> tuple[int, int]:
    """Return the source of the item `number`, and the index of the item there."""
    for source, share in enumerate(shares):
        at = _rounded_up(share, number)
        if _rounded_up(share, number + 1) > at:
            return source, at
        number -= at
    raise AssertionError("the last source has all that is left")


def _rounded_up(share: Fraction, number: int) -> int:
    return -(-share.numerator * number // share.denominator)


@functools.lru_cache(maxsize=64)
def _length(shares: tuple[Fraction, ...], lengths: tuple[int, ...]) -> int:
    """Return the largest number of items for which no source needs more than it has."""

    def is_too_long(number: int) -> bool:
        for share, length in zip(shares, lengths, strict=True):
            own = _rounded_up(share, number)
            if own > length:
                return True
            number -= own
        return False

    return bisect_left(range(1, sum(lengths) + 1), True, key=is_too_long)
