"""Single rows on their way through operators that take batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ....errors.notes import add_note
from ....registry import IterDataPipe, Provenance, own, provenance_of
from ...columns.batch_rows import as_batch
from ...columns.rows_or_batches import DECLARED_BATCHES, gives_batches, is_batch
from ...columns.to_arrow import rows_in

_GATHERED = "rows that came one by one"
"""The name of the only column of a batch of loose rows."""


class RowGatherer(IterDataPipe[Any]):
    """Yield column batches as is, and rows `n` at a time, as the only column of a batch.

    `batched` says which the items are. Without it the operators of the chain decide, or else each item; an ambiguous
    item is an error.

    >>> from penstock.pipes.iter import IterableWrapper
    >>> [out_of_batch(batch) for batch in RowGatherer(IterableWrapper(range(5)), 2)]
    [[0, 1], [2, 3], [4]]
    """

    resumes_from_start = False
    shown_as = "rows gathered in batches"
    _gathers: bool = own(True, saved=False)

    def __init__(self, source: IterDataPipe[Any], n: int, batched: bool | None = None) -> None:
        self.source = source
        self.n = n
        # Decided now: a loader may replace the source with its own reader.
        self.batched = gives_batches(source) if batched is None else batched

    def __iter__(self) -> Iterator[Any]:
        items = iter(self.source)
        for item in items:
            # Only the first is checked: mixed kinds raise in the steps after this one.
            self._gathers = not is_batch(item, self.batched)
            yield {_GATHERED: [item, *islice(items, self.n - 1)]} if self._gathers else self._checked(item)

    def _checked(self, item: Any) -> Any:
        try:
            batch = as_batch(item)
            rows_in(batch)  # raises where column lengths differ
            return batch
        except (TypeError, ValueError) as error:
            if self.batched:
                add_note(error, DECLARED_BATCHES)
            raise

    def provenance(self) -> Provenance | None:
        return None if self._gathers else provenance_of(self.source)


def out_of_batch(batch: Any) -> Any:
    """Return the rows gathered into a batch as a list; any other batch as is."""
    return batch[_GATHERED] if are_rows(batch) else batch


def are_rows(batch: Any) -> bool:
    """Say whether rows were gathered into a batch."""
    return isinstance(batch, Mapping) and [*batch] == [_GATHERED]
