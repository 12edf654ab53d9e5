"""A chain with all that is known of its steps before anything is read."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ..state.foreign import TorchMapDataPipe
from ..state.graph import DataPipe, is_one_of_several, sources_first, sources_of, walk
from .facts import Facts, facts_of
from .how_read import HowRead

__all__ = ["Known", "is_map_style", "never_ends"]

_ENDLESS = (itertools.count, itertools.cycle)
_MOST_NAMED = 20


class Known:
    """The steps of a chain, sources first, with the facts of each. Nothing is read."""

    def __init__(self, end: DataPipe, how: HowRead | None = None) -> None:
        self.end = end
        self.how = how
        """How a loader reads the chain, if one does."""
        self.steps = sources_first(end)
        self._facts = {id(step): facts_of(step) for step in self.steps}
        self._sources = {id(step): sources_of(step) for step in self.steps}
        self._readers: dict[int, list[DataPipe]] = {id(step): [] for step in self.steps}
        for step in self.steps:
            for source in self._sources[id(step)]:
                self._readers[id(source)].append(step)
        self._names = {id(step): name for step, name in zip(self.steps, _numbered(self.steps), strict=True)}
        self._lengths: dict[int, int | None] = {}
        self._askable: set[int] = set()
        """The steps whose `len` reads nothing, by their ids."""
        self._endless: set[int] = set()
        for step in self.steps:
            if self._is_askable(step):
                self._askable.add(id(step))
            if self._never_ends(step):
                self._endless.add(id(step))

    def of(self, step: DataPipe) -> Facts:
        """Return the facts of a step."""
        return self._facts[id(step)]

    def does(self, step: DataPipe, *deeds: str) -> bool:
        """Say whether a step does one of these."""
        return not self._facts[id(step)].does.isdisjoint(deeds)

    def that(self, *deeds: str) -> Iterator[DataPipe]:
        """Yield the steps that do one of these."""
        return (step for step in self.steps if self.does(step, *deeds))

    def name(self, step: DataPipe) -> str:
        """Return the method of a step, or its class; with a number from the source on, if several have it."""
        return self._names[id(step)]

    def method(self, step: DataPipe) -> str:
        """Return the method of a step, or its class, as it is written."""
        return _name(step)

    def names(self, steps: list[DataPipe]) -> str:
        """Return the names of steps as a list in words; of many, those at both ends."""
        if len(steps) > _MOST_NAMED:
            first, last = steps[: _MOST_NAMED // 2], steps[-(_MOST_NAMED // 2) :]
            return f"{', '.join(map(self.name, first))}, …, {', '.join(map(self.name, last))}"
        *others, end = map(self.name, steps)
        return f"{', '.join(others)} and {end}" if others else end

    def sources(self, step: DataPipe) -> list[DataPipe]:
        """Return the pipes that a step reads from."""
        return self._sources[id(step)]

    def readers(self, step: DataPipe) -> list[DataPipe]:
        """Return the steps that read from a step."""
        return self._readers[id(step)]

    def above(self, step: DataPipe) -> Iterator[DataPipe]:
        """Yield all that a step reads from, nearest first."""
        return itertools.islice(walk(step), 1, None)

    def below(self, step: DataPipe) -> list[DataPipe]:
        """Return all steps that read from a step, also through others, nearest first."""
        found, waiting = dict[int, DataPipe](), [step]
        while waiting:
            for reader in self._readers[id(waiting.pop(0))]:
                if id(reader) not in found:
                    found[id(reader)] = reader
                    waiting.append(reader)
        return [*found.values()]

    def line(self, step: DataPipe) -> Iterator[DataPipe]:
        """Yield what a step reads from, nearest first, as long as each step has one source."""
        while len(sources := self.sources(step)) == 1:
            [step] = sources
            yield step

    def in_main_process(self) -> list[DataPipe]:
        """Return the steps from the first that must run in the main process on, where loaders cut the chain."""
        line = [self.end, *self.line(self.end)]
        last = max((place + 1 for place, step in enumerate(line) if self.of(step).in_main_process), default=0)
        return line[:last][::-1]

    def maker(self, step: DataPipe) -> DataPipe:
        """Return the step that made the items which a step gives: others on the way pass them on unchanged."""
        while self.of(step).passes_items and len(sources := self.sources(step)) == 1:
            [step] = sources
        return step

    def makes_items(self, step: DataPipe) -> bool:
        """Say whether a step works on items: it neither passes them on unchanged nor begins the chain."""
        return bool(self.sources(step)) and not self.of(step).passes_items

    def every_shard_reads(self, point: DataPipe) -> Iterator[DataPipe]:
        """Yield the steps before a sharding point that each shard runs on all items, nearest first."""
        if self.of(point).dispatches:
            return iter(())
        reached = walk(point, stop=lambda step: is_map_style(step) and not self.indexes(step))
        return (step for step in itertools.islice(reached, 1, None) if not is_map_style(step))

    def indexes(self, step: DataPipe) -> bool:
        """Say whether a step is read by index, and reads a stream for that."""
        return is_map_style(step) and not all(map(is_map_style, self.sources(step)))

    def length(self, step: DataPipe) -> int | None:
        """Return how many items a step gives; None if that is unknown before they are read."""
        if id(step) in self._askable and id(step) not in self._lengths:
            self._lengths[id(step)] = _length_of(step)
        return self._lengths.get(id(step))

    def is_endless(self, step: DataPipe) -> bool:
        """Say whether a step is known to give items for ever."""
        return id(step) in self._endless

    def _is_askable(self, step: DataPipe) -> bool:
        """Say whether `len` of a step reads nothing."""
        if self.indexes(step):  # the first `len` reads the stream
            return False
        return self.does(step, "sets_length") or all(id(source) in self._askable for source in self.sources(step))

    def _never_ends(self, step: DataPipe) -> bool:
        sources = [self.is_endless(source) for source in self.sources(step)]
        if self.does(step, "limits"):
            return any(sources) and vars(step).get("_limit") is None
        if self.does(step, "cycles"):
            return any(sources) or vars(step).get("_count", vars(step).get("count", 0)) is None
        if self.does(step, "merges", "pairs"):
            return bool(sources) and all(sources)
        return sources[0] if sources else isinstance(vars(step).get("iterable"), _ENDLESS)


def never_ends(chain: DataPipe) -> bool:
    """Say whether a chain is known to give items for ever."""
    return Known(chain).is_endless(chain)


def is_map_style(step: DataPipe) -> bool:
    """Say whether a step is read by index."""
    return isinstance(step, TorchMapDataPipe)


def _name(step: Any) -> str:
    if is_one_of_several(step):
        return f"{_name(step.source)}[{step.number}]"
    # Not inherited: a subclass is another operator.
    return vars(type(step)).get("functional_name") or type(step).__name__


def _numbered(steps: list[DataPipe]) -> Iterator[str]:
    """Yield the names of steps; those that several steps have get numbers."""
    names = [*map(_name, steps)]
    several, seen = Counter(names), Counter[str]()
    for name in names:
        seen[name] += 1
        yield f"{name} {seen[name]}" if several[name] > 1 else name


def _length_of(step: Any) -> int | None:
    try:
        return len(step)
    except Exception:  # unknown; if it fails, reading raises the error
        return None
