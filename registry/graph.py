"""Walking a chain: which pipes a pipe reads from. Nothing is pickled and no item is touched."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from .torch_pipes import TorchIterDataPipe, TorchMapDataPipe

__all__ = [
    "DataPipe",
    "DataPipeGraph",
    "copy_of",
    "find_dps",
    "is_one_of_several",
    "list_dps",
    "pipes_in",
    "remove_dp",
    "replace_dp",
    "sources_of",
    "traverse_dps",
    "walk",
]

DataPipe = TorchIterDataPipe[Any] | TorchMapDataPipe[Any]
DataPipeGraph = dict[int, tuple[DataPipe, "DataPipeGraph"]]
"""A pipe by its id, and with it the graph of those that it reads from: `{id: (pipe, {id: (pipe, …), …})}`."""


def sources_of(pipe: DataPipe) -> list[DataPipe]:
    """Return the pipes that a pipe holds: its attributes, and those inside its lists, tuples, sets and dicts.

    Attributes that the class names in `payload` hold items, not sources, and are left alone.

    >>> import penstock as ps
    >>> numbers, letters = ps.iter.IterableWrapper([1, 2]), ps.iter.IterableWrapper("ab")
    >>> sources_of(numbers.zip(letters)) == [numbers, letters]
    True
    """
    payload = getattr(type(pipe), "payload", ())
    attributes = [*vars(pipe).items()]  # copied at one go: another thread may be reading the pipe
    return [source for name, value in attributes if name not in payload for source in pipes_in(value)]


def pipes_in(value: object) -> Iterator[DataPipe]:
    """Yield the pipes in a value: itself, or those inside a list, tuple, set or dict."""
    if isinstance(value, (TorchIterDataPipe, TorchMapDataPipe)):
        yield value
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from pipes_in(part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from pipes_in(key)
            yield from pipes_in(part)


def walk(pipe: DataPipe, stop: Callable[[DataPipe], bool] | None = None) -> Iterator[DataPipe]:
    """Yield a pipe and then everything that it reads from, depth first, each pipe once.

    What a pipe reads from for which `stop` is true is left out.

    >>> import penstock as ps
    >>> [type(p).__name__ for p in walk(ps.iter.IterableWrapper("ab").map(str.upper).batch(2))]
    ['Batcher', 'Mapper', 'IterableWrapper']
    """
    seen: set[int] = set()
    waiting = [pipe]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            if stop is None or not stop(current):
                waiting.extend(reversed(sources_of(current)))


def copy_of(chain: Any) -> Any:
    """Return a chain of its own, that shares the items which the pipes of the other hold."""
    pipes = [*walk(chain)]
    items = [vars(pipe).get(name) for pipe in pipes for name in getattr(pipe, "payload", ())]
    # A pipe among them is another pipe's source, and of no use to two chains.
    kinds = (TorchIterDataPipe, TorchMapDataPipe)
    copied: dict[int, Any] = {id(item): item for item in items if not isinstance(item, kinds)}
    for pipe in reversed(pipes):  # sources first, or a long chain would be a deep recursion
        copy.deepcopy(pipe, copied)
    return copied[id(chain)]


def is_one_of_several(pipe: DataPipe) -> bool:
    """Say whether a pipe is one of several that were made at once of its source, which is read through them only."""
    return getattr(type(pipe), "is_one_of_several", False)


def traverse_dps(datapipe: DataPipe) -> DataPipeGraph:
    """Return a chain as a graph: nested dicts, in which a pipe that several others read from stands below each.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper("ab").map(str.upper)
    >>> traverse_dps(dp) == {id(dp): (dp, {id(dp.source): (dp.source, {})})}
    True
    """
    if not isinstance(datapipe, (TorchIterDataPipe, TorchMapDataPipe)):
        raise TypeError(f"a graph is made of a pipe, and this is of type {type(datapipe).__name__}")
    graphs: dict[int, DataPipeGraph] = {}

    def graph_of(pipe: DataPipe) -> DataPipeGraph:
        if id(pipe) not in graphs:
            graph = graphs[id(pipe)] = {}
            graph.update({id(source): (source, graph_of(source)) for source in sources_of(pipe)})
        return graphs[id(pipe)]

    return {id(datapipe): (datapipe, graph_of(datapipe))}


def list_dps(graph: DataPipeGraph, exclude_dps: DataPipe | list[DataPipe] | None = None) -> list[DataPipe]:
    """Return the pipes of a graph, breadth first, each once, but for `exclude_dps` and all that these read from.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper("ab").map(str.upper).batch(2)
    >>> [type(pipe).__name__ for pipe in list_dps(traverse_dps(dp), exclude_dps=dp.source)]
    ['Batcher']
    """
    # Not by the truth of a pipe, which is that of its length.
    excluded = exclude_dps if isinstance(exclude_dps, (list, tuple)) else [] if exclude_dps is None else [exclude_dps]
    seen = {id(pipe) for each in excluded for pipe in walk(each)}
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
    """Return the pipes of a graph that are of a type itself, and not of a subclass.

    An operator of ours and torch's of the same name are one: `find_dps(graph, Shuffler)` finds both.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(4)).shuffle().batch(2)
    >>> find_dps(traverse_dps(dp), ps.iter.Shuffler) == [dp.source]
    True
    """
    return [pipe for pipe in list_dps(graph) if _operator_of(type(pipe)) == _operator_of(dp_type)]


def replace_dp(graph: DataPipeGraph, old_datapipe: DataPipe, new_datapipe: DataPipe) -> DataPipeGraph:
    """Let the pipes that read from one pipe read from another, and return the graph that this makes.

    The new pipe may read from the old one, which puts a step in between. The pipes are changed, not copied.

    >>> import penstock as ps
    >>> numbers = ps.iter.IterableWrapper(range(4))
    >>> dp = numbers.batch(2)
    >>> graph = replace_dp(traverse_dps(dp), numbers, numbers.map(lambda x: x * 10))
    >>> list(dp)
    [[0, 10], [20, 30]]
    """
    for reader in list_dps(graph):
        payload = getattr(type(reader), "payload", ())
        for name, value in [*vars(reader).items()]:
            if name not in payload and any(pipe is old_datapipe for pipe in pipes_in(value)):
                setattr(reader, name, _replaced(value, old_datapipe, new_datapipe))
    ends = [new_datapipe if pipe is old_datapipe else pipe for pipe, _ in graph.values()]
    return {key: entry for end in ends for key, entry in traverse_dps(end).items()}


def remove_dp(graph: DataPipeGraph, datapipe: DataPipe) -> DataPipeGraph:
    """Let what reads from a pipe read from its source instead, and return the graph that this makes.

    Raises RuntimeError for a pipe that reads from none, or from several.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(4)).map(str).batch(2)
    >>> graph = remove_dp(traverse_dps(dp), dp.source)
    >>> list(dp)
    [[0, 1], [2, 3]]
    """
    sources = sources_of(datapipe)
    if len(sources) != 1:
        raise RuntimeError(
            f"a pipe can be removed that reads from one other, and {type(datapipe).__name__} reads from "
            f"{len(sources)}: use replace_dp"
        )
    return replace_dp(graph, datapipe, sources[0])


def _operator_of(cls: type) -> object:
    """What is the same for torch's class of an operator and ours of that name; any other class itself."""
    kind = "iter" if issubclass(cls, TorchIterDataPipe) else "map"
    if cls.__module__.startswith("torch.utils.data."):
        return kind, cls.__name__.removesuffix("IterDataPipe").removesuffix("MapDataPipe")
    return (kind, cls.__name__) if cls.__module__.startswith("penstock.") else cls


def _replaced(value: Any, old: DataPipe, new: DataPipe) -> Any:
    """A value with one pipe in the place of another; lists, tuples, sets and dicts of pipes are copied for that."""
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
