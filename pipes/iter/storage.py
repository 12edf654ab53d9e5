"""Files behind URLs, whatever fsspec speaks: listed, opened."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from ...registry import Guard, IterDataPipe, OnError, functional_datapipe
from ..extras import require
from ..store_clients import for_one_attempt, with_region
from ..streams import checked_path, is_binary, stream_over
from .files import Lister, Roots, files_in, matches
from .transform import OneToOne

__all__ = [
    "OF_TEXT",
    "FSSpecFileLister",
    "FSSpecFileOpener",
    "check_key",
    "is_local_path",
    "locate",
    "locate_for_one_attempt",
    "opened",
    "urls_below",
]

_NEEDED = {
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gcs")),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), ("adlfs", "azure")),
}
"""What a protocol needs: a module, and the extra of this package that installs it."""

_OF_S3 = ("s3://", "s3a://")

OF_TEXT = ("encoding", "errors", "newline")


@functional_datapipe("list_files_by_fsspec")
class FSSpecFileLister(Lister):
    """Yield the URL of each file in a folder, in sorted order.

    `root` is a URL or path, a list of them or an iterable pipe of them; a root that is a file is yielded itself.
    Subfolders are not entered. `masks` are shell patterns, of which a file's name must match one; a mask with a slash
    in it is matched against the whole URL. URLs begin as the root does, chained ones (`simplecache::s3://…`,
    `zip://::data.zip`) included; a local path without `file://` gives absolute paths. `on_error` is what becomes of a
    root that cannot be listed. Further arguments are options of the file system, such as `anon=True`; without them
    credentials and endpoints come from the environment.

    Raises FileNotFoundError for a root that there is not, and ImportError where the package for a protocol is missing.
    Resuming goes by position, and so needs the same files.

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
        self, root: Roots, masks: str | Sequence[str] = "", *, on_error: OnError = "raise", **kwargs: Any
    ) -> None:
        super().__init__(root, masks, on_error)
        self.options = kwargs  # not under their own name, which repr and the notes of errors would show: secrets

    def _files_under(self, root: str) -> Iterator[str]:
        if is_local_path(root) and os.path.isdir(root):
            # Several times as fast as through fsspec, which looks at each file.
            yield from files_in(os.path.abspath(root), self.masks)
            return
        file_system, path = locate(root, self.options)
        file_system.invalidate_cache(path)  # or a later pass would be told what an earlier one saw
        if not root.endswith("/") and file_system.isfile(path):
            urls = [root]
        else:
            found = file_system.ls(path, detail=True)
            urls = urls_below(root, path, [entry["name"] for entry in found if not _is_folder(file_system, entry)])
        for url in urls:
            if matches(url, self.masks):
                yield url


@functional_datapipe("open_files_by_fsspec")
class FSSpecFileOpener(OneToOne[tuple[str, IO[Any]]]):
    """Yield the URL and the stream of each file.

    `mode` is `"r"`, `"rt"` or `"t"` for text, `"rb"` or `"b"` for bytes. `kwargs_for_open` are arguments for opening a
    file, such as `encoding` or `compression`. `on_error` is what becomes of a file that cannot be opened. Further
    arguments are options of the file system, such as `anon=True`; without them credentials and endpoints come from the
    environment. A stream can be read for as long as somebody holds it, and is closed when it is dropped.

    Raises FileNotFoundError for a file that there is not, and ImportError where the package for a protocol is missing.

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
        on_error: OnError = "raise",
        **kwargs: Any,
    ) -> None:
        is_binary(mode)
        self.source = source
        self.mode = mode
        self.kwargs_for_open = kwargs_for_open
        self.on_error = on_error
        self.guard = Guard(on_error)
        self.options = kwargs  # not under their own name, which repr and the notes of errors would show: secrets

    def _function(self) -> Callable[[Any], tuple[str, IO[Any]]]:
        return self._open

    def _open(self, url: Any) -> tuple[str, IO[Any]]:
        url = checked_path(url)
        arguments = dict(self.kwargs_for_open or {})
        text = {name: arguments.pop(name) for name in OF_TEXT if name in arguments}
        return url, opened(url, self.options, None if is_binary(self.mode) else text, arguments)


def opened(
    url: str, options: Mapping[str, Any], text: Mapping[str, Any] | None, arguments: Mapping[str, Any]
) -> IO[Any]:
    """Return a stream of a file: of bytes, or of text, with arguments for TextIOWrapper.

    `options` are those of the file system, `arguments` are for its way to open a file.
    """
    if is_local_path(url) and not options and not arguments:
        # What fsspec would do, at half the price.
        return stream_over(open(url, "rb", buffering=0), url, text)
    check_key(url)
    file_system, path = locate(url, options)
    file = file_system.open(path, "rb", **arguments)
    if isinstance(file, io.BytesIO):  # memory:// hands out the one object that it keeps, at one position for all
        file = io.BytesIO(file.getvalue())
    return stream_over(file, url, text, file_system)


def is_local_path(url: str) -> bool:
    """Say whether what is given as a URL is a path of this machine, without a protocol."""
    return "://" not in url and "::" not in url and url[:1] != "~"


def locate(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    import fsspec  # type: ignore[import-untyped]  # here, since importing the package should not take so long

    if url.startswith(_OF_S3):
        options = with_region(options)
    try:
        file_system, path = fsspec.url_to_fs(url, **options)
    except ImportError:
        for link in url.split("::"):
            protocol = link.partition("://")[0]
            if protocol in _NEEDED:
                require(*_NEEDED[protocol])
        raise
    return file_system, path


def check_key(url: str) -> None:
    """Raise ValueError for the URL of an object in the place of which s3fs would read another."""
    if url.startswith(_OF_S3) and url.endswith("/"):
        raise ValueError("objects whose keys end in a slash cannot be read: s3fs would read another")


def locate_for_one_attempt(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return what `locate` does, for S3 with no attempts of its own: they are made where they are counted."""
    if not url.startswith(_OF_S3):
        return locate(url, options)
    s3, path = locate(url, for_one_attempt(options))
    s3.retries = 1
    return s3, path


def _is_folder(file_system: Any, entry: Mapping[str, Any]) -> bool:
    name, kind = entry["name"], entry["type"]
    # An object whose name ends in a slash is how S3's console lays a folder; a link is what a local one may come as.
    return kind == "directory" or name.endswith("/") or bool(entry.get("islink") and file_system.isdir(name))


def urls_below(root: str, path: str, names: Iterable[str]) -> list[str]:
    """Return the URLs of files, given the URL of their folder, its path in the file system, and theirs."""
    links = root.split("::")
    place = 0
    # In a chain, a file system that caches has no path of its own: `path` is that of the link after it.
    while path.strip("/") and place + 1 < len(links) and not links[place].partition("://")[2]:
        place += 1
    protocol, separator, _ = links[place].partition("://")
    folder, path = links[place].rstrip("/"), path.rstrip("/")
    if path and folder.endswith(path):
        start = folder.removesuffix(path)  # with a user, host or the like, which the names are without
    else:
        start = f"{protocol}://" if separator or place + 1 < len(links) else ""  # or a local path
    whole = [name if "://" in name else start + name for name in names]
    return sorted("::".join([*links[:place], url, *links[place + 1 :]]) for url in whole)
