"""Bases of the listers and openers of files."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any, ClassVar, NoReturn

from ...registry import IterDataPipe, OnError
from ...registry.traits import Trait
from ...state.foreign import TorchIterDataPipe
from ...storage.local.atomic import is_part
from ...storage.streaming.streams import checked_path
from .one_to_one import OneToOne

Roots = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | IterDataPipe[str]


class Lister(IterDataPipe[str]):
    """Yield the files under each root in turn: a base class."""

    recursive = False
    """Whether subfolders are entered. Steps with this attribute list files: writers ask them where."""
    any_case = False
    """Whether the masks, in lower case, match names in upper case too."""

    def __init__(self, root: Roots, masks: str | Sequence[str], on_error: OnError) -> None:
        expect_roots("root", root)
        if not isinstance(masks, str) and not _are(masks, str):
            raise TypeError(f"masks must be a pattern such as '*.tar' or a list of them, and is {masks!r:.100}")
        self.root = root
        self.masks = masks
        self.handle_errors(on_error)

    def _files_under(self, root: str) -> Iterator[str]:
        """Yield the files under a root that match the masks; raise OSError where there is no such root."""
        raise NotImplementedError(f"{type(self).__name__} must define _files_under")

    def __iter__(self) -> Iterator[str]:
        files_under = self.error_policy.outputs(lambda root: self._files_under(checked_path(root)))
        if isinstance(self.root, TorchIterDataPipe):
            yield from self.outputs_of_each(files_under, self.root)
            return
        for item in [self.root] if isinstance(self.root, (str, os.PathLike)) else self.root:
            yield from files_under(item)


def expect_roots(name: str, roots: object) -> None:
    """Raise TypeError unless an argument is a path, or several."""
    if not isinstance(roots, (str, os.PathLike, TorchIterDataPipe)) and not _are(roots, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path, a list of paths or an iterable pipe of them, and is {roots!r:.100}")


def files_in(folder: str, masks: str | Sequence[str], recursive: bool = False, in_order: bool = True) -> Iterator[str]:
    """Yield the paths of the files in a local folder, and in its subfolders, that match the masks."""
    for place, subfolders, names in os.walk(folder, onerror=_raise):
        if in_order:
            subfolders.sort()  # in place: os.walk visits them in this order
            names.sort()
        start = os.path.join(place, "")
        paths: Iterator[str] = (start + name for name in names)
        yield from (path for path in paths if matches(path, masks))
        if not recursive:
            return


def matches(path: str, masks: str | Sequence[str], any_case: bool = False) -> bool:
    """Say whether a file's name matches a mask, or its path a mask with a slash; without masks all match.

    With `any_case`, the masks are in lower case, and the path may be in any. Files still being written never match.
    """
    path = path.replace(os.sep, "/")
    if is_part(path):
        return False
    if not masks:
        return True
    path = path.lower() if any_case else path
    name = path.rpartition("/")[2]
    patterns = [masks] if isinstance(masks, str) else masks
    return any(fnmatch.fnmatch(path if "/" in pattern else name, pattern) for pattern in patterns)


def check_length(length: int) -> int:
    """Return a length for `len`, -1 for unknown; raise ValueError for a smaller one."""
    if length < -1:
        raise ValueError(f"length must be a number of items, or -1 if unknown, and is {length}")
    return length


class GivenLength:
    """The length that the user of an operator gives as `length`; -1 is unknown."""

    length: int

    def __len__(self) -> int:
        if self.length < 0:
            raise TypeError("the number of items is unknown; if you know it, give length=…")
        return self.length


def _are(values: object, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(values, Sequence) and all(isinstance(value, kinds) for value in values)


def _raise(error: OSError) -> NoReturn:
    raise error


class Opener(OneToOne[tuple[str, IO[Any]]]):
    """Yield the path or URL and the stream of each file: a base class."""

    traits: ClassVar[tuple[Trait, ...]] = ("opens",)
    length = -1

    def __init__(self, source: IterDataPipe[str], on_error: OnError) -> None:
        self.source = source
        self.handle_errors(on_error)

    def __len__(self) -> int:
        return self.length if self.length >= 0 else super().__len__()
