"""One map-style pipe becomes several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...registry import MapDataPipe, add_error_context, functional_datapipe
from ..iter.split import columns_left


@functional_datapipe("unzip")
class UnZipper(MapDataPipe[Any]):
    """Give a list of pipes, one per column of the items, which are sequences of `sequence_length`.

    Columns in `columns_to_skip` get no pipe. Each pipe reads the complete item to give its column.

    Raises IndexError for an item that is too short.

    >>> letters, numbers = SequenceWrapper([("a", 1), ("b", 2)]).unzip(2)
    >>> dp = numbers.zip(letters)
    >>> list(dp)
    [(1, 'a'), (2, 'b')]
    """

    def __init__(
        self,
        source: MapDataPipe[Sequence[Any]],
        sequence_length: int,
        columns_to_skip: Sequence[int] | None = None,
    ) -> None:
        self._columns = columns_left(sequence_length, columns_to_skip)
        self.source: MapDataPipe[Any] = source
        self.sequence_length = sequence_length
        self.columns_to_skip = columns_to_skip

    def result(self) -> list[MapDataPipe[Any]]:
        """Return the pipes, one for each column."""
        self.number_of_branches = len(self._columns)
        return [Column(self, number, column) for number, column in enumerate(self._columns)]

    def __getitem__(self, index: Any) -> Any:
        return self.source[index]

    def __len__(self) -> int:
        return len(self.source)


class Column(MapDataPipe[Any]):
    """Give one column of the items, which are sequences."""

    is_one_of_several = True

    def __init__(self, source: UnZipper, number: int, column: int) -> None:
        self.source = source
        self.number = number
        self.column = column

    def __getitem__(self, index: Any) -> Any:
        if type(index) is slice:
            return self._sliced(index)
        item = self.source.source[index]  # bypasses the operator, which saves a call
        try:
            return item[self.column]
        except Exception as error:
            add_error_context(error, self.source, item)
            raise

    def __len__(self) -> int:
        return len(self.source)
