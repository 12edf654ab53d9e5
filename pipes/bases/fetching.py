"""Several items by one call, `__getitems__`, where what is read by index has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

from ...registry import MapDataPipe, say_where
from ...registry.graph import sources_of

__all__ = ["Fetch", "Fetching", "fetch", "fetcher"]

T = TypeVar("T")
Fetch = Callable[[list[Any]], Sequence[T]]


class Fetching(MapDataPipe[T]):
    """Give several items by one call where all that is read from can: the base of the map-style operators that do.

    `__getitems__` is there only then: torch's loaders, and batches, use it if it is. A subclass says in `_fetch` how it
    gets the items at some indices by the `__getitems__` of what it reads from. One that has a `__getitem__` of its own
    needs a `_fetch` of its own.
    """

    _fetches: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__getitem__" in vars(cls):
            cls._fetches = "_fetch" in vars(cls)

    @property
    def __getitems__(self) -> Fetch[T]:
        """Return the function that gives the items at a list of indices; AttributeError where there is none."""
        if not self._fetches or None in map(fetcher, self._read_from()):
            raise AttributeError("__getitems__")
        return partial(fetch, self, self._fetch)

    def _fetch(self, indices: list[Any]) -> Sequence[T]:
        raise NotImplementedError(f"{type(self).__name__} must define _fetch")

    def _read_from(self) -> Sequence[Any]:
        """Return what must have `__getitems__` as well."""
        return sources_of(self)


def fetcher(source: Any) -> Fetch[Any] | None:
    """Return the `__getitems__` of what is read by index, or None where it has none."""
    return getattr(source, "__getitems__", None)


def fetch(pipe: Any, function: Fetch[T], indices: list[Any]) -> Sequence[T]:
    """Return what a function gives for some indices, one item for each; an error says that it was in a pipe.

    Raises ValueError where there are more or fewer items than indices.
    """
    try:
        items = function(indices)
        if len(items) != len(indices):
            raise ValueError(f"__getitems__ gave {len(items)} items for {len(indices)} indices")
        return items
    except Exception as error:
        say_where(error, pipe, indices)
        raise
