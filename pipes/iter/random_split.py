"""Split a stream at random into disjoint groups."""

from __future__ import annotations

import copy
import math
import operator
import random
import warnings
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from itertools import compress, islice
from typing import Any, Self

from torch.utils.data import SequentialSampler

from ...registry import IterDataPipe, T, Tally, expect_whole, functional_datapipe, own, walk
from ...state.foreign import declares
from ..bases.one_to_one import SameItems
from .create import Sampler

Seed = int | float | str


class _Split:
    """The seed that the groups of one split share."""

    def __init__(self, seed: Seed) -> None:
        self.set(seed)

    def set(self, seed: Seed) -> None:
        """Set the seed; raise TypeError for one that states cannot hold."""
        if not isinstance(seed, (float, str)) and not hasattr(seed, "__index__"):
            raise TypeError(f"a seed must be a number or text, and is {seed!r:.100}")
        self.seed = seed if isinstance(seed, (float, str)) else operator.index(seed)  # an integer of NumPy, too


@functional_datapipe("random_split")
class RandomSplitter(SameItems[T]):
    """Give a list of pipes, one for each key in `weights`, that share out the items of the source at random.

    Every pass gives the same split, until `override_seed` sets another seed. Weights are scaled to add up to the length
    of the source. Where they are whole numbers then, these are the exact sizes of the groups; otherwise sizes are
    approximate. With a key as `target`, the result is the pipe of that group alone, the same for the same seed.

    `total_length` is the number of items in the source, needed where its `len` is unknown.

    Each pipe reads the complete source and keeps its own items. Read the pipes one after the other, or from copies of
    the chain, as loaders make them. The source must have a fixed order: shuffle the groups instead.

    Raises ValueError for `seed=None`, and where the source gives more than `total_length` items.

    >>> dp, valid = IterableWrapper(range(10)).random_split({"train": 0.5, "valid": 0.5}, seed=0)
    >>> list(dp)
    [2, 3, 5, 7, 8]
    >>> list(valid), len(valid)
    ([0, 1, 4, 6, 9], 5)
    """

    traits = ("drops",)
    resumes_from_start = False
    split_seed: Seed | None = own(None)
    """The seed of this pass."""
    drawn: Tally = own(Tally)

    def __init__(
        self,
        source: IterDataPipe[T],
        weights: dict[Any, float],
        seed: Seed,
        total_length: int | None = None,
        target: Hashable | None = None,
    ) -> None:
        if seed is None:
            raise ValueError(
                "random_split needs a seed: without one, another run would put items of one group into another"
            )
        if not isinstance(weights, Mapping):
            raise TypeError(f"weights must be a dict from groups to numbers, and is {weights!r:.100}")
        if not weights or any(weight < 0 for weight in weights.values()) or not sum(weights.values()):
            raise ValueError(f"weights must be a dict from groups to numbers, not all 0, and is {weights!r:.200}")
        if target is not None and target not in weights:
            raise KeyError(f"target must be one of the groups {[*weights]}, and is {target!r}")
        if total_length is None:
            try:
                len(source)
            except TypeError as error:
                raise TypeError("random_split needs total_length where the length of the source is unknown") from error
        else:
            expect_whole("total_length", total_length, least=0)
        self.source = source
        self.weights = OrderedDict(weights)  # groups are drawn in this order
        self.seed = seed
        self.total_length = total_length
        self.target = target
        self._split = _Split(seed)
        if any(map(_draws_an_order, walk(source))):
            warnings.warn(
                "the source of random_split gives its items in another order each time, so that the groups, which read "
                "it one after the other, may share items: split first, and shuffle the groups",
                stacklevel=4,
            )

    def result(self) -> list[IterDataPipe[T]] | RandomSplitter[T]:
        """Return the pipe of the target, or a list of the pipes of all groups."""
        if self.target is not None:
            return self
        groups = [copy.copy(self) for _ in self.weights]  # they share one split
        for group, key in zip(groups, self.weights, strict=True):
            group.target = key
        return [*groups]

    def override_seed(self, seed: Seed) -> Self:
        """Set another seed for all groups of this split, from the next pass on."""
        self._split.set(seed)
        return self

    def random_state(self) -> dict[str, Any]:
        """Return the seed of the next pass."""
        return {"seed": self._split.seed}

    def set_random_state(self, state: dict[str, Any]) -> None:
        """Set the seed of the next pass. Raises TypeError for one that is no number or text."""
        self.override_seed(state["seed"])

    def __iter__(self) -> Iterator[T]:
        if self.split_seed is None:
            self.split_seed = self._split.seed
        still_to_come = islice(self._are_its_own(self.split_seed), self.drawn.items, None)
        return compress(self.source, self.drawn.follow(still_to_come))

    def at_end(self) -> None:
        if self.total_length is not None and self.drawn.items < self.total_length:
            warnings.warn(
                f"the source of random_split gave {self.drawn.items:,} items, and total_length is "
                f"{self.total_length:,}: the groups have other shares than their weights; give total_length as many "
                "items as there are",
                stacklevel=2,
            )

    def __len__(self) -> int:
        shares = self._shares()
        if any(not share.is_integer() for share in shares.values()) or sum(shares.values()) != self._total():
            raise TypeError(
                "how many items each group of random_split gets is random, unless its weights, scaled to the "
                f"{self._total()} items, are whole numbers"
            )
        return int(shares[self.target])

    def _total(self) -> int:
        return len(self.source) if self.total_length is None else self.total_length

    def _shares(self) -> dict[Any, float]:
        total, whole = self._total(), math.fsum(self.weights.values())
        shares = {group: float(weight) * total / whole for group, weight in self.weights.items()}
        # Undo rounding errors of floats: such a share was meant as a whole number.
        return {
            group: float(round(share)) if math.isclose(share, round(share), rel_tol=1e-12) else share
            for group, share in shares.items()
        }

    def _are_its_own(self, seed: Seed) -> Iterator[bool]:
        """Yield, for each item of the source, whether this group gets it.

        Each group is drawn by the share that it has left. A group that exceeds a fractional share takes the difference
        from all others.
        """
        target = self.target
        for group in self._draws(seed):
            yield group == target
        raise ValueError(f"the source of random_split gives more than {self._total()} items, which is its total_length")

    def _draws(self, seed: Seed) -> Iterator[Any]:
        shares = self._shares()
        groups, left = [*shares], [*shares.values()]
        choose, numbers = random.Random(seed).choices, range(len(groups))
        for remaining in reversed(range(self._total())):
            (number,) = choose(numbers, left)
            left[number] -= 1
            if left[number] < 0:
                left[number] = 0.0
                if remaining:
                    whole = sum(left)
                    left = [share * remaining / whole for share in left]
            yield groups[number]


def _draws_an_order(pipe: object) -> bool:
    in_order = isinstance(pipe, Sampler) and SequentialSampler in (pipe.sampler, type(pipe.sampler))
    return declares(pipe, "set_seed") and not in_order
