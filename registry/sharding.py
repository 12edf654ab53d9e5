"""Telling a chain which part of its stream it is to read."""

from __future__ import annotations

import inspect
from typing import Any

from .graph import DataPipe, sources_of, walk
from .torch_pipes import SHARDING_PRIORITIES

__all__ = ["apply_sharding", "sharding_points"]


def sharding_points(pipe: DataPipe) -> list[DataPipe]:
    """Return the pipes of a chain at which it divides its stream: those that have `apply_sharding`."""
    # The class is asked: a pipe would look for the method among the plug-ins, and load them.
    return [step for step in walk(pipe) if hasattr(type(step), "apply_sharding")]


def apply_sharding(
    pipe: DataPipe, num_of_instances: int, instance_id: int, group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT
) -> None:
    """Give a chain the `instance_id`-th of `num_of_instances` parts, at each of its sharding points.

    Raises RuntimeError where one sharding point reads from another, since items would be lost.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(5)).sharding_filter()
    >>> apply_sharding(dp, 2, 1)
    >>> list(dp)
    [1, 3]
    """
    for point in sharding_points(pipe):
        above = [again for source in sources_of(point) for again in sharding_points(source)]
        if above:
            raise RuntimeError(
                f"the chain is sharded twice on one path, which would lose items: by {type(point).__name__}, and "
                f"before it by {type(above[0]).__name__}; keep one of them"
            )
        shard: Any = point.apply_sharding
        takes_group = len(inspect.signature(shard).parameters) >= 3
        shard(num_of_instances, instance_id, *([group] if takes_group else []))
