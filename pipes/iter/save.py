"""Write items to files, and yield the paths."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors.secrets import Options
from ...registry import IterDataPipe, OnError, Tally, functional_datapipe
from ...storage.file_systems import OF_TEXT
from ...storage.streaming.streams import checked_path
from ...storage.writing import whole_file, write_in_parts, write_whole
from ..bases.input_columns import check_function
from ..bases.one_to_one import OneToOne
from ..bases.progress_bar import BAR_AFTER, losses_and_waits, with_bar
from ..files.streams import path_and


class ItemSaver(OneToOne[str]):
    """Write the second part of each item to the file that the first part names: the base of the savers.

    A long pass shows a progress bar.
    """

    resumes_from_start = False
    shows_progress = True

    def __init__(
        self,
        source: IterDataPipe[tuple[Any, Any]],
        mode: str,
        filepath_fn: Callable[[Any], str | os.PathLike[str]] | None,
        on_error: OnError,
    ) -> None:
        if mode not in ("w", "wt", "t", "wb", "b", "a", "at", "ab"):
            raise ValueError(
                "mode must be 'w', 'wt' or 't' for text, 'wb' or 'b' for bytes, or to append 'a', 'at' or 'ab', "
                f"and is {mode!r}"
            )
        check_function("filepath_fn", filepath_fn, optional=True)
        self.source = source
        self.mode = mode
        self.filepath_fn = filepath_fn
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[str]:
        assert self._pass is not None
        tally = Tally()
        return with_bar(
            tally.follow(super().__iter__()),
            self.functional_name or type(self).__name__,
            lambda: tally.items,
            self,
            unit="files",
            notes=lambda waiting: losses_and_waits(self.stats(), None),
            is_running=self._pass.is_running,
            after=BAR_AFTER,
        )

    def _write(self, path: str, content: Any) -> None:
        """Write bytes to a file."""
        raise NotImplementedError(f"{type(self).__name__} must define _write")

    def _text_options(self) -> Mapping[str, Any]:
        """Return arguments for TextIOWrapper."""
        return {}

    @property
    def _binary_mode(self) -> str:
        return "ab" if "a" in self.mode else "wb"

    def _output(self, item: Any) -> str:
        place, data = path_and("data", item)
        path = checked_path(place if self.filepath_fn is None else self.filepath_fn(place))
        self._write(path, self._as_bytes(data))  # encoded before opening, so a failure leaves no file
        return path

    def _as_bytes(self, data: Any) -> Any:
        if "b" in self.mode:
            try:
                memoryview(data)
            except TypeError:
                advice = "give mode='w', or encode it" if isinstance(data, str) else "turn it into bytes before"
                raise TypeError(
                    f"mode {self.mode!r} writes bytes, and the data is of type {type(data).__name__}: {advice}"
                ) from None
            return data
        if not isinstance(data, str):
            advice = "give mode='wb'" if isinstance(data, (bytes, bytearray)) else "turn it into a string before"
            raise TypeError(f"mode {self.mode!r} writes text, and the data is of type {type(data).__name__}: {advice}")
        encoded = io.BytesIO()
        with io.TextIOWrapper(encoded, **self._text_options()) as text:
            text.write(data)
            text.flush()
            return encoded.getvalue()


@functional_datapipe("save_to_disk")
class Saver(ItemSaver):
    """Write each item to a file, and yield its path.

    Take it for a local file per item, `save_by_fsspec` for URLs, and `write_tar` or `write_parquet` for many items per
    file. An item is a pair of a path, or an argument of `filepath_fn`, and the data. `mode` is `"w"`, `"wt"` or `"t"`
    for text, in the locale's encoding, `"wb"` or `"b"` for bytes, `"a"`, `"at"` or `"ab"` to append. Folders are made
    as needed. A file is written under a temporary name and moved into place when complete; it replaces an earlier one,
    and an interruption leaves no partial file. Appending writes directly to the file.

    `on_error` handles an item that cannot be written, or for which `filepath_fn` raises; what was appended stays. To
    write to URLs, use `save_by_fsspec`.

    Raises TypeError for text with a mode of bytes, or the other way round, and OSError where a file cannot be written.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> texts = IterableWrapper([("a.txt", "one"), ("b.txt", "two")])
    >>> dp = texts.save_to_disk(filepath_fn=lambda name: os.path.join(folder, "texts", name))
    >>> [os.path.basename(path) for path in dp]
    ['a.txt', 'b.txt']
    """

    def __init__(
        self,
        source: IterDataPipe[tuple[Any, Any]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str | os.PathLike[str]] | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(source, mode, filepath_fn, on_error)

    def _write(self, path: str, content: Any) -> None:
        write_whole(path, self._binary_mode, content, open)


@functional_datapipe("save_by_fsspec")
class FSSpecSaver(ItemSaver):
    """Write each item to the file at a URL, and yield the URL.

    Take it for a file per item at URLs, and `write_tar` or `write_parquet` for many items per file. An item is a pair
    of a URL, or an argument of `filepath_fn`, and the data. `mode` is as for `save_to_disk`. `kwargs_for_open` are
    arguments for opening a file, such as `encoding` or `compression`. Options of the file system, such as `anon=True`,
    are given as `storage_options` or, as in torchdata, as further arguments; without them credentials and endpoints
    come from the environment. Folders are made as needed, buckets are not. Local files are written as by
    `save_to_disk`. In object stores such as S3, an object appears when its upload is complete, and replaces an earlier
    one. Larger objects are sent in parts of 16 MiB, to S3 several at a time, each retried up to five times after
    transient errors. A failed upload is aborted.

    `on_error` handles an item that cannot be written, or for which `filepath_fn` raises.

    Raises TypeError for text with a mode of bytes, or the other way round, OSError, or an error of the file system's
    client such as botocore, where a file cannot be written, and ImportError where the package for a protocol is
    missing.

    >>> texts = IterableWrapper([("a.txt", b"one"), ("b.txt", b"two")])
    >>> dp = texts.save_by_fsspec("wb", filepath_fn=lambda name: f"memory://texts/{name}")
    >>> list(dp)
    ['memory://texts/a.txt', 'memory://texts/b.txt']
    """

    def __init__(
        self,
        source: IterDataPipe[tuple[Any, Any]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str | os.PathLike[str]] | None = None,
        *,
        kwargs_for_open: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(source, mode, filepath_fn, on_error)
        self.kwargs_for_open = kwargs_for_open
        self.storage_options = Options(storage_options, **kwargs)

    def _text_options(self) -> Mapping[str, Any]:
        return {name: value for name, value in (self.kwargs_for_open or {}).items() if name in OF_TEXT}

    def _write(self, path: str, content: Any) -> None:
        arguments = {name: value for name, value in (self.kwargs_for_open or {}).items() if name not in OF_TEXT}
        with whole_file(
            path, self._binary_mode, self.storage_options, counted_by=self.error_policy, **arguments
        ) as file:
            write_in_parts(file, content)
