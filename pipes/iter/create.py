"""Where a chain begins."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from ...registry import IterDataPipe, Tally, functional_datapipe

T = TypeVar("T")


@functional_datapipe(None)
class IterableWrapper(IterDataPipe[T]):
    """Yield the items of any iterable.

    With `deepcopy`, each pass reads a deep copy, so that items changed later do not show in the next pass; an iterable
    that cannot be copied, such as a generator, is read as it is.

    >>> dp = IterableWrapper(range(5))
    >>> list(dp)
    [0, 1, 2, 3, 4]
    """

    holds_items = False
    payload = ("iterable",)
    _items_read: Callable[[], int]
    transient = ("_items_read",)

    def __init__(self, iterable: Iterable[T], deepcopy: bool = True) -> None:
        if not isinstance(iterable, Iterable) and not hasattr(iterable, "__getitem__"):
            raise TypeError(f"IterableWrapper needs an iterable, and {type(iterable).__name__} is none")
        self.iterable = iterable
        self.deepcopy = deepcopy
        self._start = 0

    def reset(self) -> None:
        self._start = 0

    def get_state(self) -> dict[str, Any]:
        return {"position": self._start + self._items_read()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._start = state["position"]

    def __iter__(self) -> Iterator[T]:
        items: Any = self._copied()
        if type(items) in (list, tuple, range):
            # The iterators of these know how many items are left, so counting them would be waste.
            items = items[self._start :] if self._start else items
            rest: Iterator[T] = iter(items)
            total = len(items)
            self._items_read = lambda: total - operator.length_hint(rest)
            return rest
        tally = Tally()
        self._items_read = lambda: tally.items
        return tally.follow(islice(items, self._start, None) if self._start else items)

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]

    def _copied(self) -> Iterable[T]:
        if not self.deepcopy:
            return self.iterable
        try:
            return copy.deepcopy(self.iterable)
        except Exception:  # what copying raises is up to the class: generators, open files and locks cannot be copied
            return self.iterable
