"""From pipes read by index to pipes read item by item."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from ...registry import IterDataPipe, MapDataPipe, Tally, functional_datapipe
from ...registry.iteration import ENDED_BY_STOP_ITERATION
from ..arguments import expect_indices

T = TypeVar("T")


@functional_datapipe("to_iter_datapipe", on=MapDataPipe)
class MapToIterConverter(IterDataPipe[T]):
    """Yield the items of a map-style pipe in the order of `indices`, by default 0, 1, 2, ….

    `indices` is any iterable that each pass can read anew, such as a list or a dict's keys; a pipe that is read by
    keys which are not 0, 1, 2, … needs it. To resume exactly, it must give the same order in each pass.

    >>> dp = SequenceWrapper("abc").to_iter_datapipe()
    >>> list(dp)
    ['a', 'b', 'c']
    >>> list(SequenceWrapper({"x": 1, "y": 2}).to_iter_datapipe(indices=["y", "x"]))
    [2, 1]
    """

    holds_items = False
    payload = ("indices",)
    transient = ("_start", "_tally", "_last")

    def __init__(self, source: MapDataPipe[T], indices: Iterable[Any] | None = None) -> None:
        if indices is not None:
            expect_indices(indices)
        self.source = source
        self.indices = indices

    def reset(self) -> None:
        self._start = 0
        self._tally = Tally()

    def get_state(self) -> dict[str, Any]:
        return {"position": self._start + self._tally.items}

    def set_state(self, state: dict[str, Any]) -> None:
        self._start = state["position"]

    def __iter__(self) -> Iterator[T]:
        rest = islice(self._order(), self._start, None)
        try:
            self._last: int | None = len(self)
        except TypeError:  # the indices have no length: a generator catches a StopIteration by itself
            self._last = None
            return self._tally.follow(self.source[index] for index in rest)
        return self._tally.follow(map(self.source.__getitem__, rest))

    def at_end(self) -> None:
        if self._last is not None and self._start + self._tally.items < self._last:
            raise RuntimeError(ENDED_BY_STOP_ITERATION)

    def __len__(self) -> int:
        return len(self.source if self.indices is None else self.indices)  # type: ignore[arg-type]

    def _order(self) -> Iterable[Any]:
        """The indices of one pass."""
        return range(len(self.source)) if self.indices is None else self.indices
