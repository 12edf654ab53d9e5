"""Passes over a complete chain, with a progress bar where someone watches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from ..pipes.bases.progress_bar import BAR_AFTER, is_watched, losses_and_waits, with_bar
from ..state.fields import Tally
from ..state.graph import DataPipe, walk

__all__ = ["count", "read_to_end", "take_all"]

T = TypeVar("T")


def take_all(dp: Iterable[T]) -> list[T]:
    """Return all items as a list. On a terminal or in a notebook, a progress bar appears after some seconds.

    >>> import penstock as ps
    >>> ps.iter.IterableWrapper("abc").take_all()
    ['a', 'b', 'c']
    """
    return [*read_to_end(dp, "take_all", Tally())]


def count(dp: DataPipe) -> int:
    """Return the number of items, by reading them all, with a progress bar as `take_all` has.

    After `ps.read_parquet` and its like the items are batches: `dp.rows().count()` counts the rows.

    >>> import penstock as ps
    >>> ps.iter.IterableWrapper(range(10)).filter(lambda x: x > 6).count()
    3
    """
    tally = Tally()
    deque(read_to_end(dp, "count", tally), maxlen=0)
    return tally.items


def read_to_end(pipe: Any, what: str, tally: Tally) -> Iterable[Any]:
    """Return the items of a chain, counted; a long pass has a progress bar, unless a step has one."""
    items = tally.follow(pipe)
    if not is_watched() or any(getattr(type(step), "shows_progress", False) for step in walk(pipe)):
        return items

    def notes(waiting: float | None) -> list[str]:
        return losses_and_waits(pipe.stats(), None)  # all of the time is spent waiting

    return with_bar(items, what, lambda: tally.items, pipe, notes=notes, after=BAR_AFTER)
