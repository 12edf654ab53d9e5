"""The seeds of an epoch, handed out one by one."""

from __future__ import annotations

from ..registry import derive_seed

__all__ = ["SeedGenerator"]


class SeedGenerator:
    """Gives seeds that follow from one seed.

    >>> first, second = SeedGenerator(7), SeedGenerator(7)
    >>> first.generate_seed() == second.generate_seed() != first.generate_seed()
    True
    """

    def __init__(self, seed: int) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin anew from a seed."""
        self._seed = seed
        self._given = {"own": 0, "shared": 0}

    def generate_seed(self) -> int:
        """Return the next seed of this process's own."""
        return self._next("own")

    def generate_shared_seed(self) -> int:
        """Return the next seed that all processes have in common."""
        return self._next("shared")

    def _next(self, kind: str) -> int:
        self._given[kind] += 1
        return derive_seed(self._seed, int(kind == "shared"), self._given[kind])
