"""Operators that draw random numbers: one sequence a pass, with a count as position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Self

import numpy as np

from ...registry import IterDataPipe, Seeded, T, Tally, own, uniform_draws


class Drawer(Seeded, IterDataPipe[T]):
    """Yield what random numbers decide: a base class, whose `_draws` draws and counts them."""

    drawn: Tally = own(Tally)

    def _draws(self) -> Iterator[float]:
        """Return this pass's random floats in [0, 1), from the current position on; call it once a pass."""
        return self.drawn.follow(uniform_draws(self.pass_seed, self.drawn.items))


class Shuffling(Drawer[T]):
    """Yield in a random order, unless switched off: a base class."""

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Switch shuffling on or off from the next pass on."""
        self.is_random = shuffle
        return self


def in_random_order(items: Sequence[T], draws: Iterator[float]) -> list[T]:
    """Return the items in an order decided by as many draws; all orders are equally likely.

    >>> in_random_order("abc", iter([0.5, 0.9, 0.1]))
    ['c', 'a', 'b']
    """
    order = np.fromiter(islice(draws, len(items)), np.float64, len(items)).argsort(kind="stable")
    return [items[place] for place in order.tolist()]
