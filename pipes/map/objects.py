"""Objects in S3 and its like, read by index."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...registry import Guard, OnError, expect_whole, functional_datapipe, say_where
from ...registry.secrets import Options
from ...storage.clients import timeouts
from ...storage.reading import read_whole
from ...storage.retrying import trying_again
from ...storage.streams import checked_path
from ...workers.threads import PATIENCE, Arrivals, Outcome, Threads
from ..bases.fetching import Fetching

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ObjectReader"]


@functional_datapipe(None)
class ObjectReader(Fetching[bytes]):
    """Give all bytes of an object, of which the URLs are known: `dp[i]` reads the object that `urls[i]` names.

    URLs are of S3 (`s3://bucket/key`), Google Cloud Storage (`gs://`), Azure (`az://`), the web or local files, which
    obstore reads, or of whatever else fsspec speaks. Several items asked for at once, as by `__getitems__`, which
    torch's loaders and `batch` use, are read by up to `max_workers` threads.

    `on_error` is `"raise"` or a `Retry`: what is read by index cannot be left out. Without a `Retry`, an object is
    asked for five times more where the connection fails or the server is in trouble. Further arguments are options,
    named as those of s3fs: `anon`, `key`, `secret`, `token`, `profile`, `endpoint_url` and so on. Without them, the
    environment, `~/.aws` and the role of the machine say where and as whom to read.

    Raises TypeError for URLs that are no sequence, IndexError for an index beyond them, FileNotFoundError for an object
    that there is not, PermissionError for one that may not be read, ConnectionError and TimeoutError where no attempt
    went well.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe({"/shelf/a.txt": b"one", "/shelf/b.txt": b"two"})
    >>> dp = ObjectReader(["memory://shelf/a.txt", "memory://shelf/b.txt"])  # or s3://…
    >>> dp[1], len(dp), dp.__getitems__([1, 0])
    (b'two', 2, [b'two', b'one'])
    """

    payload = ("urls",)

    def __init__(
        self, urls: Sequence[str], *, max_workers: int = 16, on_error: OnError = "raise", **kwargs: Any
    ) -> None:
        if isinstance(urls, (str, bytes)) or not (hasattr(urls, "__getitem__") and hasattr(urls, "__len__")):
            raise TypeError(f"urls must be a sequence of URLs, such as a list, and is {urls!r:.100}")
        expect_whole("max_workers", max_workers)
        self.urls = urls
        self.max_workers = max_workers
        self.on_error = on_error
        self.guard = Guard(trying_again(on_error), can_skip=False)
        self.options = Options(kwargs)

    def __getitem__(self, index: Any) -> bytes:
        try:
            return self._read(self._url(index))
        except Exception as error:
            say_where(error, self, index)
            raise

    def _fetch(self, indices: list[Any]) -> list[bytes]:
        urls = [*map(self._url, indices)]
        contents = [b""] * len(urls)
        arrivals: Arrivals[Outcome] = Arrivals()
        # Of its own: where one object fails, no other attempt is made at the others, but at those of later calls.
        guard = Guard(trying_again(self.on_error), can_skip=False, counted_by=self.guard)
        read = guard.wrap(self._attempt)
        patience = sum(timeouts(self.options)) + PATIENCE  # nobody can end a read from a server that is silent
        threads = Threads(lambda: read, arrivals, min(self.max_workers, len(urls)), "penstock-objects", patience)
        try:
            for place, url in enumerate(urls):
                threads.submit(place, url)
            for _ in urls:
                number, content, error = arrivals.get()
                assert number is not None  # there is nothing to fail before a thread is ready
                if error is not None:
                    say_where(error, self, indices[number])
                    raise error
                contents[number] = content
        finally:
            guard.give_up()
            threads.stop()
        return contents

    def _url(self, index: Any) -> str:
        number = operator.index(index)
        if not -len(self.urls) <= number < len(self.urls):
            raise IndexError(f"there are {len(self.urls)} objects, and none has the number {number}")
        return checked_path(self.urls[number])

    @cached_property
    def _read(self) -> Callable[[str], bytes]:
        read: Callable[[str], Any] = self.guard.wrap(self._attempt)
        return read

    def _attempt(self, url: str) -> bytes:
        return read_whole(url, self.options)

    def __len__(self) -> int:
        return len(self.urls)
