"""Samples written to tar archives: shards, in the layout of WebDataset."""

from __future__ import annotations

import hashlib
import json
import os
import string
import tarfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from itertools import chain, islice
from typing import IO, Any

from ...registry import Guard, IterDataPipe, OnError, close, expect_whole, functional_datapipe
from ...registry.sharding import sharding_points
from ..encoding import encoded
from ..members import inner_path
from ..streams import checked_path
from .decode import extension_extract_fn
from .save import whole_file, write_in_parts
from .shard import ShardingFilter, ShardingRoundRobinDispatcher, part_read
from .webdataset import key_and_suffix

__all__ = ["TarWriter"]


@functional_datapipe("write_tar")
class TarWriter(IterDataPipe[tuple[str, int]]):
    """Write samples to tar archives of `samples_per_shard`, and yield the URL and the number of samples of each.

    A sample is a dict with its name in the archive at `"__key__"`, and the other keys are the extensions of its files,
    with a dot before or without, such as `"jpg"` or `".seg.png"`; those that begin with `__` are left out. Values are
    written so that `routed_decode` reads them again:

    - bytes and streams of bytes as they are; streams are closed;
    - str as UTF-8;
    - under `pt` and `pth`: tensors, and dicts and lists that hold some, by `torch.save`, on the CPU;
    - under `npy`: NumPy arrays;
    - int, float, bool, dict, list and NumPy's scalars: as JSON, which for an int is its digits.

    `url_template` names the shards, locally or wherever fsspec leads: `{shard}`, or `{shard:06d}`, is the number of the
    shard, from 0. A shard is sent while it is written, without a local file, in parts of 16 MiB of which a few are in
    memory; on a local disk and in object stores it appears, in the place of an earlier one, when it is whole. A pass
    that ends has written an index, with `index` for the number, and `.json`: for each shard its `name`, `samples`,
    `bytes` and `sha256`. Shards have the same bytes whenever they are written from the same samples.

    Where several read parts of a stream, each writes shards of its own: of n parts, the first has numbers 0, n, 2 n, …,
    its index is `…index-0-of-n.json`. A `sharding_filter` belongs before this. Ranks that `DistributedReadingService`
    reads end with the shortest, and so would leave shards out: `apply_sharding(dp, ranks, rank)` instead. A chain that
    goes on from a state writes none again that it had handed out.

    `on_error` is what becomes of a sample that cannot be written as said here; it cannot be a `Retry`. Where a shard
    cannot be sent, that is an error. Further arguments are options of the file system, such as `anon=True`; without
    them credentials and endpoints come from the environment.

    Raises TypeError for a value of another kind, and ValueError for a sample that would be read otherwise than it is:
    without files, with a key that has a dot in its last part or is absolute, or with the key of the one before it; at
    construction, where the stream is divided otherwise than by `sharding_filter`.

    >>> samples = IterableWrapper([{"__key__": f"{number:03d}", "cls": number, "txt": "…"} for number in range(5)])
    >>> dp = samples.write_tar("memory://shards/train-{shard:04d}.tar", samples_per_shard=2)
    >>> [(url.rpartition("/")[2], number) for url, number in dp]
    [('train-0000.tar', 2), ('train-0001.tar', 2), ('train-0002.tar', 1)]
    >>> tars = IterableWrapper(["memory://shards/train-0002.tar"]).open_files_by_fsspec("rb").load_from_tar()
    >>> list(tars.webdataset().routed_decode())
    [{'__key__': 'memory://shards/train-0002.tar/004', '.cls': 4, '.txt': '…'}]
    """

    holds_items = False
    transient = ("_written",)

    def __init__(
        self,
        source: IterDataPipe[dict[str, Any]],
        url_template: str | os.PathLike[str],
        samples_per_shard: int,
        *,
        on_error: OnError = "raise",
        **kwargs: Any,
    ) -> None:
        _check_template(checked_path(url_template))
        expect_whole("samples_per_shard", samples_per_shard)
        _check_division(source)
        self.source = source
        self.url_template = url_template
        self.samples_per_shard = samples_per_shard
        self.on_error = on_error
        self.guard = Guard(on_error, can_retry=False)
        self.options = kwargs  # not under their own name, which repr and the notes of errors would show: secrets

    def reset(self) -> None:
        self._written: list[dict[str, Any]] = []

    def get_state(self) -> dict[str, Any]:
        return {"written": [*self._written]}

    def set_state(self, state: dict[str, Any]) -> None:
        self._written = [*state["written"]]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        parts, part = part_read(self.source)
        with closing(self._samples()) as samples:
            for sample in samples:
                url = self._url(part + parts * len(self._written))
                told = self._write(url, chain((sample,), islice(samples, self.samples_per_shard - 1)))
                self._written.append(told)
                yield url, told["samples"]
        index = self._url(_AsItIs("index" if parts == 1 else f"index-{part}-of-{parts}")).removesuffix(".tar") + ".json"
        with whole_file(index, "wb", self.options) as file:
            file.write(json.dumps({"shards": self._written}, indent=1).encode())

    def _url(self, shard: int | _AsItIs) -> str:
        return checked_path(self.url_template).format(shard=shard)

    def _write(self, url: str, samples: Iterator[tuple[str, dict[str, bytes]]]) -> dict[str, Any]:
        """Write a shard, and return what the index tells of it."""
        try:
            with whole_file(url, "wb", self.options) as file:
                shard = _Shard(file)
                for key, files in samples:
                    shard.add(key, files)
                return {"name": url.rpartition("/")[2], **shard.end()}
        except Exception as error:
            error.add_note(f"while writing {url}")
            raise

    def _samples(self) -> Generator[tuple[str, dict[str, bytes]], None, None]:
        written = self.guard.wrap(_as_files)
        for item in self.source:
            sample: Any = written(item)
            if self.guard.keep(sample):
                yield sample

    def __len__(self) -> int:
        if self.guard.skips:
            raise TypeError(f"{type(self).__name__} leaves out samples that fail, so its length is not known")
        return -(-len(self.source) // self.samples_per_shard)


class _Shard:
    """An archive that is written. TarFile would remember all files that it was given, and copy each."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._samples = self._bytes = 0
        self._digest = hashlib.sha256()
        self._last_key: str | None = None

    def add(self, key: str, files: Mapping[str, bytes]) -> None:
        if key == self._last_key:
            raise ValueError(f"two samples, one after the other, have the key {key!r}, and would be read as one")
        for path, content in files.items():
            header = tarfile.TarInfo(path)  # of nobody's, and of no time
            header.size = len(content)
            self._write(header.tobuf(tarfile.PAX_FORMAT, "utf-8"))
            self._write(content)
            self._fill(tarfile.BLOCKSIZE)
        self._samples += 1
        self._last_key = key

    def end(self) -> dict[str, Any]:
        """Write the end mark, and return what was written."""
        self._write(bytes(2 * tarfile.BLOCKSIZE))
        self._fill(tarfile.RECORDSIZE)
        return {"samples": self._samples, "bytes": self._bytes, "sha256": self._digest.hexdigest()}

    def _write(self, content: bytes) -> None:
        write_in_parts(self._file, content)
        self._digest.update(content)
        self._bytes += len(content)

    def _fill(self, size: int) -> None:
        self._write(bytes(-self._bytes % size))


class _AsItIs(str):
    """What stands in the place of a shard's number, however that is formatted."""

    def __format__(self, spec: str) -> str:
        return self


def _check_template(template: str) -> None:
    try:
        fields = [
            (name, conversion) for _, name, _, conversion in string.Formatter().parse(template) if name is not None
        ]
        numbered = fields == [("shard", None)] and template.format(shard=1) != template.format(shard=2)
    except (ValueError, LookupError):
        numbered = False
    if not numbered or not template.endswith(".tar"):
        raise ValueError(
            "url_template must have the number of a shard once, as in 's3://bucket/train-{shard:06d}.tar', other "
            f"braces doubled, and end in .tar, and is {template!r}"
        )


def _check_division(source: Any) -> None:
    """Raise ValueError where a stream is divided in a way that does not tell which part is read."""
    for point in sharding_points(source):
        if not isinstance(point, ShardingFilter) or isinstance(point, ShardingRoundRobinDispatcher):
            raise ValueError(
                f"behind {type(point).__name__}, it is not known which part of a stream is read, and the parts would "
                "overwrite each other's shards: divide the stream by sharding_filter"
            )


def _as_files(sample: object) -> tuple[str, dict[str, bytes]]:
    """Return the key of a sample, and its files: of each the path in the archive, and the bytes."""
    if not isinstance(sample, Mapping) or not isinstance(sample.get("__key__"), str):
        raise TypeError('a sample must be a dict with its name, a string, at "__key__"')
    key = sample["__key__"]
    files: dict[str, bytes] = {}
    for name, value in sample.items():
        try:
            if name.startswith("__"):
                continue
            path = _path(key, name.removeprefix("."))
            if path in files:
                raise ValueError("the sample has this twice, with a dot before and without")
            files[path] = encoded(extension_extract_fn(path), value)
        except Exception as error:
            error.add_note(f"while writing {name!r} of the sample {key!r}")
            for unread in sample.values():
                close(unread)
            raise
    if not files:
        raise ValueError(f"the sample {key!r} has no files, and would not be there when the shard is read")
    return key, files


def _path(key: str, suffix: str) -> str:
    """Return the path of a file in its archive; raise ValueError where it would be read as another file's."""
    path = f"{key}.{suffix}"
    try:
        fits = bool(suffix) and "\0" not in path and key_and_suffix(inner_path(path)) == (key, f".{suffix}")
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{path!r} would be read as another file's: it must be a path in the archive, with forward slashes, and "
            "the key end at the first dot of its name. Of a key that begins with the path of an archive, as webdataset "
            """gives, take the end: .map(lambda key: key.rpartition(".tar/")[2], "__key__")"""
        )
    return path
