"""Reading services for the ranks of distributed training, and for one service after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from ..pipes.iter.sync import AllRanks, FullSync
from ..registry import SHARDING_PRIORITIES, IterDataPipe, apply_sharding, seed_graph, sharding_points
from .seeds import SeedGenerator, dist_share_seed
from .services import ReadingServiceInterface, missing_sharding_point

__all__ = ["DistributedReadingService", "SequentialReadingService"]


class DistributedReadingService(ReadingServiceInterface):
    """Read, on each rank of `torch.distributed`, the rank's own part of the chain; all ranks end an epoch together.

    The parts are made at the chain's sharding points; a chain without any is an error, unless `require_sharding=False`
    says that every rank is to read all of it. `fullsync(timeout)` is put at the end of the chain, where it is not there
    already: where the parts differ in length, all ranks end with the shortest. The seed of each epoch is rank 0's.

    A state is a rank's own: in the middle of an epoch, each rank saves one and goes on from that.

    With worker processes on each rank, use
    `SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(num_workers))`.

    Raises RuntimeError, when reading begins, where `torch.distributed` is not initialized.
    """

    def __init__(self, timeout: float = 1800, *, require_sharding: bool = True) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout must be seconds, more than 0, and is {timeout}")
        self.timeout = timeout
        self.require_sharding = require_sharding
        self._ranks: AllRanks | None = None
        self._rank: list[int] | None = None

    @property
    def rank(self) -> list[int] | None:
        return self._rank

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError(
                "DistributedReadingService needs the ranks of torch.distributed: call "
                "torch.distributed.init_process_group before the loader is read"
            )
        ranks, level = dist.get_world_size(), SHARDING_PRIORITIES.DISTRIBUTED
        if ranks > 1 and self.require_sharding and not sharding_points(datapipe, level):
            raise RuntimeError(missing_sharding_point(datapipe, "ranks", ranks))
        apply_sharding(datapipe, ranks, dist.get_rank(), level)
        self._ranks, self._rank = AllRanks(self.timeout), [dist.get_rank(), ranks]
        self._end = datapipe if isinstance(datapipe, FullSync) else FullSync(datapipe, self.timeout)
        return self._end

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any] | None:
        group = self._ranks.group if self._ranks is not None else None
        seed_generator.seed(dist_share_seed(seed_generator.base_seed, group))
        seed_generator.spawn(dist.get_rank(), inplace=True)
        seed_graph(self._end, seed_generator.base_seed, seed_generator.worker_id, first_epoch=0)
        return iter_reset_fn

    def finalize(self) -> None:
        if self._ranks is not None:
            self._ranks.leave()


class SequentialReadingService(ReadingServiceInterface):
    """Read the chain through several services, each of which gets what the one before it made of the chain.

    >>> from penstock import MultiProcessingReadingService
    >>> service = SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(num_workers=2))
    """

    def __init__(self, *reading_services: ReadingServiceInterface) -> None:
        for place, service in enumerate(reading_services):
            if not isinstance(service, ReadingServiceInterface):
                raise TypeError(f"SequentialReadingService takes reading services, and this is {service!r:.100}")
            if isinstance(service, DistributedReadingService) and place:
                raise ValueError(
                    "DistributedReadingService must be the first: the others would read what other ranks read too"
                )
        self.reading_services = reading_services

    @property
    def num_shards(self) -> int | None:
        return next((number for each in self.reading_services if (number := each.num_shards) is not None), None)

    @num_shards.setter
    def num_shards(self, number: int | None) -> None:
        for service in self.reading_services:
            if service.num_shards is not None:
                service.num_shards = number

    @property
    def rank(self) -> list[int] | None:
        return self.reading_services[0].rank if self.reading_services else None  # only the first may have ranks

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        for service in self.reading_services:
            datapipe = service.initialize(datapipe)
        return datapipe

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any] | None:
        for service in self.reading_services:
            iter_reset_fn = service.initialize_iteration(seed_generator, iter_reset_fn)
        return iter_reset_fn

    def finalize_iteration(self) -> None:
        for service in reversed(self.reading_services):
            service.finalize_iteration()

    def finalize(self) -> None:
        for service in reversed(self.reading_services):
            service.finalize()
