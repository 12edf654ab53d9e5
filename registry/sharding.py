"""Sharding: setting the part of its stream that a chain reads."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from ..state.foreign import SHARDING_PRIORITIES, TorchMapDataPipe, declared, declares
from ..state.graph import DataPipe, sources_first, sources_of, walk
from ..state.step_text import step_text
from .traits import is_endless


def sharding_points(pipe: DataPipe, group: SHARDING_PRIORITIES | None = None) -> list[DataPipe]:
    """Return the sharding points of a chain: the pipes that have `apply_sharding`.

    With a `group`, only those of this level, and none before a point that divides the stream of a process among its
    workers.
    """
    reached = walk(pipe) if group is None else walk(pipe, stop=lambda step: _dispatches(step) and _counts(step, group))
    # On the class: an instance would load the plug-ins to look up the method.
    return [step for step in reached if declares(step, "apply_sharding") and _counts(step, group)]


def apply_sharding(
    pipe: DataPipe, num_of_instances: int, instance_id: int, group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT
) -> None:
    """Let a chain read part `instance_id` of `num_of_instances`, at each of its sharding points of this level.

    Raises RuntimeError if one sharding point reads from another of the same level, since items would be lost, if a step
    joins a source that is divided with one that is not, or if a point that can keep only one level is sharded at two.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(5)).sharding_filter()
    >>> apply_sharding(dp, 2, 1)
    >>> list(dp)
    [1, 3]
    """
    points = sharding_points(pipe, group)
    _expect_one_on_each_path(pipe, points)
    if num_of_instances > 1:
        expect_alike_sources(pipe, group)
        divide_items(pipe)
    for point in points:
        shard: Any = getattr(point, "apply_sharding")  # noqa: B009 - not every pipe has it
        if len(inspect.signature(shard).parameters) >= 3:
            shard(num_of_instances, instance_id, group)
        elif vars(point).setdefault("_sharded_at", group) != group:
            raise RuntimeError(
                f"{type(point).__name__} is sharded over ranks and over workers, and keeps the last only, which would "
                "give items twice: let its apply_sharding take num_of_instances, instance_id and sharding_group"
            )
        else:
            shard(num_of_instances, instance_id)


def part_read(chain: DataPipe) -> tuple[int, int]:
    """Return the total number of parts of a chain by its sharding filters, and the index of the part read."""
    shares: dict[int, tuple[int, int]] = {}
    pipe: Any
    for pipe in walk(chain):
        if declared(pipe, "is_sharding_filter", False):
            shares |= pipe.shares()
    return part_of(shares)


def part_of(shares: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """Return the total number of parts over several levels, and the index of the part read."""
    parts, part = 1, 0
    for _, (number, place) in sorted(shares.items(), reverse=True):
        part += parts * place
        parts *= number
    return parts, part


def _expect_one_on_each_path(pipe: DataPipe, points: list[DataPipe]) -> None:
    ids = {id(point) for point in points}
    nearest: dict[int, DataPipe] = {}  # by the id of a pipe: the last sharding point up to and including it
    for step in sources_first(pipe):
        above = next((nearest[id(source)] for source in sources_of(step) if id(source) in nearest), None)
        if id(step) in ids and above is not None:
            raise RuntimeError(
                f"the chain is sharded twice on one path, which would lose items: by {type(step).__name__}, and "
                f"before it by {type(above).__name__}; keep one of them"
            )
        if (found := step if id(step) in ids else above) is not None:
            nearest[id(step)] = found


def expect_alike_sources(chain: DataPipe, group: SHARDING_PRIORITIES | None = None) -> None:
    """Raise RuntimeError for a step that reads one source divided among the readers, and another one undivided.

    An undivided source may be endless. The sources named in a step's `whole_sources` must be undivided.
    """
    points = {id(point) for point in sharding_points(chain, group)}
    points |= {id(step) for step in walk(chain) if _dispatches(step) and _counts(step, group)}
    divided: dict[int, bool] = {}
    endless: dict[int, bool] = {}
    for step in sources_first(chain) if points else ():
        sources = sources_of(step)
        divided[id(step)] = id(step) in points or any(divided[id(source)] for source in sources)
        endless[id(step)] = is_endless(step, [endless[id(source)] for source in sources])
        looked_up = {name: vars(step)[name] for name in declared(step, "whole_sources", ())}
        for name, source in looked_up.items():
            if divided.get(id(source)):
                raise RuntimeError(
                    f"{step_text(step)} looks up items of {name}, which is divided among the readers, so that each "
                    f"would find a part of them only: take the sharding_filter out of {name}"
                )
        streams = [
            source
            for source in sources
            if not isinstance(source, TorchMapDataPipe) and all(source is not each for each in looked_up.values())
        ]
        undivided = [source for source in streams if not divided[id(source)]]
        if len(undivided) < len(streams) and not all(endless[id(source)] for source in undivided):
            raise RuntimeError(
                f"{step_text(step)} reads a source that is divided among the readers, and one that is not: each reader "
                "would get a part of one with the whole of the other. Put one sharding_filter after this step, or one "
                "into each source; an operator of your own that wants the whole of a source names its attribute in "
                "whole_sources"
            )


def divide_items(chain: DataPipe) -> None:
    """Let points that can, as `shard_files`, divide items in parts, but not where one step reads two divided sources.

    Parts have unequal numbers of rows, so that `zip` would pair others on each reader, and `mux` end elsewhere.
    """
    before: dict[int, dict[int, DataPipe]] = {}  # by the id of a pipe: the sharding points up to and including it
    for step in sources_first(chain):
        points = {key: point for source in sources_of(step) for key, point in before[id(source)].items()}
        if len(points) > 1:
            _set_division(points.values(), False)
        if declares(step, "apply_sharding"):
            points = {id(step): step}
            _set_division([step], True)
        before[id(step)] = points


def _set_division(points: Iterable[DataPipe], divides: bool) -> None:
    for point in points:
        if declared(point, "may_divide_items", False):
            vars(point)["divides_items"] = divides


def _counts(point: DataPipe, group: SHARDING_PRIORITIES | None) -> bool:
    wanted = vars(point).get("sharding_group_filter")
    return None in (wanted, group) or group in (wanted, SHARDING_PRIORITIES.DEFAULT)


def _dispatches(step: DataPipe) -> bool:
    return bool(declared(step, "dispatches", False))
