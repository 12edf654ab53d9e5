"""Map-style operators: items by index, and several by one call where the source can."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, overload

from ...registry import MapDataPipe, T, add_error_context
from ...state.graph import sources_of

FetchItems = Callable[[list[Any]], Sequence[T]]


class Fetching(MapDataPipe[T]):
    """Give several items by one call where all sources can: the base of map-style operators.

    A subclass defines `_item`, which becomes its `__getitem__`, without a call in between: type checkers know it from
    here. It gives a slice by `_sliced`, and adds notes to errors.

    `__getitems__` exists where all sources have it: torch's loaders and `batch` use it then. A subclass defines
    `_fetch`, which gets items by the `__getitems__` of its sources. A subclass with its own `__getitem__` needs its own
    `_fetch`.
    """

    _fetches: ClassVar[bool] = False

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: slice) -> MapDataPipe[T]: ...

        @overload
        def __getitem__(self, index: Any) -> T: ...

        def __getitem__(self, index: Any) -> Any: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_item" in vars(cls):
            cls.__getitem__ = vars(cls)["_item"]  # type: ignore[method-assign]
        if "__getitem__" in vars(cls):
            cls._fetches = "_fetch" in vars(cls)

    @property
    def __getitems__(self) -> FetchItems[T]:
        """Return the function that gives the items at a list of indices; AttributeError without one."""
        if not self._fetches or None in map(fetcher, self._read_from()):
            raise AttributeError("__getitems__")
        return partial(fetch_items, self, self._fetch)

    def _fetch(self, indices: list[Any]) -> Sequence[T]:
        raise NotImplementedError(f"{type(self).__name__} must define _fetch")

    def _read_from(self) -> Sequence[Any]:
        """Return the sources, all of which need `__getitems__`."""
        return sources_of(self)


def fetcher(source: Any) -> FetchItems[Any] | None:
    """Return the `__getitems__` of a source, or None."""
    return getattr(source, "__getitems__", None)


def fetch_items(pipe: Any, function: FetchItems[T], indices: list[Any]) -> Sequence[T]:
    """Return the items that `function` gives for `indices`; errors name the pipe.

    Raises ValueError for more or fewer items than indices.
    """
    try:
        items = function(indices)
        if len(items) != len(indices):
            raise ValueError(f"__getitems__ gave {len(items)} items for {len(indices)} indices")
        return items
    except Exception as error:
        add_error_context(error, pipe, indices)
        raise


def from_start(index: int, length: int) -> int:
    """Return an index counted from the start; IndexError where it is out of range for `length`."""
    number = operator.index(index)
    if not -length <= number < length:
        raise IndexError(f"index {number} is out of range: the length is {length}")
    return number % length


class Renumbered(Fetching[T]):
    """Give items of the source under other numbers: a base class, whose `_at` returns their indices in the source."""

    gives = "same"
    keeps_schema = True
    source: MapDataPipe[T]

    def _item(self, index: Any) -> Any:
        try:
            if type(index) is slice:
                return self._sliced(index)
            return self.source[self._at(index)]
        except Exception as error:
            add_error_context(error, self, index)
            raise

    def _at(self, index: Any) -> int:
        """Return the index in the source of an item; IndexError where it is out of range."""
        raise NotImplementedError(f"{type(self).__name__} must define _at")

    def _fetch(self, indices: list[Any]) -> Sequence[T]:
        return self.source.__getitems__([*map(self._at, indices)])  # type: ignore[attr-defined, no-any-return]
