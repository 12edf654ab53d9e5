"""Reading services with workers: processes of this machine, or actors of a Ray cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors.checks import expect_seconds, takes_only
from ..pipes.bases.ahead.tuning import Setting, Tuner
from ..registry import IterDataPipe, expect_whole
from ..workers.cluster import expect_resources
from ..workers.processes import context_for, processors, start_server
from .on_ray.actors import ActorBackend, RayFleet
from .options import InitFn, ReadOptions, ResetFn, option
from .services import ShardingReadingService
from .workers.processes import ProcessBackend, WorkerBackend
from .workers.worker import run_worker

_MOST_AHEAD = 64
"""The most items that autotune lets each worker read ahead."""
_MOST_TRIALS = 4
"""How often autotune tries another number of workers; each try rereads what was read ahead."""
_SECONDS_OF_WINDOW = 0.3

_NAMES_OF_TORCH = {
    "persistent_workers": "leave it out, since workers live as long as the loader",
    "prefetch_factor": "give worker_prefetch_cnt",
    "workers": "give num_workers",
}
"""Names that torch's DataLoader and others have, and the hint for each."""


class _WorkersReadingService(ShardingReadingService):
    """Base of the services that read the chain by workers, or in this process with none."""

    num_workers = option("num_workers")
    worker_prefetch_cnt = option("worker_prefetch")
    main_prefetch_cnt = option("main_prefetch")
    worker_init_fn = option("init_fn")
    worker_reset_fn = option("reset_fn")
    timeout = option("timeout")
    tuner = option("tuner")

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        for name in ("num_workers", "worker_prefetch_cnt", "main_prefetch_cnt"):
            expect_whole(name, getattr(self, name), least=0)
        if options.num_shards is not None:
            expect_whole("num_shards", options.num_shards)
        if options.timeout is not None:
            expect_seconds("timeout", options.timeout)

    @abstractmethod
    def start(self) -> WorkerBackend:
        """Return the `WorkerBackend` that starts the workers."""

    def options_used(self) -> ReadOptions:
        return replace(
            self.options,
            main_prefetch=self.main_prefetch_cnt if self.num_workers else 0,
            worker_prefetch=max(self.worker_prefetch_cnt, 1),
            start=self.start,
        )

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        read = super().initialize(datapipe)
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
        options = ReadOptions(
            worker_init_fn,
            worker_reset_fn,
            main_prefetch_cnt,
            num_workers,
            worker_prefetch_cnt,
            num_shards,
            timeout,
            require_sharding,
        )
        super().__init__(options)
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
        return ProcessBackend(self.multiprocessing_context)


class RayReadingService(_WorkersReadingService):
    """Read the chain in `num_workers` Ray actors, on any machines of the cluster, and take their items in turn.

    Actors get the chain as the processes of `MultiProcessingReadingService` do, and read the same shards in the same
    order: a state of processes resumes on actors, and vice versa. Each actor has `resources_per_worker`, by default
    `{"CPU": 1}`; "GPU" and custom resources of the cluster may be requested too. Ray starts on this machine if
    `ray.init` has connected to no cluster. With `num_workers=0` everything happens in this process.

    An actor reads in a process of its own. Processes and actors that die are replaced, where Ray finds room: the next
    resumes after the last items received, with a warning, and no item is lost or repeated. It is an error if three in a
    row die at the same item, and in a chain with a dispatched stream (`sharding_round_robin_dispatch`), which a process
    of this machine reads.

    The actors of a `fleet` read for several loaders, with a process for each. On all ranks of a training run, use
    `SequentialReadingService(DistributedReadingService(), RayReadingService(fleet=fleet))`.

    The other arguments are those of `MultiProcessingReadingService`.
    """

    worker = "actor"

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
        options = ReadOptions(
            worker_init_fn,
            worker_reset_fn,
            main_prefetch_cnt,
            num_workers if fleet is None else fleet.num_workers,
            worker_prefetch_cnt,
            num_shards,
            timeout,
            require_sharding,
        )
        super().__init__(options)
        expect_resources(resources_per_worker or {})
        self.resources_per_worker = resources_per_worker
        self.fleet = fleet

    def start(self) -> WorkerBackend:
        fleet = self.fleet or RayFleet(self.num_workers, self.resources_per_worker)
        return ActorBackend(fleet, self.fleet is None, self.timeout)
