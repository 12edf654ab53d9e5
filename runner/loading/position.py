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

T = TypeVar("T")

_MARKS = 3
"""So many positions are kept: ranks that are interrupted may differ by an item in what they are done with."""


class Requests:
    """How many items a program has asked an iterator for, and the request after which it was interrupted."""

    __slots__ = ("__weakref__", "interrupted_at", "made")

    def __init__(self) -> None:
        self.made = 0
        self.interrupted_at: int | None = None

    def interrupt(self) -> None:
        """Record that the program was interrupted: it may not be done with the last item."""
        self.interrupted_at = self.made

    @property
    def is_interrupted(self) -> bool:
        """Whether the program was interrupted since the last request."""
        return self.interrupted_at == self.made

    @property
    def done(self) -> int:
        """The number of items that the program is done with: it has asked for the one after each."""
        return max(self.made - 1, 0)


class LoaderPosition:
    """The position where the next epoch begins, or in the present one, after the items handed out."""

    def __init__(self, loaded: Any = None, is_local: bool = False) -> None:
        self.loaded = loaded
        """The position in a loaded state, where the next epoch begins."""
        self.is_local = is_local
        """Whether that is this rank's own."""
        self.tally = Tally()
        """How many items of this epoch were handed out."""
        self.requests = Requests()
        self._marks: deque[tuple[int, dict[str, Any]]] = deque(maxlen=_MARKS)
        """Positions recorded now and then in this epoch, each with the number of items handed out by then."""
        self._began_at: Any = []
        """The steps of the state that this epoch resumed from."""

    def begun(self, read: IterDataPipe[Any], requests: Requests) -> LoaderPosition:
        """Return the position in an epoch that begins where the chain that is read will begin."""
        position, start = LoaderPosition(), _position_of(read)
        position.requests, position._began_at = requests, start["steps"]
        position._marks.append((-self.skip, start))
        return position

    @property
    def steps_at_start(self) -> Any:
        """The steps of the state that the epoch resumes from; empty if it begins afresh."""
        return self._began_at if self.loaded is None else self.loaded["steps"]

    @property
    def skip(self) -> int:
        """How many items to leave out at the beginning of the next epoch."""
        return 0 if self.loaded is None else self.loaded.get("skip", 0)

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

    @property
    def is_interrupted(self) -> bool:
        """Whether the program was interrupted since it asked for the last item."""
        return self.requests.is_interrupted and bool(self._marks)

    @property
    def done(self) -> int:
        """The number of items before the present position."""
        return self.requests.done if self.is_interrupted else self.tally.items

    def now(self, read: IterDataPipe[Any]) -> dict[str, Any]:
        """Return the present position: after an interrupt, that of the items that the program is done with."""
        if self.loaded is not None:
            return self.loaded  # type: ignore[no-any-return]
        if self.is_interrupted:
            return self.after(read, self.done)
        is_running = read._pass is not None and read._pass.is_running()  # in another thread
        return self.after(read, self.requests.done) if is_running else _position_of(read)

    def before_last(self, read: IterDataPipe[Any]) -> dict[str, Any]:
        """Return the position before the last item handed out."""
        if not self._marks or not self.tally.items:
            raise RuntimeError(
                "no item was yielded since the epoch began or was resumed: use state_dict() without before_last"
            )
        return self.after(read, self.tally.items - 1)

    def after(self, read: IterDataPipe[Any], items: int) -> dict[str, Any]:
        """Return the position after so many items of this epoch."""
        before, mark = [mark for mark in [*self._marks] if mark[0] <= items][-1]
        reader = reader_below(read)
        if before == items:
            return mark
        if reader is None:
            return {**mark, "skip": items - before}
        return {**mark, "steps": [reader.node_after(mark["steps"][-1] if mark["steps"] else {}, items - before)]}


def _position_of(read: IterDataPipe[Any]) -> dict[str, Any]:
    position = place_of(read)
    return {**position, "steps": steps_alone(read, position["steps"])}


def load_position(read: IterDataPipe[Any], position: Any) -> None:
    """Let the chain that is read begin at a position; raise if it cannot."""
    if isinstance(position, dict) and isinstance(position.get("steps"), (list, tuple)):
        position = {**position, "steps": steps_around(read, [*position["steps"]])}
        skip = position.pop("skip", 0)
        if type(skip) is not int or skip < 0:
            raise ValueError(f"a loader cannot leave out {skip!r:.60} items")
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
