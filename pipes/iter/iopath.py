"""List, open and write files with the path handlers of iopath."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any

from ...errors.optional import require
from ...registry import IterDataPipe, OnError, functional_datapipe
from ...storage.errors import in_plain_words
from ...storage.retrying import trying_again
from ...storage.streaming.streams import checked_path, is_binary, stream_over
from ...storage.writing import open_in_folder, write_whole
from ..bases.listers_and_openers import Lister, Opener, Roots, matches
from .save import ItemSaver


class _WithPathManager:
    """The base of operators that use a path manager."""

    def _set_path_manager(self, pathmgr: Any, handler: Any) -> None:
        require("iopath", "iopath")
        self.pathmgr = pathmgr
        self.handler = handler
        self._manager = _default_path_manager() if pathmgr is None else pathmgr
        if handler is not None:
            self.register_handler(handler, allow_override=True)

    def register_handler(self, handler: Any, allow_override: bool = False) -> None:
        """Register a handler with the path manager of this operator, for the prefixes that it supports."""
        self._manager.register_handler(handler, allow_override=allow_override)


@functional_datapipe("list_files_by_iopath")
class IoPathFileLister(Lister, _WithPathManager):
    """Yield the path of each file in a folder, in sorted order.

    Take it only for paths that need handlers of iopath, and `list_files_by_fsspec` for all others. `root` is a path or
    URL, a list of them or an iterable pipe of them; a root that is a file is yielded itself. Subfolders are not
    entered. `masks` are shell patterns. The name of a file must match one of them; a mask with a slash is matched
    against the complete path. Paths begin with the root as given.

    `pathmgr` is the path manager of `iopath`; the default has handlers for local paths, HTTP, OneDrive and, where boto3
    is installed, S3. A `handler` is registered with it and replaces those for the same prefixes. For new code take
    `list_files_by_fsspec`: iopath sees little maintenance. `on_error` handles a root that cannot be listed.

    Raises FileNotFoundError for a missing local root, and ImportError where iopath is not installed. Resuming counts
    files, so the files must be the same.

    >>> import json, os
    >>> dp = IterableWrapper([os.path.dirname(json.__file__)]).list_files_by_iopath("*coder.py")
    >>> [os.path.basename(path) for path in dp]
    ['decoder.py', 'encoder.py']
    """

    def __init__(
        self,
        root: Roots,
        masks: str | Sequence[str] = "",
        *,
        pathmgr: Any = None,
        handler: Any = None,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(root, masks, on_error)
        self._set_path_manager(pathmgr, handler)

    def _files_under(self, root: str) -> Iterator[str]:
        is_file = self._manager.isfile
        paths = [root] if is_file(root) else [os.path.join(root, name) for name in sorted(self._manager.ls(root))]
        for path in paths:
            if matches(path, self.masks) and is_file(path):
                yield path


@functional_datapipe("open_files_by_iopath")
class IoPathFileOpener(Opener, _WithPathManager):
    r"""Yield the path and the stream of each file.

    Take it only for paths that need handlers of iopath, and `open_files_by_fsspec` for all others. `mode` is `"r"`,
    `"rt"` or `"t"` for text, in the locale's encoding, `"rb"` or `"b"` for bytes. A stream stays readable until it is
    dropped, which closes it. `pathmgr` and `handler` are as for `list_files_by_iopath`; a handler opens
    files as bytes. `on_error` handles a file that cannot be opened; transient errors are retried up to five times,
    unless a `Retry` says otherwise. iopath downloads a file of the web when it is opened.

    Raises FileNotFoundError for a missing file, ConnectionError or TimeoutError for an unreachable server, and
    ImportError where iopath is not installed.

    >>> import json, os
    >>> dp = FileLister(os.path.dirname(json.__file__), "*coder.py").open_files_by_iopath()
    >>> [stream.readline().strip('"\n') for path, stream in dp]
    ['Implementation of JSONDecoder', 'Implementation of JSONEncoder']
    """

    def __init__(
        self,
        source: IterDataPipe[str],
        mode: str = "r",
        pathmgr: Any = None,
        handler: Any = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        is_binary(mode)
        super().__init__(source, on_error)
        self.handle_errors(on_error, applied=trying_again(on_error))
        self._set_path_manager(pathmgr, handler)
        self.mode = mode

    def _output(self, item: Any) -> tuple[str, IO[Any]]:
        path = checked_path(item)
        file = in_plain_words(path, self._manager.open, path, "rb")
        return path, stream_over(file, path, None if is_binary(self.mode) else {})


@functional_datapipe("save_by_iopath")
class IoPathSaver(ItemSaver, _WithPathManager):
    """Write each item to a file, and yield its path.

    Take it only for paths that need handlers of iopath, and `save_by_fsspec` for all others. An item is a pair of a
    path, or an argument of `filepath_fn`, and the data. `mode` is as for `save_to_disk`. Folders are made as needed.
    Local files are written as by `save_to_disk`, others as their handler does. `pathmgr` and `handler` are as for
    `list_files_by_iopath`; a handler writes bytes. `on_error` handles an item that
    cannot be written, or for which `filepath_fn` raises.

    Raises TypeError for text with a mode of bytes, or the other way round, OSError where a local file cannot be
    written, and ImportError where iopath is not installed.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> texts = IterableWrapper([("a.txt", b"one"), ("b.txt", b"two")])
    >>> dp = texts.save_by_iopath("wb", filepath_fn=lambda name: os.path.join(folder, name))
    >>> [os.path.basename(path) for path in dp]
    ['a.txt', 'b.txt']
    """

    def __init__(
        self,
        source: IterDataPipe[tuple[Any, Any]],
        mode: str = "w",
        filepath_fn: Callable[[Any], str | os.PathLike[str]] | None = None,
        *,
        pathmgr: Any = None,
        handler: Any = None,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(source, mode, filepath_fn, on_error)
        self._set_path_manager(pathmgr, handler)

    def _write(self, path: str, content: Any) -> None:
        # No public attribute says whether a path is local, and where.
        if not path.startswith(tuple(self._manager._path_handlers)):
            write_whole(os.path.join(self._manager._cwd or "", path), self._binary_mode, content, self._manager.open)
            return
        with open_in_folder(path, self._binary_mode, self._manager.open, self._make_folders) as file:
            file.write(content)

    def _make_folders(self, path: str, exist_ok: bool) -> None:
        self._manager.mkdirs(path)  # accepts existing folders


def _default_path_manager() -> Any:
    file_io = require("iopath.common.file_io", "iopath")
    manager = file_io.PathManager()
    manager.register_handler(file_io.HTTPURLHandler())
    manager.register_handler(file_io.OneDrivePathHandler())
    with suppress(ImportError):  # it needs boto3
        manager.register_handler(require("iopath.common.s3", "iopath").S3PathHandler())
    return manager
