"""Rows that come one by one, on their way through operators that take batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ...registry import IterDataPipe, Provenance, own, provenance_of
from ...registry.notes import add_note
from .batch_rows import as_batch
from .rows_or_batches import TOLD_BATCHES, gives_batches, is_batch
from .to_arrow import rows_in

__all__ = ["RowGatherer", "are_rows", "out_of_batch"]

_ROWS = "rows that came one by one"
"""The name of the only column of a batch of loose rows."""


class RowGatherer(IterDataPipe[Any]):
    """Yield column batches as they are, and all other items, which are rows, `n` at a time as one column of a batch.

    `batched` says which they are. Without it the chain does, where its operators tell, and else each item, of which
    those that may be either are an error.

    >>> from penstock.pipes.iter import IterableWrapper
    >>> [out_of_batch(batch) for batch in RowGatherer(IterableWrapper(range(5)), 2)]
    [[0, 1], [2, 3], [4]]
    """

    holds_items = False
    _gathers: bool = own(True, saved=False)

    def __init__(self, source: IterDataPipe[Any], n: int, batched: bool | None = None) -> None:
        self.source = source
        self.n = n
        # Asked now: a loader may put its own reader in the place of the source.
        self.batched = gives_batches(source) if batched is None else batched

    def __iter__(self) -> Iterator[Any]:
        items = iter(self.source)
        for item in items:
            # Only the first is looked at: of another kind than the others, it would be an error in what follows.
            self._gathers = not is_batch(item, self.batched)
            yield {_ROWS: [item, *islice(items, self.n - 1)]} if self._gathers else self._checked(item)

    def _checked(self, item: Any) -> Any:
        try:
            batch = as_batch(item)
            rows_in(batch)  # raises where columns differ in it
            return batch
        except (TypeError, ValueError) as error:
            if self.batched:
                add_note(error, TOLD_BATCHES)
            raise

    def provenance(self) -> Provenance | None:
        return None if self._gathers else provenance_of(self.source)


def out_of_batch(batch: Any) -> Any:
    """Return the rows of a batch that were gathered into it, as a list; any other batch as it is."""
    return batch[_ROWS] if are_rows(batch) else batch


def are_rows(batch: Any) -> bool:
    """Say whether rows were gathered into a batch."""
    return isinstance(batch, Mapping) and [*batch] == [_ROWS]
