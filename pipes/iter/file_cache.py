"""Files behind URLs, kept on a disk within a bound, for all processes that use it."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event
from typing import IO, Any

from ...registry import Guard, IterDataPipe, OnError, Retry, close, expect_whole, functional_datapipe
from ...registry.secrets import Options, without_secrets
from ...storage.file_systems import size_of
from ...storage.kept_files import KeptFiles, NotKept
from ...storage.reading import open_file
from ...storage.retrying import trying_again
from ...storage.streams import checked_path, expect_bytes, stream_over
from ...workers.threads import Threads
from ..bases.works_ahead import WorksAhead

__all__ = ["FileCacher"]

_COUNTS = ("hits", "misses", "evictions", "corrupt", "uncached")

_logger = logging.getLogger("penstock")


class _CountingGuard(Guard):
    """A guard that has lost connections tried again, and whose stats tell what became of files, too."""

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

    @property
    def given_up(self) -> Event:
        """What is set when this pass is given up."""
        return self._given_up

    def count(self, *names: str) -> None:
        with self._counting:
            for name in names:
                self._counts[name] += 1


@functional_datapipe("cache_files")
class FileCacher(WorksAhead[tuple[str, IO[bytes]]]):
    """Yield the URL and a stream of the bytes of each file, given its URL: from a disk, once it was fetched.

    What is missing is opened and read whole by this operator, which so takes the place of one that opens: `urls
    .cache_files("/fast/cache", 2 * 10**12).load_from_tar()`; what is found is read without a word to the server.
    `directory` may be used by any number of programs, loaders and their workers at once: of those that want a file, one
    fetches it, and the others wait for that one, `timeout` seconds at most, after which they read without the cache.

    The files in `directory` never take more than `max_bytes`: those whose last use is longest ago are evicted. One that
    somebody still reads stays readable, and takes its room until it is closed. Where an epoch reads more than there is
    room for, shuffle the URLs: always in one order, each file would have gone just before its turn.

    A file has a checksum, which is looked at before it comes out: one that is damaged or cut is fetched anew. It
    appears when it is whole; what killed processes leave is removed when the next pass begins. Where the disk is full,
    or a file is larger than there is room for, it is read without the cache, and the first time in a pass is logged as
    a warning. `stats` has, besides what `on_error` counts, the `hits` and `misses`, which add up to the files, and how
    many were `corrupt` or `uncached`, both of them misses, and the `evictions`.

    A missing `directory` is made for this user alone. To share one within a group, make it with `chmod 2770`, and let
    all its users have a `umask` of 002: in a folder that its group may write to, and others may not, the files of all
    are trusted. Elsewhere a file that belongs neither to this user nor to root nor to the owner of its folder may have
    been planted, as may a symbolic link. It is not served: the file is read without the cache, and a warning names path
    and owner. The same holds for a `directory` of another user's where everybody may make one, as in `/tmp`.

    `open` is a function that returns the stream of a URL's bytes; if the stream knows its `size`, it must have that
    many. Without it, files are opened as by `load_files_by_s3`, by obstore or else by fsspec, for which further
    arguments are options, such as `anon=True`. Up to `concurrency` files are fetched, or looked at, at once, by
    threads. They come in the order of the URLs, or with `ordered=False` as they are ready. `on_error` handles
    a file that cannot be fetched; before it, where it is not a `Retry` itself, lost connections and silent servers
    are tried again up to 5 times.

    Files are known by their URLs alone: what changes at the server under a URL is not seen, and what has one URL at
    two servers needs two directories. `on_disk_cache` is for data sets that are downloaded once: it keeps all files,
    for good, under names of your choosing, checks them against digests that you know, and unpacks or converts them
    between. Prefer this operator for data of which a disk holds a part, or which are only on their way to training.

    Raises TypeError for an item that is no URL, and what opening and reading a file raises.

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

    holds_items = False
    guard: _CountingGuard

    def __init__(
        self,
        source: IterDataPipe[str],
        directory: str | os.PathLike[str],
        max_bytes: int,
        open: Callable[[str], IO[bytes]] | None = None,
        *,
        concurrency: int = 8,
        ordered: bool = True,
        timeout: float = 300,
        on_error: OnError = "raise",
        **kwargs: Any,
    ) -> None:
        checked_path(directory)
        expect_whole("max_bytes", max_bytes)
        expect_whole("concurrency", concurrency)
        if open is not None and not callable(open):
            raise TypeError(f"open must be a function from a URL to a stream of bytes, and is {open!r:.100}")
        if open is not None and kwargs:
            raise TypeError(f"the options {', '.join(kwargs)} are for opening files, which open does")
        if not timeout > 0:
            raise ValueError(f"timeout must be seconds, more than 0, and is {timeout}")
        self.source = source
        self.directory = directory
        self.max_bytes = max_bytes
        self.open = open
        self.concurrency = concurrency
        self.ordered = ordered
        self.timeout = timeout
        self.on_error = on_error
        self.guard = _CountingGuard(on_error)
        self.options = Options(kwargs)

    def __iter__(self) -> Iterator[tuple[str, IO[bytes]]]:
        path = os.path.expanduser(self.directory)
        folder = KeptFiles(path, self.max_bytes, self.timeout, self.guard.count, self.guard.given_up)
        folder.begin()
        fetch = self.guard.wrap(partial(self._file_of, folder))
        most = self.concurrency
        return self._results(lambda arrivals: Threads(lambda: fetch, arrivals, most, "penstock-cache-files"), most)

    def _file_of(self, folder: KeptFiles, item: Any) -> tuple[str, IO[bytes]]:
        if isinstance(item, (tuple, list)):
            raise TypeError(
                "cache_files needs URLs, and opens by itself what is missing: put it in the place of the operator that "
                "opens, and where that does not open by fsspec, give its way to open as open="
            )
        url = checked_path(item)
        try:
            file = folder.find(url)
            if file is not None:
                self.guard.count("hits")
                return url, stream_over(file, url, None)
            return url, stream_over(self._fetched(folder, url), url, None)
        except NotKept as error:
            reason = str(error)
        stream, _ = self._opened(url)
        self.guard.count("misses", "uncached")
        level = logging.INFO if self.guard.stats["uncached"] > 1 else logging.WARNING
        _logger.log(level, "%r is read without the cache in %r: %s", without_secrets(url), self.directory, reason)
        return url, stream

    def _fetched(self, folder: KeptFiles, url: str) -> io.FileIO:
        with folder.claimed(url):
            file = folder.find(url, claimed=True)  # another may have fetched it meanwhile
            if file is None:
                stream, size = self._opened(url)
                try:
                    file = folder.keep(url, stream, size)
                finally:
                    close(stream)
                self.guard.count("misses")
            else:
                self.guard.count("hits")
            return file

    def _opened(self, url: str) -> tuple[IO[bytes], int | None]:
        """Return the stream of a file, and its size, where that is known."""
        if self.open is not None:
            stream = self.open(url)
            if not hasattr(stream, "read"):
                raise TypeError(f"open must return a stream, and returned one of type {type(stream).__name__}")
            expect_bytes(stream)
            return stream, size_of(stream)
        retry = self.on_error if isinstance(self.on_error, Retry) else None
        return open_file(url, self.options, retry=retry, counted_by=self.guard)
