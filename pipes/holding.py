"""Operators that hold items of their source back from one of their own items to the next, and resume with few words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, ClassVar, TypeVar

from ..registry import IterDataPipe, Node, Trail

__all__ = ["Holder"]

R = TypeVar("R")
Groups = Iterable[Iterable[int]]


class Holder(IterDataPipe[R]):
    """Yield what is made of items that are held until they are wanted: the base of the operators that do.

    A state has none of the items, but their numbers, counted from a place that the source can go back to; on resuming
    the source is read again from there. So states are small, and going on costs as much as reading what came since the
    oldest item held.

    `__iter__` begins with `_read`. What else is remembered goes through `get_state` and `set_state`, which call these.
    """

    holds_items = False
    transient: ClassVar[tuple[str, ...]] = ("_trail", "_held", "_again")
    source: IterDataPipe[Any]

    def reset(self) -> None:
        self._trail: Trail[Any] | None = None
        self._again: tuple[list[list[int]], int] = ([], 0)

    def get_state(self) -> dict[str, Any]:
        return {"held": [], "pulled": 0}

    def set_state(self, state: dict[str, Any]) -> None:
        self._again = (state["held"], state["pulled"])

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        if self._trail is None:
            return super().snapshot()
        node, skip = self._trail.way_back()
        start = self._oldest() - skip
        held = [[number - start for number in group] for group in self._held()]
        return {**self.get_state(), "held": held, "pulled": self._trail.pulled - start}, [node]

    def _read(
        self, held: Callable[[], Groups], source: IterDataPipe[Any] | None = None, snapshot_every: int = 1
    ) -> tuple[list[dict[int, Any]], Iterator[tuple[int, Any]]]:
        """Begin to read: return the items that were held when the state was taken, and those to come, with numbers.

        `held` returns the numbers of the items held, in any groups, whenever it is asked. In the same groups the items
        come back: none without a state. An item is pulled only when the one before it is held or done with.
        """
        groups, pulled = self._again
        self._held: Callable[[], Groups] = lambda: groups
        self._trail = Trail(self.source if source is None else source, self._oldest, snapshot_every)
        numbered = enumerate(self._trail)
        wanted = {*chain.from_iterable(groups)}
        found = {number: item for number, item in islice(numbered, pulled) if number in wanted}
        if len(found) < len(wanted):
            raise RuntimeError("the source gave fewer items than when the state was taken")
        self._held = held
        return [{number: found[number] for number in group} for group in groups], numbered

    def _oldest(self) -> int:
        pulled = self._trail.pulled if self._trail is not None else 0
        return min(chain.from_iterable(self._held()), default=pulled)
