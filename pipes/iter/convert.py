"""Convert map-style pipes to iterable ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

from ...registry import MapDataPipe, T, Tally, functional_datapipe, own
from ...state.passes import ENDED_BY_STOP_ITERATION
from ..bases.arguments import expect_indices
from ..bases.indexing import fetch_items, fetcher
from ..bases.striding import Positioned


@functional_datapipe("to_iter_datapipe", on=MapDataPipe)
class MapToIterConverter(Positioned[T]):
    """Yield the items of a map-style pipe in the order of `indices`, by default 0, 1, 2, ….

    `indices` is any iterable that each pass can read again, such as a list or the keys of a dict. A pipe whose keys are
    not 0, 1, 2, … needs it. To resume exactly, it must give the same order in each pass.

    A `sharding_filter` right after this reads only its own items. A `batch` right after either reads each batch by one
    call of `__getitems__` where `source` has that method, as data sets of Hugging Face and torch do.

    >>> dp = SequenceWrapper("abc").to_iter_datapipe()
    >>> list(dp)
    ['a', 'b', 'c']
    >>> list(SequenceWrapper({"x": 1, "y": 2}).to_iter_datapipe(indices=["y", "x"]))
    [2, 1]
    """

    gives = "same"
    keeps_schema = True
    payload = ("indices",)
    _yielded: Tally = own(Tally, saved=False)
    _expected: int = own(0, saved=False)
    """How many items the pass yields from where it was resumed; 0 where that is unknown."""

    def __init__(self, source: MapDataPipe[T], indices: Iterable[Any] | None = None) -> None:
        if indices is not None:
            expect_indices(indices)
        self.source = source
        self.indices = indices

    def _items_from(self, start: int, step: int, at_a_time: int) -> tuple[Iterator[T], Callable[[], int]]:
        tally = self._yielded
        indices = iter(self._order(start, step))
        read: Callable[[Any], Any] = self.source.__getitem__
        wanted: Iterator[Any] = indices
        together = fetcher(self.source) if at_a_time > 1 else None
        if together is not None:
            read, wanted = partial(fetch_items, self, together), iter(lambda: [*islice(indices, at_a_time)], [])
        try:
            self._expected = len(range(start, len(self), step))
            results: Iterator[Any] = map(read, wanted)
        except TypeError:  # indices without a length: a generator turns a StopIteration into an error
            results = (read(each) for each in wanted)
        return tally.follow(results if together is None else chain.from_iterable(results)), lambda: tally.items

    def at_end(self) -> None:
        if self._yielded.items < self._expected:
            raise RuntimeError(ENDED_BY_STOP_ITERATION)

    def __len__(self) -> int:
        return len(self.source if self.indices is None else self.indices)  # type: ignore[arg-type]

    def _order(self, start: int, step: int) -> Iterable[Any]:
        """Return every `step`-th index of a pass, from position `start` on."""
        order = range(len(self.source)) if self.indices is None else self.indices
        return order[start::step] if isinstance(order, range) else islice(order, start, None, step)
