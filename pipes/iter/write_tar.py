"""Write samples to tar shards, in the layout of WebDataset."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice
from typing import Any

from ...errors.notes import add_note
from ...registry import IterDataPipe, OnError, close, expect_whole, functional_datapipe
from ..bases.writing.write_shards import BYTES_PER_FILE, CountedFile, Mode, ShardWriter
from ..files.encoding import encoded
from ..files.members import inner_path
from .webdataset import key_and_suffix


@functional_datapipe("write_tar")
class TarWriter(ShardWriter):
    """Write samples to tar archives in a folder, and yield the URL and the number of samples of each.

    Take it for samples of several files, such as an image and its label, and `write_parquet` for columns.

    A sample is a dict. `"__key__"` is its name in the archive. The other keys are the extensions of its files, with or
    without a dot, such as `"jpg"` or `".seg.png"`; those that begin with `__` are left out. Values are written so that
    `routed_decode` reads them again:

    - bytes and streams of bytes as they are; streams are closed;
    - str as UTF-8;
    - under `pt` and `pth`: tensors, and dicts and lists that hold some, by `torch.save`, on the CPU;
    - under `npy`: NumPy arrays; under `ten`: lists of them;
    - under `png`: uint8, or floats in 0 … 1, as arrays of shape (height, width) or (height, width, channels) or tensors
      of (channels, height, width), and images of Pillow;
    - int, float, bool, dict, list and NumPy's scalars: as JSON, which for an int is its digits;
    - under `json.gz`, `txt.gz` and so on: all but bytes and streams as without `gz`, and compressed.

    `url_template` is a folder, locally or at any URL of fsspec, whose shards are `part-00000.tar` and so on; or it
    names the shards: `{shard}`, or `{shard:06d}`, is the number of the shard, from 0. A shard ends with the sample at
    which it has `samples_per_shard`, or at which its files have `max_bytes`; without both, these are 128 MiB. It is
    sent while it is written, without a
    local file, in parts of 16 MiB; a few are in memory. On a local disk and in object stores it appears when it is
    complete. At its end, a pass writes an index, named with `index` for the number, and `.json`: for each shard its
    `name`, `samples`, `bytes` and `sha256`. Equal samples give equal bytes. `mode` says what happens to shards of an
    earlier run, as for `write_parquet`; by default they are an error.

    Put a `sharding_filter` before this to write in parallel. Each of n parts writes its own shards: the first has the
    numbers 0, n, 2 n, …, and its index is `…index-0-of-n.json`. On several ranks use `apply_sharding(dp, ranks, rank)`:
    `DistributedReadingService` makes ranks end together, which would repeat shards or leave some out. A resumed chain
    does not write shards again that it had yielded.

    `on_error` handles a sample that cannot be written; it cannot be a `Retry`. A failed upload always raises.
    `storage_options` are those of the file system, such as `{"anon": True}`; without them, credentials and endpoints
    come from the environment.

    Raises TypeError for a value of another kind. Raises ValueError for a sample that would be read differently: without
    files, with a key that is absolute or has a dot in its last part, or with the key of the one before it. At
    construction, raises ValueError where the stream is divided by anything but `sharding_filter`.

    >>> samples = IterableWrapper([{"__key__": f"{number:03d}", "cls": number, "txt": "…"} for number in range(5)])
    >>> dp = samples.write_tar("memory://shards/", samples_per_shard=2, mode="overwrite")
    >>> [(url.rpartition("/")[2], number) for url, number in dp]
    [('part-00000.tar', 2), ('part-00001.tar', 2), ('part-00002.tar', 1)]
    >>> tars = IterableWrapper(["memory://shards/part-00002.tar"]).open_files_by_fsspec("rb").load_from_tar()
    >>> list(tars.webdataset().routed_decode())
    [{'__key__': 'memory://shards/part-00002.tar/004', '.cls': 4, '.txt': '…'}]
    """

    counted = "samples"
    _suffixes = (".tar",)

    def __init__(
        self,
        source: IterDataPipe[dict[str, Any]],
        url_template: str | os.PathLike[str],
        samples_per_shard: int | None = None,
        *,
        max_bytes: int | None = None,
        mode: Mode = "error",
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        expect_whole("samples_per_shard", samples_per_shard, optional=True)
        expect_whole("max_bytes", max_bytes, optional=True)
        self._take(source, url_template, mode, on_error, storage_options)
        self.samples_per_shard = samples_per_shard
        self.max_bytes = max_bytes

    def _shards(self) -> Generator[Iterator[tuple[str, dict[str, bytes]]], None, None]:
        with closing(self._samples()) as samples:
            for sample in samples:
                shard: Iterator[tuple[str, dict[str, bytes]]] = chain((sample,), samples)
                if self.max_bytes is not None or self.samples_per_shard is None:
                    shard = _up_to_size(shard, self.max_bytes or BYTES_PER_FILE)
                yield islice(shard, self.samples_per_shard)

    def _fill(self, file: CountedFile, content: Iterator[tuple[str, dict[str, bytes]]]) -> int:
        archive = _Archive(file)
        for key, files in content:
            archive.add(key, files)
        archive.end()
        return archive.samples

    def _samples(self) -> Generator[tuple[str, dict[str, bytes]], None, None]:
        written = self.error_policy.wrap(_as_files)
        for item in self.source:
            sample: Any = written(item)
            if self.error_policy.keep(sample):
                yield sample

    def __len__(self) -> int:
        if self.error_policy.skips or self.samples_per_shard is None or self.max_bytes is not None:
            why = "leaves out samples that fail" if self.error_policy.skips else "ends a shard at a size in bytes"
            raise TypeError(f"{type(self).__name__} {why}, so its length is unknown")
        return -(-len(self.source) // self.samples_per_shard)


def _up_to_size(
    samples: Iterator[tuple[str, dict[str, bytes]]], max_bytes: int
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield samples until their files have `max_bytes`."""
    size = 0
    for sample in samples:
        yield sample
        size += sum(map(len, sample[1].values()))
        if size >= max_bytes:
            return


