"""Items of a map-style pipe for which a function is true."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...registry import MapDataPipe, OnError, T, add_error_context, functional_datapipe
from ...state.seeds import seeds_of
from ..bases.indexing import Renumbered, from_start
from ..bases.input_columns import Columns, check_function, taking_columns


@functional_datapipe("filter")
class Filter(Renumbered[T]):
    """Give the items of the source for which `filter_fn(item)` is true, numbered from 0.

    The first access to an item or the length reads the complete source, by 0, 1, 2, …, and keeps the indices of what
    passes: 8 bytes each. Copies and pickles have these, if they are known by then: call `len(dp)` before workers start,
    or each of them reads the source. It is read again where its random steps have other seeds when a pass begins. With
    `input_col`, `filter_fn` takes these columns of an item. `on_error` handles an item for which `filter_fn` raises.

    Raises IndexError for an index out of range.

    >>> dp = SequenceWrapper(range(10)).filter(lambda x: x % 3 == 0)
    >>> list(dp), len(dp), dp[-1]
    ([0, 3, 6, 9], 4, 9)
    """

    traits = ("drops",)
    payload = ("_passing",)
    transient = ("_scanning",)
    _passing: NDArray[np.int64] | None = None
    """The indices of what passes."""
    _seeds: list[int | None] = []
    """The seeds of the source when it was read."""

    def __init__(
        self,
        source: MapDataPipe[T],
        filter_fn: Callable[..., Any],
        input_col: Columns | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("filter_fn", filter_fn, input_col)
        self.source = source
        self.filter_fn = filter_fn
        self.input_col = input_col
        self.handle_errors(on_error)

    def _at(self, index: Any) -> int:
        passing = self._indices()
        return int(passing[from_start(index, len(passing))])

    def __len__(self) -> int:
        return len(self._indices())

    def _indices(self) -> NDArray[np.int64]:
        passing = self._passing
        if passing is None:
            with vars(self).setdefault("_scanning", threading.RLock()):  # several threads may ask first
                passing = self._passing = self._scanned() if self._passing is None else self._passing
        return passing

    def _scanned(self) -> NDArray[np.int64]:
        self.error_policy.begin()
        self._seeds = seeds_of(self.source)
        test = taking_columns(self.filter_fn, self.input_col)
        passes = self.error_policy.wrap(lambda item: bool(test(item)))
        found: list[int] = []
        for index in range(len(self.source)):
            try:
                result = passes(self.source[index])
                if self.error_policy.keep(result) and result:
                    found.append(index)
            except Exception as error:
                add_error_context(error, self, index)
                raise
        return np.array(found, np.int64)

    def _pass_begins(self) -> None:
        super()._pass_begins()
        if self._passing is not None and self._seeds != seeds_of(self.source):
            self._passing = None
