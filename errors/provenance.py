"""Provenance: the files and rows of which an item was made, for error notes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

_SHOWN = 4
"""The most places shown."""


class ReadRows(NamedTuple):
    """Rows that were read from a part of a file; None if their numbers are unknown, as after a filter.

    Without a part, they are lines of text, counted from 1, or row 0 is the whole file, such as an image.

    >>> print(ReadRows("a.parquet", "row group 2", range(4096, 8192)))
    rows 4,096 to 8,191 of row group 2 of 'a.parquet'
    >>> print(ReadRows("a.jsonl", "", range(7, 8)))
    line 7 of 'a.jsonl'
    """

    file: str
    part: str
    rows: range | None

    def __str__(self) -> str:
        if not self.part and self.rows == range(1):
            return repr(self.file)
        of_file = f"{self.part} of {self.file!r}" if self.part else repr(self.file)
        if self.rows is None:
            return f"the rows that match of {of_file}"
        first, last = self.rows[0], self.rows[-1]
        row = "row" if self.part else "line"
        return f"{row} {first:,} of {of_file}" if first == last else f"{row}s {first:,} to {last:,} of {of_file}"


class Provenance(NamedTuple):
    """The rows that an item was made of; `in_order` if its rows are exactly these, in this order."""

    places: tuple[ReadRows, ...]
    in_order: bool = True

    def __str__(self) -> str:
        more = f", {len(self.places)} places in all" if len(self.places) > _SHOWN else ""
        return "; ".join(map(str, self.places[:_SHOWN])) + more

    def of_rows(self, start: int, stop: int) -> Provenance:
        """Return the provenance of some of the item's rows, or of all its rows if the mapping is unknown.

        >>> whole = Provenance((ReadRows("a", "block 0", range(5, 9)), ReadRows("b", "block 0", range(5))))
        >>> print(whole.of_rows(3, 6))
        row 8 of block 0 of 'a'; rows 0 to 1 of block 0 of 'b'
        """
        if not self.in_order or any(place.rows is None for place in self.places):
            return self
        places = []
        for place in self.places:
            assert place.rows is not None
            if rows := place.rows[max(start, 0) : max(stop, 0)]:
                places.append(place._replace(rows=rows))
            start, stop = start - len(place.rows), stop - len(place.rows)
        return Provenance((*places,))

    def changed(self) -> Self:
        """Return the provenance after a function, which may have dropped or reordered rows."""
        return self._replace(in_order=False)


def joined_provenance(parts: Iterable[Provenance | None]) -> Provenance | None:
    """Return the provenance of an item joined from parts; None if that of any part is unknown."""
    places: list[ReadRows] = []
    in_order = True
    for part in parts:
        if part is None:
            return None
        in_order = in_order and part.in_order
        for place in part.places:
            before = places[-1] if places else None
            if before is None or before[:2] != place[:2]:
                places.append(place)
            elif before.rows is not None and place.rows is not None and before.rows.stop == place.rows.start:
                places[-1] = before._replace(rows=range(before.rows.start, place.rows.stop))
            elif before != place:
                places.append(place)
    return Provenance((*places,), in_order)
