"""Definitions of data sets, and the pipes that they make."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, overload

from ..errors.hints import did_you_mean
from ..errors.secrets import without_secrets
from ..pipes.bases.input_columns import replacing_columns
from ..pipes.iter import Mapper
from ..registry import IterDataPipe, MapDataPipe, Tally, own
from ..registry.sharding import part_read, sharding_points
from ..state.foreign import declares
from ..state.graph import walk
from ..storage.addresses import is_local_path
from .fetching import path_of
from .files import Files
from .registry import enter
from .resource import Resource, unpacked_name

__all__ = ["Dataset", "Info", "IterDataset", "MapDataset", "arranged", "dataset"]

T = TypeVar("T")
Root = str | os.PathLike[str] | None
Pipe = Callable[..., IterDataPipe[T]]

_ANSWERS = {
    "download": ": what is missing is downloaded when the first sample is read",
    "transform": ": use .map, which gets the whole sample, as transforms.v2 take it",
    "target_transform": ": use .map, which gets the whole sample",
    "transforms": ": use .map, which gets the whole sample",
}
"""What torchvision's data sets take, and what to do here."""

_OF_ALL = ("root", "split", "train", "shuffle", "map_style")
"""The arguments that every data set takes."""


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


class IterDataset(IterDataPipe[T]):
    """Yield the samples of a split of a data set; a whole pass over a wrong number of them ends in a warning."""

    holds_items = False
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
            told = f"{self.info.title}({self.info.split!r}) should have {count} samples, and has {found}"
            warnings.warn(told, stacklevel=3)  # the line that reads it

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        return str(self.info)

    __str__ = __repr__

    def in_a_chain(self) -> str:
        """Return the text that stands for the data set in a longer chain."""
        return f"{self.info.title}({self.info.split!r})"


class MapDataset(MapDataPipe[T]):
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

    def __repr__(self) -> str:
        return str(self.info)

    __str__ = __repr__

    def in_a_chain(self) -> str:
        """Return the text that stands for the data set in a longer chain."""
        return f"{self.info.title}({self.info.split!r})"


