"""Random numbers that a chain can repeat: one seed for a chain, another for each pipe and each pass."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any, Self

import numpy as np
import torch

from .graph import DataPipe, walk

__all__ = ["Seeded", "derive_seed", "seed_graph", "set_seeds", "uniform_draws", "upcoming_seeds"]

_BLOCK = 1024


def derive_seed(*parts: int) -> int:
    """Return a 63-bit seed made of several numbers, each taken modulo 2**64, by NumPy's SeedSequence.

    >>> derive_seed(0, 1) == derive_seed(0, 1) != derive_seed(1, 0)
    True
    """
    # SeedSequence joins the 32-bit words of its numbers and ignores zeros at the end: without the count of the parts
    # and two words for each, (1,) and (1, 0) would be one.
    words = [word for part in parts for word in (part % 2**32, (part >> 32) % 2**32)]
    mixed = np.random.SeedSequence([len(parts), *words]).generate_state(1, np.uint64)
    return int(mixed[0]) >> 1


def uniform_draws(seed: int, start: int = 0) -> Iterator[float]:
    """Yield random floats in [0, 1) for ever, from number `start` on of the sequence that `seed` names.

    Any place in the sequence is reached at once, so an operator resumes by the count of its draws. The
    generator is Philox-4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), keyed by
    the seed and the number of the block.

    >>> [round(x, 3) for x in islice(uniform_draws(7), 2, 4)] == [round(x, 3) for x in islice(uniform_draws(7, 2), 2)]
    True
    """
    first_block, offset = divmod(start, _BLOCK)
    for block in count(first_block):
        key = np.array([seed % 2**64, block], dtype=np.uint64)
        numbers = np.random.Generator(np.random.Philox(key=key)).random(_BLOCK).tolist()
        yield from islice(numbers, offset, None)
        offset = 0


class Seeded:
    """What a pipe that draws random numbers is, besides a pipe.

    Each pass has a seed of its own, `pass_seed`, derived from the pipe's seed and the number of the pass. Where no seed
    was set, torch's generator draws it when it is first needed, so that `torch.manual_seed` governs it; it is part of
    every state, so that the passes after a resumed one are the same too.

    >>> import random
    >>> import penstock as ps
    >>> class Dropper(ps.Seeded, ps.IterDataPipe):
    ...     def __init__(self, source, share):
    ...         self.source, self.share = source, share
    ...     def __iter__(self):
    ...         generator = random.Random(self.pass_seed)
    ...         return (item for item in self.source if generator.random() >= self.share)
    >>> ps.check_operator(lambda: Dropper(ps.iter.IterableWrapper(range(20)), 0.5))
    """

    pass_seed: int = 0
    _seed: int | None = None
    _passes: int = 0
    _furthest: int = 0

    def set_seed(self, seed: int) -> Self:
        """Fix the random order of this pipe: the passes from here on are a function of `seed`."""
        self._seed, self._passes, self._furthest = int(seed), 0, 0
        return self

    def upcoming_pass_seed(self) -> int:
        """Return the seed that the next pass will have; asking for it fixes it."""
        return derive_seed(self._base_seed(), self._passes)

    def begin_random_pass(self) -> None:
        """Take up the seed of a new pass."""
        self.pass_seed = self.upcoming_pass_seed()
        self._passes += 1

    def random_state(self) -> dict[str, Any]:
        """Return, as plain data, the seed and how many passes have begun."""
        return {"seed": self._base_seed(), "passes": self._passes}

    def set_random_state(self, state: dict[str, Any]) -> None:
        """Take up what `random_state` gave."""
        self._furthest = max(state["passes"], self._furthest if state["seed"] == self._seed else 0)
        self._seed, self._passes = state["seed"], state["passes"]
        self.pass_seed = derive_seed(self._base_seed(), self._passes - 1)

    # A pass that goes on from a state may stand before passes that had begun by then, and not come as far again.

    def furthest_state(self) -> dict[str, Any]:
        """Return the random state that the pass after a resumed one is to follow, and not repeat."""
        state = self.random_state()
        return {**state, "passes": max(state["passes"], self._furthest)}

    def forget_furthest(self) -> None:
        """Learn that another state is to be loaded."""
        self._furthest = 0

    def catch_up(self) -> None:
        """Learn that the resumed pass has ended."""
        self._passes = max(self._passes, self._furthest)

    def _base_seed(self) -> int:
        if self._seed is None:
            self._seed = int(torch.empty((), dtype=torch.int64).random_().item())
        return self._seed


def upcoming_seeds(pipe: Any) -> dict[str, Any]:
    """Return, as plain data, what the order of a pipe's next pass follows from; empty where that is not random.

    Other libraries' pipes are given a seed for that where they have none, as torch's own would draw one.
    """
    if isinstance(pipe, Seeded):
        return pipe.random_state()
    if not hasattr(type(pipe), "set_seed"):
        return {}
    seed = vars(pipe).get("_seed")
    if seed is None:
        seed = int(torch.empty((), dtype=torch.int64).random_().item())
        pipe.set_seed(seed)
    return {"set_seed": seed}


def set_seeds(pipe: Any, seeds: dict[str, Any]) -> None:
    """Give a pipe what `upcoming_seeds` or its `random_state` returned."""
    if isinstance(pipe, Seeded):
        pipe.set_random_state(seeds)
    else:
        pipe.set_seed(seeds["set_seed"])


def seed_graph(pipe: DataPipe, seed: int, shard: int = 0) -> None:
    """Seed every pipe of a chain that has `set_seed`, torch's own and others' included.

    A pipe's seed depends on its place in the chain. Above (that is, before) a sharding point all shards get the
    same seeds, since they must agree on the stream they divide; below it each shard gets seeds of its own.
    """
    pipes = list(walk(pipe))
    shared = {id(above) for point in pipes if hasattr(type(point), "apply_sharding") for above in walk(point)}
    for place, step in enumerate(pipes):
        if hasattr(type(step), "set_seed"):
            step.set_seed(derive_seed(seed, place, 0 if id(step) in shared else shard + 1))
