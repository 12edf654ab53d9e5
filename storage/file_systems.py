"""Files of all that fsspec speaks: found, and opened."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
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
    "size_of",
    "urls_below",
]

_NEEDED = {
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gcs")),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), ("adlfs", "azure")),
}
"""What a protocol needs: a module, and the extra of this package that installs it."""


OF_S3, OF_WEB = ("s3://", "s3a://"), ("http://", "https://")


_TAKE_NONE = ("fsspec.implementations.local", "fsspec.implementations.memory")
"""Where the file systems are that take any option, and use none."""

_OF_ALL = {"auto_mkdir", "skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths"}

OF_TEXT = ("encoding", "errors", "newline")


def opened(
    url: str,
    options: Mapping[str, Any],
    text: Mapping[str, Any] | None,
    arguments: Mapping[str, Any],
    attempts: Guard | None = None,
) -> IO[Any]:
    """Return a stream of a file: of bytes, or of text, with arguments for TextIOWrapper.

    `options` are those of the file system, `arguments` are for its way to open a file. By `attempts`, what cannot be
    read is asked for again, when the file is open.
    """
    if is_local_path(url) and not options and not arguments:
        # What fsspec would do, at half the price.
        return stream_over(open(url, "rb", buffering=0), url, text)
    file, file_system = file_behind(url, options, arguments)
    return stream_over(file, url, text, file_system, attempts)


def file_behind(url: str, options: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return a file of fsspec's, and the file system that it needs for as long as it is open."""
    check_key(url)
    file_system, path = locate_for_one_attempt(url, options)
    file = in_plain_words(url, file_system.open, path, "rb", **arguments)
    if isinstance(file, io.BytesIO):  # memory:// hands out the one object that it keeps, at one position for all
        file = io.BytesIO(file.getvalue())
    if type(file).__module__ == "fsspec.implementations.http" and (size := size_of(file)) is not None:
        file.session = OneVersion(file.session, size)
    return file, file_system


def locate(url: str, options: Mapping[str, Any], one_attempt: bool = False) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. Each request to S3 is made up to five more times, or not."""
    import fsspec  # type: ignore[import-untyped]  # here, since importing the package should not take so long

    check_user(url)
    protocols = [link.partition("://")[0] for link in (url.split("::") if is_chain(url) else [url])]
    if is_chain(url):
        for protocol in {*protocols} & {*AMAZON, *WEB}:
            options = {**options, protocol: _kept_close(protocol, options.get(protocol) or {}, one_attempt)}
    else:
        options = _kept_close(protocols[0], options, one_attempt)
    try:
        if "::" in url and not is_chain(url):  # which fsspec would take for one
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
        raise TypeError(f"{without_secrets(url)} is read with no option {', '.join(map(repr, sorted(unknown)))}")
    each: Any
    for each in (file_system, getattr(file_system, "fs", None)):  # which one that caches has
        if getattr(each, "protocol", None) == AMAZON:
            each.retries = 1  # or it would make five for each of botocore's
    return file_system, path


def _kept_close(protocol: str, options: Mapping[str, Any], one_attempt: bool) -> Mapping[str, Any]:
    """Return the options of a file system, by which what is given for one host goes to no other."""
    if protocol in AMAZON:
        return for_s3fs(options, one_attempt)
    return for_the_web(options) if protocol in WEB else options


def locate_for_one_attempt(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return what `locate` does, with no attempts of its own at S3: they are made where they are counted."""
    return locate(url, options, one_attempt=True)


def is_file(url: str, file_system: Any, path: str) -> bool:
    """Say whether there is a file; raise OSError where a server does not tell: fsspec takes that for a no."""
    if not url.startswith((*OF_S3, *OF_WEB)):
        return bool(file_system.isfile(path))
    try:
        told: Any = in_plain_words(url, file_system.info, path)
    except FileNotFoundError:
        return False
    return bool(told["type"] == "file")


def is_folder(file_system: Any, entry: Mapping[str, Any]) -> bool:
    """Say whether what a listing of a file system has is a folder."""
    name, kind = entry["name"], entry["type"]
    # An object whose name ends in a slash is how S3's console lays a folder; a link is what a local one may come as.
    return kind == "directory" or name.endswith("/") or bool(entry.get("islink") and file_system.isdir(name))


def urls_below(root: str, path: str, names: Iterable[str]) -> list[str]:
    """Return the URLs of files, given the URL of their folder, its path in the file system, and theirs."""
    links = root.split("::") if is_chain(root) else [root]
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


def size_of(stream: Any) -> int | None:
    """Return how many bytes a stream says that it has; what says nothing, or is a function, is no size."""
    size = getattr(stream, "size", None)
    return size if isinstance(size, int) else None
