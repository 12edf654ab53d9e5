"""Base of operators that write columns, in files of a given number of rows or size."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic

import numpy as np

from ....errors.notes import add_note
from ....registry import IterDataPipe, OnError, Reading, T, add_error_context, expect_whole, own
from ...arrow import pa
from ...columns.arrow_values import first_failing
from ...columns.batch_rows import sliced
from ...columns.rows_or_batches import DECLARED_BATCHES, gives_batches, is_batch
from ...columns.schema import schema_of_text, schema_text
from ...columns.times import times_of, with_times
from ...columns.to_arrow import by_fields, rows_in
from ...columns.writing import bytes_in, columns_of_rows, fitted, table_of
from .write_shards import BYTES_PER_FILE, Mode, ShardWriter

Numbered = tuple[int, Any]
"""The number of an item in the pass, and the item."""


class RowWriter(ShardWriter, Generic[T]):
    """Write files of `rows_per_file` rows, and yield the URL and the number of rows of each: a base class.

    Without `rows_per_file`, a file has `BYTES_PER_FILE` in memory.

    Data is written in pieces: `_made` makes them from batches, and `_fitted` checks them against earlier ones. What
    fails there is refused before any of it is written. A state restarts at the item in which the last file ended, and
    records how many of its rows are written.
    """

    counted = "rows"
    index_prefix = "."  # readers of folders, patterns and other libraries skip names with this prefix
    rows_at_once: ClassVar[int] = 256
    """Maximum single rows of a piece."""

    row: int = own(0)
    """The next row to write of the first item still needed."""
    known: Any = own(None)
    """The names and types of the columns, once known."""
    of_rows: bool | None = own(None)
    """Whether the items are single rows."""
    _rest: T | None = own(None, saved=False)

    def __init__(
        self,
        source: IterDataPipe[Any],
        url_template: str | os.PathLike[str],
        rows_per_file: int | None = None,
        *,
        mode: Mode = "error",
        batched: bool | None = None,
        on_error: OnError = "raise",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        expect_whole("rows_per_file", rows_per_file, optional=True)
        self._take(source, url_template, mode, on_error, storage_options)
        self.rows_per_file = rows_per_file
        self.batched = batched
        self._dicts_are_batches = gives_batches(source) if batched is None else batched

    def _shards(self) -> Generator[Iterator[T], None, None]:
        items = self.read(self.source)
        while (first := self._next_piece(items, self.rows_per_file, BYTES_PER_FILE)) is not None:
            yield self._pieces(first, items)

    def _pieces(self, piece: T | None, items: Reading[Any]) -> Iterator[T]:
        """Yield the pieces of a file, beginning with `piece`."""
        room, bytes_left = self.rows_per_file, BYTES_PER_FILE
        while piece is not None:
            yield piece
            if room is not None:
                room -= rows_in(piece)
            else:
                bytes_left -= bytes_in(piece)
            piece = self._next_piece(items, room, bytes_left) if (bytes_left if room is None else room) > 0 else None

    def _next_piece(self, items: Reading[Any], room: int | None, bytes_left: int) -> T | None:
        """Return the next available rows, up to `room`, or if that is None up to so many bytes; None after the last."""
        while self._rest is None:
            rows: list[Numbered] = []
            for number, item in items:
                if (fields := by_fields(item)) is item:
                    of_row = isinstance(item, Mapping) and not is_batch(item, self._dicts_are_batches)
                else:
                    of_row, item = isinstance(item, np.void), fields
                before = True if rows else self.of_rows
                if before not in (None, of_row):
                    self._refuse(_mixed(of_row), number, item)
                elif of_row:
                    rows.append((number, item))
                    if len(rows) == (self.rows_at_once if room is None else min(room, self.rows_at_once)):
                        break
                else:
                    self._rest = self._piece_of_batch(number, item)
                    if self._rest is not None:
                        items.keep_from(number)
                        break
            if rows:
                together = self._piece_of_rows(rows)
                items.keep_from(items.pulled)
                if together is not None:
                    return together
            elif self._rest is None:
                items.keep_from(items.pulled)  # a resumed pass must not refuse the last items again
                return None
        start, rows_there = self.row, rows_in(self._rest)
        if room is None:
            room = max(bytes_left * rows_there // max(bytes_in(self._rest), 1), 1)
        piece: T = sliced(self._rest, start, min(start + room, rows_there))
        self.row += rows_in(piece)
        if self.row == rows_there:
            self._rest, self.row = None, 0
            items.keep_from(items.pulled)
        return piece

    def _piece_of_batch(self, number: int, item: Any) -> T | None:
        """Return a batch as a piece; None for a refused batch, or one without rows."""
        try:
            batch = self._made(item)
            if rows_in(batch) == 0:  # its column types may be unknown
                return None
            return self._accepted(self._fitted(batch, of_rows=False), of_rows=False)
        except Exception as error:
            if self._dicts_are_batches and isinstance(item, Mapping):
                add_note(error, DECLARED_BATCHES)
            self._refuse(error, number, item)
            return None

    def _piece_of_rows(self, rows: list[Numbered]) -> T | None:
        """Return rows as a piece, without refused ones; None where all are refused."""
        while rows:
            try:
                return self._accepted(self._together(rows), of_rows=True)
            except Exception as failure:
                wrong, error = first_failing(rows, self._together, failure)
            add_note(error, f"row {wrong} in it is this item: {len(rows)} rows are converted at once")
            self._refuse(error, *rows.pop(wrong))
        return None

    def _together(self, rows: Sequence[Numbered]) -> T:
        return self._fitted(self._made(columns_of_rows([row for _, row in rows])), of_rows=True)

    def _accepted(self, piece: T, of_rows: bool) -> T:
        if self.known is None:
            self.known, self.of_rows = self._types(piece), of_rows
        return piece

    def _refuse(self, error: Exception, number: int, item: Any) -> None:
        add_note(error, f"item {number} of the stream, counted from 0, cannot be written")
        add_error_context(error, self, item)
        self.error_policy.refuse(error, item)

    def _made(self, batch: Any) -> T:
        """Return a batch, or a dict of columns gathered from rows, as a piece."""
        raise NotImplementedError(f"{type(self).__name__} must define _made")

    def _fitted(self, piece: T, of_rows: bool) -> T:
        """Return a piece with the columns and types of `known`; raise ValueError where they differ."""
        raise NotImplementedError(f"{type(self).__name__} must define _fitted")

    def _types(self, piece: T) -> Any:
        """Return the names and types of the columns of a piece, for `known`."""
        raise NotImplementedError(f"{type(self).__name__} must define _types")


def _mixed(of_row: bool) -> TypeError:
    what = "a single row comes among batches" if of_row else "a batch comes among single rows"
    return TypeError(f"{what}: batched=True or batched=False says what dicts are")


class TableWriter(RowWriter["pa.Table"]):
    """Base of the writers of Arrow tables."""

    known: Any = own(None, save=lambda schema: None if schema is None else schema_text(schema))

    def _shards(self) -> Generator[Iterator[pa.Table], None, None]:
        if isinstance(self.known, str):
            self.known = schema_of_text(self.known)
        return super()._shards()

    def _made(self, batch: Any) -> pa.Table:
        return table_of(with_times(batch, times_of(self.source)))

    def _fitted(self, piece: pa.Table, of_rows: bool) -> pa.Table:
        if self.known is None:
            self._expect_types(piece.schema)
        else:
            piece = fitted(piece, self.known, widen=of_rows)
        self._expect_values(piece)
        return piece

    def _types(self, piece: pa.Table) -> pa.Schema:
        return piece.schema

    def _expect_types(self, schema: pa.Schema) -> None:
        """Raise TypeError, which names the column, for a type that the files cannot hold."""
        raise NotImplementedError(f"{type(self).__name__} must define _expect_types")

    def _expect_values(self, table: pa.Table) -> None:
        """Raise ValueError, which names column and row, for a value that the files cannot hold."""

    def _index(self) -> dict[str, Any]:
        return {"columns": {field.name: str(field.type) for field in self.known or ()}, **super()._index()}
