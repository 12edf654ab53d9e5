"""Samples in tar archives, read by index."""

from __future__ import annotations

import errno
import io
import operator
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, groupby
from typing import IO, Any, NamedTuple

import numpy as np

from ...errors.notes import add_note
from ...errors.secrets import Options, stream_name
from ...registry import OnError, add_error_context, expect_whole, functional_datapipe
from ...storage.clients import timeouts
from ...storage.reading import open_to_seek
from ...storage.streaming.streams import checked_path
from ...workers.threads import PATIENCE, map_in_threads
from ..bases.arguments import expect_urls
from ..bases.indexing import Fetching
from ..files.compression import known_kind
from ..files.members import inner_path
from ..files.tars import OtherMembers, opened_tar
from ..iter.webdataset import key_and_suffix

_START = 512
"""Bytes that tell a tar from what is compressed: its first header."""


@functional_datapipe(None)
class TarReader(Fetching[dict[str, Any]]):
    """Give the samples in tars by index, as dicts of bytes: `dp[i]` reads the files of sample `i`, and nothing else.

    Take it for random access, as by a sampler; `load_from_tar().webdataset()` reads tars in order, which is faster. The
    dicts are those of `webdataset(with_url=True)`: `"__key__"` is the path up to the first dot of the name, `"__url__"`
    the address of the tar, and the other keys are extensions, in lower case unless `lower_case=False`.
    `.to_iter_datapipe().sharding_filter().routed_decode()` decodes them; in a map-style chain, `map` takes a function
    of yours.

    The first use makes an index, of all tars, by reading the headers of the files in them: for stores and the web by
    ranges, so a tar of small files is read whole. It is pickled with the pipe. `len` makes it, too: call it before a
    torch DataLoader starts workers, which would each make their own. Up to `workers` threads read the headers of
    several tars at once, and several samples for `__getitems__`, which torch's loaders and `batch` use.

    `on_error` is `"raise"` or a `Retry`: samples read by index cannot be left out. Without a `Retry`, a read is retried
    five times where the connection or the server fails. `storage_options` are those of the file system, such as
    `{"anon": True}`; without them, credentials and endpoints come from the environment.

    Raises TypeError for URLs that are no sequence, IndexError for an index out of range, and FileNotFoundError for a
    missing tar. Raises ValueError for a compressed tar, and for a sample with two files of one extension,
    tarfile.ReadError for a tar that is cut or corrupt or has hard links, and OSError for one that was replaced since
    the index was made.

    >>> import fsspec
    >>> samples = IterableWrapper([{"__key__": "a", "txt": "one"}, {"__key__": "b", "txt": "two"}])
    >>> [(url, _)] = samples.write_tar("memory://tars/", mode="overwrite")
    >>> dp = TarReader([url])
    >>> dp[1], len(dp)
    ({'__key__': 'b', '__url__': 'memory://tars/part-00000.tar', '.txt': b'two'}, 2)
    """

    traits = ("expensive",)
    gives = "rows"
    works_in = "threads"
    payload = ("urls",)

    def __init__(
        self,
        urls: Sequence[str],
        *,
        lower_case: bool = True,
        workers: int = 16,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        expect_urls(urls)
        expect_whole("workers", workers)
        self.urls = urls
        self.lower_case = lower_case
        self.workers = workers
        self.handle_errors(on_error, can_skip=False)
        self.storage_options = Options(storage_options)
        self._made: _Index | None = None

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            return self._read(self._number(index))
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _fetch(self, indices: list[Any]) -> list[dict[str, Any]]:
        len(self)  # makes the index, which the threads share
        return self._in_threads(self.__getitem__, indices)

    def __len__(self) -> int:
        return len(self._index.keys)

    @property
    def _index(self) -> _Index:
        if self._made is None:
            try:
                urls = [*map(checked_path, self.urls)]
                self._made = _Index.of_tars(self._in_threads(self._headers_of, urls))
            except Exception as error:
                add_error_context(error, self)
                raise
        return self._made

    def _in_threads(self, function: Any, items: list[Any]) -> list[Any]:
        patience = sum(timeouts(self.storage_options)) + PATIENCE  # a read from a silent server cannot be cancelled
        return map_in_threads(function, items, self.workers, "penstock-tars", patience)

    def _number(self, index: Any) -> int:
        number, length = operator.index(index), len(self)
        if not -length <= number < length:
            raise IndexError(f"there are {length} samples, and index {number} is out of range")
        return number % length

    def _headers_of(self, url: str) -> _Tar:
        try:
            with self._opened(url) as stream:
                return _Tar([*_samples_in(stream, self.lower_case)], stream.seek(0, io.SEEK_END))
        except Exception as error:
            add_note(error, f"while reading the headers of {stream_name(url)}")
            raise

    def _read(self, number: int) -> dict[str, Any]:
        index = self._index
        tar = int(index.tars[number])
        url = checked_path(self.urls[tar])
        suffixes, starts, sizes = index.files[index.first[number] : index.first[number + 1]].T
        begin, end = int(starts[0]) - tarfile.BLOCKSIZE, int(starts[-1] + sizes[-1])
        with self._opened(url) as stream:
            same = stream.seek(0, io.SEEK_END) == index.sizes[tar]
            stream.seek(begin)
            content = memoryview(stream.read(end - begin))
        files = [(int(start) - begin, int(size)) for start, size in zip(starts, sizes, strict=True)]
        if not same or not all(_is_before(content, start, size) for start, size in files):
            raise OSError(errno.ESTALE, "the tar was replaced since its index was made", stream_name(url))
        contents = [bytes(content[start:][:size]) for start, size in files]
        names = [index.suffixes[suffix] for suffix in suffixes]
        return {"__key__": index.keys[number], "__url__": url, **dict(zip(names, contents, strict=True))}

    def _opened(self, url: str) -> IO[bytes]:
        return open_to_seek(url, self.storage_options, retry=self._retry, counted_by=self.error_policy)


def _is_before(content: memoryview, start: int, size: int) -> bool:
    """Say whether the header of a file of that size is right before a place."""
    try:
        header = tarfile.TarInfo.frombuf(bytes(content[start - tarfile.BLOCKSIZE : start]), "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return header.size == size


_File = tuple[str, int, int]
"""The extension of a file in a tar, where its content begins, and its size."""


class _Tar(NamedTuple):
    """The samples in a tar, by key, and its size."""

    samples: list[tuple[str, list[_File]]]
    size: int


class _Index(NamedTuple):
    """Where the files of each sample are. Arrays, since tars may have millions of files."""

    keys: list[str]
    tars: Any
    """The number of the tar of each sample."""
    first: Any
    """The number of the first file of each sample; at the end, how many files there are."""
    files: Any
    """The number of the extension, the place and the size of each file."""
    suffixes: list[str]
    sizes: list[int]
    """The bytes of each tar."""

    @classmethod
    def of_tars(cls, tars: list[_Tar]) -> _Index:
        samples = [*chain.from_iterable(tar.samples for tar in tars)]
        numbers: dict[str, int] = {}
        files = [
            (numbers.setdefault(suffix, len(numbers)), start, size)
            for _, files in samples
            for suffix, start, size in files
        ]
        return cls(
            keys=[key for key, _ in samples],
            tars=np.repeat(np.arange(len(tars)), [len(tar.samples) for tar in tars]),
            first=np.fromiter(accumulate((len(files) for _, files in samples), initial=0), np.int64),
            files=np.array(files, np.int64).reshape(-1, 3),
            suffixes=[*numbers],
            sizes=[tar.size for tar in tars],
        )


def _samples_in(stream: IO[bytes], lower_case: bool) -> Iterator[tuple[str, list[_File]]]:
    """Yield the samples in a tar, as `webdataset` groups them."""
    kind = known_kind(stream.read(_START))
    if kind not in ("tar", None):
        raise ValueError(f"the file is {kind}, of which no part can be read alone: decompress it, or read it in order")
    stream.seek(0)
    for key, members in groupby(_members_in(stream), operator.itemgetter(0)):
        files: dict[str, _File] = {}
        for _, name, start, size in members:
            suffix = name.lower() if lower_case else name
            if suffix in files:
                raise ValueError(f"the sample {key!r} has two files {suffix!r}")
            files[suffix] = suffix, start, size
        yield key, [*files.values()]


def _members_in(stream: IO[bytes]) -> Iterator[tuple[str, str, int, int]]:
    """Yield the key, the extension, the place and the size of each file in a tar that has a key."""
    left_out = OtherMembers(str(getattr(stream, "name", "an archive")))
    with opened_tar(stream, "r:") as tar:
        while (header := tar.next()) is not None:
            tar.members.clear()  # tarfile keeps all headers
            stored_as: Any = header
            if header.islnk() or stored_as.sparse is not None:
                raise tarfile.ReadError(f"{header.name!r} is a hard link or a sparse file: read the tar in order")
            if not header.isreg():
                left_out.add(header)
                continue
            key, suffix = key_and_suffix(inner_path(header.name))
            if suffix:
                yield key, suffix, header.offset_data, header.size
    left_out.tell()
