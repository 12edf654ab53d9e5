"""Files on any fsspec file system: located and opened."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from typing import IO, Any

from ..errors.optional import require
from ..errors.policy import ErrorPolicy
from .addresses import AMAZON, AZURE, GOOGLE, WEB, Address, Client, check_key, links_of
from .chains import ChainLink, class_of, file_named_by, first_link, kept_file, no_option, protocol_of
from .clients import for_s3fs
from .errors import in_plain_words
from .streaming.http_range import OneVersion
from .streaming.resumable import HttpResponse, ResumableBody
from .streaming.streams import stream_over
from .web import for_the_web

_NEEDED = {
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gcs")),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), ("adlfs", "azure")),
    "hf": ("huggingface_hub", "hf"),
}
"""Protocol → required module, and the extra of this package that installs it."""


_TAKE_NONE = ("fsspec.implementations.local", "fsspec.implementations.memory")
"""Modules of file systems that accept any option and ignore it."""

_OF_ALL = {"auto_mkdir", "skip_instance_cache", "use_listings_cache", "listings_expiry_time", "max_paths"}

OF_TEXT = ("encoding", "errors", "newline")

WITH_A_SLASH: set[str] = set()
"""Protocols whose files are listed with the slash that their paths begin with, however the folder was spelt."""

_of_the_parent: list[Any] = []


def _keep_for_child() -> None:
    """Keep this process's instances of s3fs in one that is forked from it, where fsspec drops them.

    An instance that is dropped closes its connections, by the parent's event loop, which does not run there.
    """
    if s3fs := sys.modules.get("s3fs"):
        _of_the_parent.extend(s3fs.S3FileSystem._cache.values())


os.register_at_fork(before=_keep_for_child, after_in_parent=_of_the_parent.clear)


def opened(
    address: Address,
    text: Mapping[str, Any] | None = None,
    arguments: Mapping[str, Any] | None = None,
    attempts: ErrorPolicy | None = None,
) -> IO[Any]:
    """Return a stream of a file: bytes, or text if `text` has arguments for TextIOWrapper.

    `arguments` are those of the file system's `open`. `attempts` retries failed reads, but not the opening.
    """
    url, arguments = address.url, arguments or {}
    if address.client is Client.SYSTEM and not arguments:
        # Same as fsspec, at half the cost.
        return stream_over(open(url, "rb", buffering=0), url, text)
    if compression := arguments.get("compression"):
        from fsspec.core import compr, get_compression  # type: ignore[import-untyped]  # slow to import

        name = get_compression(file_named_by(address.links), compression)
        others = {argument: value for argument, value in arguments.items() if argument != "compression"}
        packed = opened(address, None, others)
        unpacked = compr[name](packed, mode="r") if name else packed
        return stream_over(unpacked, url, text, packed, attempts, packed)
    file, owner, below = file_behind(address, arguments)
    return stream_over(file, url, text, owner, attempts, below)


def file_behind(address: Address, arguments: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return an fsspec file, its file system, which an open file needs, and for a member the archive's stream."""
    check_key(address.bare)
    link = first_link(address)
    if link is not None and link.keeps_files():
        kept = kept_file(link, arguments, lambda: _to_be_kept(link.rest, arguments))
        return (kept, None, None) if kept is not None else file_behind(link.rest, arguments)
    file_system, path, below = _located(address, link, one_attempt=True)
    file = in_plain_words(address.url, file_system.open, path, "rb", **arguments)
    if isinstance(file, io.BytesIO):  # memory:// returns its stored object, with one position for all readers
        file = io.BytesIO(file.getvalue())
    if type(file).__module__ == "fsspec.implementations.http":
        if (size := stream_size(file)) is not None:
            file.session = OneVersion(file.session, size)
        else:
            return _resumed(address, file), file_system, below
    return file, file_system, below


def _resumed(address: Address, file: Any) -> ResumableBody:
    """Return the bytes of a file that fsspec reads in one response."""

    def ask(asked: str) -> HttpResponse:
        return in_plain_words(address.url, _request_rest, address.url, file, asked)

    return ResumableBody(_response_of(address.url, file), ask, address.url, file.fs)


def _response_of(url: str, file: Any) -> HttpResponse:
    return HttpResponse(file.r.status, file.r.headers, partial(in_plain_words, url, file.read), file.close)


def _request_rest(url: str, file: Any, asked: str) -> HttpResponse:
    headers = {"Range": asked, "Accept-Encoding": "identity"} if asked else {}
    options = {**file.kwargs, "headers": {**(file.kwargs.get("headers") or {}), **headers}}
    return _response_of(url, type(file)(file.fs, file.url, loop=file.fs.loop, session=file.session, **options))


