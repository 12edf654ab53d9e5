"""Reading services: how a chain is read, in this process or in several others."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..pipes.bases.tuning import Setting, Tuner
from ..registry import (
    SHARDING_PRIORITIES,
    IterDataPipe,
    apply_sharding,
    derive_seed,
    expect_whole,
    seed_graph,
    sharding_points,
    sources_of,
    walk,
)
from ..registry.arguments import expect_seconds, takes_only
from ..views.how_read import HowRead
from ..workers.cluster import expect_resources
from ..workers.processes import context_for, processors, start_server
from ..workers.ranks import several_ranks
from .actors import ActorBackend, RayFleet
from .backend import WorkerBackend
from .merging import reader_below, stays_in_thread
from .options import InitFn, ReadOptions, ResetFn, WorkerInfo
from .rank_sync import RankSync
from .reader import ShardReader
from .seeds import SeedGenerator
from .worker import run_worker
from .worker_processes import ProcessBackend

__all__ = [
    "InProcessReadingService",
    "MultiProcessingReadingService",
    "RayReadingService",
    "ReadingServiceInterface",
    "WorkerInfo",
    "missing_sharding_point",
]


_MOST_AHEAD = 64
"""The most items that autotune lets each worker read ahead."""
_MOST_TRIALS = 4
"""How often autotune tries another number of workers; each try rereads what was read ahead."""
_SECONDS_OF_WINDOW = 0.3

_BY_PROCESSES = "use a MultiProcessingReadingService(num_workers=…)"
_NAMES_OF_TORCH = {
    "persistent_workers": "leave it out, since workers live as long as the loader",
    "prefetch_factor": "give worker_prefetch_cnt",
    "workers": "give num_workers",
}
"""Names that torch's DataLoader and others have, and the mend for each."""


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

    def how_read(self) -> HowRead | None:
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

    require_sharding = True
    _reader: ShardReader
    given_shards: int | None = None
    _rank_sync: RankSync | None = None

    @property
    def rank_sync(self) -> RankSync | None:
        return self._rank_sync

    def how_read(self) -> HowRead:
        return self._how_read(HowRead())

    def _how_read(self, how: HowRead) -> HowRead:
        """Return how the chain is read, with the number of shards."""
        return replace(how, shards=self.shards_so_far() or how.readers, may_repeat=not self.require_sharding)

    def shards_so_far(self) -> int | None:
        """Return the number of shards, as given or as in a loaded state; None if the readers will decide."""
        reader: ShardReader | None = vars(self).get("_reader")
        return self.given_shards if reader is None else reader.num_shards

    def share(self, rank_sync: RankSync, num_shards: int | None) -> None:
        """Read one rank's part of the chain from now on."""
        if None not in (num_shards, self.given_shards) and num_shards != self.given_shards:
            raise ValueError(
                f"num_shards is that of all ranks, and is given as {num_shards} and as {self.given_shards}"
            )
        self._rank_sync, self.given_shards = rank_sync, num_shards or self.given_shards

    @property
    def num_shards(self) -> int | None:
        return self._reader.num_shards

    @num_shards.setter
    def num_shards(self, number: int | None) -> None:
        if number is not None:
            self._expect_sharding_point(number)
            self._reader.read_in_shards(number)

    def _read(self, options: ReadOptions) -> IterDataPipe[Any]:
        """Return the chain's steps for this process, over a reader of all steps before them."""
        above, own_steps = _split_before_main_process(options.chain)
        if options.num_workers and (
            misplaced := [pipe for pipe in walk(above) if getattr(pipe, "in_main_process", False)]
        ):
            raise RuntimeError(
                f"{type(misplaced[0]).__name__} belongs in the main process, and after it the chain meets another: "
                "with worker processes, put it at the end of the chain"
            )
        is_divided = any(isinstance(pipe, ShardReader) or getattr(pipe, "is_part", False) for pipe in walk(above))
        if self._rank_sync is None and self.require_sharding and several_ranks() and not is_divided:
            raise RuntimeError(
                "torch.distributed has several ranks, and each would read all of the data: read through a "
                "DistributedReadingService, with SequentialReadingService where there are workers too, or pass "
                "require_sharding=False if that is meant"
            )
        ranks = self._rank_sync.part.ranks if self._rank_sync is not None else 1
        readers = ranks * max(options.num_workers, 1)
        num_shards = self.given_shards or readers
        if ranks > 1 and num_shards < readers:
            raise ValueError(
                f"num_shards is {num_shards}, and {ranks} ranks with {max(options.num_workers, 1)} workers each are "
                f"{readers} readers, some of which would get nothing: give a multiple of {readers}, or more"
            )
        by_ranks = ranks > 1 and _divides_by_ranks(above)
        if by_ranks:
            assert self._rank_sync is not None
            apply_sharding(above, ranks, self._rank_sync.part.rank or 0, SHARDING_PRIORITIES.DISTRIBUTED)
        options = replace(options, chain=above, rank_sync=self._rank_sync, by_ranks=by_ranks)
        self._reader = ShardReader(options, num_shards)
        self._expect_sharding_point(num_shards)
        self._end: IterDataPipe[Any] = self._reader
        for step in own_steps:
            _replace_source(step, self._end)
            self._end = step
        if self._rank_sync is not None:
            self._rank_sync.reads_elsewhere = not all(map(stays_in_thread, own_steps))
            if reader_below(self._end) is None:
                steps = ", ".join(type(step).__name__ for step in own_steps)
                raise RuntimeError(
                    f"of {steps}, which run on each rank after the ranks have agreed who has an item, some may give "
                    "more or fewer items than they get, so that ranks would wait for each other: put them before the "
                    "first, or use map"
                )
        return self._end

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

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any] | None:
        self._reader.seed_elsewhere = seed_generator.base_seed
        seed_graph(self._end, derive_seed(seed_generator.base_seed, self._reader.division.rank), first_epoch=0)
        return iter_reset_fn

    def finalize(self) -> None:
        self._reader.shutdown()
        if self._rank_sync is not None:
            self._rank_sync.leave()


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
        self.prefetch_cnt = prefetch_cnt
        self.init_fn = init_fn
        self.reset_fn = reset_fn
        self.require_sharding = require_sharding

    def how_read(self) -> HowRead:
        return self._how_read(HowRead(ahead_in_main=self.prefetch_cnt))

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        return self._read(ReadOptions(datapipe, self.init_fn, self.reset_fn, self.prefetch_cnt))


