"""Files on any fsspec file system: located and opened."""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import IO, Any

from ..registry import Guard
from ..registry.extras import require
from ..registry.secrets import without_secrets
from .addresses import AMAZON, WEB, check_key, check_user, is_chain, is_local_path
from .answers import OneVersion
from .clients import for_s3fs
from .errors import in_plain_words
from .streams import stream_over
from .web import for_the_web

__all__ = [
    "OF_S3",
    "OF_TEXT",
    "OF_WEB",
    "file_behind",
    "is_file",
    "is_folder",
    "locate",
    "locate_for_one_attempt",
    "opened",
    "stream_size",
    "urls_below",
]

_NEEDED = {
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gcs")),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), ("adlfs", "azure")),
}
"""Protocol → required module, and the extra of this package that installs it."""


OF_S3, OF_WEB = ("s3://", "s3a://"), ("http://", "https://")


_TAKE_NONE = ("fsspec.implementations.local", "fsspec.implementations.memory")
"""Modules of file systems that accept any option and ignore it."""

_OF_ALL = {"auto_mkdir", "skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths"}

OF_TEXT = ("encoding", "errors", "newline")


def opened(
    url: str,
    options: Mapping[str, Any],
    text: Mapping[str, Any] | None,
    arguments: Mapping[str, Any],
    attempts: Guard | None = None,
) -> IO[Any]:
    """Return a stream of a file: bytes, or text if `text` has arguments for TextIOWrapper.

    `options` are for the file system, `arguments` for its `open`. `attempts` retries failed reads, but not the opening.
    """
    if is_local_path(url) and not options and not arguments:
        # Same as fsspec, at half the cost.
        return stream_over(open(url, "rb", buffering=0), url, text)
    file, file_system = file_behind(url, options, arguments)
    return stream_over(file, url, text, file_system, attempts)


