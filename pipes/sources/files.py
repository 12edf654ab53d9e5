"""Functions that list, shard and read image, video, text or array files."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Literal

from ...errors.checks import takes_only
from ...registry import IterDataPipe, OnError, P, R
from ..files.images import Size
from ..iter.image_folder import ImageFolderLister, ImageFolderShuffler
from ..iter.read_files import ImageReader, NumpyReader, TextReader
from ..iter.read_videos import VideoReader
from .columns import Paths, files_of


def _of_files(
    reader: Callable[Concatenate[IterDataPipe[str], P], R], kind: str
) -> Callable[[Callable[[], None]], Callable[Concatenate[Paths, P], R]]:
    """Let a function, which has the docstring alone, take the arguments of a reader, with paths as its source."""

    def decorate(documented: Callable[[], None]) -> Callable[Concatenate[Paths, P], R]:
        def read(paths: Paths, *args: P.args, **kwargs: P.kwargs) -> R:
            common: Any = {name: kwargs[name] for name in ("storage_options", "on_error") if name in kwargs}
            return reader(files_of(paths, kind, **common).sharding_filter(), *args, **kwargs)

        made: Any = functools.update_wrapper(read, documented)
        first = inspect.Parameter("paths", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Paths")
        _, *others = inspect.signature(reader).parameters.values()
        made.__signature__ = inspect.Signature([first, *others], return_annotation=reader.__name__)
        return takes_only()(made)

    return decorate


@_of_files(ImageReader, "images")
def read_images() -> None:
    """Return a chain that yields a dict with the `"image"` of each file, a tensor.

    The chain is `list_table_files`, `sharding_filter`, `read_images`. `paths` is the path or URL of a file, of a folder
    or with a pattern, or a list of them. `list_table_files` documents how they are listed, `read_images` the other
    arguments. Readers share the files.

    >>> import os, tempfile
    >>> import penstock as ps
    >>> from PIL import Image
    >>> folder = tempfile.mkdtemp()
    >>> Image.new("RGB", (4, 2), "red").save(os.path.join(folder, "red.png"))
    >>> [row["image"].shape for row in ps.read_images(folder)]
    [torch.Size([3, 2, 4])]
    """


@takes_only()
def read_image_folder(
    root: str | os.PathLike[str],
    include_paths: bool = False,
    *,
    classes: Sequence[str] | None = None,
    shuffle: bool = False,
    mode: Literal["L", "RGB", "RGBA"] = "RGB",
    decoder: str = "auto",
    size: Size | None = None,
    workers: int | Literal["auto"] = 8,
    storage_options: Mapping[str, Any] | None = None,
    on_error: OnError = "raise",
) -> ImageReader:
    """Return a chain that yields a dict with the `"image"` of each file and its `"label"`, the number of its class.

    `root` is the path or URL of a folder with a sub-folder for each class, whose images may be in folders below it. The
    chain is `list_image_folder`, which documents how classes are numbered, `sharding_filter` and `read_images`, which
    documents the other arguments. With `shuffle`, the files come in a random order, another in each epoch, by
    `shuffle_image_folder`; without it, one class comes after the other. `class_to_idx` of the chain has the numbers.
    Readers share the files.

    Raises what `list_image_folder` raises, when it is read.

    >>> import os, tempfile
    >>> import penstock as ps
    >>> from PIL import Image
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("cat", "dog"):
    ...     os.mkdir(f"{folder}/{name}")
    ...     Image.new("RGB", (4, 2)).save(f"{folder}/{name}/1.png")
    >>> dp = ps.read_image_folder(folder)
    >>> dp.class_to_idx
    {'cat': 0, 'dog': 1}
    >>> [(row["image"].shape, row["label"]) for row in dp]
    [(torch.Size([3, 2, 4]), 0), (torch.Size([3, 2, 4]), 1)]
    """
    if not isinstance(root, (str, os.PathLike)):
        raise TypeError(f"root must be the path or URL of a folder, and is {root!r:.100}")
    lister = ImageFolderShuffler if shuffle else ImageFolderLister
    files = lister(root, classes, storage_options=storage_options, on_error=on_error)
    return ImageReader(
        files.sharding_filter(),
        include_paths,
        mode=mode,
        decoder=decoder,
        size=size,
        workers=workers,
        storage_options=storage_options,
        on_error=on_error,
    )


@_of_files(TextReader, "text")
def read_text() -> None:
    r"""Return a chain that yields a dict with the `"text"` of each line of text files.

    `paths` are as for `ps.read_images`, and the other arguments as for the method `read_text`. Readers share the
    files.

    >>> import os, tempfile
    >>> import penstock as ps
    >>> folder = tempfile.mkdtemp()
    >>> with open(os.path.join(folder, "poem.txt"), "w") as file:
    ...     _ = file.write("one\ntwo\n")
    >>> list(ps.read_text(folder))
    [{'text': 'one'}, {'text': 'two'}]
    """


@_of_files(NumpyReader, "numpy")
def read_numpy() -> None:
    """Return a chain that yields a record batch of each `.npy` and `.npz` file.

    `paths` are as for `ps.read_images`, and the other arguments as for the method `read_numpy`. Readers share the
    files.

    >>> import os, tempfile
    >>> import numpy as np
    >>> import penstock as ps
    >>> folder = tempfile.mkdtemp()
    >>> np.save(os.path.join(folder, "squares.npy"), np.arange(3) ** 2)
    >>> [batch.to_pydict() for batch in ps.read_numpy(folder)]
    [{'data': [0, 1, 4]}]
    """


@_of_files(VideoReader, "videos")
def read_videos() -> None:
    """Return a chain that yields a dict for each clip of videos: its frames, their times, and its sound with `audio`.

    `paths` are as for `ps.read_images`, and the other arguments as for the method `read_videos`. Readers share the
    files.

    >>> import os, tempfile
    >>> import torch
    >>> import penstock as ps
    >>> from torchcodec.encoders import VideoEncoder
    >>> folder = tempfile.mkdtemp()
    >>> dark = torch.zeros(6, 3, 16, 16, dtype=torch.uint8)
    >>> VideoEncoder(dark, frame_rate=4).to_file(os.path.join(folder, "dark.mp4"))
    >>> [clip["video"].shape for clip in ps.read_videos(folder, frames=2, stride=2)]
    [torch.Size([2, 3, 16, 16]), torch.Size([1, 3, 16, 16])]
    """
