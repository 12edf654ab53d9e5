"""A pass over a stream that several branches read: what has been dealt to them, and what waits until they read it."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any

from .state import Node, Trail

__all__ = ["Entry", "Generation", "Waiting"]

Entry = tuple[int, Any]
"""An item, after its number."""


class Waiting:
    """What waits for one branch. Its branch alone holds it, so that nothing waits for one that is gone."""

    __slots__ = ("__weakref__", "entries", "number", "since", "takes_from")

    def __init__(self, number: int, since: int) -> None:
        self.number = number
        """The branch's."""
        self.since = since
        """The number of the item from which on the branch has missed nothing."""
        self.takes_from: float = since
        """The number of the first item that is to be added; those before it are here, or are not wanted."""
        self.entries: deque[Entry] = deque()

    def place(self, dealt: int) -> int:
        """Return the number of the first item that the branch has still to get, where all before `dealt` were dealt.

        Right for the thread that reads the branch, while another deals; others may get a number too low.
        """
        try:
            return self.entries[0][0]
        except IndexError:
            takes_from = self.takes_from
            return dealt if takes_from == inf else max(dealt, int(takes_from))  # given up, perhaps, a moment ago

    def skip_to(self, place: int) -> None:
        """Leave out what comes before a number."""
        while self.entries and self.entries[0][0] < place:
            self.entries.popleft()
        self.takes_from = max(self.takes_from, place)
        self.since = place

    def give_up(self) -> None:
        """Take no more items. It may be there for long: the traceback of an error holds it."""
        self.takes_from = inf
        self.entries.clear()


class Generation:
    """One pass over the source, and those over the branches that read it. It is held by the branches alone."""

    def __init__(self) -> None:
        self.joined: set[int] = set()
        """The branches of which there have been iterators."""
        self.read: set[int] = set()
        """Those of them that have been asked for an item."""
        self.left: set[int] = set()
        """Those that had been read when the state was taken from which it goes on, and need not come back."""
        self.waiting: dict[int, weakref.ref[Waiting]] = {}
        self.begun_from: Node | None = None
        """The seeds with which it began; None while it has not."""
        self.items: Iterator[Any] | None = None
        self.trail: tuple[Trail[Any], int] | None = None
        """That of the source, and the number at which it began."""
        self.dealt = 0
        self.skipped: deque[int] = deque()
        """The numbers of the items that were skipped since the state that leads back to all branches."""
        self.over = self.ended = False
        self._room = 0
        self._error: BaseException | None = None

    def readers(self) -> list[Waiting]:
        """Return what waits for each branch that is there and may read on."""
        found = [reference() for reference in [*self.waiting.values()]]
        return [waiting for waiting in found if waiting is not None and waiting.takes_from < inf]

    def let_wait(self, number: int, since: int) -> Waiting:
        """Return what is to wait for a branch, from an item's number on."""
        waiting = Waiting(number, since)
        self.waiting[number] = weakref.ref(waiting)
        self._room = 0
        return waiting

    def go_on(self, items: Iterator[Any], at: int) -> None:
        """Take items from another pass over the source, which begins at a number."""
        self.items, self.dealt, self.ended = items, at, False

    def end(self) -> None:
        """Be over. Who still reads asks for more, since nothing is there any more, and is told."""
        self.over = True
        for waiting in self.readers():
            waiting.entries.clear()

    def pull(self, deal: Callable[[Any, dict[int, weakref.ref[Waiting]]], int]) -> bool:
        """Pull one item and deal it, or return False where there is none."""
        if self._error is not None:
            raise (
                self._error
                if isinstance(self._error, (Exception, SystemExit))  # a process that is to end is, for all who read
                else RuntimeError(f"the pass over the source of these branches ended in {self._error!r}")
            )
        if self.items is None or self.ended:
            return False
        try:
            dealt = next(self.items)
        except StopIteration:
            self.ended = True
            return False
        except BaseException as error:
            self._error = error
            raise
        self.dealt = deal(dealt, self.waiting) + 1  # after it waits: who finds nothing waiting stands here
        return True

    def find_room(
        self, reader: Waiting, size: int, number_waiting: Callable[[Iterable[int]], int]
    ) -> tuple[int, int] | None:
        """Take the room of one item in a buffer; if there is none, return the slowest branch and how much waits for it.

        How many items wait is found out only when there may be too many.
        """
        self._room -= 1
        if self._room >= 0:
            return None
        waiting = {each.number: len(each.entries) for each in self.readers() if each is not reader}
        self._room = size - number_waiting(waiting.values())
        return None if self._room >= 0 else max(waiting.items(), key=lambda pair: pair[1])

    def oldest(self) -> int:
        """Return the number, in the trail, of the first item that a branch has still to get."""
        dealt, start = self.dealt, self.trail[1] if self.trail is not None else 0
        return max(min((waiting.place(dealt) for waiting in self.readers()), default=dealt) - start, 0)

    def way_back(self) -> tuple[dict[str, Any], Node]:
        """Return a state of the source from which every branch can go on, after what is to be known besides.

        It is asked for when an iterator is dropped too, and so may be when the interpreter has lost half of itself.
        """
        if self.trail is None:
            return {}, {}
        trail, start = self.trail
        at, state = trail.last_needed()
        own: dict[str, Any] = {"at": start + at, "read": sorted(self.read | self.left)}
        if self.begun_from:
            own["seeds"] = self.begun_from
        if skipped := sum(number >= start + at for number in [*self.skipped]):
            own["skipped_since"] = skipped  # and will be once more
        return own, state

    def skip(self, number: int) -> None:
        """Note that an item was left out and counted as such."""
        self.skipped.append(number)
        if self.trail is not None:
            needed = self.trail[0].last_needed()[0] + self.trail[1]
            while self.skipped[0] < needed:
                self.skipped.popleft()
