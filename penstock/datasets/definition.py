"""Definitions of data sets."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Generic, Literal, TypeVar, overload

from ..errors.hints import did_you_mean
from ..registry import IterDataPipe
from .files import Files
from .registry import enter
from .resource import Resource, unpacked_name
from .sample_pipes import Info, IterDataset, MapDataset, arranged

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


@dataclass(eq=False, repr=False)
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

    name: str
    pipe: Pipe[T]
    _: KW_ONLY
    splits: Mapping[str, int | None]
    resources: Mapping[str, Resource] = field(default_factory=dict)
    count: Callable[..., int | None] | None = None
    categories: Sequence[str] | Callable[..., Sequence[str]] = ()
    licence: str = ""
    home_page: str = ""
    citation: str = ""
    title: str = ""
    folder: str = ""
    register: InitVar[bool] = True

    def __post_init__(self, register: bool) -> None:
        if not self.splits or not isinstance(self.splits, Mapping):
            raise ValueError("give splits, a dict from the name of each split to its number of items, or None")
        _expect_names_apart(self.resources.values())
        self.title = self.title or getattr(self.pipe, "__name__", self.name)
        self.folder = self.folder or self.name
        own = [each for each in inspect.signature(self.pipe).parameters.values() if each.kind is each.KEYWORD_ONLY]
        self.options = {each.name: each.default for each in own}
        if taken := {*self.options} & {*_OF_ALL}:
            raise ValueError(f"every data set takes {', '.join(sorted(taken))}: give the option another name")
        self.__doc__ = self.pipe.__doc__
        self.__module__ = self.pipe.__module__
        general = [*inspect.signature(Dataset.__call__).parameters.values()][1:-1]
        self.__signature__ = inspect.Signature([*general, *own])
        if register:
            enter(self.name, self)

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
        if isinstance(split, bool) and train is None:  # as torchvision's data sets take it
            split, train = None, split
        if train is not None:
            by_name, split = split, self._split_by_train(train)
            if by_name is not None:
                raise TypeError("split and train say the same: give only one")
        elif split is None:
            split = next(iter(self.splits))
        wanted = tuple(split) if isinstance(split, (tuple, list)) else (split,)
        for each in wanted:
            if each not in self.splits:
                nearest = did_you_mean(str(each), [*self.splits])
                raise ValueError(f"{self.title} has the splits {self._known_splits()}, not {each!r}{nearest}")
        return wanted

    def _split_by_train(self, train: bool) -> str:
        if not isinstance(train, bool):
            raise TypeError(f"train must be True or False, and is {train!r:.50}")
        if {*self.splits} != {"train", "test"}:
            raise TypeError(f"{self.title} takes split=, one of {self._known_splits()}, not train=")
        return "train" if train else "test"

    def _known_splits(self) -> str:
        return ", ".join(map(repr, self.splits))

    def _checked_options(self, options: dict[str, Any]) -> dict[str, Any]:
        for name in options:
            if name not in self.options:
                known = [*_OF_ALL, *self.options]
                answer = _ANSWERS.get(name, did_you_mean(name, known))
                raise TypeError(f"{self.title} takes {', '.join(known)}, not {name}{answer}")
        return {**self.options, **options}


def dataset(name: str, *, splits: Mapping[str, int | None], **facts: Any) -> Callable[[Pipe[T]], Dataset[T]]:
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
    return lambda fn: Dataset(name, fn, splits=splits, **facts)


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
