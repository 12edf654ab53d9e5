"""The seeds of an epoch, handed out one by one."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from numbers import Number
from types import NoneType
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ..registry import derive_seed, expect_whole, seed_graph, walk
from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe, declares
from ..state.graph import DataPipe

_DRAW_NOTHING = (
    TorchIterDataPipe,
    TorchMapDataPipe,
    type,
    range,
    str,
    bytes,
    Number,
    NoneType,
    torch.Tensor,
    np.ndarray,
)
_OURS = ("penstock.", "builtins", "torch.utils.data.")
_FEW = 100
"""A longer list is one of items, and not of functions."""


class SeedGenerator:
    """Generates an epoch's seeds from one seed; without one, torch's generator draws it.

    Generators of one seed with different `worker_id`s, as `spawn` makes, give the same shared seeds.

    >>> first, second = SeedGenerator(7), SeedGenerator(7).spawn(1)
    >>> first.generate_shared_seed() == second.generate_shared_seed()
    True
    >>> first.generate_seed() == second.generate_seed()
    False
    """

    def __init__(self, seed: int | None = None, epoch: int = 0) -> None:
        self.worker_id = 0
        self.epoch = epoch
        self.seed(seed)

    def seed(self, seed: int | None = None) -> None:
        """Restart from a seed."""
        self.base_seed = int(torch.empty((), dtype=torch.int64).random_().item()) if seed is None else seed
        self._drawn = {"own": 0, "shared": 0}

    def generate_seed(self) -> int:
        """Return this process's next own seed."""
        return self._next("own", self.worker_id)

    def generate_shared_seed(self) -> int:
        """Return the next seed common to all processes."""
        return self._next("shared")

    def spawn(self, worker_id: int, inplace: bool = False) -> SeedGenerator:
        """Return a generator for a worker or rank; with `inplace`, it is this one."""
        expect_whole("worker_id", worker_id, least=0)
        spawned = self if inplace else copy.copy(self)
        spawned.worker_id, spawned._drawn = worker_id, {**self._drawn, "own": 0}
        return spawned

    def _next(self, kind: str, *whose: int) -> int:
        self._drawn[kind] += 1
        of_epoch = derive_seed(self.base_seed, self.epoch)
        return derive_seed(of_epoch, int(kind == "shared"), self._drawn[kind], *whose)


def set_graph_random_seed(datapipe: DataPipe, seed_generator: SeedGenerator) -> DataPipe:
    """Seed all random pipes of a chain, and return it.

    Above a sharding point, all generators of one seed give the same seeds; below it, the seeds depend on `worker_id`.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(9)).shuffle()
    >>> list(set_graph_random_seed(dp, SeedGenerator(1))) == list(set_graph_random_seed(dp, SeedGenerator(1)))
    True
    """
    seed_graph(datapipe, seed_generator.generate_shared_seed(), seed_generator.worker_id)
    return datapipe


def set_datapipes_seed(datapipes: Iterable[Any], seed_generator: SeedGenerator, distributed_shared: bool) -> None:
    """Give each random pipe the generator's next seed, own or shared."""
    for pipe in datapipes:
        if declares(pipe, "set_seed"):
            pipe.set_seed(
                seed_generator.generate_shared_seed() if distributed_shared else seed_generator.generate_seed()
            )


def dist_share_seed(seed: int, process_group: dist.ProcessGroup | None = None) -> int:
    """Return the seed of rank 0 of a process group; all its ranks must call this."""
    shared = torch.tensor(seed % 2**63, dtype=torch.int64)
    dist.broadcast(shared, 0, group=process_group)
    return int(shared.item())


def may_draw(chain: DataPipe) -> bool:
    """Say whether making an item may draw from global generators: a step is not ours, or has a function of others."""
    parts = walk(chain)
    return any(not _is_ours(type(part)) or any(map(_is_foreign_code, vars(part).values())) for part in parts)


def _is_foreign_code(value: object) -> bool:
    if isinstance(value, (list, tuple, dict)):
        return len(value) <= _FEW and any(
            map(_is_foreign_code, [*value.values()] if isinstance(value, dict) else value)
        )
    return not (isinstance(value, _DRAW_NOTHING) or _is_ours(value))


def _is_ours(code: Any) -> bool:
    return str(getattr(code, "__module__", "")).startswith(_OURS)
