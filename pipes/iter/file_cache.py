"""Cache files behind URLs on a disk, within a size limit, shared by processes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import IO, Any, Literal

from ...errors.checks import AUTO, expect_seconds
from ...errors.secrets import Options, without_secrets
from ...registry import ErrorPolicy, IterDataPipe, OnError, expect_whole, functional_datapipe
from ...storage.file_systems import stream_size
from ...storage.local.disk_cache import KeptFiles, NotKept
from ...storage.reading import open_file
from ...storage.retrying import trying_again
from ...storage.streaming.streams import checked_path, expect_bytes, stream_over
from ...workers.threads import Threads
from ..bases.ahead.tuning import DERIVED, MOST_THREADS
from ..bases.ahead.works_ahead import WorksAhead

_COUNTS = ("hits", "misses", "evictions", "corrupt", "uncached")


class _CountingPolicy(ErrorPolicy):
    """A policy that retries lost connections and also counts cache hits, misses and the like."""

    def __init__(self, on_error: OnError) -> None:
        super().__init__(trying_again(on_error))

    def take_up(self) -> None:
        super().take_up()
        self._counts = dict.fromkeys(_COUNTS, 0)

    @property
    def counts(self) -> bool:
        return True

    @property
    def stats(self) -> dict[str, Any]:
        return {**super().stats, **self._counts}

    def count(self, *names: str) -> None:
        with self._counting:
            for name in names:
                self._counts[name] += 1


@functional_datapipe("cache_files")
class FileCacher(WorksAhead[tuple[str, IO[bytes]]]):
    """Yield the URL and a stream of the bytes of each file, given its URL: from a local disk after the first fetch.

    Take it where remote files are read more than once, and may be more than the disk has room for. This operator opens
    and fetches missing files itself, so it replaces the operator that opens:
    `urls.cache_files("/fast/cache", 2 * 10**12).load_from_tar()`. Cached files need no request to the server. Any
    number of programs, loaders and workers may share `directory`. One of them fetches a file; the others wait for up to
    `timeout` seconds, then read without the cache.

    The files in `directory` never exceed `max_bytes`: the least recently used are evicted. A file in use stays
    readable, and uses its space until it is closed. Where an epoch exceeds `max_bytes`, shuffle the URLs: in a fixed
    order, each file would be evicted just before its next use.

    The checksum of a file is verified before the file is yielded; a damaged or truncated file is fetched again. A file
    appears once it is complete. Leftovers of killed processes are removed when the next pass begins. Where the disk is
    full, or a file is too large, it is read without the cache; the first such file in a pass is logged as a warning.
    `stats` has the counts of `on_error`, `hits` and `misses`, which add up to the files, `corrupt` and `uncached`,
    which count as misses too, and `evictions`.

    A missing `directory` is made private to this user. To share one in a group, make it with `chmod 2770` and a `umask`
    of 002 for all users. Where everybody may write, as in `/tmp`, a file, link or folder of another user may have been
    planted. It is not used, unless the user is root or the owner of its folder, or the group shares it: the file is
    read without the cache, and a warning gives path and owner.

    `open(url)` returns a stream of bytes; if the stream has a `size`, it must have that many bytes. Without `open`,
    files are opened as by `load_files_by_s3`, with obstore or fsspec and their `storage_options`, such as
    `{"anon": True}`. Up to `workers` threads fetch or verify files; "auto" finds how many, up to 32. Files come in the
    order of the URLs, or, with `ordered=False`, as they are ready. `on_error` handles a file that cannot be fetched.
    Unless it is a `Retry`, lost connections and timeouts are retried up to 5 times first.

    The URL is the only key: changes on the server are not noticed, and two servers with the same URLs need two
    directories. Take `on_disk_cache` for data sets downloaded once: it keeps all files under names you choose, checks
    them against known digests, and can unpack or convert them.

    Raises TypeError for an item that is not a URL, and the errors of opening and reading a file.

    >>> import fsspec, tempfile
    >>> fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
    >>> folder = tempfile.mkdtemp()
    >>> dp = IterableWrapper(["memory://shelf/a.txt"]).cache_files(folder, max_bytes=10**9)
    >>> [(url, stream.read()) for url, stream in dp]
    [('memory://shelf/a.txt', b'one')]
    >>> fsspec.filesystem("memory").rm("/shelf/a.txt")
    >>> [(url, stream.read()) for url, stream in dp], dp.stats()["cache_files"]["hits"]
    ([('memory://shelf/a.txt', b'one')], 1)
    """

    traits = ("opens", "expensive")
    works_in = "threads"
    buffers = ("workers",)
    buffered = "files"
    resumes_from_start = False
    _not_compared = ("directory", "max_bytes")
    error_policy: _CountingPolicy

    def __init__(
        self,
        source: IterDataPipe[str],
        directory: str | os.PathLike[str],
        max_bytes: int,
        open: Callable[[str], IO[bytes]] | None = None,
        *,
        workers: int | Literal["auto"] = 8,
        ordered: bool = True,
        timeout: float = 300,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        checked_path(directory)
        expect_whole("max_bytes", max_bytes)
        expect_whole("workers", workers, or_word=AUTO)
        if open is not None and not callable(open):
            raise TypeError(f"open must be a function from a URL to a stream of bytes, and is {open!r:.100}")
        if open is not None and storage_options:
            raise TypeError(f"the options {', '.join(storage_options)} are for opening files, which open does")
        expect_seconds("timeout", timeout)
        self.source = source
        self.directory = directory
        self.max_bytes = max_bytes
        self.open = open
        self.workers = workers
        self.ordered = ordered
        self.timeout = timeout
        self.on_error = on_error
        self.error_policy = _CountingPolicy(on_error)
        self.storage_options = Options(storage_options)
        self._set_concurrency(("workers", workers, MOST_THREADS), (DERIVED, workers))

    def __iter__(self) -> Iterator[tuple[str, IO[bytes]]]:
        path = os.path.expanduser(self.directory)
        folder = KeptFiles(path, self.max_bytes, self.timeout, self.error_policy.count, self.error_policy.given_up)
        folder.begin()
        fetch = self.error_policy.wrap(partial(self._file_of, folder))
        return self._results(Threads(lambda: fetch, self._at_once.value, "penstock-cache-files"))

    def _file_of(self, folder: KeptFiles, item: Any) -> tuple[str, IO[bytes]]:
        if isinstance(item, (tuple, list)):
            raise TypeError(
                "cache_files takes URLs and opens files itself: put it in place of the operator that opens, and give "
                "a way to open other than fsspec's as open="
            )
        url = checked_path(item)
        try:
            return url, stream_over(folder.file_of(url, partial(self._opened, url)), url, None)
        except NotKept as error:
            reason = str(error)
        stream, _ = self._opened(url)
        self.error_policy.count("misses", "uncached")
        level = logging.INFO if self.error_policy.stats["uncached"] > 1 else logging.WARNING
        logging.getLogger("penstock").log(
            level, "%r is read without the cache in %r: %s", without_secrets(url), self.directory, reason
        )
        return url, stream

    def _opened(self, url: str) -> tuple[IO[bytes], int | None]:
        """Return the stream of a file, and its size where known."""
        if self.open is not None:
            stream = self.open(url)
            if not hasattr(stream, "read"):
                raise TypeError(f"open must return a stream, and returned one of type {type(stream).__name__}")
            expect_bytes(stream)
            return stream, stream_size(stream)
        return open_file(url, self.storage_options, retry=self._retry, counted_by=self.error_policy)
