"""Items cached in memory."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

from ...registry import MapDataPipe, T, add_error_context, functional_datapipe
from ...state.seeds import seeds_of
from ..bases.indexing import Fetching


@functional_datapipe("in_memory_cache")
class InMemoryCacheHolder(Fetching[T]):
    """Give each item of the source, read only once.

    Each access gives the same object, so in-place changes persist. Equal indices share an item; -1 and the last index
    do not. Each process, so each worker, has its own cache, which pickles and copies do not include. Where earlier
    random steps have other seeds when a pass begins, items are read again.

    Raises TypeError for an index that is not hashable, such as a list.

    >>> dp = SequenceWrapper(range(3)).map(lambda x: print("reading", x) or x).in_memory_cache()
    >>> dp[2], dp[2]
    reading 2
    (2, 2)
    """

    traits = ("caches",)
    gives = "same"
    keeps_schema = True
    payload = ("_kept",)
    transient = ("_kept", "_seeds")
    _kept: dict[Hashable, T] | None = None
    _seeds: list[int | None] = []
    """The seeds of the source in the last pass."""

    def __init__(self, source: MapDataPipe[T]) -> None:
        self.source = source

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            kept = self._kept
            if kept is None:
                kept = self._kept = {}
            if type(index) is not int:
                index = _as_key(index)
            if index not in kept:
                kept[index] = self.source[index]
            return kept[index]
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _fetch(self, indices: list[Any]) -> list[T]:
        if self._kept is None:
            self._kept = {}
        kept, keys = self._kept, [*map(_as_key, indices)]
        if missing := [key for key in dict.fromkeys(keys) if key not in kept]:
            kept.update(zip(missing, self.source.__getitems__(missing), strict=True))  # type: ignore[attr-defined]
        return [kept[key] for key in keys]

    def __len__(self) -> int:
        return len(self.source)

    def _pass_begins(self) -> None:
        super()._pass_begins()
        seeds = seeds_of(self.source)
        if seeds != self._seeds:
            self._kept, self._seeds = None, seeds


def _as_key(index: Any) -> Any:
    try:
        return operator.index(index)  # a tensor equals no other as a key
    except TypeError:
        return index
