"""The pipes of samples that data sets return, and the arrangement of their chains."""

from __future__ import annotations

import functools
import operator
import os
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors.secrets import without_secrets
from ..pipes.bases.input_columns import replacing_columns
from ..pipes.bases.one_to_one import OneToOne
from ..pipes.iter import Mapper
from ..registry import IterDataPipe, MapDataPipe, Tally, own
from ..registry.sharding import part_read, sharding_points
from ..state.foreign import declares
from ..state.graph import walk
from ..storage.addresses import is_local_path
from .fetching import path_of
from .resource import Resource

T = TypeVar("T")


@dataclass(frozen=True)
class Info:
    """What is known of one split of a data set."""

    title: str
    name: str
    summary: str
    split: str
    options: Mapping[str, Any]
    splits: Mapping[str, int | None]
    """The number of items of each split; None where it is not known."""
    categories: Sequence[str]
    """The names of the classes: label 0 is the first."""
    licence: str
    home_page: str
    citation: str
    resources: Mapping[str, Resource]
    folder: str
    """Where its files are, or are downloaded to."""

    def __str__(self) -> str:
        named = ", ".join(name if count is None else f"{name} ({count:,})" for name, count in self.splits.items())
        chosen = ", ".join([repr(self.split), *(f"{name}={value!r}" for name, value in self.options.items())])
        more = f", … ({len(self.categories)})" if len(self.categories) > 8 else ""
        files = list(self.resources.values())
        there = "in" if all(map(self._is_on_disk, files)) else "downloaded when first read, to"
        where = "" if all(each.is_installed for each in files) else f"{there} {without_secrets(self.folder)}: "
        facts = {
            "split": f"{chosen}, of {named}",
            "categories": ", ".join(self.categories[:8]) + more,
            "files": where + ", ".join(map(str, files)),
            "licence": self.licence,
            "home page": self.home_page,
            "citation": self.citation,
        }
        lines = [
            f"  {name:<10}  {textwrap.shorten(text, 120, placeholder=' …')}" for name, text in facts.items() if text
        ]
        return "\n".join([f"{self.title}: {self.summary}", *lines])

    def _is_on_disk(self, resource: Resource) -> bool:
        place = path_of(resource, self.folder)
        return is_local_path(place) and os.path.exists(place)


class _ShownByInfo:
    """A pipe whose text is that of its `info`."""

    info: Info

    def __repr__(self) -> str:
        return str(self.info)

    __str__ = __repr__

    def in_a_chain(self) -> str:
        """Return the text of the data set in a longer chain."""
        return f"{self.info.title}({self.info.split!r})"


class IterDataset(_ShownByInfo, OneToOne[T]):
    """Yield the samples of a split of a data set; a whole pass over a wrong number of them ends in a warning."""

    keeps_rows = True
    given: Tally = own(Tally)

    def __init__(self, source: IterDataPipe[T], info: Info) -> None:
        self.source = source
        self.info = info

    def __iter__(self) -> Iterator[T]:
        return self.given.follow(self.source)

    def at_end(self) -> None:
        count, found = self.info.splits[self.info.split], self.given.items
        parts, _ = part_read(self)
        if parts == 1 and count not in (None, found):
            text = f"{self.info.title}({self.info.split!r}) should have {count} samples, and has {found}"
            warnings.warn(text, stacklevel=3)  # the line that reads it


class MapDataset(_ShownByInfo, MapDataPipe[T]):
    """Give the samples of a split of a data set by index; the first access reads what comes before its shuffle."""

    def __init__(self, source: MapDataPipe[T], info: Info) -> None:
        self.source = source
        self.info = info

    def __getitem__(self, index: int) -> T:
        index, length = operator.index(index), len(self)
        if (found := len(self.source)) != length:
            raise RuntimeError(f"{self.info.title} should have {length} samples, and has {found}")
        if not -length <= index < length:
            raise IndexError(f"{self.info.title} has {length} samples, and none at {index}")
        return self.source[index % length]

    def __len__(self) -> int:
        count = self.info.splits[self.info.split]
        return len(self.source) if count is None else count


def arranged(chain: IterDataPipe[T], info: Info, shuffle: bool, map_style: bool) -> IterDataset[T] | MapDataset[T]:
    """Return the data set of a chain of samples, with a shuffle and a sharding point.

    Raises ValueError if it is to be shuffled and read by index.
    """
    if shuffle and map_style:
        raise ValueError("a data set that is read by index has no order: give shuffle or map_style, or .shuffle() it")
    if not isinstance(chain, IterDataPipe):
        raise TypeError(f"the function of {info.title} must return a chain, and returned {chain!r:.100}")
    if not (points := sharding_points(chain)):
        chain = chain.shuffle().sharding_filter()
    elif not any(declares(step, "set_shuffle") for point in points for step in walk(point)):
        for point in points:
            point.source = point.source.shuffle()  # type: ignore[union-attr]
    step: Any
    for step in walk(chain):
        if declares(step, "set_shuffle"):
            step.set_shuffle(shuffle)
    steps = _steps_from_shuffle(chain)
    if map_style:
        return MapDataset(_by_index(info.title, steps), info)
    count = info.splits[info.split]
    if count is not None and steps:
        steps[0].source = steps[0].source.set_length(count)  # so each shard knows its part of it
    elif count is not None:
        chain = chain.set_length(count)
    return IterDataset(chain, info)


def _steps_from_shuffle(chain: Any) -> list[Any]:
    """Return the shuffle of a chain, its sharding point, and the steps after it; empty unless those are all `map`."""
    steps = [chain]
    while isinstance(steps[0], Mapper):
        steps.insert(0, steps[0].source)
    if not declares(steps[0], "apply_sharding"):
        return []
    if declares(steps[0].source, "set_shuffle"):
        steps.insert(0, steps[0].source)
    return steps


def _by_index(title: str, steps: list[Any]) -> MapDataPipe[Any]:
    """Return what comes before a shuffle as a pipe read by index, with the functions after it."""
    if not steps:
        raise TypeError(f"{title} cannot be read by index: other steps than map follow its sharding_filter")
    samples: MapDataPipe[Any] = steps[0].source.enumerate().to_map_datapipe()
    for step in steps:
        if isinstance(step, Mapper):
            columns = functools.partial(_with_columns_replaced, step.fn, step.input_col, step.output_col)
            samples = samples.map(step.fn if step.input_col is None else columns, on_error=step.on_error)
    return samples


def _with_columns_replaced(fn: Callable[..., Any], input_col: Any, output_col: Any, item: Any) -> Any:
    return replacing_columns(fn, input_col, output_col)(item)  # which cannot be pickled itself