class Dataset(Generic[T]):
    r"""A data set: what it is downloaded from, and the function that returns the chain of a split.

    `pipe(resources, split)` gets the resources by their names, as `Files`. Its chain shuffles and divides the samples
    where they are cheap, by `.shuffle().sharding_filter()`, and makes them afterwards, by `map` alone. A chain without
    a sharding point gets both at its end. Parameters of `pipe` that are given by keyword are options of the data set.

    The data set is called as `SST2(root, split)`, and returns a chain of the samples. `root` is a folder or a URL, by
    default `PENSTOCK_DATASETS` or `~/.cache/penstock`; the files are downloaded to a folder of the data set's `name` in
    it when the first sample is read. `split` is one name, by default the first, or several as a tuple, which gives a
    tuple of chains. Where the splits are "train" and "test", `train=True` or `False` says the same. Samples come in the
    order of the files, or at random with `shuffle=True`; torch's `DataLoader(shuffle=…)` switches that, too. With
    `map_style=True`, a pipe is returned that is read by index.

    `splits` has the number of items of each, or None; `count(split, **options)` returns it where it depends on options.
    `categories` may be such a function, too. Data sets of the same files share a `folder` in the root.

    Calling it raises ValueError for a split that there is not, and TypeError for an unknown argument. Reading raises
    FileNotFoundError where a file cannot be had or its layout has changed, RuntimeError where its digest is wrong.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import penstock as ps
    >>> def lines(resources, split):
    ...     "Words of three letters."
    ...     return resources["words"].open().readlines(return_path=False)
    >>> words = ps.datasets.Resource(name="words.txt", note="Write it yourself.")
    >>> Words = ps.datasets.Dataset("words", lines, resources={"words": words}, splits={"all": 3}, register=False)
    >>> root = tempfile.mkdtemp()
    >>> _ = Path(root, "words").mkdir()
    >>> _ = Path(root, "words", "words.txt").write_text("one\ntwo\nsix\n")
    >>> list(Words(root)), len(Words(root)), Words(root, map_style=True)[2]
    ([b'one', b'two', b'six'], 3, b'six')
    """

    def __init__(
        self,
        name: str,
        pipe: Pipe[T],
        *,
        splits: Mapping[str, int | None],
        resources: Mapping[str, Resource] | None = None,
        count: Callable[..., int | None] | None = None,
        categories: Sequence[str] | Callable[..., Sequence[str]] = (),
        licence: str = "",
        home_page: str = "",
        citation: str = "",
        title: str = "",
        folder: str = "",
        register: bool = True,
    ) -> None:
        if not splits or not isinstance(splits, Mapping):
            raise ValueError("give splits, a dict from the name of each split to its number of items, or None")
        _expect_names_apart((resources or {}).values())
        self.name = name
        self.pipe = pipe
        self.splits = splits
        self.resources = resources or {}
        self.count = count
        self.categories = categories
        self.licence = licence
        self.home_page = home_page
        self.citation = citation
        self.title = title or getattr(pipe, "__name__", name)
        self.folder = folder or name
        self.options = {
            each.name: each.default
            for each in inspect.signature(pipe).parameters.values()
            if each.kind is each.KEYWORD_ONLY
        }
        if taken := {*self.options} & {*_OF_ALL}:
            raise ValueError(f"every data set takes {', '.join(sorted(taken))}: give the option another name")
        self.__doc__ = pipe.__doc__
        self.__module__ = pipe.__module__
        self.__signature__ = self._signature()
        if register:
            enter(name, self)

    @overload
    def __call__(
        self,
        root: Root = None,
        split: str | None = None,
        *,
        train: bool | None = None,
        shuffle: bool = False,
        map_style: Literal[False] = False,
        **options: Any,
    ) -> IterDataset[T]: ...

    @overload
    def __call__(
        self,
        root: Root = None,
        split: str | None = None,
        *,
        train: bool | None = None,
        shuffle: Literal[False] = False,
        map_style: Literal[True],
        **options: Any,
    ) -> MapDataset[T]: ...

    @overload
    def __call__(
        self, root: Root, split: tuple[str, ...], *, shuffle: bool = False, map_style: bool = False, **options: Any
    ) -> tuple[Any, ...]: ...

    def __call__(
        self,
        root: Root = None,
        split: str | tuple[str, ...] | None = None,
        *,
        train: bool | None = None,
        shuffle: bool = False,
        map_style: bool = False,
        **options: Any,
    ) -> Any:
        options = self._checked_options(options)
        splits = self._checked_splits(split, train)
        folder = _joined(_default_root() if root is None else os.fspath(root), self.folder)
        made = tuple(self._made(folder, each, options, shuffle, map_style) for each in splits)
        return made if isinstance(split, (tuple, list)) else made[0]

    def __repr__(self) -> str:
        return f"<data set {self.title}: {self.summary}>"

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return inspect.cleandoc(self.__doc__ or "").partition("\n")[0]

    def _made(
        self, folder: str, split: str, options: dict[str, Any], shuffle: bool, map_style: bool
    ) -> IterDataset[T] | MapDataset[T]:
        count = self.count or (lambda split, **_: self.splits[split])
        counts = {each: count(each, **options) for each in self.splits}
        facts = {name: getattr(self, name) for name in ("licence", "home_page", "citation", "resources")}
        facts["categories"] = self.categories(split, **options) if callable(self.categories) else self.categories
        info = Info(self.title, self.name, self.summary, split, options, counts, folder=folder, **facts)
        chain = self.pipe({name: Files(each, folder) for name, each in self.resources.items()}, split, **options)
        return arranged(chain, info, shuffle, map_style)

    def _checked_splits(self, split: str | tuple[str, ...] | None, train: bool | None) -> tuple[str, ...]:
        known = ", ".join(map(repr, self.splits))
        if isinstance(split, bool) and train is None:  # as torchvision's data sets take it
            split, train = None, split
        if train is not None:
            if not isinstance(train, bool):
                raise TypeError(f"train must be True or False, and is {train!r:.50}")
            if {*self.splits} != {"train", "test"}:
                raise TypeError(f"{self.title} takes split=, one of {known}, not train=")
            if split is not None:
                raise TypeError("split and train say the same: give only one")
            split = "train" if train else "test"
        wanted = (
            tuple(split) if isinstance(split, (tuple, list)) else (next(iter(self.splits)) if split is None else split,)
        )
        for each in wanted:
            if each not in self.splits:
                raise ValueError(
                    f"{self.title} has the splits {known}, not {each!r}{did_you_mean(str(each), [*self.splits])}"
                )
        return wanted

    def _checked_options(self, options: dict[str, Any]) -> dict[str, Any]:
        for name in options:
            if name not in self.options:
                known = [*_OF_ALL, *self.options]
                answer = _ANSWERS.get(name, did_you_mean(name, known))
                raise TypeError(f"{self.title} takes {', '.join(known)}, not {name}{answer}")
        return {**self.options, **options}

    def _signature(self) -> inspect.Signature:
        general = [*inspect.signature(Dataset.__call__).parameters.values()][1:-1]
        own = [each for each in inspect.signature(self.pipe).parameters.values() if each.kind is each.KEYWORD_ONLY]
        return inspect.Signature([*general, *own])


def dataset(
    name: str,
    *,
    splits: Mapping[str, int | None],
    resources: Mapping[str, Resource] | None = None,
    **facts: Any,
) -> Callable[[Pipe[T]], Dataset[T]]:
    """Make a data set of a function `fn(resources, split)` that returns the chain of a split: `Dataset` as a decorator.

    >>> import penstock as ps
    >>> @ps.datasets.dataset("numbers", splits={"even": 2, "odd": 2}, register=False)
    ... def Numbers(resources, split):
    ...     "Small numbers."
    ...     return ps.iter.IterableWrapper([0, 2] if split == "even" else [1, 3])
    >>> list(Numbers(split="odd"))
    [1, 3]
    >>> print(Numbers(split="odd"))
    Numbers: Small numbers.
      split       'odd', of even (2), odd (2)
    """
    return lambda fn: Dataset(name, fn, splits=splits, resources=resources, **facts)


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
    if steps and count is not None:
        steps[0].source = steps[0].source.set_length(count)  # so each shard knows its part of it
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


def _default_root() -> str:
    return os.environ.get("PENSTOCK_DATASETS") or "~/.cache/penstock"


def _joined(root: str, folder: str) -> str:
    """Return the path or URL of a folder in a root; a path does not follow a later change of the working folder."""
    if "://" in root:
        return f"{root}{'' if root.endswith('/') else '/'}{folder}"
    return os.path.join(os.path.abspath(os.path.expanduser(root)), folder)


def _expect_names_apart(resources: Iterable[Resource]) -> None:
    """Raise ValueError if two resources would be kept under one name, or unpacked to it."""
    kept: dict[str, Resource] = {}
    for resource in resources:
        for name in {resource.name, unpacked_name(resource.name) if resource.unpack else resource.name}:
            if kept.setdefault(name, resource) != resource:
                raise ValueError(f"two resources would be kept as {name!r}: give one of them another name=")
