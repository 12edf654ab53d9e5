"""Bases of operators that yield the items of their source as they are, or a result of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ...registry import IterDataPipe, Provenance, R, T, provenance_of, require_end


class SameItems(IterDataPipe[T]):
    """Yield items of the source as they are, each before the next is pulled: a base class."""

    gives = "same"
    keeps_schema = True
    source: IterDataPipe[T]

    def provenance(self) -> Provenance | None:
        return provenance_of(self.source)


class OneToOne(IterDataPipe[R]):
    """Yield what a function makes of each item: a base class."""

    resumes_from_start = False
    keeps_rows: ClassVar[bool] = False
    """Whether each row of an input batch becomes one row at the same place of the output."""
    source: IterDataPipe[Any]

    def provenance(self) -> Provenance | None:
        found = provenance_of(self.source)
        return found if found is None or self.keeps_rows else found.changed()

    def _function(self) -> Callable[[Any], R]:
        """Return the function of one item, by default `_output`."""
        return self._output

    def _output(self, item: Any) -> R:
        """Return what is made of an item."""
        raise NotImplementedError(f"{type(self).__name__} must define _output, or _function")

    def __iter__(self) -> Iterator[R]:
        function = self.error_policy.wrap(self._function())
        # A StopIteration of `function` ends `map` early: `at_end` detects it for our pipes, generators for others.
        results: Iterator[Any] = (
            map(function, self.source)
            if isinstance(self.source, IterDataPipe)
            else (function(item) for item in self.source)
        )
        return filter(self.error_policy.keep, results) if self.error_policy.skips else results

    def at_end(self) -> None:
        require_end(self.source)

    def __len__(self) -> int:
        self._expect_no_skips()
        return len(self.source)
