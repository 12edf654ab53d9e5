"""Chains of samples: cheap rows, shuffled and divided among workers, and what is made of each."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch

from ...pipes.bases.drawing import Shuffling, in_random_order
from ...registry import IterDataPipe
from ..facts import labels
from ..fetching import path_of
from ..files import Files
from .images import decoded

T = TypeVar("T")
S = TypeVar("S")
L = TypeVar("L")


class Rows(IterDataPipe[T]):
    """Yield what a function returns. It is called when the first row is asked for."""

    payload = ("fn",)

    def __init__(self, fn: Callable[[], Iterable[T]]) -> None:
        self.fn = fn

    def __iter__(self) -> Iterator[T]:
        return iter(self.fn())


class ShuffledRows(Shuffling[T]):
    """Yield all rows in a random order. They are few enough to be read first, and a state has none of them."""

    gives = "same"

    def __init__(self, source: IterDataPipe[T]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[T]:
        return iter(in_random_order([*self.source], self._draws()) if self.is_random else self.source)

    def __len__(self) -> int:
        return len(self.source)


def drawn(rows: Callable[[], Iterable[T]], make: Callable[[T], S]) -> IterDataPipe[S]:
    """Return a chain that makes a sample of each row that a function returns."""
    return ShuffledRows(Rows(rows)).sharding_filter().map(make)


def images_of(
    files: Files, rows: Callable[[], Iterable[tuple[str, L]]], mode: str | None = "RGB"
) -> IterDataPipe[tuple[torch.Tensor, L]]:
    """Return a chain of the image and the label, from rows of the path of a file and the label."""
    return drawn(rows, partial(_image_and_label, files, mode))


def _image_and_label(files: Files, mode: str | None, row: tuple[str, L]) -> tuple[torch.Tensor, L]:
    path, label = row
    return decoded(files.read(path), mode), label


def class_folders(
    files: Files, folder: str, name: str, ending: str = ".jpg", skip: Sequence[str] = ()
) -> list[tuple[str, int]]:
    """Return the paths of the files in the folders of the classes of a data set, and the labels: class by class.

    Raises FileNotFoundError if there are none, and ValueError for a folder that is none of the classes.
    """
    known, found = labels(name), []
    for path in files.paths(f"{folder}/*{ending}"):
        category, _, rest = path[len(folder) + 1 :].partition("/")
        if rest and "/" not in rest and category not in skip:
            found.append((label_of(known, category, files, path), path))
    return [(path, label) for label, path in sorted(found)]


def label_of(known: Mapping[Any, int], name: Any, files: Files, path: str, row: int | None = None) -> int:
    """Return the label of a class; raise ValueError for a class that there is not."""
    try:
        return known[name]
    except KeyError:
        raise flawed(files, path, f"{name!r} is none of the {len(known)} classes", row) from None


def content(files: Files) -> bytes:
    """Return the content of a resource that is one file, decompressed."""
    for _, stream in files.open():
        with stream:
            return stream.read()
    raise FileNotFoundError(errno.ENOENT, "there is no such file", path_of(files.resource, files.folder))


def text_lines(files: Files, path: str) -> list[str]:
    """Return the lines of a text file of a resource, without empty ones."""
    return [line for line in files.read(path).decode().splitlines() if line.strip()]


def kinds_of(name: str, given: str | Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return what kinds of targets are asked for, as a tuple; raise ValueError for one that there is not."""
    wanted = (given,) if isinstance(given, str) else tuple(given)
    for each in wanted:
        if each not in known:
            raise ValueError(f"{name} must be of {', '.join(map(repr, known))}, and {each!r} is not")
    return wanted


def one_or_all(targets: Sequence[Any]) -> Any:
    """Return the only target, or several as a tuple, or None where there is none."""
    return targets[0] if len(targets) == 1 else tuple(targets) or None


def flawed(files: Files, path: str, what: str, row: int | None = None) -> ValueError:
    """Return the error for a file that is not as it should be; rows are counted from 1 on."""
    place = path_of(files.resource, files.folder)
    inner = "" if path in ("", files.resource.name) else f", {path}"
    return ValueError(f"{place}{inner}{'' if row is None else f', row {row}'}: {what}")
