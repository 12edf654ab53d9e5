"""Objects in S3 and its like, read by index."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, overload

from ...errors.secrets import Options
from ...registry import ErrorPolicy, OnError, R, add_error_context, expect_whole, functional_datapipe
from ...storage.addresses import address_of
from ...storage.clients import timeouts
from ...storage.reading import read_whole
from ...storage.retrying import trying_again
from ...storage.streaming.streams import checked_path
from ...workers.threads import PATIENCE, map_in_threads
from ..bases.arguments import expect_urls
from ..bases.indexing import Fetching


class NamedObject(NamedTuple):
    """The URL of an object and its bytes: a pair, as `routed_decode` takes them.

    >>> item = NamedObject("s3://bucket/images/0.png", b"")
    >>> item.bucket, item.key
    ('bucket', 'images/0.png')
    """

    url: str
    content: bytes

    @property
    def bucket(self) -> str:
        """The bucket, or the host of a URL of the web; empty for a path."""
        return address_of(self.url, {}).bucket

    @property
    def key(self) -> str:
        """The name within the bucket; a path as it is."""
        return address_of(self.url, {}).key


@functional_datapipe(None)
class ObjectReader(Fetching[R]):
    """Give the bytes of objects by URL: `dp[i]` reads the object at `urls[i]`.

    Take it to read objects by index, in any order; `load_files_by_s3` reads them in the order of a chain of URLs.

    obstore reads S3 (`s3://bucket/key`), Google Cloud Storage (`gs://`), Azure (`az://`), the web and local files;
    fsspec reads other URLs. Up to `workers` threads read several items at once for `__getitems__`, which torch's
    loaders and `batch` use.

    With `with_name`, an item is a `NamedObject`: a pair of `url` and `content`, with `bucket` and `key`.

    `on_error` is `"raise"` or a `Retry`: items read by index cannot be left out. Without a `Retry`, a read is retried
    five times where the connection or the server fails. `storage_options` are named as those of s3fs: `anon`,
    `key`, `secret`, `token`, `profile`, `endpoint_url` and so on. Without them, endpoint and credentials come from the
    environment, `~/.aws` and the role of the machine.

    Raises TypeError for URLs that are no sequence, IndexError for an index out of range, FileNotFoundError for a
    missing object, PermissionError for a forbidden one, ConnectionError and TimeoutError where all attempts fail.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe({"/shelf/a.txt": b"one", "/shelf/b.txt": b"two"})
    >>> dp = ObjectReader(["memory://shelf/a.txt", "memory://shelf/b.txt"])  # or s3://…
    >>> dp[1], len(dp), dp.__getitems__([1, 0])
    (b'two', 2, [b'two', b'one'])
    >>> item = ObjectReader(["memory://shelf/a.txt"], with_name=True)[0]
    >>> item.bucket, item.key, item.content
    ('shelf', 'a.txt', b'one')
    """

    traits = ("expensive",)
    works_in = "threads"
    payload = ("urls",)

    @overload
    def __init__(
        self: ObjectReader[bytes],
        urls: Sequence[str],
        *,
        with_name: Literal[False] = False,
        workers: int = 16,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: ObjectReader[NamedObject],
        urls: Sequence[str],
        *,
        with_name: Literal[True],
        workers: int = 16,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None: ...

    def __init__(
        self,
        urls: Sequence[str],
        *,
        with_name: bool = False,
        workers: int = 16,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        expect_urls(urls)
        expect_whole("workers", workers)
        self.urls = urls
        self.with_name = with_name
        self.workers = workers
        self.handle_errors(on_error, can_skip=False, applied=trying_again(on_error))
        self.storage_options = Options(storage_options)

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            return self._read(self._url(index))
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _fetch(self, indices: list[Any]) -> list[R]:
        wanted = [(index, self._url(index)) for index in indices]
        # A policy per call: a failed object ends the retries of this call, not those of later calls.
        policy = ErrorPolicy(trying_again(self.on_error), can_skip=False, counted_by=self.error_policy)
        read: Callable[[str], Any] = policy.wrap(self._attempt)

        def read_one(item: tuple[Any, str]) -> R:
            index, url = item
            try:
                return read(url)  # type: ignore[no-any-return]
            except Exception as error:
                add_error_context(error, self, index)
                raise

        patience = sum(timeouts(self.storage_options)) + PATIENCE  # a read from a silent server cannot be cancelled
        return map_in_threads(read_one, wanted, self.workers, "penstock-objects", patience, policy.give_up)

    def _url(self, index: Any) -> str:
        number = operator.index(index)
        if not -len(self.urls) <= number < len(self.urls):
            raise IndexError(f"there are {len(self.urls)} objects, and index {number} is out of range")
        return checked_path(self.urls[number])

    @cached_property
    def _read(self) -> Callable[[str], Any]:
        read: Callable[[str], Any] = self.error_policy.wrap(self._attempt)
        return read

    def _attempt(self, url: str) -> bytes | NamedObject:
        content = read_whole(url, self.storage_options)
        return NamedObject(url, content) if self.with_name else content

    def __len__(self) -> int:
        return len(self.urls)
