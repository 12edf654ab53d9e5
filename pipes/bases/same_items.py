"""Base of operators that yield items of their source as they are."""

from __future__ import annotations

from ...registry import IterDataPipe, Provenance, T, provenance_of


class SameItems(IterDataPipe[T]):
    """Yield items of the source as they are, each before the next is pulled: a base class."""

    gives = "same"
    keeps_schema = True
    source: IterDataPipe[T]

    def provenance(self) -> Provenance | None:
        return provenance_of(self.source)