def file_behind(url: str, options: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return an fsspec file and its file system, which the file needs as long as it is open."""
    check_key(url)
    file_system, path = locate_for_one_attempt(url, options)
    file = in_plain_words(url, _open, file_system, path, arguments)
    if isinstance(file, io.BytesIO):  # memory:// returns its stored object, with one position for all readers
        file = io.BytesIO(file.getvalue())
    if type(file).__module__ == "fsspec.implementations.http" and (size := stream_size(file)) is not None:
        file.session = OneVersion(file.session, size)
    return file, file_system


def _open(file_system: Any, path: str, arguments: Mapping[str, Any]) -> Any:
    """Open a file. If that fails in a caching file system, remove its part of the file: it would serve that later."""
    from fsspec.implementations.cached import WholeFileCacheFileSystem  # type: ignore[import-untyped]

    try:
        return file_system.open(path, "rb", **arguments)
    except BaseException as error:  # Ctrl-C ends a download, too
        if isinstance(file_system, WholeFileCacheFileSystem):
            if isinstance(error, FileNotFoundError):
                file_system.fs.info(path)  # raises the error that the caching file system takes for a missing file
            elif kept := file_system._check_file(path):
                with suppress(FileNotFoundError):
                    os.remove(kept[1] if isinstance(kept, tuple) else kept)
        raise


def locate(url: str, options: Mapping[str, Any], one_attempt: bool = False) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it; `one_attempt` turns off the five retries of S3 requests."""
    import fsspec  # type: ignore[import-untyped]  # slow to import

    check_user(url)
    protocols = [link.partition("://")[0] for link in (url.split("::") if is_chain(url) else [url])]
    if is_chain(url):
        options = _options_by_link(protocols, options)
        for protocol in {*protocols} & {*AMAZON, *WEB}:
            options = {**options, protocol: _kept_close(protocol, options.get(protocol) or {}, one_attempt)}
    else:
        options = _kept_close(protocols[0], options, one_attempt)
    try:
        if "::" in url and not is_chain(url):  # fsspec would parse it as a chain
            file_system = fsspec.filesystem(url.partition("://")[0] if "://" in url else "file", **options)
            path = file_system._strip_protocol(url)
        else:
            file_system, path = in_plain_words(url, fsspec.url_to_fs, url, **options)
    except ImportError:
        for protocol in protocols:
            if protocol in _NEEDED:
                require(*_NEEDED[protocol])
        raise
    if type(file_system).__module__ in _TAKE_NONE and (unknown := options.keys() - _OF_ALL):
        raise TypeError(_no_option(without_secrets(url), unknown))
    each: Any
    for each in (file_system, getattr(file_system, "fs", None)):  # a caching file system wraps another
        if getattr(each, "protocol", None) == AMAZON:
            each.retries = 1  # by default, s3fs makes five for each of botocore's
    return file_system, path


def _options_by_link(protocols: list[str], options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options for the links of a chain. What names no link, and the first does not take, is for the last.

    fsspec would drop it. The last link is the store.
    """
    from fsspec import available_protocols, get_filesystem_class

    first = get_filesystem_class(protocols[0])
    store = protocols[-1] if protocols[-1] in available_protocols() else "file"  # a path
    if not first.__module__.startswith("fsspec."):
        return options  # it may take more than its signature shows
    of_first = {name for each in first.__mro__ for name in inspect.signature(each.__init__).parameters}
    of_store = {name: options[name] for name in options.keys() - of_first - _OF_ALL - {*protocols}}
    if not of_store:
        return options
    if get_filesystem_class(store).__module__ in _TAKE_NONE:
        raise TypeError(_no_option(f"{protocols[0]}::{store}://", of_store))
    others = {name: value for name, value in options.items() if name not in of_store}
    return {**others, store: {**of_store, **(options.get(store) or {})}}


def _no_option(what: str, unknown: Iterable[str]) -> str:
    return f"{what} is read with no option {', '.join(map(repr, sorted(unknown)))}"


def _kept_close(protocol: str, options: Mapping[str, Any], one_attempt: bool) -> Mapping[str, Any]:
    """Return options for a file system that sends keys to no other host."""
    if protocol in AMAZON:
        return for_s3fs(options, one_attempt)
    return for_the_web(options) if protocol in WEB else options


def locate_for_one_attempt(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return what `locate` does, without its retries for S3: callers retry, and count the retries."""
    return locate(url, options, one_attempt=True)


def is_file(url: str, file_system: Any, path: str) -> bool:
    """Say whether a file exists; raise OSError for a server's failure, which fsspec's `isfile` reports as False."""
    if not url.startswith((*OF_S3, *OF_WEB)):
        return bool(file_system.isfile(path))
    try:
        told: Any = in_plain_words(url, file_system.info, path)
    except FileNotFoundError:
        return False
    return bool(told["type"] == "file")


def is_folder(file_system: Any, entry: Mapping[str, Any]) -> bool:
    """Say whether an entry of a file system's listing is a folder."""
    name, kind = entry["name"], entry["type"]
    # The S3 console creates a folder as an object whose name ends in a slash; a local folder may be behind a link.
    return kind == "directory" or name.endswith("/") or bool(entry.get("islink") and file_system.isdir(name))


def urls_below(root: str, path: str, names: Iterable[str]) -> list[str]:
    """Return the URLs of files, from the URL of their folder, its path in the file system, and their paths."""
    links = root.split("::") if is_chain(root) else [root]
    place = 0
    # In a chain, a caching file system has no path: `path` belongs to the next link.
    while path.strip("/") and place + 1 < len(links) and not links[place].partition("://")[2]:
        place += 1
    protocol, separator, _ = links[place].partition("://")
    folder, path = links[place].rstrip("/"), path.rstrip("/")
    if path and folder.endswith(path):
        start = folder.removesuffix(path)  # with a user or host, which the names lack
    else:
        start = f"{protocol}://" if separator or place + 1 < len(links) else ""  # none for a local path
    whole = [name if "://" in name else start + name for name in names]
    return sorted("::".join([*links[:place], url, *links[place + 1 :]]) for url in whole)


def stream_size(stream: Any) -> int | None:
    """Return the `size` of a stream, or None if it has none or `size` is a function."""
    size = getattr(stream, "size", None)
    return size if isinstance(size, int) else None
