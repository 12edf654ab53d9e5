"""List and open files behind URLs of fsspec."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from ...errors.secrets import Options
from ...registry import IterDataPipe, OnError, functional_datapipe
from ...storage.addresses import COMMAND, address_of, is_local_path
from ...storage.errors import in_plain_words
from ...storage.file_systems import OF_TEXT, opened
from ...storage.listing import files_directly_in
from ...storage.retrying import attempts_of, trying_again
from ...storage.streaming.commands import open_command
from ...storage.streaming.streams import checked_path, is_binary
from ..bases.listers_and_openers import Lister, Opener, Roots, files_in, matches


@functional_datapipe("list_files_by_fsspec")
class FSSpecFileLister(Lister):
    """Yield the URL of each file in a folder, in sorted order.

    Take it for one folder, on a disk or in any store; `list_files_by_s3` lists all that is below a prefix in S3. `root`
    is a URL or path, a list of them or an iterable pipe of them; a root that is a file is yielded itself. Subfolders
    are not entered. `masks` are shell patterns. The name of a file must match one of them; a mask with a slash is
    matched against the complete URL. URLs begin as the root does, chained ones (`simplecache::s3://…`,
    `zip://::data.zip`) included; a local path without `file://` gives absolute paths. `on_error` handles a root that
    cannot be listed; transient errors are retried up to five times, unless a `Retry` says otherwise. Options of the
    file system, such as `anon=True`, are given as `storage_options` or, as in torchdata, as further arguments; without
    them credentials and endpoints come from the environment.

    Raises FileNotFoundError for a missing root, and ImportError where the package for a protocol is missing. Resuming
    counts files, so the files must be the same.

    >>> import fsspec
    >>> for name in ("b.txt", "a.txt", "c.bin"):
    ...     fsspec.filesystem("memory").pipe(f"/shelf/{name}", name.encode())
    >>> list(FSSpecFileLister("memory://shelf", "*.txt"))
    ['memory://shelf/a.txt', 'memory://shelf/b.txt']
    >>> dp = IterableWrapper(["memory://shelf"]).list_files_by_fsspec("*.txt")
    >>> list(dp)
    ['memory://shelf/a.txt', 'memory://shelf/b.txt']
    """

    def __init__(
        self,
        root: Roots,
        masks: str | Sequence[str] = "",
        *,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(root, masks, on_error)
        self.handle_errors(on_error, applied=trying_again(on_error))
        self.storage_options = Options(storage_options, **kwargs)

    def _files_under(self, root: str) -> Iterator[str]:
        if is_local_path(root) and not self.storage_options and os.path.isdir(root):
            # Several times as fast as fsspec, which calls stat for each file.
            yield from files_in(os.path.abspath(root), self.masks)
            return
        found = in_plain_words(root, files_directly_in, address_of(root, self.storage_options), self.error_policy)
        yield from (url for url in found if matches(url, self.masks))


@functional_datapipe("open_files_by_fsspec")
class FSSpecFileOpener(Opener):
    """Yield the URL and the stream of each file.

    Take it for URLs where one stream at a time is enough, or for text; `load_files_by_s3` loads many at once. `mode` is
    `"r"`, `"rt"` or `"t"` for text, without the byte order mark of UTF-8, `"rb"` or `"b"` for bytes. `kwargs_for_open`
    are arguments for opening a file, such as `encoding` or `compression`. `on_error` handles a file that cannot be
    opened. Transient errors, of opening and of reading, are retried up to five times, unless a `Retry` says otherwise:
    a stream goes on where it broke. Options of the file system, such as `anon=True`, are given as `storage_options` or,
    as in torchdata, as further arguments; without them credentials and endpoints come from the environment. A stream
    stays readable until it is dropped, which closes it.

    With `allow_commands`, `pipe:` and a command, such as `pipe:curl -s https://host/a.tar`, is an address of what the
    command writes. The shell runs it, with all that this process may do: allow it only for addresses that you trust.
    Errors show the command: let the shell take secrets from the environment, as `$TOKEN`. Dropping the stream ends the
    command; reading raises OSError where it fails.

    Raises ValueError for a command that is not allowed, FileNotFoundError for a missing file, and ImportError where the
    package for a protocol is missing. Reading raises OSError for a file that was replaced since it was opened.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
    >>> dp = IterableWrapper(["memory://shelf/a.txt"]).open_files_by_fsspec()
    >>> [(url, stream.read()) for url, stream in dp]
    [('memory://shelf/a.txt', 'one')]
    """

    def __init__(
        self,
        source: IterDataPipe[str],
        mode: str = "r",
        *,
        kwargs_for_open: Mapping[str, Any] | None = None,
        allow_commands: bool = False,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        is_binary(mode)
        super().__init__(source, on_error)
        self.handle_errors(on_error, applied=trying_again(on_error))
        self.mode = mode
        self.kwargs_for_open = kwargs_for_open
        self.allow_commands = allow_commands
        self.storage_options = Options(storage_options, **kwargs)

    def _output(self, url: Any) -> tuple[str, IO[Any]]:
        url = checked_path(url)
        arguments = dict(self.kwargs_for_open or {})
        text = {name: arguments.pop(name) for name in OF_TEXT if name in arguments}
        of_text = None if is_binary(self.mode) else text
        if self.allow_commands and url.startswith(COMMAND):
            if arguments:
                raise ValueError(f"a command takes no kwargs_for_open but those of text, and {[*arguments]} are given")
            return url, open_command(url, of_text)
        attempts = attempts_of(self._retry, self.error_policy)
        return url, opened(address_of(url, self.storage_options), of_text, arguments, attempts)
