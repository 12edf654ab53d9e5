"""One pass over a source that several branches read, and the items that wait for each branch."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from math import inf
from typing import Any

from ....state.seeds import PassPath

Entry = tuple[int, Any]
"""A number and its item."""

_numbers = count()


class Queue:
    """The items that wait for one branch. Only the branch holds its queue, so both are freed together."""

    __slots__ = ("__weakref__", "entries", "missed_from", "number", "since", "takes_from")

    def __init__(self, number: int, since: float) -> None:
        self.number = number
        """The number of the branch."""
        self.since = since
        """The branch has missed no item from this number on."""
        self.takes_from = since
        """The number of the first item to add; earlier items are already here or not wanted."""
        self.missed_from: int | None = None
        """The number from which on items no longer wait for the branch, because too many did."""
        self.entries: deque[Entry] = deque()

    def place(self, dealt: int) -> int:
        """Return the number of the next item of the branch, given that all items before `dealt` were dealt.

        Exact in the thread that reads the branch, even while another thread deals. Other threads may get a lower one.
        """
        try:
            return self.entries[0][0]
        except IndexError:
            if (missed_from := self.missed_from) is not None:
                return missed_from
            takes_from = self.takes_from
            return dealt if takes_from == inf else max(dealt, int(takes_from))  # inf: just given up

    def take_again_from(self, place: int) -> None:
        """Drop all items, and take those from number `place` on."""
        self.entries.clear()
        self.takes_from, self.missed_from = place, None

    def miss_from(self, number: int) -> None:
        """Take no more items from number `number` on, until the source is read again for them."""
        self.missed_from = number
        self.takes_from = inf

    def skip_to(self, place: int) -> None:
        """Drop the items before number `place`."""
        while self.entries and self.entries[0][0] < place:
            self.entries.popleft()
        self.takes_from = max(self.takes_from, place)
        self.since = place

    def give_up(self) -> None:
        """Drop all items and take no more. An error's traceback may keep the queue alive."""
        self.since = self.takes_from = inf
        self.missed_from = None
        self.entries.clear()


class Generation:
    """One pass over the source, and the branch passes that read it. Only the branches hold it."""

    def __init__(self, path: PassPath) -> None:
        self.number = next(_numbers)
        self.path = path
        self.joined: set[int] = set()
        """The branches that had an iterator in this generation."""
        self.gone: set[int] = set()
        """The branches whose passes ended or were given up."""
        self.queues: dict[int, weakref.ref[Queue]] = {}
        self.items: Iterator[Any] | None = None
        self.dealt = 0
        self.over = self.ended = False
        self.goes_on = False
        """Whether this is part of a resumed pass."""
        self._room = 0
        self._error: BaseException | None = None

    def readers(self) -> list[Queue]:
        """Return the queues of the branches that exist and may read on."""
        found = [reference() for reference in [*self.queues.values()]]
        return [
            queue for queue in found if queue is not None and (queue.takes_from < inf or queue.missed_from is not None)
        ]

    def queue_for(self, number: int) -> Queue:
        """Return a new queue for a branch."""
        queue = Queue(number, 0 if self.items is None else self.dealt)
        self.queues[number] = weakref.ref(queue)
        self._room = 0
        return queue

    def end(self) -> None:
        """End the generation. Readers find their queues empty and pull, which raises RuntimeError."""
        self.over = True
        for queue in self.readers():
            queue.entries.clear()

    def pull(self, deal: Callable[[Any, dict[int, weakref.ref[Queue]]], int]) -> bool:
        """Pull and deal one item; return False at the end of the source."""
        if self._error is not None:
            raise (
                self._error
                if isinstance(self._error, (Exception, SystemExit))  # SystemExit is meant for all branches
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
        self.dealt = deal(dealt, self.queues) + 1  # set after queueing: a branch with an empty queue is here
        return True

    def find_room(
        self, reader: Queue, size: int, number_waiting: Callable[[Iterable[int]], int]
    ) -> tuple[int, int] | None:
        """Reserve room for one item in the buffer. If it is full, return the slowest branch and its queue's length.

        Waiting items are counted only when there may be too many.
        """
        self._room -= 1
        if self._room >= 0:
            return None
        others = [each for each in self.readers() if each is not reader and each.missed_from is None]
        waiting = {each.number: len(each.entries) for each in others}
        self._room = size - number_waiting(waiting.values())
        return None if self._room >= 0 else max(waiting.items(), key=lambda pair: pair[1])

    def stop_queueing(self, number: int) -> None:
        """Let no more items wait for a branch, until it begins the source again."""
        queue = self.queues[number]()
        if queue is not None:
            queue.miss_from(self.dealt)

    def oldest(self) -> int:
        """Return the number of the oldest item that some branch still needs, at most that of the next item."""
        dealt = self.dealt
        return min([dealt, *(queue.place(dealt) for queue in self.readers())])