class _WorkersReadingService(ShardingReadingService):
    """Base of the services that read the chain by workers, or in this process with none."""

    def __init__(
        self,
        num_workers: int,
        worker_prefetch_cnt: int,
        main_prefetch_cnt: int,
        worker_init_fn: InitFn | None,
        worker_reset_fn: ResetFn | None,
        num_shards: int | None,
        timeout: float | None,
        require_sharding: bool,
    ) -> None:
        counts = {
            "num_workers": num_workers,
            "worker_prefetch_cnt": worker_prefetch_cnt,
            "main_prefetch_cnt": main_prefetch_cnt,
        }
        for name, count in counts.items():
            expect_whole(name, count, least=0)
        if num_shards is not None:
            expect_whole("num_shards", num_shards)
        if timeout is not None:
            expect_seconds("timeout", timeout)
        self.num_workers = num_workers
        self.worker_prefetch_cnt = worker_prefetch_cnt
        self.main_prefetch_cnt = main_prefetch_cnt
        self.worker_init_fn = worker_init_fn
        self.worker_reset_fn = worker_reset_fn
        self.given_shards = num_shards
        self.timeout = timeout
        self.require_sharding = require_sharding
        self.tuner: Tuner | None = None
        """Finds the number of workers, if it is to be found."""

    def how_read(self) -> HowRead:
        how = HowRead(
            workers=self.num_workers,
            ahead_in_each_worker=max(self.worker_prefetch_cnt, 1) if self.num_workers else 0,
            ahead_in_main=self.main_prefetch_cnt if self.num_workers else 0,
        )
        return self._how_read(how)

    @abstractmethod
    def start(self) -> WorkerBackend:
        """Return the `WorkerBackend` that starts the workers."""

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        options = ReadOptions(
            datapipe,
            self.worker_init_fn,
            self.worker_reset_fn,
            self.main_prefetch_cnt if self.num_workers else 0,
            self.num_workers,
            self.start,
            max(self.worker_prefetch_cnt, 1),
            self.timeout,
            tuner=self.tuner,
        )
        read = self._read(options)
        ranks = self._reader.division.ranks
        if self.tuner is not None and self._reader.num_shards < 2 * ranks:
            raise ValueError(
                f"autotune divides shards among workers, and {ranks} rank{'s have' if ranks > 1 else ' has'} "
                f"{self._reader.num_shards}: give num_shards, such as {12 * ranks}"
            )
        return read


