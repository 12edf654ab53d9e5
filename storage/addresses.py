"""Which client reads an address: the one place that decides it.

| address | read by |
| --- | --- |
| a path | the operating system |
| `s3://`, `s3a://`, `gs://`, `gcs://`, `az://`, `abfs://`, `abfss://` | obstore, where it takes the key |
| `file://`, `local://` | obstore, where it takes the path |
| `http://`, `https://` | obstore, where the URL is plain and no options are given |
| all else, and chains such as `zip://a.txt::s3://…` | fsspec |

`s3://anonymous@bucket/key`, as Ray and Arrow spell it, is the object without credentials: the same as `anon=True`.

obstore drops or rejects `.`, `..` and empty parts of a key, which S3 allows. It escapes some characters of a URL
differently. It has no options for web servers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from ..errors.secrets import without_secrets

__all__ = [
    "AMAZON",
    "AZURE",
    "GOOGLE",
    "LOCAL",
    "WEB",
    "Client",
    "anonymous_as_option",
    "check_key",
    "check_user",
    "check_written",
    "client_of",
    "is_chain",
    "is_local_path",
    "links_of",
    "parts_of",
]

AMAZON, GOOGLE, AZURE, WEB = ("s3", "s3a"), ("gs", "gcs"), ("az", "abfs", "abfss"), ("http", "https")
LOCAL = "file", "local"
"""`local://` is Ray's word, and fsspec's, for `file://`."""


_USER = re.compile(rf"({'|'.join((*AMAZON, *GOOGLE, *AZURE))})://(?!arn:)[^/@:]*:.*@", re.DOTALL)
"""S3 access points have colons in their names, keys may contain @, and secrets may contain slashes."""


_UNSIGNED = ("s3://anonymous@", "s3a://anonymous@")


class Client(Enum):
    """What reads an address."""

    SYSTEM = "the operating system"
    OBSTORE = "obstore"
    FSSPEC = "fsspec"


def client_of(url: str, options: Mapping[str, Any]) -> Client:
    """Return the client that reads an address with these options; raises what `check_user` raises."""
    check_user(url)
    url, options = anonymous_as_option(url, options)
    if is_local_path(url):
        return Client.FSSPEC if options else Client.SYSTEM
    scheme, separator, place = url.partition("://")
    if not separator or is_chain(url):
        return Client.FSSPEC
    if scheme in WEB:
        plain = (
            re.fullmatch(r"[\w.:\[\]-]+(/([\w~.-]|%20)+)+", place, re.ASCII) and not options and _is_plain_key(place)
        )
    elif scheme in LOCAL:
        plain = place.startswith("/") and _is_plain_key(place[1:]) and not re.search(r"[%?#*\\]|[^ -~]", place)
    elif scheme in (*AMAZON, *GOOGLE, *AZURE):
        bucket, _, key = place.partition("/")
        # Access points and directory buckets have their own hosts and signatures; only s3fs reads `?versionId=`.
        of_bucket = re.fullmatch(r"[\w.-]+", bucket, re.ASCII) and not bucket.endswith("--x-s3")
        plain = of_bucket and "?versionId=" not in key and _is_plain_key(key)
    else:
        plain = False
    return Client.OBSTORE if plain else Client.FSSPEC


def anonymous_as_option(url: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return an address and its options; `s3://anonymous@bucket/key` becomes `s3://bucket/key` with `anon=True`."""
    if not url.startswith(_UNSIGNED):
        return url, options
    return url.replace("anonymous@", "", 1), {**options, "anon": True}


def is_local_path(url: str) -> bool:
    """Say whether an address is a local path, without a protocol."""
    return "://" not in url and url[:1] != "~" and not is_chain(url)


def is_chain(url: str) -> bool:
    """Say whether an address is an fsspec chain, as `zip://a.txt::s3://…`; a key or a file name may contain `::`."""
    protocol, separator, _ = url.partition("::")[0].partition("://")
    if "::" not in url or (separator and protocol in (*AMAZON, *GOOGLE, *AZURE, *WEB, *LOCAL)):
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


def check_user(url: str) -> None:
    """Raise ValueError for an object's address that contains keys: clients would show them as the bucket's name."""
    for link in links_of(url) if "@" in url else [url]:
        if "@" in link and (found := _USER.match(link)):
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
    protocol, separator, place = anonymous_as_option("::".join(links), {})[0].partition("://")
    if not separator:
        protocol, place = "file", protocol
    protocol = _ONE_STORE.get(protocol, protocol)
    if protocol == "file":
        place = os.path.realpath(os.path.expanduser(place)).replace(os.sep, "/")
    return protocol, *(part for part in place.split("/") if part not in ("", "."))


def check_written(url: str) -> None:
    """Raise ValueError for an address for which s3fs would write another object."""
    for link in links_of(url):
        check_key(link)
        if link.startswith(("s3://", "s3a://")) and "?versionId=" in link:
            raise ValueError(f"{without_secrets(link)} names a version of an object, which cannot be written")


def check_key(url: str) -> None:
    """Raise ValueError for an address for which s3fs would read or write another object."""
    if url.startswith(("s3://", "s3a://")) and url.endswith("/"):
        raise ValueError(f"{without_secrets(url)} ends in a slash: s3fs would take another object")


def _is_plain_key(key: str) -> bool:
    return all(part not in ("", ".", "..") for part in key.split("/")) and key.isprintable()
