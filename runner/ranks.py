"""Reading services for the ranks of distributed training, and for services in sequence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from ..errors.checks import expect_seconds, takes_only
from ..registry import IterDataPipe, expect_whole
from ..views.chain_info import ReadPlan
from ..workers.ranks import expect_ranks, number_of_ranks, telling_other_ranks
from .rank_sync import Ends, Others, Part, RankSync
from .seeds import SeedGenerator
from .services import InProcessReadingService, ReadingServiceInterface, ShardingReadingService

_IN_SEQUENCE = "give it to a MultiProcessingReadingService that follows in a SequentialReadingService"


class DistributedReadingService(InProcessReadingService):
    """Read, on each rank of `torch.distributed`, the rank's own part of the chain; all ranks end an epoch together.

    The chain is read in `num_shards` shards over all ranks: rank s modulo their number reads shard s. By default, each
    worker of each rank has one shard. A chain without a sharding point is an error, unless `require_sharding=False`
    lets every rank read all of it. The seed of each epoch is the one set on a rank, or else rank 0's. States
    cover all ranks, and resume on any number of them.

    `ends` says how parts of different lengths end, agreed before each item, after filters and skipped items:

    - "pad": shorter parts repeat items from their beginnings until the longest ends, as torch's DistributedSampler does
    - "stop": all end with the shortest, and a warning says once how many items are dropped
    - "drop": the same, without a warning

    `loader.stats()["ranks"]` counts what this rank repeated and dropped. With `steps_per_epoch`, each rank gives that
    many items: items left over are not used for the next epoch, and parts that are too short repeat items.

    Each rank reads a part of its own, unless `data_rank` and `data_ranks` give its part and the number of parts. With
    `data_rank=None` a rank gets None in place of each item. With a `mesh`, a DeviceMesh of all ranks, the parts are
    numbered along its `data_dims`, such as "dp". `others` says what ranks get that are not first along the other
    dimensions, for all dimensions, or in a dict by dimension. "same": they read the same items themselves; "broadcast":
    the first sends them its items; "none": those between the first and the last get None, as the middle stages of a
    pipeline.

    `timeout` is how many seconds a rank waits for the others. A late rank is named after five.

    With worker processes on each rank, use
    `SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(num_workers))`.

    Raises RuntimeError, when reading begins, if `torch.distributed` is not initialized, and on every rank if one does
    not answer or has nothing to read; ValueError if one has another chain, seed or state.
    """

    @takes_only(num_workers=_IN_SEQUENCE, workers=_IN_SEQUENCE)
    @telling_other_ranks()
    def __init__(
        self,
        timeout: float = 1800,
        *,
        num_shards: int | None = None,
        ends: Ends = "pad",
        steps_per_epoch: int | None = None,
        mesh: Any = None,
        data_dims: str | tuple[str, ...] | None = None,
        others: Others | Mapping[str, Others] = "same",
        data_rank: int | None = None,
        data_ranks: int | None = None,
        require_sharding: bool = True,
    ) -> None:
        super().__init__(require_sharding=require_sharding)
        expect_seconds("timeout", timeout)
        if ends not in get_args(Ends):
            raise ValueError(f"ends must be one of {', '.join(get_args(Ends))}, and is {ends!r}")
        for name, number in {"num_shards": num_shards, "steps_per_epoch": steps_per_epoch}.items():
            if number is not None:
                expect_whole(name, number)
        if (mesh is not None and data_ranks is not None) or (data_rank is not None and data_ranks is None):
            raise ValueError("give a mesh with data_dims, or data_rank and data_ranks")
        policies = {*(others.values() if isinstance(others, Mapping) else [others])}
        if unknown := policies - {*get_args(Others)}:
            raise ValueError(f"others must be one of {', '.join(get_args(Others))}, and is {min(unknown)!r}")
        if mesh is None and data_dims is not None:
            raise ValueError(f"data_dims are dimensions of a mesh, and none is given beside {data_dims!r}")
        if mesh is None and not (others == "same" or (others == "broadcast" and data_ranks is not None)):
            raise ValueError(
                f'others={others!r} is for a mesh; with data_ranks, it may be "broadcast", and data_rank=None is "none"'
            )
        self.timeout = timeout
        self.ends = ends
        self.steps_per_epoch = steps_per_epoch
        self.given_shards = num_shards
        self._part: Part | None = None
        if mesh is not None:
            self._part = _part_in_mesh(mesh, data_dims, others)
        elif data_ranks is not None:
            if data_rank is not None and not 0 <= data_rank < data_ranks:
                raise ValueError(f"data_rank must be in 0 … {data_ranks - 1}, or None, and is {data_rank}")
            self._part = Part(data_rank, data_ranks, others == "broadcast")

    @property
    def ranks(self) -> int:
        """The number of ranks that read different parts."""
        return self._part.ranks if self._part is not None else number_of_ranks()

    def how_read(self, ranks: int = 1, num_shards: int | None = None) -> ReadPlan:
        return super().how_read(self.ranks)

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        self.share(self.new_rank_sync(), None)
        return super().initialize(datapipe)

    def new_rank_sync(self) -> RankSync:
        """Return the `RankSync` of the ranks."""
        rank, ranks = expect_ranks("DistributedReadingService")
        return RankSync(self._part or Part(rank, ranks), self.ends, self.steps_per_epoch, self.timeout)


def _part_in_mesh(mesh: Any, data_dims: Any, others: Any) -> Part:
    names = mesh.mesh_dim_names or ()
    dims = (data_dims,) if isinstance(data_dims, str) else tuple(data_dims or ())
    if not dims or not {*dims} <= {*names}:
        raise ValueError(f"data_dims must be dimensions of the mesh, {', '.join(names)}, and is {data_dims!r}")
    rest = [name for name in names if name not in dims]
    if isinstance(others, Mapping) and not others.keys() <= {*rest}:
        raise ValueError(f"others is by the mesh's other dimensions, {', '.join(rest)}, and is {dict(others)!r}")
    policies = {name: others.get(name, "same") if isinstance(others, Mapping) else others for name in rest}
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ValueError("the mesh must contain all ranks, and this one is missing")
    at = dict(zip(names, coordinate, strict=True))
    size = {name: mesh.size(names.index(name)) for name in names}
    number = 0
    for name in dims:
        number = number * size[name] + at[name]
    is_between = any(policies[name] == "none" and 0 < at[name] < size[name] - 1 for name in rest)
    parts = math.prod(size[name] for name in dims)
    return Part(None if is_between else number, parts, "broadcast" in policies.values())


class SequentialReadingService(ReadingServiceInterface):
    """Read the chain through several services; each gets the chain that the one before it returned.

    >>> from penstock import MultiProcessingReadingService
    >>> service = SequentialReadingService(DistributedReadingService(), MultiProcessingReadingService(num_workers=2))
    """

    @takes_only()
    def __init__(self, *reading_services: ReadingServiceInterface) -> None:
        for place, service in enumerate(reading_services):
            if not isinstance(service, ReadingServiceInterface):
                raise TypeError(f"SequentialReadingService takes reading services, and this is {service!r:.100}")
            if isinstance(service, DistributedReadingService) and place:
                raise ValueError(
                    "DistributedReadingService must come first: the others would read other ranks' items too"
                )
            if (
                isinstance(service, ShardingReadingService)
                and place > 1
                and isinstance(reading_services[0], DistributedReadingService)
            ):
                raise ValueError("one service reads what DistributedReadingService shares out, and these are more")
        self.reading_services = reading_services
        first, *others = reading_services or (None,)
        self._ranks = first if isinstance(first, DistributedReadingService) else None
        self._reader = next((each for each in others if isinstance(each, ShardingReadingService)), None)
        self._used = reading_services if self._ranks is None or self._reader is None else (*others,)
        """The services that read, without the ranks' own if a later one reads for them."""

    @property
    def num_shards(self) -> int | None:
        return next((number for each in self._used if (number := each.num_shards) is not None), None)

    @num_shards.setter
    def num_shards(self, number: int | None) -> None:
        for service in self._used:
            if service.num_shards is not None:
                service.num_shards = number

    @property
    def rank_sync(self) -> RankSync | None:
        return next((each.rank_sync for each in self._used if each.rank_sync is not None), None)

    def how_read(self) -> ReadPlan | None:
        if self._ranks is None or self._reader is None:
            return next((found for each in self._used if (found := each.how_read()) is not None), None)
        how = self._reader.how_read(self._ranks.ranks, self._ranks.given_shards)
        return replace(how, may_repeat=how.may_repeat or not self._ranks.require_sharding)

    def autotune(self) -> None:
        sharding = [service for service in self._used if isinstance(service, ShardingReadingService)]
        if not sharding:
            super().autotune()
        for service in sharding:
            service.autotune()

    def initialize(self, datapipe: IterDataPipe[Any]) -> IterDataPipe[Any]:
        if self._ranks is not None and self._reader is not None:
            self._reader.share(self._ranks.new_rank_sync(), self._ranks.given_shards)
            self._reader.require_sharding &= self._ranks.require_sharding
        for service in self._used:
            datapipe = service.initialize(datapipe)
        return datapipe

    def initialize_iteration(
        self, seed_generator: SeedGenerator, iter_reset_fn: Callable[[Any], Any] | None = None
    ) -> Callable[[Any], Any] | None:
        for service in self._used:
            iter_reset_fn = service.initialize_iteration(seed_generator, iter_reset_fn)
        return iter_reset_fn

    def finalize_iteration(self) -> None:
        for service in reversed(self._used):
            service.finalize_iteration()

    def finalize(self) -> None:
        for service in reversed(self._used):
            service.finalize()
