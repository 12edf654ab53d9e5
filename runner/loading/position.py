"""The position of a loader in its epoch, and the states that have it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

from ...registry import IterDataPipe, Tally, Throttle, load_place, place_of
from ...state.fields import NotPlain
from .merging import reader_below, steps_alone, steps_around

__all__ = ["LoaderPosition", "load_position", "one_line", "position_in"]

T = TypeVar("T")


class LoaderPosition:
    """The position where the next epoch begins, or in the present one, after the items handed out."""

    def __init__(self, loaded: Any = None, is_local: bool = False) -> None:
        self.loaded = loaded
        """The position in a loaded state, where the next epoch begins."""
        self.is_local = is_local
        """Whether that is this rank's own."""
        self.tally = Tally()
        """How many items of this epoch were handed out."""
        self._marks: deque[tuple[int, dict[str, Any]]] = deque(maxlen=2)
        """Positions recorded now and then in this epoch, each with the number of items handed out by then."""
        self._began_at: Any = []
        """The steps of the state that this epoch resumed from."""

    def begin(self, read: IterDataPipe[Any]) -> None:
        """Begin an epoch where the chain that is read will begin."""
        start = _position_of(read)
        self.tally, self._began_at = Tally(), start["steps"]
        self._marks = deque([(0, start)], maxlen=2)
        self.loaded = None

    def end(self) -> None:
        """End the epoch."""
        self._began_at = []
        self._marks.clear()

    @property
    def steps_at_start(self) -> Any:
        """The steps of the state that the epoch resumes from; empty if it begins afresh."""
        return self._began_at if self.loaded is None else self.loaded["steps"]

    def chunks(self, read: IterDataPipe[Any], items: Iterator[T]) -> Iterator[Iterator[T]]:
        """Yield the items in chunks; between these, the position is recorded as often as is cheap."""
        throttle = Throttle()
        while True:
            step = throttle.items_to_go
            expected = self.tally.items + step
            yield self.tally.follow(islice(items, step))
            if self.tally.items < expected:
                return
            if throttle.due(step):
                started = time.perf_counter()
                with suppress(NotPlain):
                    self._marks.append((self.tally.items, _position_of(read)))
                throttle.record(started)

    def items_before(self, read: IterDataPipe[Any]) -> int:
        """Return how many items were handed out before this epoch resumed; 0 if unknown."""
        reader = reader_below(read)
        if reader is not None and self._began_at:
            with suppress(Exception):  # such as a chain whose length is unknown
                return reader.items_before(self._began_at[-1])
        return 0

    def now(self, read: IterDataPipe[Any]) -> dict[str, Any]:
        """Return the present position."""
        return self.loaded or _position_of(read)

    def before_last(self, read: IterDataPipe[Any]) -> dict[str, Any]:
        """Return the position before the last item handed out."""
        reader = reader_below(read)
        if not self._marks or not self.tally.items:
            raise RuntimeError(
                "no item was yielded since the epoch began or was resumed: use state_dict() without before_last"
            )
        if reader is None:
            raise RuntimeError(
                "where the loader stood before its last item is known where nothing but fullsync, pin_memory and "
                "to_device comes after the workers: keep the state that you took before"
            )
        before = self.tally.items - 1
        items, mark = [mark for mark in self._marks if mark[0] <= before][-1]
        return {**mark, "steps": [reader.node_after(mark["steps"][-1] if mark["steps"] else {}, before - items)]}


def _position_of(read: IterDataPipe[Any]) -> dict[str, Any]:
    position = place_of(read)
    return {**position, "steps": steps_alone(read, position["steps"])}


def load_position(read: IterDataPipe[Any], position: Any) -> None:
    """Let the chain that is read begin at a position; raise if it cannot."""
    if isinstance(position, dict) and isinstance(position.get("steps"), (list, tuple)):
        position = {**position, "steps": steps_around(read, [*position["steps"]])}
    load_place(read, position)


def position_in(state: dict[str, Any], rank_here: list[Any] | None) -> Any:
    """Return the position in a state; ValueError unless it is of all ranks, or of the rank here."""
    of_rank, position = state["rank"], state["state"]
    if of_rank is None:
        return position
    if not (isinstance(of_rank, list) and len(of_rank) == 3):
        raise ValueError(f"a state is of no rank, or of one of several, and not of {of_rank!r:.60}")
    here, ranks, _ = rank_here or [None, 1, False]
    part, parts, is_bound = of_rank
    is_begun = isinstance(position, dict) and position.get("steps")
    if is_begun and not (parts == ranks and (part == here or is_bound is True)):
        raise ValueError(
            f"the state is that of {_name_of_rank(part, parts)}, and this loader's would be that of "
            f"{_name_of_rank(here, ranks)}: "
            + (
                "a sharding_filter for ranks resumes only on the same number of ranks"
                if is_bound is True
                else "give every rank the state of all, which state_dict() or merge_state_dicts() returns"
            )
        )
    return position


def one_line(shape: Any) -> str:
    """Return the shape of a chain on one line."""
    return " ← ".join(str(line).strip() for line in shape) if isinstance(shape, list) else repr(shape)[:200]


def _name_of_rank(rank: Any, ranks: Any) -> str:
    return f"rank {rank} of {ranks}" if rank is not None else f"{ranks} ranks" if ranks != 1 else "no rank"