class _Archive:
    """A tar archive being written. TarFile would keep all headers and copy each file."""

    def __init__(self, file: CountedFile) -> None:
        self._file = file
        self._last_key: str | None = None
        self.samples = 0

    def add(self, key: str, files: Mapping[str, bytes]) -> None:
        if key == self._last_key:
            raise ValueError(f"two consecutive samples have the key {key!r}, and would be read as one")
        for path, content in files.items():
            header = tarfile.TarInfo(path)  # without owner or time, for reproducible bytes
            header.size = len(content)
            self._file.write(header.tobuf(tarfile.PAX_FORMAT, "utf-8"))
            self._file.write(content)
            self._fill(tarfile.BLOCKSIZE)
        self.samples += 1
        self._last_key = key

    def end(self) -> None:
        self._file.write(bytes(2 * tarfile.BLOCKSIZE))
        self._fill(tarfile.RECORDSIZE)

    def _fill(self, size: int) -> None:
        self._file.write(bytes(-self._file.size % size))


def _as_files(sample: object) -> tuple[str, dict[str, bytes]]:
    """Return the key of a sample, and the bytes of its files by path in the archive."""
    if not isinstance(sample, Mapping) or not isinstance(sample.get("__key__"), str):
        raise TypeError('a sample must be a dict with its name, a string, at "__key__"')
    key = sample["__key__"]
    files: dict[str, bytes] = {}
    for name, value in sample.items():
        try:
            if name.startswith("__"):
                continue
            suffix = name.removeprefix(".")
            path = _path(key, suffix)
            if path.lower() in map(str.lower, files):
                raise ValueError("the sample has this twice, with and without a dot, or in upper and lower case")
            files[path] = encoded(suffix, value)
        except Exception as error:
            add_note(error, f"while writing {name!r} of the sample {key!r}")
            for unread in sample.values():
                close(unread)
            raise
    if not files:
        raise ValueError(f"the sample {key!r} has no files, so it would be lost when the shard is read")
    return key, files


def _path(key: str, suffix: str) -> str:
    """Return the path of a file in its archive; raise ValueError where it would be read under another key."""
    path = f"{key}.{suffix}"
    try:
        fits = bool(suffix) and "\0" not in path and key_and_suffix(inner_path(path)) == (key, f".{suffix}")
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{path!r} would be read as another file's: it must be a path in the archive, with forward slashes, and "
            "the key end at the first dot of its name. Keys without the path of their archive come from "
            "webdataset(with_url=True)"
        )
    return path
