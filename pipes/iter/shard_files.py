"""Divide files among readers, and few large files in parts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain, islice, pairwise
from typing import Any, ClassVar

from ...errors.secrets import Options
from ...registry import SHARDING_PRIORITIES, expect_whole, functional_datapipe
from ...storage.chains import suffix_of
from ...storage.reading import open_to_seek
from ...storage.retrying import Transient
from ...storage.streaming.ranged import Ranged
from ..bases.rows.one_schema import all_items
from ..columns.files import CODECS, FORMATS, ColumnFile
from ..columns.origins import FilePart, Origin, RowGroup, origin_of
from ..columns.text_formats import BLOCK_SIZE, TEXT
from ..files.compression import decompressor_by_name
from .shard import ShardingFilter

_AT_ONCE = 8
"""Files that are looked at at once."""

_PARTS_OF_READER = 4
"""Each reader gets so many files, or parts of files, if there are as many."""

_MOST_BYTES = 16 * 2**20
"""Bytes of text in a part, which a reader holds in memory."""


@functional_datapipe("shard_files")
class FileSharder(ShardingFilter[Any]):
    r"""Yield every n-th file if n readers share the files; where there are few files, every n-th part of a file.

    Takes paths, URLs, or the items of `list_table_files`, in place of a `sharding_filter` before `read_parquet`,
    `read_csv`, `read_json`, `read_ipc`, `read_orc` or `read_text`. `kind` is `"parquet"`, `"csv"`, `"json"`, `"ipc"`,
    `"orc"` or `"text"`.

    With fewer than 4 files for each reader, a file is divided: at row groups, stripes or record batches, or at the line
    ends of a text file with at least twice `min_bytes`. Such a part is a `FilePart`, with the file's `url`. A single
    reader gets the files as they are. Compressed text, and files on servers that do not serve ranges, stay whole; so
    do the files of two sources that one step reads, such as `zip`.

    A loader looks at the files once for all readers, when an epoch begins, and its state has what it found. A file that
    is missing or no file of this kind stays whole, and its reader raises the error. `storage_options` are options of
    the file system.

    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> from penstock.registry import apply_sharding
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
    >>> pq.write_table(pa.table({"id": range(8)}), path, row_group_size=1)
    >>> dp = IterableWrapper([path]).shard_files("parquet")
    >>> apply_sharding(dp, 2, 0)
    >>> [part.start for part in dp]
    [0, 2, 4, 6]
    """

    resumes_from_start = True
    may_divide_items: ClassVar[bool] = True
    divides_items = False
    """Whether files are divided in parts, as `divide_items` has found."""
    broken_laws = {"union_over_shards_is_the_whole": "a single reader gets a file, and several get its parts"}
    transient: ClassVar[tuple[str, ...]] = ("settled",)
    settled: list[Any] | None = None
    """What `settle` returned before the files were divided; None where it was not called."""

    def __init__(
        self,
        source: Any,
        kind: str,
        sharding_group_filter: SHARDING_PRIORITIES | None = None,
        *,
        min_bytes: int = BLOCK_SIZE,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        kinds = (*FORMATS, "text")
        if kind not in kinds:
            raise ValueError(f"kind must be one of {', '.join(map(repr, kinds))}, and is {kind!r:.100}")
        expect_whole("min_bytes", min_bytes)
        super().__init__(source, sharding_group_filter)
        self.kind = kind
        self.min_bytes = min_bytes
        self.storage_options = Options(storage_options)

    def settle(self, shards: Collection[tuple[int, int]]) -> list[Any]:
        """Return the URL and the size of each file to divide, as plain data: its bytes, or its number of parts.

        `shards` are those that the files will be divided into, each as number of shards and shard.
        """
        few = self._few(self._part()[0] * next(iter(shards))[0])
        files = [*islice(all_items(self.source, "shard_files"), few)]
        if len(files) == few:
            return []
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            sizes = [*threads.map(self._size, files)]
        return [[origin_of(item).url, size] for item, size in zip(files, sizes, strict=True) if size > 1]

    def __iter__(self) -> Iterator[Any]:
        settled, self.settled = self.settled, None
        parts, part = self._begin_part()
        if parts == 1:
            return iter(self.source)
        if not self.divides_items:
            settled = []
        return islice(self.divided(parts, self.settle([(1, 0)]) if settled is None else settled), part, None, parts)

    def divided(self, readers: int, settled: list[Any]) -> Iterator[Any]:
        """Yield what so many readers share: the files, and parts of those with a size in `settled`."""
        files, few, sizes = iter(self.source), self._few(readers), dict(settled)
        first = [*islice(files, few)]
        number = -(-few // max(len(first), 1))
        for item in chain(first, files):
            yield from self._parts_of(item, sizes, number)

    def __len__(self) -> int:
        if self._part()[0] == 1:
            return len(self.source)
        raise TypeError(f"{type(self).__name__} has no length: the number of parts of the files is not known")

    @staticmethod
    def _few(parts: int) -> int:
        """Return the number of files from which on these are not divided."""
        return 0 if parts == 1 else _PARTS_OF_READER * parts

    def _size(self, item: Any) -> int:
        """Return the number of parts of a file, or the bytes of a text file; 0 for one that stays whole."""
        if isinstance(item, (FilePart, RowGroup)):
            return 0
        origin = origin_of(item)
        try:
            return self._bytes(origin.url) if self.kind in (*TEXT, "text") else self._number_of_parts(origin)
        except Transient:  # it may pass, and then ranks would divide the files differently
            raise
        except Exception:  # the reader of the file raises it
            return 0

    def _bytes(self, url: str) -> int:
        if suffix_of(url) in CODECS or decompressor_by_name(url):
            return 0
        with open_to_seek(url, self.storage_options) as file:
            size = file.seek(0, os.SEEK_END)
            if size and isinstance(raw := getattr(file, "raw", None), Ranged):
                file.seek(size - 1)
                file.read(1)
                return 0 if raw.has_no_ranges else size
            return size

    def _number_of_parts(self, origin: Origin) -> int:
        with closing(ColumnFile(origin, self.kind, storage=self.storage_options, policy=self.error_policy)) as file:
            return len([*file.parts(0)]) if file.content.goes_on else 0

    def _parts_of(self, item: Any, sizes: Mapping[str, int], number: int) -> Iterator[Any]:
        origin = item if isinstance(item, (FilePart, RowGroup)) else origin_of(item)
        size = sizes.get(origin.url, 0)
        unit = 1
        if self.kind in (*TEXT, "text"):
            number, unit = max(number, -(-size // _MOST_BYTES)), self.min_bytes
        units = size // unit
        if (number := min(number, units)) < 2 or not isinstance(origin, Origin):
            yield item
            return
        cuts = [*(units * piece // number * unit for piece in range(number)), size]
        for start, stop in pairwise(cuts):
            yield FilePart(origin.url, start, stop, size, origin.partition, origin.types)
