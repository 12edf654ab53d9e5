"""List objects by prefix, and load many at once, from S3 and other stores."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import IO, Any, ClassVar, Literal

from ...errors.checks import AUTO
from ...errors.secrets import Options, without_secrets
from ...registry import IterDataPipe, OnError, expect_whole, functional_datapipe, own
from ...storage.addresses import Address, Client, address_of
from ...storage.clients import environment, for_one_attempt, timeouts
from ...storage.errors import UnknownStoreError
from ...storage.listing import Pages
from ...storage.local.memory_budget import MemoryBudget
from ...storage.objects import LARGE, open_by_fsspec, open_ranged
from ...storage.retrying import trying_again
from ...storage.stores import asked, check_process, is_lost, store_of
from ...storage.streaming.streams import Loaded, checked_path
from ...workers.threads import PATIENCE, Threads
from ..bases.ahead.tuning import DERIVED
from ..bases.ahead.works_ahead import WorksAhead
from ..bases.listers_and_openers import GivenLength, check_length, matches

LOADS_PER_PLACE = 2
"""Objects in flight per concurrent load: the oldest may take longer than others."""
_MOST_WORKERS = 64
"""How many workers "auto" takes at most."""


@functional_datapipe("list_files_by_s3")
class S3FileLister(GivenLength, IterDataPipe[str]):
    """Yield the URL of each object whose URL begins with a prefix, for each prefix.

    Take it for all objects below a prefix in S3, and `list_files_by_fsspec` for one folder or another store. A prefix
    is `s3://bucket/` with the start of a key, or the URL of an object. Objects in folders at any depth are included;
    those that represent a folder (their keys end in a slash) are not. Objects come in the order of their keys, a page
    of the listing at a time. `masks` are shell patterns. The name of an object must match one of them; a mask with a
    slash is matched against the complete URL. `len` returns `length`; without `length` it raises TypeError.
    `request_timeout_ms` is the timeout in milliseconds, and `region` that of the bucket. `storage_options` are those of
    s3fs, such as `anon`, `endpoint_url` or `profile`. All these take precedence over the environment, which otherwise
    gives endpoint, region and credentials. `on_error` handles a prefix that cannot be listed; each page is retried up
    to five times, unless a `Retry` says otherwise.

    Raises ValueError for a URL that is not of S3, FileNotFoundError for a missing bucket and, unless `allow_empty`, for
    a prefix without objects, and PermissionError for a bucket that may not be read, or without credentials. Resuming
    continues after the key of the last object, and needs the same objects after that.

    >>> shards = IterableWrapper(["s3://a-bucket/train/"]).list_files_by_s3(masks="*.tar", length=64)
    >>> len(shards)
    64
    >>> dp = IterableWrapper([]).list_files_by_s3()
    >>> list(dp)
    []
    """

    resumes_from_start = False
    recursive = True
    on_nothing: ClassVar[str] = "there are no objects with this prefix, which allow_empty=True permits"
    after: str = own("")
    """The key of the last object yielded for the current prefix."""

    def __init__(
        self,
        source: IterDataPipe[str],
        length: int = -1,
        request_timeout_ms: int = -1,
        region: str = "",
        masks: str | Sequence[str] = "",
        *,
        allow_empty: bool = False,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.storage_options = Options(storage_options)
        self.options = Options(_client_options(storage_options or {}, request_timeout_ms, region))
        self.source = source
        self.allow_empty = allow_empty
        self.length = check_length(length)
        self.request_timeout_ms = request_timeout_ms
        self.region = region
        self.masks = masks
        self.handle_errors(on_error, applied=trying_again(on_error))

    def __iter__(self) -> Iterator[str]:
        pages: Any = None
        may_end = False

        def page_of(prefix: Any) -> Any:
            nonlocal pages
            if pages is None:
                pages = self._pages(prefix)
            page = pages()
            if page is None and not may_end:
                raise FileNotFoundError(errno.ENOENT, self.on_nothing, without_secrets(prefix))
            return page

        ask: Callable[[Any], Any] = self.error_policy.wrap(page_of)
        items = self.read(self.source)
        for number, item in items:
            items.keep_from(number)
            pages, may_end = None, self.allow_empty or bool(self.after)
            while (page := ask(item)) is not None and self.error_policy.keep(page):
                for key in page:
                    if key.endswith("/"):
                        continue
                    may_end = True
                    url = pages.start + key
                    if matches(url, self.masks):
                        self.after = key
                        yield url
            self.after = ""

    def _pages(self, prefix: Any) -> Pages:
        if not checked_path(prefix).startswith(("s3://", "s3a://")):
            raise ValueError(
                "URLs of S3 begin with s3://: list_files_by_fsspec lists folders of all that fsspec speaks"
            )
        return Pages(address_of(prefix, self.options), self.after)


@functional_datapipe("load_files_by_s3")
class S3FileLoader(WorksAhead[tuple[str, IO[bytes]]]):
    """Yield the URL and a stream of the bytes of each object, given its URL; load many at once.

    Take it for many objects or files of the web; `open_files_by_fsspec` opens one at a time, and `cache_files` keeps
    them on a disk. Objects of `s3://`, `gs://`, `az://`, `https://` and `file://` are read by obstore, others by
    fsspec, as with `open_files_by_fsspec`. Objects up to 16 MB are loaded into memory; larger ones are read by ranges
    during use. `workers` limits the objects loading at a time; "auto" finds how many, up to 64. `max_bytes` limits the
    memory of objects loading, or loaded and not yet yielded; only the oldest may exceed it. With `ordered=False`,
    objects come as they are ready; a state then lists the finished ones, and resuming gives the others.

    `request_timeout_ms` is the timeout in milliseconds, by default 20 seconds, and 5 for connecting; `region` is that
    of the bucket. `storage_options` have the names of s3fs, such as `anon`, `endpoint_url`, `key`,
    `secret` or `profile`. All these take precedence over the environment, which otherwise gives endpoint, region and
    credentials, as for s3fs. `buffer_size` and `multi_part_download` are accepted for compatibility and ignored.
    `on_error` handles an object that cannot be loaded; transient errors are retried up to five times, unless a `Retry`
    says otherwise.

    Raises FileNotFoundError for a missing object, PermissionError for one that may not be read or without credentials,
    ConnectionError or TimeoutError for an unreachable server, and RuntimeError in a process forked from one that had
    loaded objects.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
    >>> dp = IterableWrapper(["memory://shelf/a.txt"]).load_files_by_s3()  # or s3://…
    >>> [(url, stream.read()) for url, stream in dp]
    [('memory://shelf/a.txt', b'one')]
    """

    traits = ("opens", "expensive")
    works_in = "threads"
    buffers = ("workers", "max_bytes")
    buffered = "files"
    resumes_from_start = False
    _not_compared = ("buffer_size", "max_bytes", "multi_part_download", "request_timeout_ms")

    def __init__(
        self,
        source: IterDataPipe[str],
        request_timeout_ms: int = -1,
        region: str = "",
        buffer_size: int | None = None,
        multi_part_download: bool | None = None,
        *,
        workers: int | Literal["auto"] = 32,
        max_bytes: int = 256 * 2**20,
        ordered: bool = True,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        expect_whole("workers", workers, or_word=AUTO)
        expect_whole("max_bytes", max_bytes)
        self.storage_options = Options(storage_options)
        self.options = Options(_client_options(storage_options or {}, request_timeout_ms, region))
        self.source = source
        self.request_timeout_ms = request_timeout_ms
        self.region = region
        self.buffer_size = buffer_size
        self.multi_part_download = multi_part_download
        self.workers = workers
        self.max_bytes = max_bytes
        self.ordered = ordered
        self.handle_errors(on_error, applied=trying_again(on_error))
        room = AUTO if workers == AUTO else workers * LOADS_PER_PLACE
        self._set_concurrency(("workers", workers, _MOST_WORKERS), (DERIVED, room))

    def __iter__(self) -> Iterator[tuple[str, IO[bytes]]]:
        budget = MemoryBudget(self.max_bytes)
        results: Any = self._results(_Loads(self, budget, self._at_once.value))
        with closing(results):
            for number, url, stream in results:
                budget.give_back(number)
                yield url, stream

    def _address_of(self, url: str) -> Address:
        return address_of(url, self.storage_options, self.options)

    def _loading(self, budget: MemoryBudget) -> Callable[[tuple[int, Any]], Any]:
        """Return a load function for one thread; it takes an item with its number."""
        surroundings = environment()
        number = -1

        def load(url: Any) -> tuple[int, str, IO[bytes]]:
            url = checked_path(url)
            return number, url, self._stream(self._address_of(url), number, budget, surroundings)

        attempt = self.error_policy.wrap(load)

        def load_numbered(task: tuple[int, Any]) -> Any:
            nonlocal number
            number, item = task
            loaded: Any = None
            try:
                loaded = attempt(item)
            finally:
                if not isinstance(loaded, tuple):
                    budget.give_back(number)
            return loaded

        return load_numbered

    def _stream(
        self, address: Address, number: int, budget: MemoryBudget, surroundings: tuple[str | None, ...]
    ) -> IO[bytes]:
        import obstore

        if address.client is not Client.OBSTORE:
            return self._by_fsspec(address, number, budget)
        store, key = store_of(address, surroundings)
        url, size = address.url, budget.usual
        while True:
            budget.take(number, size)
            try:
                result = asked(url, obstore.get, store, key)
            except UnknownStoreError:
                return self._by_fsspec(address, number, budget)
            size = result.meta["size"]
            if size > LARGE:
                budget.take(number, 0)
                return open_ranged(address, result, retry=self._retry, counted_by=self.error_policy)
            if budget.is_enough(number, size):
                return Loaded(asked(url, result.bytes), url)
            del result  # so no response stays open while waiting for room

    def _by_fsspec(self, address: Address, number: int, budget: MemoryBudget) -> IO[bytes]:
        budget.take(number, 0)
        expect = partial(budget.take, number)
        stream, _ = open_by_fsspec(address, retry=self._retry, counted_by=self.error_policy, expect=expect)
        return stream


class _Loads(Threads):
    """Threads that load objects for one pass."""

    def __init__(self, pipe: S3FileLoader, budget: MemoryBudget, most: int) -> None:
        self._pipe = pipe
        self._budget = budget
        patience = sum(timeouts(pipe.options)) + PATIENCE  # a read from a silent server ends only by its timeout
        super().__init__(lambda: pipe._loading(budget), most, "penstock-s3", patience)

    def submit(self, number: int, item: Any) -> None:
        if is_lost() and isinstance(item, str) and self._pipe._address_of(item).client is Client.OBSTORE:
            check_process()  # here, since on_error must not handle it
        self._budget.expect(number)
        super().submit(number, (number, item))

    def stop(self) -> None:
        self._budget.close()
        super().stop()


def _client_options(options: Mapping[str, Any], request_timeout_ms: int, region: str) -> dict[str, Any]:
    """Return options of s3fs with a timeout (-1: the default) and a region ("": that of the environment)."""
    if request_timeout_ms != -1 and request_timeout_ms <= 0:
        raise ValueError(f"request_timeout_ms must be milliseconds, or -1 for the usual, and is {request_timeout_ms}")
    if request_timeout_ms != -1:
        seconds = request_timeout_ms / 1000
        config = {**(options.get("config_kwargs") or {}), "connect_timeout": seconds, "read_timeout": seconds}
        options = {**options, "config_kwargs": config}
    options = for_one_attempt(options)
    if region:
        options["client_kwargs"] = {**(options.get("client_kwargs") or {}), "region_name": region}
    return options