class MultiProcessingReadingService(_WorkersReadingService):
    """Read the chain in `num_workers` processes, each of which reads a part of it, and take their items in turn.

    The chain's sharding points divide it into `num_shards` shards, by default as many as workers. A chain without
    sharding points is an error with several shards, unless `require_sharding=False` lets each read all of it. The
    number of shards alone decides the order of items, not that of workers: worker s modulo `num_workers` reads shard s,
    and the shards give an item each in turn. With the same seed and number of shards, a chain gives the same items on
    any number of workers, none included, and their states are interchangeable. Take more shards than workers, such as
    12, which 1, 2, 3, 4 and 6 workers share evenly.

    Each worker reads up to `worker_prefetch_cnt` items ahead, and this process up to `main_prefetch_cnt`. With
    `num_workers=0` everything happens in this process, and nothing is read ahead.

    The processes start by forkserver, unless `multiprocessing_context` names another start method. They get the chain
    by cloudpickle: lambdas and notebook functions work, and the main script does not run again.

    `worker_init_fn(datapipe, worker_info)` returns the chain to use, once for each shard, in the worker that reads it.
    `worker_reset_fn(datapipe, worker_info, seed_generator)` returns the chain for each epoch, at its beginning. Seeds
    that it sets hold if it returns the chain that it got.

    A worker that dies, or is stopped, raises an error that names it within seconds. The wait for a busy worker has no
    limit; with `timeout`, TimeoutError names its operator and item after that many seconds.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(6)).sharding_filter().map(lambda x: x * x)
    >>> with ps.DataLoader2(dp, reading_service=MultiProcessingReadingService(num_workers=2)) as loader:
    ...     list(loader)
    [0, 1, 4, 9, 16, 25]
    """

    @takes_only(**_NAMES_OF_TORCH)
    def __init__(
        self,
        num_workers: int = 0,
        multiprocessing_context: str | None = None,
        worker_prefetch_cnt: int = 10,
        main_prefetch_cnt: int = 10,
        worker_init_fn: InitFn | None = None,
        worker_reset_fn: ResetFn | None = None,
        *,
        num_shards: int | None = None,
        timeout: float | None = None,
        require_sharding: bool = True,
    ) -> None:
        super().__init__(
            num_workers,
            worker_prefetch_cnt,
            main_prefetch_cnt,
            worker_init_fn,
            worker_reset_fn,
            num_shards,
            timeout,
            require_sharding,
        )
        self.multiprocessing_context = multiprocessing_context
        if num_workers:
            self._start_server()

    def _start_server(self) -> None:
        """Let the fork server, if that is to start the workers, import torch meanwhile."""
        if context_for(self.multiprocessing_context, run_worker.__module__).get_start_method() == "forkserver":
            start_server(run_worker.__module__)

    def autotune(self) -> None:
        most = processors()
        self.tuner = Tuner(
            "DataLoader2",
            Setting("num_workers", min(max(self.num_workers, 1), most), most),
            Setting("worker_prefetch_cnt", min(max(self.worker_prefetch_cnt, 1), _MOST_AHEAD), _MOST_AHEAD),
            is_room_each=True,
            seconds=_SECONDS_OF_WINDOW,
            lag=self.main_prefetch_cnt,
            most_trials=_MOST_TRIALS,
        )
        if not self.num_workers:
            self.num_workers = 1
            self._start_server()

    def start(self) -> WorkerBackend:
        return ProcessBackend(self.multiprocessing_context, max(self.num_workers, processors()))


class RayReadingService(_WorkersReadingService):
    """Read the chain in `num_workers` Ray actors, on any machines of the cluster, and take their items in turn.

    Actors get the chain as the processes of `MultiProcessingReadingService` do, and read the same shards in the same
    order: a state of processes resumes on actors, and vice versa. Each actor has `resources_per_worker`, by default
    `{"CPU": 1}`; "GPU" and custom resources of the cluster may be requested too. Ray starts on this machine if
    `ray.init` has connected to no cluster. With `num_workers=0` everything happens in this process.

    An actor reads in a process of its own. Processes and actors that die are replaced, where Ray finds room: the next
    resumes after the last items received, with a warning, and no item is lost or repeated. It is an error if three in a
    row die at the same item, and for a dispatched stream (`sharding_round_robin_dispatch`), which has its own actor.

    The actors of a `fleet` read for several loaders, with a process for each. On all ranks of a training run, use
    `SequentialReadingService(DistributedReadingService(), RayReadingService(fleet=fleet))`.

    The other arguments are those of `MultiProcessingReadingService`.
    """

    @takes_only(**_NAMES_OF_TORCH)
    def __init__(
        self,
        num_workers: int = 0,
        worker_prefetch_cnt: int = 10,
        main_prefetch_cnt: int = 10,
        worker_init_fn: InitFn | None = None,
        worker_reset_fn: ResetFn | None = None,
        *,
        num_shards: int | None = None,
        resources_per_worker: Mapping[str, float] | None = None,
        fleet: RayFleet | None = None,
        timeout: float | None = None,
        require_sharding: bool = True,
    ) -> None:
        if fleet is not None and (num_workers or resources_per_worker):
            raise ValueError("a fleet has its own num_workers and resources_per_worker: give a fleet, or them")
        super().__init__(
            num_workers if fleet is None else fleet.num_workers,
            worker_prefetch_cnt,
            main_prefetch_cnt,
            worker_init_fn,
            worker_reset_fn,
            num_shards,
            timeout,
            require_sharding,
        )
        expect_resources(resources_per_worker or {})
        self.resources_per_worker = resources_per_worker
        self.fleet = fleet

    def how_read(self) -> HowRead:
        return replace(super().how_read(), worker="actor")

    def start(self) -> WorkerBackend:
        fleet = self.fleet or RayFleet(self.num_workers, self.resources_per_worker)
        return ActorBackend(fleet, self.fleet is None, self.timeout)


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
