"""Addresses, parsed once: their parts, and the client that reads them.

| address | read by |
| --- | --- |
| a path | the operating system |
| `s3://`, `s3a://`, `gs://`, `gcs://`, `az://`, `abfs://`, `abfss://` | obstore, where it takes the key |
| `file://`, `local://` | obstore, where it takes the path |
| `http://`, `https://` | obstore, where the URL is plain and no options are given |
| `pipe:` | a command, where `open_files_by_fsspec` allows it |
| all else, and chains such as `zip://a.txt::s3://…` | fsspec |

`s3://anonymous@bucket/key`, as Ray and Arrow spell it, is the object without credentials: the same as `anon=True`.

obstore drops or rejects `.`, `..` and empty parts of a key, which S3 allows. It escapes some characters of a URL
differently. It has no options for web servers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from ..errors.secrets import stream_name, without_secrets

AMAZON, GOOGLE, AZURE, WEB = ("s3", "s3a"), ("gs", "gcs"), ("az", "abfs", "abfss"), ("http", "https")
LOCAL = "file", "local"
"""`local://` is Ray's word, and fsspec's, for `file://`."""


COMMAND = "pipe:"
"""The beginning of an address that is a command, as WebDataset spells it."""

_USER = re.compile(rf"({'|'.join((*AMAZON, *GOOGLE, *AZURE))})://(?!arn:)[^/@:]*:.*@", re.DOTALL)
"""S3 access points have colons in their names, keys may contain @, and secrets may contain slashes."""


_OF_AMAZON = ("s3://", "s3a://")
_UNSIGNED = ("s3://anonymous@", "s3a://anonymous@")


class Client(Enum):
    """What reads an address."""

    SYSTEM = "the operating system"
    OBSTORE = "obstore"
    FSSPEC = "fsspec"


@dataclass(eq=False)  # not frozen, which takes a third longer
class Address:
    """An address and its options, as `address_of` parses them."""

    url: str = field(repr=False)
    """The address as it was given, which may hold secrets."""
    bare: str = field(repr=False)
    """The address as clients take it."""
    options: Mapping[str, Any] = field(repr=False)
    client: Client
    scheme: str
    """The protocol; empty for a local path or a chain."""
    bucket: str
    key: str = field(repr=False)

    @cached_property
    def name(self) -> str:
        """The address without secrets."""
        return stream_name(self.url)

    @cached_property
    def links(self) -> list[str]:
        """The links of a chain; else the address alone."""
        return links_of(self.bare)

    @property
    def of_amazon(self) -> bool:
        return self.scheme in AMAZON

    @property
    def of_web(self) -> bool:
        return self.scheme in WEB


def address_of(url: str, options: Mapping[str, Any], of_client: Mapping[str, Any] | None = None) -> Address:
    """Parse an address; raise ValueError for a command, and for keys, which clients would show as the bucket's name.

    `of_client` are the options with which S3, the web and obstore are asked, if not the given ones: with timeouts.
    """
    if url.startswith(COMMAND):
        raise ValueError(
            "the address is a command, and running programs must be allowed: "
            'open_files_by_fsspec(mode="rb", allow_commands=True) reads what it writes'
        )
    for link in links_of(url) if "@" in url else ():
        _check_user(link)
    bare, anonymous = without_anonymous(url)
    options = {**options, **anonymous} if anonymous else options
    scheme, separator, place = bare.partition("://")
    if not separator or is_chain(bare):
        client = Client.SYSTEM if is_local_path(bare) and not options else Client.FSSPEC
        return Address(url, bare, options, client, "", "", bare)
    bucket, _, key = ("", "", place[1:]) if scheme in LOCAL else place.partition("/")
    client = Client.OBSTORE if _is_plain(scheme, place, bucket, key, options) else Client.FSSPEC
    if of_client is not None and (client is Client.OBSTORE or scheme in (*AMAZON, *WEB)):
        options = {**of_client, **anonymous} if anonymous else of_client
    return Address(url, bare, options, client, scheme, bucket, key)


def _is_plain(scheme: str, place: str, bucket: str, key: str, options: Mapping[str, Any]) -> bool:
    """Say whether obstore reads an address as it is."""
    if scheme in WEB:
        plain = re.fullmatch(r"[\w.:\[\]-]+(/([\w~.-]|%20)+)+", place, re.ASCII) and not options
        return bool(plain) and _is_plain_key(place)
    if scheme in LOCAL:
        return place.startswith("/") and _is_plain_key(key) and not re.search(r"[%?#*\\]|[^ -~]", place)
    if scheme not in (*AMAZON, *GOOGLE, *AZURE):
        return False
    # Access points and directory buckets have their own hosts and signatures; only s3fs reads `?versionId=`.
    of_bucket = re.fullmatch(r"[\w.-]+", bucket, re.ASCII) and not bucket.endswith("--x-s3")
    return bool(of_bucket) and "?versionId=" not in key and _is_plain_key(key)


def without_anonymous(url: str) -> tuple[str, Mapping[str, Any]]:
    """Return an address without `anonymous@`, and the option that stands for it."""
    return (url.replace("anonymous@", "", 1), {"anon": True}) if url.startswith(_UNSIGNED) else (url, {})


def is_local_path(url: str) -> bool:
    """Say whether an address is a local path, without a protocol."""
    return "://" not in url and url[:1] != "~" and not is_chain(url)


def is_chain(url: str) -> bool:
    """Say whether an address is an fsspec chain, as `zip://a.txt::s3://…`; a key or a file name may contain `::`."""
    protocol, separator, _ = url.partition("::")[0].partition("://")
    if "::" not in url or (separator and protocol in (*AMAZON, *GOOGLE, *AZURE, *WEB, *LOCAL, "memory")):
        return False
    from fsspec import available_protocols  # type: ignore[import-untyped]  # slow to import

    return protocol in available_protocols()


def links_of(url: str) -> list[str]:
    """Return the links of a chain, or one address; the key of the last may contain `::`."""
    links = []
    while is_chain(url):
        link, _, url = url.partition("::")
        links.append(link)
    return [*links, url]


def _check_user(link: str) -> None:
    if found := _USER.match(link):
        raise ValueError(
            f"{found[1]}://…@{without_secrets(link[found.end() :])} contains keys, which stores do not accept "
            "there: give them as options, for S3 as key= and secret=, or by the environment"
        )


_ONE_STORE = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az", "local": "file"}
"""Protocol → another of the same store."""


def parts_of(url: str) -> tuple[str, ...]:
    """Return the protocol of an address and the parts of its path, however it is spelt.

    Local paths are absolute and without links. A link that only keeps files, as `simplecache::`, is left out.

    >>> parts_of("s3a://anonymous@bucket/folder/") == parts_of("simplecache::s3://bucket/folder")
    True
    >>> parts_of("local:///data/a.csv")
    ('file', 'data', 'a.csv')
    """
    links = links_of(url)
    while len(links) > 1 and "://" not in links[0]:
        links = links[1:]
    protocol, separator, place = without_anonymous("::".join(links))[0].partition("://")
    if not separator:
        protocol, place = "file", protocol
    protocol = _ONE_STORE.get(protocol, protocol)
    if protocol == "file":
        place = os.path.realpath(os.path.expanduser(place)).replace(os.sep, "/")
    return protocol, *(part for part in place.split("/") if part not in ("", "."))


def check_written(address: Address) -> None:
    """Raise ValueError for an address for which s3fs would write another object."""
    for link in address.links:
        check_key(link)
        if link.startswith(_OF_AMAZON) and "?versionId=" in link:
            raise ValueError(f"{without_secrets(link)} names a version of an object, which cannot be written")


def check_key(link: str) -> None:
    """Raise ValueError for an address for which s3fs would read or write another object."""
    if link.startswith(_OF_AMAZON) and link.endswith("/"):
        raise ValueError(f"{without_secrets(link)} ends in a slash: s3fs would take another object")


def _is_plain_key(key: str) -> bool:
    return all(part not in ("", ".", "..") for part in key.split("/")) and key.isprintable()
