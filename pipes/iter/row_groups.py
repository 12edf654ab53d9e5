"""List row groups of Parquet files, to shuffle and shard them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from ...errors.secrets import Options
from ...registry import IterDataPipe, OnError, expect_whole, functional_datapipe
from ..arrow import pc
from ..bases.drawing import Shuffling, in_random_order
from ..bases.rows.parts import ReadsParts
from ..columns.files import ColumnFile
from ..columns.filters import expression_of
from ..columns.origins import FilePart, RowGroup, origin_of

_FOOTERS_AT_ONCE = 8
"""The default number of footers read at once."""


@functional_datapipe("list_row_groups")
class RowGroupLister(ReadsParts[RowGroup]):
    """Yield a `RowGroup` for each row group of each Parquet file: the file's `url`, its `number`, how many `rows`.

    Take it where files are few and large, to shuffle and shard row groups in place of files. `read_parquet` takes them
    in place of paths, as in `.list_row_groups().shuffle().sharding_filter().read_parquet()`. Only the footers are read,
    of `prefetch` files at once. A row group is left out where the footer excludes a match of the `filter`.
    `storage_options` and `on_error` are as for `read_parquet`.

    Raises FileNotFoundError for a missing file, KeyError for a filter on a column that a file lacks, and
    `pyarrow.ArrowInvalid`, a ValueError, for a file that is not Parquet.

    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
    >>> pq.write_table(pa.table({"id": range(5)}), path, row_group_size=3)
    >>> dp = IterableWrapper([path]).list_row_groups()
    >>> [(group.number, group.rows) for group in dp]
    [(0, 3), (1, 2)]
    """

    works_in = "threads"
    buffers = ("prefetch",)
    buffered = "footers"

    def __init__(
        self,
        source: IterDataPipe[Any],
        filter: str | pc.Expression | None = None,
        *,
        prefetch: int = _FOOTERS_AT_ONCE,
        storage_options: Mapping[str, Any] | None = None,
        on_error: OnError = "raise",
    ) -> None:
        expect_whole("prefetch", prefetch)
        if filter is not None:
            expression_of(filter)  # raises for an invalid filter
        self.source = source
        self._filter = filter
        self._prefetch = prefetch
        self.storage_options = Options(storage_options)
        self.handle_errors(on_error)

    def _parts(self, item: Any, first: int) -> Iterator[tuple[int, Any]]:
        if first == 0:
            yield 0, self.error_policy.wrap(self._row_groups)(item)

    def _items(self, item: Any, number: int, part: list[RowGroup]) -> Iterable[RowGroup]:
        return part

    def _row_groups(self, item: Any) -> list[RowGroup]:
        if isinstance(item, FilePart):
            raise TypeError(f"{self.functional_name} lists the row groups of whole files: put it before shard_files")
        origin = origin_of(item)
        file = ColumnFile(
            origin,
            "parquet",
            filter=self._filter,
            storage=self.storage_options,
            policy=self.error_policy,
            retry=self._retry,
            among=self._open_files,
        )
        with closing(file):
            rows = file.row_groups()
            return [RowGroup(origin.url, number, rows[number], *origin[1:]) for number in file.parts(0)]


@functional_datapipe("shuffle_row_groups")
class RowGroupShuffler(Shuffling[RowGroup], RowGroupLister):
    """Yield the row groups of all files in a random order; all orders are equally likely.

    All row groups are listed before the first is yielded, and again on resuming. The arguments are those of
    `list_row_groups`. Put it before a `sharding_filter`, so all readers share one order.

    >>> import os, tempfile
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
    >>> pq.write_table(pa.table({"id": range(6)}), path, row_group_size=2)
    >>> dp = IterableWrapper([path]).shuffle_row_groups().set_seed(1)
    >>> sorted(group.number for group in dp)
    [0, 1, 2]
    """

    traits = ("shuffles",)
    resumes_from_start = True

    def __iter__(self) -> Iterator[RowGroup]:
        row_groups = [*super().__iter__()]
        yield from in_random_order(row_groups, self._draws()) if self.is_random else row_groups
