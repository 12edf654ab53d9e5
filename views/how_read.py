"""How a loader reads a chain, as far as an explanation needs it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HowRead"]


@dataclass(frozen=True)
class HowRead:
    """How a chain is read."""

    workers: int = 0
    """The number of worker processes or actors on each rank; 0 reads in the program's own process."""
    shards: int = 1
    """The number of shards over all ranks."""
    ahead_in_each_worker: int = 0
    """How many items each worker reads ahead."""
    ahead_in_main: int = 0
    """How many items the main process reads ahead."""
    ranks: int = 1
    """How many ranks share the chain."""
    may_repeat: bool = False
    """Whether each shard may read the whole of a chain that is not divided."""
    worker: str = "process"
    """What a worker is: "process" or "actor"."""

    @property
    def readers(self) -> int:
        """How many read, over all ranks."""
        return self.ranks * max(self.workers, 1)

    @property
    def workers_in_words(self) -> str:
        """The workers of a rank, such as "2 worker processes"."""
        plural = "" if self.workers == 1 else "es" if self.worker == "process" else "s"
        return f"{self.workers} worker {self.worker}{plural}"
