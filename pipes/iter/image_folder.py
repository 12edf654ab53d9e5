"""List the images of a folder with a sub-folder for each class."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ...errors.secrets import without_secrets
from ...registry import OnError, copy_of, functional_datapipe
from ...storage.addresses import is_local_path
from ...storage.streaming.streams import checked_path
from ..bases.arguments import expect_names
from ..bases.drawing import Shuffling, in_random_order
from ..bases.listers_and_openers import Roots
from .list_tables import TableFileLister


class LabelledFile(NamedTuple):
    """A file, and the number of its class."""

    url: str
    label: int


@functional_datapipe("list_image_folder")
class ImageFolderLister(TableFileLister):
    """Yield each image below a folder with the number of its class, which is the sub-folder of the root that it is in.

    Take it to shuffle or shard the files yourself; `ps.read_image_folder(url)` begins with it. `read_images` takes the
    items, each a `LabelledFile` of `url` and `label`, and puts the label beside the image. `root` is the path or URL of
    a folder, a list of them or an iterable pipe of them. Images are listed as by `list_table_files`, in sorted order:
    also those in folders below that of their class.

    `class_to_idx` has the number of each class. Classes are numbered in sorted order, from 0, which is the same in each
    process that lists the same files. `classes` gives them, in another order, or where a root lacks some.

    All files are listed before the first is yielded, and again on resuming, which needs the same files.
    `storage_options` are options of the file system. `on_error` handles a root that cannot be listed.

    Raises FileNotFoundError for a root that is missing or has no image, and for a local class without one. Raises
    ValueError for an image that is in no sub-folder, and for a sub-folder that `classes` lacks.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe({"/pets/cat/1.png": b"", "/pets/dog/2.png": b""})
    >>> dp = IterableWrapper(["memory://pets"]).list_image_folder()
    >>> list(dp)
    [LabelledFile(url='memory://pets/cat/1.png', label=0), LabelledFile(url='memory://pets/dog/2.png', label=1)]
    >>> dp.class_to_idx
    {'cat': 0, 'dog': 1}
    """

    def __init__(
        self,
        root: Roots,
        classes: Sequence[str] | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        expect_names(classes, "classes")
        super().__init__(root, "images", hive=False, storage_options=storage_options, on_error=on_error)
        self.classes = classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class by its name. Without `classes`, the files are listed for it."""
        if self.classes is not None:
            return _numbered(self.classes)
        return _numbered({name for _, name in copy_of(self, afresh=True)._files_and_classes()})

    def __iter__(self) -> Iterator[Any]:
        found = [*self._files_and_classes()]
        numbers = _numbered({name for _, name in found} if self.classes is None else self.classes)
        for url, name in found:
            if name not in numbers:
                raise ValueError(f"{without_secrets(url)!r} is of the class {name!r}, and classes has no such name")
            yield LabelledFile(url, numbers[name])

    def _files_and_classes(self) -> Iterator[tuple[str, str]]:
        roots: Iterable[Any] = [self.root] if isinstance(self.root, (str, os.PathLike)) else self.root
        return chain.from_iterable(map(self.error_policy.outputs(self._of_root), roots))

    def _of_root(self, item: Any) -> Iterator[tuple[str, str]]:
        root = checked_path(item)
        names = set()
        for url in self._files_under(root):
            name, inside, _ = url.removeprefix(root).replace(os.sep, "/").lstrip("/").partition("/")
            if not inside or not url.startswith(root):
                raise ValueError(
                    f"{without_secrets(url)!r} is in no sub-folder of {without_secrets(root)!r}, and the sub-folder "
                    "says the class: move it into one; read_images reads images without classes"
                )
            names.add(name)
            yield url, name
        if is_local_path(root):  # object stores have no empty folders
            folders = {entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name[0] not in "_."}
            if empty := sorted(folders - names):
                raise FileNotFoundError(
                    f"the folder of the class {empty[0]!r} in {root!r} has no image: remove it, since each sub-folder "
                    "counts as a class"
                )


@functional_datapipe("shuffle_image_folder")
class ImageFolderShuffler(Shuffling[Any], ImageFolderLister):
    """Yield the images below a folder with the number of their class, in a random order; all orders are equally likely.

    Take it to train: `list_image_folder` gives one class after the other. The arguments, and `class_to_idx`, are as
    there. Put it before a `sharding_filter`, so all readers share one order.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe({"/pets/cat/1.png": b"", "/pets/dog/2.png": b""})
    >>> dp = IterableWrapper(["memory://pets"]).shuffle_image_folder().set_seed(1)
    >>> sorted(file.label for file in dp)
    [0, 1]
    """

    traits = ("shuffles",)
    resumes_from_start = True

    def __iter__(self) -> Iterator[Any]:
        files = [*super().__iter__()]
        yield from in_random_order(files, self._draws()) if self.is_random else files


def _numbered(classes: Iterable[str]) -> dict[str, int]:
    in_order = classes if isinstance(classes, (list, tuple)) else sorted(classes)
    return {name: number for number, name in enumerate(in_order)}