def locate(address: Address, one_attempt: bool = False) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it.

    `one_attempt` turns off the five retries of S3 requests: callers retry, and count the retries. A caching link, as
    `simplecache::`, is skipped: the result is that of the next link.
    """
    link = first_link(address)
    if link is not None and link.keeps_files():
        return locate(link.rest, one_attempt)
    file_system, path, _ = _located(address, link, one_attempt)
    return file_system, path


def _located(address: Address, link: ChainLink | None, one_attempt: bool) -> tuple[Any, str, Any]:
    import fsspec  # type: ignore[import-untyped]  # slow to import

    url = address.bare
    if link is not None and (kind := link.archive()):
        below: Any = opened(link.rest)
        below.original = file_named_by(link.rest.links)  # fsspec infers a tar's compression from it
        return in_plain_words(url, _archive_in, kind, below, link.options), kind._strip_protocol(link.name), below
    protocols = [*link.by_protocol] if link is not None else [protocol_of(url)]
    given = link.by_protocol if link is not None else {protocols[0]: address.options}
    kept_close = {protocol: _kept_close(protocol, each, one_attempt) for protocol, each in given.items()}
    try:
        unknown = given[protocols[-1]].keys() - _OF_ALL
        if unknown and class_of(protocols[-1]).__module__ in _TAKE_NONE:
            raise TypeError(no_option(address.name, unknown))
        if "::" in url and link is None:  # fsspec would parse it as a chain
            file_system = fsspec.filesystem(protocols[0], **kept_close[protocols[0]])
            path = file_system._strip_protocol(url)
        else:
            of_all = kept_close if link is not None else kept_close[protocols[0]]
            bare = f"{link.name}::{link.rest.bare}" if link is not None else url
            file_system, path = in_plain_words(url, fsspec.url_to_fs, bare, **of_all)
    except ImportError:
        for protocol in protocols:
            if protocol in _NEEDED:
                require(*_NEEDED[protocol])
        raise
    each: Any
    for each in (file_system, getattr(file_system, "fs", None)):  # a file system may wrap another
        if getattr(each, "protocol", None) == AMAZON:
            each.retries = 1  # by default, s3fs makes five for each of botocore's
    return file_system, path, None


def _to_be_kept(address: Address, arguments: Mapping[str, Any]) -> IO[bytes]:
    # From the web in one answer: some servers send whole files only.
    return opened(address, None, {**arguments, **({"block_size": 0} if address.of_web else {})})


def _archive_in(kind: Any, stream: IO[bytes], options: Mapping[str, Any]) -> Any:
    """Return the file system of the archive in a stream."""
    try:
        return kind(fo=stream, **{**options, "skip_instance_cache": True})  # else a closed stream may be served
    except Exception as error:
        failure = error.__context__ if isinstance(error.__context__, OSError) else error
    raise failure  # zipfile reports a failed connection as a file that is not a zip


def _kept_close(protocol: str, options: Mapping[str, Any], one_attempt: bool) -> Mapping[str, Any]:
    """Return options for a file system that sends keys to no other host, and describes objects as they are now."""
    if protocol in (*AMAZON, *GOOGLE, *AZURE):  # else fsspec answers from earlier listings
        options = {"use_listings_cache": False, **options}
    if protocol in AMAZON:
        return for_s3fs(options, one_attempt)
    return for_the_web(options) if protocol in WEB else options


def move_file(file_system: Any, path: str, new_path: str) -> None:
    """Move a file to another path of its file system, which replaces a file there."""
    from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]  # slow to import

    if type(file_system).mv is AbstractFileSystem.mv:  # which takes a path for a pattern
        file_system.cp_file(path, new_path)
        file_system.rm_file(path)
    else:
        file_system.mv(path, new_path)


def is_file(address: Address, file_system: Any, path: str) -> bool:
    """Say whether a file exists; raise OSError for a server's failure, which fsspec's `isfile` reports as False."""
    if not (address.of_amazon or address.of_web):
        return bool(file_system.isfile(path))
    try:
        info: Any = in_plain_words(address.url, file_system.info, path)
    except FileNotFoundError:
        return False
    return bool(info["type"] == "file")


def is_folder(file_system: Any, entry: Mapping[str, Any]) -> bool:
    """Say whether an entry of a file system's listing is a folder."""
    name, kind = entry["name"], entry["type"]
    # The S3 console creates a folder as an object whose name ends in a slash; a local folder may be behind a link.
    return kind == "directory" or name.endswith("/") or bool(entry.get("islink") and file_system.isdir(name))


def urls_below(root: Address, path: str, names: Iterable[str]) -> list[str]:
    """Return the URLs of files, from the address of their folder, its path in the file system, and their paths."""
    links = links_of(root.url)
    place = 0
    # In a chain, a caching file system has no path: `path` belongs to the next link.
    while path.strip("/") and place + 1 < len(links) and not links[place].partition("://")[2]:
        place += 1
    protocol, separator, _ = links[place].partition("://")
    folder, path = links[place].rstrip("/"), path.rstrip("/")
    if path and folder.endswith(path) and protocol not in WITH_A_SLASH:
        start = folder.removesuffix(path)  # with a user or host, which the names lack
    else:
        start = f"{protocol}://" if separator or place + 1 < len(links) else ""  # none for a local path
    whole = [name if "://" in name else start + name for name in names]
    return sorted("::".join([*links[:place], url, *links[place + 1 :]]) for url in whole)


def stream_size(stream: Any) -> int | None:
    """Return the `size` of a stream, or None if it has none or `size` is a function."""
    size = getattr(stream, "size", None)
    return size if isinstance(size, int) else None
