"""The same items in another order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Self, TypeVar

from ...registry import IterDataPipe, Node, Seeded, Trail, functional_datapipe, uniform_draws

T = TypeVar("T")


@functional_datapipe("shuffle")
class Shuffler(Seeded, IterDataPipe[T]):
    """Yield the items in a random order, drawn from a buffer of `buffer_size` items.

    The buffer is filled first; then each item handed out is drawn from it uniformly, and the next of the source takes
    its place. A buffer at least as large as the stream shuffles it fully; one of size 1 leaves it as it is. With
    `unbatch_level`, the source is unbatched by so many levels before.

    A state holds no items, only the numbers of those in the buffer: on resuming they are read again.

    >>> dp = IterableWrapper(range(6)).shuffle().set_seed(1)
    >>> sorted(dp)
    [0, 1, 2, 3, 4, 5]
    """

    holds_items = False
    transient = ("_trail", "_held")

    def __init__(self, source: IterDataPipe[T], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size < 1:
            raise ValueError(f"buffer_size must be at least 1, and is {buffer_size}")
        self.source = source.unbatch(unbatch_level=unbatch_level) if unbatch_level else source
        self.buffer_size = buffer_size
        self._enabled = True

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Switch shuffling on or off from the next pass on."""
        self._enabled = shuffle
        return self

    def reset(self) -> None:
        self._trail: Trail[T] | None = None
        self._held: list[int] = []  # the numbers, in the trail, of the items in the buffer, slot by slot
        self._to_pull_again = 0
        self._handed_out_before = 0

    def snapshot(self) -> tuple[dict[str, Any], list[Node]]:
        if self._trail is None:
            return super().snapshot()
        node, skip = self._trail.way_back()
        start = self._oldest() - skip
        own = {
            "held": [number - start for number in self._held],
            "pulled": self._trail.pulled - start,
            "handed_out": self._handed_out_before + self._trail.pulled - len(self._held),
        }
        return own, [node]

    def set_state(self, state: dict[str, Any]) -> None:
        self._held = list(state["held"])
        self._to_pull_again = state["pulled"]
        self._handed_out_before = state["handed_out"] - (state["pulled"] - len(state["held"]))

    def __iter__(self) -> Iterator[T]:
        if not self._enabled:
            yield from self.source
            return
        held, size = self._held, self.buffer_size
        draws = uniform_draws(self.pass_seed, self._handed_out_before + self._to_pull_again - len(held))
        trail = self._trail = Trail(self.source, self._oldest, snapshot_every=max(size // 16, 1))
        source = iter(trail)
        buffer = self._read_again(source)
        for item in source:
            if len(buffer) < size:
                buffer.append(item)
                held.append(trail.pulled - 1)
                continue
            slot = int(next(draws) * size)
            drawn, buffer[slot], held[slot] = buffer[slot], item, trail.pulled - 1
            yield drawn
        while buffer:
            slot = int(next(draws) * len(buffer))
            buffer[slot], buffer[-1] = buffer[-1], buffer[slot]
            held[slot] = held[-1]
            held.pop()
            yield buffer.pop()

    def __len__(self) -> int:
        return len(self.source)

    def _oldest(self) -> int:
        return min(self._held, default=self._trail.pulled if self._trail is not None else 0)

    def _read_again(self, source: Iterator[T]) -> list[T]:
        """The buffer as it was when the state was taken, from the items that the source gives once more."""
        slots = {number: slot for slot, number in enumerate(self._held)}
        found = {
            slots[number]: item for number, item in enumerate(islice(source, self._to_pull_again)) if number in slots
        }
        if len(found) < len(slots):
            raise RuntimeError("the source gave fewer items than when the state was taken")
        return [found[slot] for slot in range(len(slots))]
