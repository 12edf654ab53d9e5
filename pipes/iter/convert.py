"""From pipes read by index to pipes read item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from ...registry import MapDataPipe, Tally, functional_datapipe
from ...registry.iteration import ENDED_BY_STOP_ITERATION
from ..arguments import expect_indices
from ..fetching import fetch, fetcher
from ..striding import Strided

T = TypeVar("T")


@functional_datapipe("to_iter_datapipe", on=MapDataPipe)
class MapToIterConverter(Strided[T]):
    """Yield the items of a map-style pipe in the order of `indices`, by default 0, 1, 2, ….

    `indices` is any iterable that each pass can read anew, such as a list or a dict's keys; a pipe that is read by
    keys which are not 0, 1, 2, … needs it. To resume exactly, it must give the same order in each pass.

    A `sharding_filter` right after it has only its own items read, and a `batch` right after either has those of each
    batch read by one call of `__getitems__`, where `source` has that, as data sets of Hugging Face and torch's do.

    >>> dp = SequenceWrapper("abc").to_iter_datapipe()
    >>> list(dp)
    ['a', 'b', 'c']
    >>> list(SequenceWrapper({"x": 1, "y": 2}).to_iter_datapipe(indices=["y", "x"]))
    [2, 1]
    """

    gives = "same"
    keeps_schema = True
    holds_items = False
    payload = ("indices",)
    transient = ("_start", "_first", "_step", "_tally", "_expected")

    def __init__(self, source: MapDataPipe[T], indices: Iterable[Any] | None = None) -> None:
        if indices is not None:
            expect_indices(indices)
        self.source = source
        self.indices = indices

    def reset(self) -> None:
        self._start = self._first = 0
        self._step = 1
        self._tally = Tally()

    def get_state(self) -> dict[str, Any]:
        items = self._tally.items
        return {"position": self._start + (self._first + (items - 1) * self._step + 1 if items else 0)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._start = state["position"]

    def _items(self, first: int, step: int, at_a_time: int) -> Iterator[T]:
        self._first, self._step = first, step
        indices = iter(self._order(self._start + first, step))
        read: Callable[[Any], Any] = self.source.__getitem__
        wanted: Iterator[Any] = indices
        together = fetcher(self.source) if at_a_time > 1 else None
        if together is not None:
            read, wanted = partial(fetch, self, together), iter(lambda: [*islice(indices, at_a_time)], [])
        try:
            self._expected = len(range(self._start + first, len(self), step))
            results: Iterator[Any] = map(read, wanted)
        except TypeError:  # the indices have no length: a generator catches a StopIteration by itself
            self._expected = 0
            results = (read(each) for each in wanted)
        return self._tally.follow(results if together is None else chain.from_iterable(results))

    def at_end(self) -> None:
        if self._tally.items < self._expected:
            raise RuntimeError(ENDED_BY_STOP_ITERATION)

    def __len__(self) -> int:
        return len(self.source if self.indices is None else self.indices)  # type: ignore[arg-type]

    def _order(self, start: int, step: int) -> Iterable[Any]:
        """The indices of one pass from place `start` on, every `step`-th of them."""
        order = range(len(self.source)) if self.indices is None else self.indices
        return order[start::step] if isinstance(order, range) else islice(order, start, None, step)
