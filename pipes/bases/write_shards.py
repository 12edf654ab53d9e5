"""Base of shard writers: each reader writes its own shards and an index."""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import IO, Any, ClassVar

from ...registry import IterDataPipe, own
from ...registry.notes import add_note
from ...registry.secrets import Options, without_secrets
from ...registry.sharding import part_read, sharding_points
from ...registry.views.progress import BAR_AFTER, losses_and_waits, progress_bar
from ...storage.streams import checked_path
from ...storage.writing import whole_file, write_in_parts

__all__ = ["CountedFile", "ShardWriter", "check_division", "check_template"]


class ShardWriter(IterDataPipe[tuple[str, int]]):
    """Write shards, and yield the URL and count of each: a base class. A long pass shows a progress bar.

    `counted` names what is counted in a shard; the name of the index begins with `index_prefix`.
    """

    holds_items = False
    shows_progress = True
    counted: ClassVar[str]
    index_prefix: ClassVar[str] = ""
    url_template: Any
    storage_options: Options
    source: IterDataPipe[Any]

    written: list[dict[str, Any]] = own(list)
    """The index entries of the shards."""
    _bytes: int = own(0, saved=False)
    """How much is written."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        parts, part = part_read(self.source)
        with closing(self._shards()) as shards, self._bar():
            for content in shards:
                url = self._url(part + parts * len(self.written))
                told = self._write(url, content)
                self.written.append(told)
                yield url, told[self.counted]
        folder, slash, name = self._url(_AsItIs("index" if parts == 1 else f"index-{part}-of-{parts}")).rpartition("/")
        index = f"{folder}{slash}{self.index_prefix}{name.rpartition('.')[0]}.json"
        with _naming_shard(index), whole_file(index, "wb", self.storage_options, counted_by=self.guard) as file:
            file.write(json.dumps(self._index(), indent=1).encode())

    def _bar(self) -> AbstractContextManager[None]:
        assert self._pass is not None

        def notes(waiting: float | None) -> list[str]:
            return [f"{len(self.written)} files", *losses_and_waits(self.stats(), None)]

        name = self.functional_name or type(self).__name__
        is_running = self._pass.is_running
        return progress_bar(name, lambda: self._bytes, unit="B", notes=notes, is_running=is_running, after=BAR_AFTER)

    def _count(self, size: int) -> None:
        self._bytes += size

    def _shards(self) -> Generator[Iterator[Any], None, None]:
        """Yield the content of each shard, which is consumed before the next is requested."""
        raise NotImplementedError(f"{type(self).__name__} must define _shards")

    def _fill(self, file: CountedFile, content: Iterator[Any]) -> int:
        """Write a shard, and return its count."""
        raise NotImplementedError(f"{type(self).__name__} must define _fill")

    def _index(self) -> dict[str, Any]:
        return {"shards": self.written}

    def _url(self, shard: int | _AsItIs) -> str:
        return checked_path(self.url_template).format(shard=shard)

    def _write(self, url: str, content: Iterator[Any]) -> dict[str, Any]:
        """Write a shard, and return its index entry."""
        with _naming_shard(url), whole_file(url, "wb", self.storage_options, counted_by=self.guard) as file:
            counted = CountedFile(file, self._count)
            number = self._fill(counted, content)
        name = url.rpartition("/")[2]
        return {"name": name, self.counted: number, "bytes": counted.size, "sha256": counted.sha256}


@contextmanager
def _naming_shard(url: str) -> Iterator[None]:
    """Name the URL in errors while it is written."""
    try:
        yield
    except Exception as error:
        add_note(error, f"while writing {without_secrets(url)}")
        raise


class CountedFile:
    """A file written sequentially, with its size and digest. `count` is called with the size of each write.

    After a failed write it ignores further ones: libraries write the end of a file while they clean up.
    """

    closed = False

    def __init__(self, file: IO[bytes], count: Callable[[int], object]) -> None:
        self._file = file
        self._count = count
        self._failed = False
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        if not self._failed:
            self._failed = True
            write_in_parts(self._file, content)
            self._failed = False
            self._digest.update(content)
            self.size += size
            self._count(size)
        return size

    def flush(self) -> None:
        """Do nothing: data is sent once there is enough."""


class _AsItIs(str):
    """Text in place of a shard number; it ignores the format."""

    def __format__(self, spec: str) -> str:
        return self


def check_template(template: str, *suffixes: str) -> None:
    """Raise ValueError unless a URL template has the shard number once, and one of the suffixes."""
    try:
        fields = [
            (name, conversion) for _, name, _, conversion in string.Formatter().parse(template) if name is not None
        ]
        numbered = fields == [("shard", None)] and template.format(shard=1) != template.format(shard=2)
    except (ValueError, LookupError):
        numbered = False
    if not numbered or not template.endswith(suffixes):
        raise ValueError(
            f"url_template must have the number of a shard once, as in 's3://bucket/train-{{shard:06d}}{suffixes[0]}', "
            f"other braces doubled, and end in {' or '.join(suffixes)}, and is {without_secrets(template)!r}"
        )


def check_division(source: Any) -> None:
    """Raise ValueError where the division of a stream does not reveal which part is read."""
    for point in sharding_points(source):
        if not getattr(type(point), "is_sharding_filter", False) or getattr(type(point), "dispatches", False):
            raise ValueError(
                f"behind {type(point).__name__}, it is not known which part of a stream is read, and the parts would "
                "overwrite each other's shards: divide the stream by sharding_filter"
            )
