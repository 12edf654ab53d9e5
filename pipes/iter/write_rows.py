"""Rows written to files of so many: what the operators share that write columns."""

from __future__ import annotations

import base64
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ...registry import IterDataPipe, Node, Trail, close, expect_whole
from ...registry.notes import describe_item
from ..batch_rows import sliced
from ..column_writing import check_names, columns_of_rows, fitted, table_of
from ..rows_or_batches import TOLD_BATCHES, gives_batches, is_batch
from ..streams import checked_path
from ..tensors import rows_in
from .write_shards import ShardWriter, check_division, check_template

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

__all__ = ["RowWriter", "TableWriter"]

P = TypeVar("P")


class _Place:
    """How far the source is written: so many items, and so many rows of the next one."""

    def __init__(self, items: int = 0, rows: int = 0) -> None:
        self.items, self.rows = items, rows


class RowWriter(ShardWriter, Generic[P]):
    """Write files of `rows_per_file` rows, and yield the URL and the number of rows of each: the base of those that do.

    What is written comes in pieces: `_made` makes them of batches, and `_checked` compares them with those before. A
    state tells how much was written of the item in which the last file ended, and goes back to before it.
    """

    counted = "rows"
    index_prefix = "_"  # those who read all files of a folder leave out such
    transient: ClassVar[tuple[str, ...]] = ("_written", "_trail", "_place", "_rest", "_known")
    rows_at_once: ClassVar[int] = 256
    """So many single rows make a piece, at most."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        url_template: str | os.PathLike[str],
        rows_per_file: int,
        suffixes: tuple[str, ...],
        batched: bool | None,
        options: Mapping[str, Any],
    ) -> None:
        check_template(checked_path(url_template), *suffixes)
        expect_whole("rows_per_file", rows_per_file)
        check_division(source)
        self.source = source
        self.url_template = url_template
        self.rows_per_file = rows_per_file
        self.batched = batched
        self._dicts_are_batches = gives_batches(source) if batched is None else batched
        self.options = options  # not under their own name, which repr and the notes of errors would show: secrets

    def reset(self) -> None:
        super().reset()
        self._place = _Place()
        self._trail: Trail[Any] | None = None
        self._rest: P | None = None
        self._known: Any = None

    def get_state(self) -> dict[str, Any]:
        known = None if self._known is None else self._packed(self._known)
        return {**super().get_state(), "known": known, "items": 0, "rows": 0}

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        if self._trail is None:
            return super().snapshot()
        node, skip = self._trail.way_back()
        return {**self.get_state(), "items": skip, "rows": self._place.rows}, [node]

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        self._place = _Place(state["items"], state["rows"])
        self._known = None if state["known"] is None else self._unpacked(state["known"])

    def _shards(self) -> Generator[Iterator[P], None, None]:
        place = self._place  # a way back to the pipe itself would keep it alive until garbage is collected
        self._trail = Trail(self.source, lambda: place.items)
        trail = iter(self._trail)
        items = islice(trail, place.items, None)
        try:
            while (first := self._next_piece(items, self.rows_per_file)) is not None:
                yield self._pieces(first, items)
        finally:
            close(trail)  # the frames of an error may keep what reads from it

    def _pieces(self, piece: P | None, items: Iterator[Any]) -> Iterator[P]:
        """The pieces of a file, of which the first is there."""
        room = self.rows_per_file
        while piece is not None:
            yield piece
            room -= rows_in(piece)
            piece = self._next_piece(items, room) if room else None

    def _next_piece(self, items: Iterator[Any], room: int) -> P | None:
        """Return the next rows, as many as there are at hand, up to so many; None after the last."""
        if self._rest is None:
            rows: list[Mapping[str, Any]] = []
            for item in items:
                if isinstance(item, Mapping) and not is_batch(item, self._dicts_are_batches):
                    check_names(item, rows[0] if rows else item)
                    rows.append(item)
                    if len(rows) == min(room, self.rows_at_once):
                        break
                    continue
                if rows:
                    raise TypeError(
                        "a batch comes among single rows: batched=True or batched=False says what dicts are"
                    )
                try:
                    batch = self._made(item)
                except (TypeError, ValueError) as error:
                    if self._dicts_are_batches and isinstance(item, Mapping):
                        error.add_note(TOLD_BATCHES)
                    raise
                if rows_in(batch) > 0:  # one without rows may not even tell the types of its columns
                    self._rest = self._checked(batch, of_rows=False)
                    break
                self._place.items += 1
            if rows:
                return self._piece_of_rows(rows)
            if self._rest is None:
                return None
        start, rows_there = self._place.rows, rows_in(self._rest)
        piece: P = sliced(self._rest, start, min(start + room, rows_there))
        self._place.rows += rows_in(piece)
        if self._place.rows == rows_there:
            self._rest, self._place.rows = None, 0
            self._place.items += 1
        return piece

    def _piece_of_rows(self, rows: Sequence[Mapping[str, Any]]) -> P:
        try:
            piece = self._checked(self._made(columns_of_rows(rows)), of_rows=True)
        except Exception as error:
            error.add_note(
                f"among {len(rows)} rows that are looked at together, from row 0, {describe_item(rows[0])}, on"
            )
            raise
        self._place.items += len(rows)
        return piece

    def _made(self, batch: Any) -> P:
        """Return a batch, or a dict of columns that were put together from rows, as a piece."""
        raise NotImplementedError(f"{type(self).__name__} must define _made")

    def _checked(self, piece: P, of_rows: bool) -> P:
        """Return a piece with the columns of those before it, which `_known` tells; ValueError if it has others."""
        raise NotImplementedError(f"{type(self).__name__} must define _checked")

    def _packed(self, known: Any) -> Any:
        """Return `_known` as plain data."""
        return known

    def _unpacked(self, known: Any) -> Any:
        return known


class TableWriter(RowWriter["pa.Table"]):
    """The base of the writers that write tables of Arrow."""

    def _made(self, batch: Any) -> pa.Table:
        return table_of(batch)

    def _checked(self, piece: pa.Table, of_rows: bool) -> pa.Table:
        if self._known is None:
            self._expect_types(piece.schema)
            self._known = piece.schema
        return fitted(piece, self._known, widen=of_rows)

    def _expect_types(self, schema: pa.Schema) -> None:
        """Raise TypeError, which names the column, for a type that the files cannot hold."""
        raise NotImplementedError(f"{type(self).__name__} must define _expect_types")

    def _packed(self, known: pa.Schema) -> str:
        return base64.b64encode(known.serialize()).decode()

    def _unpacked(self, known: str) -> pa.Schema:
        import pyarrow as pa

        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(known)))

    def _index(self) -> dict[str, Any]:
        return {"columns": {field.name: str(field.type) for field in self._known or ()}, **super()._index()}
