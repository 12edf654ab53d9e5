"""Reading services: how a chain is read in shards, and the service that reads it in this process."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..errors.checks import takes_only
from ..pipes.iter.prefetch import Prefetcher
from ..registry import (
    SHARDING_PRIORITIES,
    IterDataPipe,
    apply_sharding,
    derive_seed,
    expect_alike_sources,
    expect_whole,
    seed_graph,
    sharding_points,
    sources_of,
    walk,
)
from ..views.chain_info import ReadPlan
from ..workers.ranks import several_ranks
from .loading.merging import reader_below
from .options import InitFn, ReadOptions, ResetFn, option
from .rank_sync import RankSync
from .reader import ShardReader
from .seeds import SeedGenerator

_BY_PROCESSES = "use a MultiProcessingReadingService(num_workers=…)"


class ReadingServiceInterface(ABC):
    """What `DataLoader2` requires of a reading service."""

    @property
    def num_shards(self) -> int | None:
        """The number of shards of the chain; a state contains it, and loading one adopts it."""
        return None

    @num_shards.setter
    def num_shards(self, number: int | None) -> None:
        if number is not None:
            raise ValueError(f"{type(self).__name__} does not read in parts, and the state is of {number} parts")

    @property
    def rank_sync(self) -> RankSync | None:
        """How several ranks share the chain, if they do."""
        return None

    def how_read(self) -> ReadPlan | None:
        """Return how the chain is read, for `explain`; None if unknown. Nothing starts."""
        return None

    def autotune(self) -> None:
        """Find the number of workers while they read; called before `initialize`."""
        raise ValueError(
            f"autotune finds the number of worker processes, and {type(self).__name__} has none: read through "
            "MultiProcessingReadingService(num_shards=…)"
        )

    @abstractmethod
    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """Return the chain to read in place of the user's. Called once, before the first epoch."""

    def finalize(self) -> None:
        """Release everything. Called once, when the loader is shut down."""

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any] | None:
        """Begin an epoch. A returned function is applied to the chain before it is read."""
        return iter_reset_fn

    def finalize_iteration(self) -> None:
        """End an epoch. Called after its last item, or when it is abandoned."""


class ShardingReadingService(ReadingServiceInterface):
    """Base of the services that read the chain in shards."""

    options: ReadOptions
    require_sharding = option("require_sharding")
    given_shards = option("num_shards")
    worker = "process"
    """What `explain` calls a worker."""
    _reader: ShardReader

    @property
    def rank_sync(self) -> RankSync | None:
        return self.options.rank_sync

    def options_used(self) -> ReadOptions:
        """Return the options with which the chain is read."""
        return self.options

    def how_read(self, ranks: int = 1, num_shards: int | None = None) -> ReadPlan:
        """Return how the chain is read; several ranks may share it, and have a number of shards."""
        options, reader = self.options_used(), vars(self).get("_reader")
        how = ReadPlan(
            workers=options.num_workers,
            ahead_in_each_worker=options.worker_prefetch if options.num_workers else 0,
            ahead_in_main=options.main_prefetch,
            ranks=ranks,
            may_repeat=not options.require_sharding,
            worker=self.worker,
        )
        shards = options.num_shards if reader is None else reader.num_shards  # as in a loaded state
        return replace(how, shards=shards or num_shards or how.readers)

    def share(self, rank_sync: RankSync, num_shards: int | None) -> None:
        """Read one rank's part of the chain from now on."""
        own = self.options.num_shards
        if None not in (num_shards, own) and num_shards != own:
            raise ValueError(f"num_shards is that of all ranks, and is given as {num_shards} and as {own}")
        self.options = replace(self.options, rank_sync=rank_sync, num_shards=num_shards or own)

    @property
    def num_shards(self) -> int | None:
        return self._reader.num_shards

    @num_shards.setter
    def num_shards(self, number: int | None) -> None:
        if number is not None:
            self._expect_sharding_point(number)
            self._reader.read_in_shards(number)

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        """Return the chain's steps for this process, over a reader of all steps before them."""
        options = self.options_used()
        above, own_steps = _split_before_main_process(datapipe)
        self._expect_readable(above, options)
        rank_sync = options.rank_sync
        ranks = rank_sync.part.ranks if rank_sync is not None else 1
        readers = ranks * max(options.num_workers, 1)
        num_shards = options.num_shards or readers
        if ranks > 1 and num_shards < readers:
            raise ValueError(
                f"num_shards is {num_shards}, and {ranks} ranks with {max(options.num_workers, 1)} workers each are "
                f"{readers} readers, some of which would get nothing: give a multiple of {readers}, or more"
            )
        by_ranks = ranks > 1 and _divides_by_ranks(above)
        if rank_sync is not None and by_ranks:
            apply_sharding(above, ranks, rank_sync.part.rank or 0, SHARDING_PRIORITIES.DISTRIBUTED)
        self._reader = ShardReader(replace(options, chain=above, by_ranks=by_ranks), num_shards)
        self._expect_sharding_point(num_shards)
        self._end: IterDataPipe[Any] = self._reader
        for step in own_steps:
            _replace_source(step, self._end)
            self._end = step
        read_ahead = any(isinstance(step, Prefetcher) for step in own_steps)
        if rank_sync is not None and (read_ahead or reader_below(self._end) is None):
            steps = ", ".join(type(step).__name__ for step in own_steps)
            raise RuntimeError(
                f"of {steps}, which run on each rank after the ranks have agreed who has an item, some may give more "
                "or fewer items than they get, or read ahead, so that ranks would wait for each other: put them before "
                "the first, or use map"
            )
        return self._end

    def _expect_readable(self, above: IterDataPipe[Any], options: ReadOptions) -> None:
        """Raise RuntimeError for steps that workers cannot run, and for ranks that would read the same items."""
        if options.num_workers and (
            misplaced := [pipe for pipe in walk(above) if getattr(pipe, "in_main_process", False)]
        ):
            raise RuntimeError(
                f"{type(misplaced[0]).__name__} belongs in the main process, and after it the chain meets another: "
                "with worker processes, put it at the end of the chain"
            )
        is_divided = any(isinstance(pipe, ShardReader) or getattr(pipe, "is_part", False) for pipe in walk(above))
        if options.rank_sync is None and options.require_sharding and several_ranks() and not is_divided:
            raise RuntimeError(
                "torch.distributed has several ranks, and each would read all of the data: read through a "
                "DistributedReadingService, with SequentialReadingService where there are workers too, or pass "
                "require_sharding=False if that is meant"
            )

    def _expect_sharding_point(self, num_shards: int) -> None:
        options, division = self._reader.options, replace(self._reader.division, num_shards=num_shards)
        chain, ranks, workers = options.chain, division.ranks, options.num_workers
        if num_shards < ranks:
            raise ValueError(
                f"{ranks} ranks cannot share the state's {num_shards} shards: every rank needs at least one"
            )
        parts, _ = division.part(division.rank)
        if parts > 1 and self.require_sharding and not sharding_points(chain, SHARDING_PRIORITIES.MULTIPROCESSING):
            readers = "shards" if parts not in (workers, ranks) else "workers" if workers > 1 else "ranks"
            raise RuntimeError(missing_sharding_point(chain, readers, parts))
        if parts > 1:
            expect_alike_sources(chain, SHARDING_PRIORITIES.MULTIPROCESSING)

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any] | None:
        self._reader.seed_elsewhere = seed_generator.base_seed
        seed_graph(self._end, derive_seed(seed_generator.base_seed, self._reader.division.rank), first_epoch=0)
        return iter_reset_fn

    def finalize(self) -> None:
        self._reader.shutdown()
        if self.options.rank_sync is not None:
            self.options.rank_sync.leave()


