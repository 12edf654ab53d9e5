"""Lance datasets: a version's fragments, which lance reads without the rows that were deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ...errors.checks import takes_only
from ...errors.optional import require
from ...errors.secrets import Options, without_secrets
from ...registry import OnError, expect_whole
from ...storage.stores import options_of_library
from ...storage.streaming.streams import checked_path
from ..arrow import pa, pc
from ..bases.rows.column_reader import BATCH_SIZE, PREFETCH
from ..columns.formats import ColumnFormat
from ..columns.origins import Fragment
from .table_versions import ROWS, FragmentLister, FragmentReader, LibraryFormat, plain_schema, reading_fragments


class LanceLister(FragmentLister):
    """Yield the fragments of a version of a Lance dataset: what `read_lance` begins with."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        version: int | None = None,
        filter: str | pc.Expression | None = None,
        batch_size: int = BATCH_SIZE,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        require("lance", "lance")
        expect_whole("batch_size", batch_size)
        self.url = checked_path(url)
        self.batch_size = batch_size
        self.storage_options = Options(storage_options)
        self._take(version, filter)

    def pinned(self) -> int:
        return int(self._dataset(self.version).version)

    def schema_of(self, version: int) -> pa.Schema:
        return plain_schema(self._dataset(version).schema)

    def fragments(self, version: int, filter: Callable[[pa.Schema], pc.Expression] | None) -> Iterable[Fragment]:
        dataset = self._dataset(version)
        schema = plain_schema(dataset.schema)
        expression = None if filter is None else filter(schema)
        for fragment in dataset.get_fragments():
            url = f"{self.url}, fragment {fragment.fragment_id}"
            yield Fragment(url, partial(self._opened, fragment, schema, expression), schema)

    def _opened(
        self, fragment: Any, schema: pa.Schema, expression: pc.Expression | None, open_stream: Callable[[], Any]
    ) -> ColumnFormat:
        rows = min(ROWS, self.batch_size)

        def read(columns: Sequence[str]) -> Iterable[pa.RecordBatch]:
            batches: Iterable[pa.RecordBatch] = fragment.to_batches(
                columns=[*columns], filter=expression, batch_size=rows
            )
            return batches

        return LibraryFormat(schema, read, rows)

    def _dataset(self, version: int | None) -> Any:
        library = require("lance", "lance")
        options = options_of_library(self.url, self.storage_options)
        try:
            return library.dataset(self.url, version=version, storage_options=options or None)
        except ValueError as error:
            if "not found" not in str(error):
                raise
            of = "" if version is None else f" with a version {version}: there is none yet, or it was cleaned up"
            raise FileNotFoundError(f"there is no Lance dataset at {without_secrets(self.url)!r}{of}") from error


@takes_only(filters="write them as filter=…, text such as \"year == 2024 and kind == 'a'\"")
def read_lance(
    url: str | os.PathLike[str],
    version: int | None = None,
    columns: Sequence[str] | None = None,
    filter: str | pc.Expression | None = None,
    batch_size: int = BATCH_SIZE,
    *,
    prefetch: int = PREFETCH,
    storage_options: Mapping[str, Any] | None = None,
    on_error: OnError = "raise",
) -> FragmentReader:
    """Return a chain that yields the record batches of a Lance dataset, without deleted rows.

    `url` is the dataset's folder. A pass reads `version`, by default the newest when it begins, and its state has that
    version. Readers share the fragments. Lance reads them, up to `prefetch` at once, by the columns and the `filter`,
    which is written as for `read_parquet`. Lance evaluates it, by rules of its own for NaN, and for a null in `not in`.
    It reads `batch_size` rows at a time, or 8,192 if that is less, which are then in
    memory: give fewer where rows are large, such as images. Resuming reads the current fragment from its start.
    `storage_options` are as for `read_parquet`, for S3; for other stores they must have names that lance takes.

    Start workers by spawn or a fork server, as DataLoader2 does: lance does not survive a fork.

    Raises ImportError without pylance, and FileNotFoundError where there is no dataset, or no such version.

    >>> import tempfile
    >>> import lance, pyarrow as pa
    >>> import penstock as ps
    >>> url = tempfile.mkdtemp() + "/points.lance"
    >>> dataset = lance.write_dataset(pa.table({"id": range(4)}), url)
    >>> _ = dataset.delete("id = 2")
    >>> [batch.to_pydict() for batch in ps.read_lance(url, filter="id > 0")]
    [{'id': [1, 3]}]
    """
    lister = LanceLister(url, version, filter, batch_size, storage_options)
    return reading_fragments(lister, columns, filter, batch_size, prefetch, None, on_error)
