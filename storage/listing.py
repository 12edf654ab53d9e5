"""Listings of files at addresses; S3 is listed one page at a time."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..errors.policy import ErrorPolicy
from ..errors.secrets import without_secrets
from .addresses import Address, Client, address_of
from .errors import in_plain_words
from .file_systems import is_file, is_folder, locate, urls_below
from .retrying import trying_again
from .stores import asked, is_lost, store_of

if TYPE_CHECKING:
    from obstore import ObjectMeta

_PAGE = 1000
"""How many objects S3 lists per response."""


def files_below(url: str, options: Mapping[str, Any], counted_by: ErrorPolicy | None = None) -> Iterator[str]:
    """Yield the URLs of the files in a folder and its subfolders, in their order.

    A failed listing, or page of S3, is retried up to five times; `counted_by` counts the retries.
    """
    address = address_of(url, options)
    if address.of_amazon:
        yield from _objects_below(address_of(folder_at(url), options), url, counted_by)
        return
    wrap: Any = ErrorPolicy(trying_again("raise"), counted_by=counted_by).wrap
    yield from wrap(lambda url: in_plain_words(url, _found, address))(url)


def lists_by_name(address: Address) -> bool:
    """Say whether s3fs lists the folder at an address: it takes slashes at an end of a key for nothing."""
    return not address.of_amazon or not (address.key.startswith("/") or address.key.endswith("//"))


def folder_at(url: str) -> str:
    """Return the URL of a folder with a slash at its end; in S3, each further one is a part of the name."""
    return url if url.endswith("/") else f"{url}/"


def _objects_below(prefix: Address, name: str, counted_by: ErrorPolicy | None) -> Iterator[str]:
    pages = Pages(prefix, name=name)
    ask: Any = ErrorPolicy(trying_again("raise"), counted_by=counted_by).wrap(lambda _: pages())
    while (keys := ask(name)) is not None:
        yield from (pages.start + key for key in keys if not key.endswith("/"))


def _found(address: Address) -> list[str]:
    file_system, path = locate(address)
    file_system.invalidate_cache(path)  # the cache would repeat an earlier listing
    return urls_below(address, path, file_system.find(path))


def files_directly_in(address: Address, counted_by: ErrorPolicy | None = None) -> list[str]:
    """Return the URLs of the files of a folder, without those of its subfolders, or that of a file at the address."""
    file_system, path = locate(address, one_attempt=True)
    file_system.invalidate_cache(path)  # else a later pass would get cached listings
    if not address.url.endswith("/") and is_file(address, file_system, path):
        return [address.url]
    if lists_by_name(address):
        found = file_system.ls(path, detail=True)
        return urls_below(address, path, [entry["name"] for entry in found if not is_folder(file_system, entry)])
    if not (below := [*files_below(address.url, address.options, counted_by)]):
        raise FileNotFoundError(errno.ENOENT, "no such file or folder", without_secrets(address.url))
    return [url for url in below if "/" not in url.removeprefix(folder_at(address.url))]


def names_beginning(
    start: str, options: Mapping[str, Any], counted_by: ErrorPolicy | None = None, *, below: bool = False
) -> list[str]:
    """Return the names of the files in a folder that begin as `start`, the folder's URL and the beginning of a name.

    Of files in subfolders, which come only with `below`, they are paths. A folder that does not exist has none. Listing
    is retried as by `files_below`.
    """
    folder, beginning = start[: start.rfind("/") + 1], start[start.rfind("/") + 1 :]
    wrap: Any = ErrorPolicy(trying_again("raise"), counted_by=counted_by).wrap

    def listed(_: str) -> list[str]:
        file_system, path = locate(address_of(folder or ".", options))
        file_system.invalidate_cache(path)
        found = file_system.find(path, maxdepth=None if below else 1)
        return [name.removeprefix(path.rstrip("/")).lstrip("/") for name in found]

    try:
        address = address_of(start, options)
        if address.of_amazon:
            names = [found.removeprefix(folder) for found in _objects_below(address, start, counted_by)]
        else:
            names = wrap(lambda url: in_plain_words(url, listed, url))(start)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.startswith(beginning) and (below or "/" not in name))


class Pages:
    """The keys that begin with a prefix, in their order: each call returns one page of keys, and None after the last.

    After a failed call, the next one requests the same page. At most one page is in memory.

    obstore lists eight times as fast as botocore, but only folders; it drops a leading or trailing slash of a key and
    fails for some other keys. So it lists the folder of a prefix, from before the prefix until that ends, and botocore
    lists pages with such keys.
    """

    def __init__(self, address: Address, after: str = "", name: str = "") -> None:
        """Start after the key `after`. Options are named as in s3fs; errors use `name` in place of the URL."""
        self._address = address
        self._prefix = address.key
        self.start = f"{address.url.removesuffix(address.key).rstrip('/')}/"
        """The URL of an object up to its key."""
        self._url = name or address.url
        self._last = after
        self._stream: Iterator[Sequence[ObjectMeta]] | None = None
        self._is_at_end = False

    def __call__(self) -> list[str] | None:
        if self._is_at_end:
            return None
        # After a fork, obstore would hang.
        may_ask_obstore = not is_lost() and self._is_named_plainly(self._last) and self._is_for_obstore
        keys = self._by_obstore() if may_ask_obstore else None
        if keys is None:
            self._stream = None
            page = self._answer(Prefix=self._prefix, **({"StartAfter": self._last} if self._last else {}))
            keys = [found["Key"] for found in page.get("Contents", ())]
            self._is_at_end = not page.get("IsTruncated")
        if not (keys or self._is_at_end) or (keys and self._last and keys[0].encode() <= self._last.encode()):
            raise OSError(
                errno.EIO, f"the server did not continue the listing after {self._last!r}", without_secrets(self._url)
            )
        self._last = keys[-1] if keys else self._last
        return keys

    @cached_property
    def _is_for_obstore(self) -> bool:
        """Whether obstore can list the folder of the prefix, at least most pages of it."""
        if self._folder or self._before:  # from which on no key begins with a slash
            return self._is_named_plainly(self._folder)
        return not self._answer(Prefix="/", MaxKeys=1).get("Contents")

    @property
    def _folder(self) -> str:
        return self._prefix[: self._prefix.rfind("/") + 1]

    @cached_property
    def _before(self) -> str:
        """A key of the folder before all keys that begin with the prefix, and after most others; or none."""
        if self._prefix == self._folder or self._prefix[-1] <= "0":
            return ""
        before = f"{self._prefix[:-1]}{chr(ord(self._prefix[-1]) - 1)}~"
        return before if self._is_named_plainly(before) else ""

    def _is_named_plainly(self, key: str) -> bool:
        return not key or self._client_of(key.removesuffix("/")) is Client.OBSTORE

    def _client_of(self, key: str) -> Client:
        return address_of(self.start + key, self._address.options).client

    def _by_obstore(self) -> list[str] | None:
        """Return the keys of a page, or None if obstore may report them wrong."""
        import obstore
        from obstore.exceptions import InvalidPathError

        stream, self._stream = self._stream, None  # a failed stream is not reused
        before = self._last or self._before
        if stream is None:
            store, _ = store_of(self._address)
            stream = obstore.list(store, self._folder, offset=before or None, chunk_size=_PAGE)

        def following() -> Sequence[ObjectMeta] | None:
            try:
                return next((page for page in stream if page[-1]["path"] >= self._prefix), ())
            except InvalidPathError:
                return None

        page = asked(self._url, following)
        if page is None:
            return None
        keys = [found["path"] for found in page]
        if not (keys or self._last):
            return None  # obstore accepts any response as an empty listing
        if keys != sorted(keys) or (keys and keys[0] <= before):
            return None
        # obstore drops the slash of a folder marker, which is empty, or at least precedes the folder's content.
        if not all(found["size"] for found in page) or any(b.startswith(f"{a}/") for a, b in pairwise(keys)):
            return None
        self._is_at_end = not (keys and keys[-1].startswith(self._prefix))
        self._stream = stream
        return [key for key in keys if key.startswith(self._prefix)]

    def _answer(self, **asked_for: Any) -> Any:
        # The listing methods of s3fs hold and cache the complete listing.
        s3, _ = locate(self._address, one_attempt=True)
        page = in_plain_words(self._url, s3.call_s3, "list_objects_v2", Bucket=self._address.bucket, **asked_for)
        if "IsTruncated" not in page and "KeyCount" not in page:
            raise OSError(errno.EIO, "the server's answer is not a listing", without_secrets(self._url))
        return page
