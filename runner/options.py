"""Options of a reader: how a chain is read, by which workers, and how it is divided into shards."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..pipes.bases.ahead.tuning import Tuner
from .rank_sync import RankSync
from .seeds import SeedGenerator


@dataclass(frozen=True)
class WorkerInfo:
    """The number of workers, and which of them a process is."""

    num_workers: int
    worker_id: int


InitFn = Callable[[Any, WorkerInfo], Any]
ResetFn = Callable[[Any, WorkerInfo, SeedGenerator], Any]


@dataclass(frozen=True)
class ReadOptions:
    """The options of a reading service; those of a reader have the chain, too."""

    init_fn: InitFn | None = None
    reset_fn: ResetFn | None = None
    main_prefetch: int = 0
    num_workers: int = 0
    worker_prefetch: int = 1
    num_shards: int | None = None
    """The number of shards, if it is given."""
    timeout: float | None = None
    require_sharding: bool = True
    rank_sync: RankSync | None = None
    """How the ranks of a distributed program share the chain."""
    tuner: Tuner | None = None
    """Finds `num_workers` and `worker_prefetch` while they read."""
    chain: Any = None
    by_ranks: bool = False
    """Whether the chain's steps divide it among ranks."""
    start: Callable[[], Any] | None = None
    """Makes the `WorkerBackend` that starts the workers."""

    def __post_init__(self) -> None:
        _expect_form("init_fn", self.init_fn, ("chain", "worker_info"))
        _expect_form("reset_fn", self.reset_fn, ("chain", "worker_info", "seed_generator"))

    def for_workers(self) -> ReadOptions:
        """Return the options that a worker needs; the others cannot be sent there."""
        return ReadOptions(self.init_fn, self.reset_fn, worker_prefetch=self.worker_prefetch)


def _expect_form(name: str, fn: Any, arguments: tuple[str, ...]) -> None:
    """Raise TypeError for a function that cannot be called with these arguments."""
    if fn is None:
        return
    try:
        inspect.signature(fn).bind(*arguments)
    except ValueError:  # functions written in C may have no signature
        return
    except TypeError:
        form = f"fn({', '.join(arguments)})"
        raise TypeError(
            f"worker_{name} is called as {form} and returns the chain to read, and {fn!r:.100} cannot be: a function "
            f"of a worker's number, as torch's DataLoader takes, is called by lambda {', '.join(arguments)}: "
            "(fn(worker_info.worker_id), chain)[1]"
        ) from None


def option(name: str) -> Any:
    """Return an attribute of a reading service that is one of its `options`."""

    def change(service: Any, value: object) -> None:
        changes: dict[str, Any] = {name: value}
        service.options = replace(service.options, **changes)

    return property(lambda service: getattr(service.options, name), change)


@dataclass(frozen=True)
class Division:
    """The division of a stream into shards, and which of them are read here."""

    num_shards: int
    """The number over all ranks."""
    rank: int = 0
    ranks: int = 1
    """How many ranks read different shards: rank s modulo `ranks` reads shard s."""
    by_ranks: bool = False
    """Whether the chain's steps divide it among ranks, before shards divide each rank's part."""

    @property
    def shards(self) -> range:
        """The shards that are read here."""
        return range(self.rank, self.num_shards, self.ranks)

    def part(self, shard: int) -> tuple[int, int]:
        """Return the number of parts of the stream that is read here, and which of them a shard is."""
        return (len(self.shards), self.shards.index(shard)) if self.by_ranks else (self.num_shards, shard)

    def worker(self, shard: int, num_workers: int) -> int:
        """Return which of the workers reads a shard."""
        return shard // self.ranks % num_workers
