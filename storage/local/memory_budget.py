"""A bound on memory while many items are prepared concurrently."""

from __future__ import annotations

import threading

from ...workers.threads import Interrupted


class MemoryBudget:
    """A bound on the bytes of objects in memory; the oldest object not yet emitted always fits."""

    def __init__(self, most: int) -> None:
        self.usual = 0
        """Estimated bytes of an object: a moving average."""
        self._most = most
        self._taken: dict[int, int] = {}  # by object number, oldest first
        self._total = 0
        self._changed = threading.Condition()
        self._closed = False

    def expect(self, number: int) -> None:
        """Register the next object in order."""
        with self._changed:
            self._taken[number] = 0

    def take(self, number: int, size: int) -> None:
        """Wait until there is room for an object of this size."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._fits(number, size))
            if self._closed:
                raise Interrupted
            self._put(number, size)

    def is_enough(self, number: int, size: int) -> bool:
        """Say whether an object fits now that its size is known; if not, its room is released."""
        with self._changed:
            self.usual += (size - self.usual) // 4
            fits = self._fits(number, size)
            self._put(number, size if fits else 0)
            return fits

    def give_back(self, number: int) -> None:
        """Release the room of an object."""
        with self._changed:
            self._put(number, 0)
            del self._taken[number]
            self._changed.notify_all()

    def close(self) -> None:
        """End all waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _fits(self, number: int, size: int) -> bool:
        return self._total - self._taken[number] + size <= self._most or number == next(iter(self._taken))

    def _put(self, number: int, size: int) -> None:
        less = size < self._taken[number]
        self._total += size - self._taken[number]
        self._taken[number] = size
        if less:
            self._changed.notify_all()
