"""Graphs of chains, as nested dicts, and changes of them: the functions of `torchdata.dataloader2.graph`."""

from __future__ import annotations

import copy
from typing import Any

from ..state.foreign import TorchIterDataPipe, TorchMapDataPipe, declared
from ..state.graph import DataPipe, pipes_in, sources_first, sources_of, walk

__all__ = ["DataPipe", "DataPipeGraph", "find_dps", "list_dps", "remove_dp", "replace_dp", "traverse_dps"]

DataPipeGraph = dict[int, tuple[DataPipe, "DataPipeGraph"]]
"""A pipe by its id, with the graph of its sources: `{id: (pipe, {id: (pipe, …), …})}`."""


def traverse_dps(datapipe: DataPipe) -> DataPipeGraph:
    """Return a chain as a graph of nested dicts; a pipe that several others read appears below each.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper("ab").map(str.upper)
    >>> traverse_dps(dp) == {id(dp): (dp, {id(dp.source): (dp.source, {})})}
    True
    """
    if not isinstance(datapipe, (TorchIterDataPipe, TorchMapDataPipe)):
        raise TypeError(f"a pipe is needed, and this is of type {type(datapipe).__name__}")
    pipes = [*walk(datapipe)]
    graphs: dict[int, DataPipeGraph] = {id(pipe): {} for pipe in pipes}
    for pipe in pipes:
        graphs[id(pipe)].update({id(source): (source, graphs[id(source)]) for source in sources_of(pipe)})
    return {id(datapipe): (datapipe, graphs[id(datapipe)])}


def list_dps(graph: DataPipeGraph, exclude_dps: DataPipe | list[DataPipe] | None = None) -> list[DataPipe]:
    """Return the pipes of a graph, breadth first, each once, without `exclude_dps` and all that these read from.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper("ab").map(str.upper).batch(2)
    >>> [type(pipe).__name__ for pipe in list_dps(traverse_dps(dp), exclude_dps=dp.source)]
    ['Batcher']
    """
    # `is None`, since the truth of a pipe may be that of its length.
    excluded = exclude_dps if isinstance(exclude_dps, (list, tuple)) else [] if exclude_dps is None else [exclude_dps]
    seen = {id(pipe) for pipe in sources_first(*excluded)}
    found: list[DataPipe] = []
    level = graph
    while level:
        below: DataPipeGraph = {}
        for key, (pipe, sources) in level.items():
            if key not in seen:
                seen.add(key)
                found.append(pipe)
                below.update(sources)
        level = below
    return found


def find_dps(graph: DataPipeGraph, dp_type: type) -> list[DataPipe]:
    """Return the pipes of a graph whose type is `dp_type`, not a subclass.

    Our operator and torch's of the same name count as one: `find_dps(graph, Shuffler)` finds both.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(4)).shuffle().batch(2)
    >>> find_dps(traverse_dps(dp), ps.iter.Shuffler) == [dp.source]
    True
    """
    return [pipe for pipe in list_dps(graph) if _operator_of(type(pipe)) == _operator_of(dp_type)]


def replace_dp(graph: DataPipeGraph, old_datapipe: DataPipe, new_datapipe: DataPipe) -> DataPipeGraph:
    """Let the readers of one pipe read from another instead, and return the new graph.

    The new pipe may read from the old one, which inserts a step. The pipes are changed, not copied.

    >>> import penstock as ps
    >>> numbers = ps.iter.IterableWrapper(range(4))
    >>> dp = numbers.batch(2)
    >>> graph = replace_dp(traverse_dps(dp), numbers, numbers.map(lambda x: x * 10))
    >>> list(dp)
    [[0, 10], [20, 30]]
    """
    for reader in list_dps(graph):
        payload = declared(reader, "payload", ())
        for name, value in [*vars(reader).items()]:
            if name not in payload and any(pipe is old_datapipe for pipe in pipes_in(value)):
                setattr(reader, name, _replaced(value, old_datapipe, new_datapipe))
    ends = [new_datapipe if pipe is old_datapipe else pipe for pipe, _ in graph.values()]
    return {key: entry for end in ends for key, entry in traverse_dps(end).items()}


def remove_dp(graph: DataPipeGraph, datapipe: DataPipe) -> DataPipeGraph:
    """Let the readers of a pipe read from its source instead, and return the new graph.

    Raises RuntimeError if the pipe has no source, or several.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(4)).map(str).batch(2)
    >>> graph = remove_dp(traverse_dps(dp), dp.source)
    >>> list(dp)
    [[0, 1], [2, 3]]
    """
    sources = sources_of(datapipe)
    if len(sources) != 1:
        raise RuntimeError(
            f"only a pipe that reads from one other can be removed, and {type(datapipe).__name__} reads from "
            f"{len(sources)}: use replace_dp"
        )
    return replace_dp(graph, datapipe, sources[0])


def _operator_of(cls: type) -> object:
    """Return a key that torch's and our class of the same name share; for other classes, the class itself."""
    kind = "iter" if issubclass(cls, TorchIterDataPipe) else "map"
    if cls.__module__.startswith("torch.utils.data."):
        return kind, cls.__name__.removesuffix("IterDataPipe").removesuffix("MapDataPipe")
    return (kind, cls.__name__) if cls.__module__.startswith("penstock.") else cls


def _replaced(value: Any, old: DataPipe, new: DataPipe) -> Any:
    """Return a value with one pipe replaced by another; lists, tuples, sets and dicts of pipes are copied."""
    if value is old:
        return new
    if not any(pipe is old for pipe in pipes_in(value)) or isinstance(value, (TorchIterDataPipe, TorchMapDataPipe)):
        return value
    if isinstance(value, dict):
        mapping = copy.copy(value)
        mapping.clear()
        mapping.update((_replaced(key, old, new), _replaced(part, old, new)) for key, part in value.items())
        return mapping
    parts = [_replaced(part, old, new) for part in value]
    if isinstance(value, list):
        items = copy.copy(value)
        items[:] = parts
        return items
    return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
