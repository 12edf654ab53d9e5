"""Chains of addresses, as `zip://a.txt::s3://…`: their links and options, and the files that `simplecache::` keeps."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing.util import get_temp_dir
from threading import Event
from typing import IO, Any

from .addresses import WEB, Address, address_of, links_of, without_anonymous
from .clients import environment
from .local.disk_cache import KeptFiles, NotKept

_CACHES = ("simplecache", "filecache")
"""Caching links that we implement in place of fsspec."""

_ARCHIVES = {"zip": set[str](), "libarchive": set[str](), "tar": {"compression"}}
"""Options for reading archives. fsspec's other options are for writing: `mode="w"` empties the archive at once."""

_TAKEN = {**_ARCHIVES, **{cache: {"cache_storage"} for cache in _CACHES}}
"""Options that links take without being named."""

_PATIENCE_WITH_OTHERS = 300.0
"""Seconds to wait for another process that fetches the same file."""

_ANY_SIZE = 10**18


@dataclass(frozen=True)
class ChainLink:
    """The first link of a chain and its options, and the address of the rest."""

    name: str
    options: Mapping[str, Any] = field(repr=False)
    rest: Address
    by_protocol: Mapping[str, Mapping[str, Any]] = field(repr=False)
    """The options of all links."""

    def keeps_files(self) -> bool:
        """Say whether this is `simplecache::` or `filecache::`; raise TypeError for an option that they do not take."""
        protocol = protocol_of(self.name)
        if protocol in ("blockcache", "cached"):
            raise TypeError(f"{protocol}:: checks neither versions nor sizes: take simplecache::, or cache_files")
        if protocol in _CACHES and (unknown := self.options.keys() - _TAKEN[protocol]):
            raise TypeError(
                f"{no_option(f'{protocol}::', unknown)}, only with cache_storage; a kept file never expires: empty "
                "the folder, or give another"
            )
        return protocol in _CACHES

    def archive(self) -> Any:
        """Return fsspec's class for this archive, or None for a link of another kind."""
        protocol = protocol_of(self.name)
        if protocol not in _ARCHIVES:
            return None
        if unknown := self.options.keys() - _ARCHIVES[protocol]:
            raise TypeError(no_option(f"{protocol}://", unknown))
        return class_of(protocol)


def first_link(address: Address) -> ChainLink | None:
    """Return the first link of a chain, or None for a single address.

    A link gets the options under its protocol, as in `{"s3": {…}}`, and a cache or an archive those that it takes. The
    last one, the store, gets all others.
    """
    links = [*address.links]
    if len(links) == 1:
        return None
    protocols = [protocol_of(link) for link in links]
    links[-1], anonymous = without_anonymous(links[-1])
    others = {**address.options}
    by_protocol = {protocol: {**(others.pop(protocol, None) or {})} for protocol in dict.fromkeys(protocols)}
    for protocol in protocols[:-1]:
        for name in others.keys() & _TAKEN.get(protocol, ()):
            by_protocol[protocol].setdefault(name, others.pop(name))
    by_protocol[protocols[-1]] = {**others, **by_protocol[protocols[-1]], **anonymous}
    behind = by_protocol[protocols[1]] if len(links) == 2 else {each: by_protocol[each] for each in protocols[1:]}
    return ChainLink(links[0], by_protocol[protocols[0]], address_of("::".join(links[1:]), behind), by_protocol)


def file_named_by(links: list[str]) -> str:
    """Return the link of a chain that names the file, as `zip://a.txt.gz`; web URLs lose their query."""
    link = next((link for link in links if "://" in link), links[-1])
    return link.partition("?")[0] if link.partition("://")[0] in WEB else link


def suffix_of(url: str) -> str:
    """Return the suffix of the file that an address names, in lower case: in a chain, of the member of an archive.

    >>> suffix_of("tar://a.TXT::simplecache::s3://bucket/all.tar.gz")
    '.txt'
    """
    return os.path.splitext(file_named_by(links_of(url)))[1].lower()


def protocol_of(link: str) -> str:
    """Return the protocol of a link."""
    from fsspec import available_protocols  # type: ignore[import-untyped]  # slow to import

    protocol, separator, _ = link.partition("://")
    return protocol if separator or protocol in available_protocols() else "file"


def class_of(protocol: str) -> Any:
    """Return fsspec's class for a protocol."""
    from fsspec import get_filesystem_class

    return get_filesystem_class(protocol)


def no_option(what: str, unknown: Iterable[str]) -> str:
    """Return the error message for options that the client of an address does not take."""
    return f"{what} takes no option {', '.join(map(repr, sorted(unknown)))}"


def kept_file(link: ChainLink, arguments: Mapping[str, Any], fetch: Callable[[], IO[bytes]]) -> IO[bytes] | None:
    """Return the open file behind a caching link, or None if it cannot be kept.

    `fetch` opens the original with these arguments. The file appears in `cache_storage` whole or not at all, and all
    processes share it. Without that option it is kept until this process ends, and only for the same options.
    """
    folder, name = link.options.get("cache_storage"), link.rest.bare
    if arguments:  # they may name a version
        name = f"{name} {sorted(arguments.items())}"
    if folder in (None, "TMP"):  # as fsspec has it
        folder = os.path.join(get_temp_dir(), "penstock")
        name = f"{name} {sorted(link.rest.options.items())} {environment()}"
    elif not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"cache_storage must be the path of a folder, and is of type {type(folder).__name__}")
    cache = _cache_in(os.path.abspath(os.path.expanduser(folder)), os.getpid())
    try:
        return cache.file_of(name, lambda: (fetch(), None))
    except NotKept as error:
        logging.getLogger("penstock").warning("%r is read without the cache in %r: %s", link.rest.name, folder, error)
        return None


@functools.lru_cache
def _cache_in(folder: str, process: int) -> KeptFiles:
    """Return the cache in a folder; each process has its own, since a fork may have copied a lock that is held."""
    cache = KeptFiles(folder, _ANY_SIZE, _PATIENCE_WITH_OTHERS, lambda _: None, Event())
    cache.begin()
    return cache
