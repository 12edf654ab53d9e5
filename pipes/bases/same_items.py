"""Base of operators that yield items of their source as they are."""

from __future__ import annotations

from typing import TypeVar

from ...registry import IterDataPipe, Provenance, provenance_of

T = TypeVar("T")


class SameItems(IterDataPipe[T]):
    """Yield items of the source as they are, each before the next is pulled: a base class."""

    gives = "same"
    keeps_schema = True
    source: IterDataPipe[T]

    def provenance(self) -> Provenance | None:
        return provenance_of(self.source)