class InProcessReadingService(ShardingReadingService):
    """Read the chain in this process.

    A thread reads `prefetch_cnt` items ahead; 0 disables it. Several ranks of `torch.distributed` are an error, unless
    `require_sharding=False` lets each of them read all of the data.

    `init_fn(datapipe, worker_info)` returns the chain to use, once; `reset_fn(datapipe, worker_info, seed_generator)`
    does so at the beginning of each epoch.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(3))
    >>> list(ps.DataLoader2(dp, reading_service=InProcessReadingService()))
    [0, 1, 2]
    """

    prefetch_cnt = option("main_prefetch")
    init_fn = option("init_fn")
    reset_fn = option("reset_fn")

    @takes_only(num_workers=_BY_PROCESSES, workers=_BY_PROCESSES)
    def __init__(
        self,
        prefetch_cnt: int = 0,
        init_fn: InitFn | None = None,
        reset_fn: ResetFn | None = None,
        *,
        require_sharding: bool = True,
    ) -> None:
        expect_whole("prefetch_cnt", prefetch_cnt, least=0)
        self.options = ReadOptions(init_fn, reset_fn, prefetch_cnt, require_sharding=require_sharding)


def _split_before_main_process(datapipe: IterDataPipe[Any]) -> tuple[IterDataPipe[Any], list[Any]]:
    """Return the part of a chain for workers, and copies of the steps from the first `in_main_process` on."""
    spine: list[Any] = [datapipe]
    while len(sources := sources_of(spine[-1])) == 1:
        spine += sources
    cut = max((place + 1 for place, step in enumerate(spine) if getattr(step, "in_main_process", False)), default=0)
    return spine[cut], [copy.copy(step) for step in reversed(spine[:cut])]


def _replace_source(step: Any, by: IterDataPipe[Any]) -> None:
    (old,) = sources_of(step)
    for name, value in vars(step).items():
        if value is old:
            setattr(step, name, by)


def _divides_by_ranks(chain: IterDataPipe[Any]) -> bool:
    """Say whether a chain has sharding points for ranks only."""
    return any(vars(pipe).get("sharding_group_filter") == SHARDING_PRIORITIES.DISTRIBUTED for pipe in walk(chain))


def missing_sharding_point(datapipe: IterDataPipe[Any], readers: str, number: int) -> str:
    """Return the error message for several workers or ranks that would read the same items."""
    first = [step for step in walk(datapipe) if isinstance(step, IterDataPipe)][-1]
    return (
        f"the chain has no sharding point for {readers}, so each of the {number} {readers} would read all of it and "
        f"every item would come {number} times. Put .sharding_filter() where the stream is still cheap, such as right "
        f"after {first!r}, and after a .shuffle() of it if there is one; or pass require_sharding=False if that is "
        f"meant. The chain:\n{datapipe!r}"
    )
