"""Reading a chain: its first items, all of them, and the counts of its last pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeVar

from ..errors.checks import expect_whole
from ..pipes.bases.progress_bar import BAR_AFTER, is_watched, losses_and_waits, with_bar
from ..registry import IterDataPipe, MapDataPipe
from ..state.copying import copy_to_look_at
from ..state.fields import Tally
from ..state.foreign import declared
from ..state.graph import DataPipe, walk
from ..state.seeds import generators_kept

T = TypeVar("T")


def take(dp: Iterable[T], n: int) -> list[T]:
    """Return the first `n` items.

    >>> import penstock as ps
    >>> ps.iter.IterableWrapper(range(10)).take(3)
    [0, 1, 2]
    """
    expect_whole("n", n, least=0)
    return list(islice(dp, n))


def peek(dp: Iterable[T], n: int = 1) -> list[T]:
    """Return the first `n` items, read from a copy, so a current pass over the pipe goes on.

    The copy shares what is no part of the chain's graph, such as another chain in a closure.
    Raises TypeError if the chain reads an iterator, such as a generator, which can be read only once.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(range(10))
    >>> iterator = iter(dp)
    >>> next(iterator), dp.peek(2), next(iterator)
    (0, [0, 1], 1)
    """
    with generators_kept():
        return take(copy_to_look_at(dp), n)


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
    if not is_watched() or any(declared(step, "shows_progress", False) for step in walk(pipe)):
        return items

    def notes(waiting: float | None) -> list[str]:
        return losses_and_waits(pipe.stats(), None)  # all of the time is spent waiting

    return with_bar(items, what, lambda: tally.items, pipe, notes=notes, after=BAR_AFTER)


def stats(dp: DataPipe) -> dict[str, dict[str, Any]]:
    """Return, by their names, the counts of the steps that skip or retry, for the last pass.

    Each step has the number of items `skipped`, the number of attempts `retried`, and the `last_errors`. A step
    with an argument "auto" has `tuned`, what was found for it: a list with a text for each chain that was read.
    Steps of the same name are numbered from the source on, as in `"map 1"`.

    >>> import penstock as ps
    >>> dp = ps.iter.IterableWrapper(["1", "x", "3"]).map(int, on_error="skip")
    >>> list(dp)
    [1, 3]
    >>> dp.stats()["map"]["skipped"], dp.stats()["map"]["last_errors"]
    (1, ["ValueError: invalid literal for int() with base 10: 'x', on 'x'"])
    """
    steps: Any = walk(dp)
    guarded = [
        pipe
        for pipe in steps
        if isinstance(pipe, (IterDataPipe, MapDataPipe)) and (pipe.error_policy.has_counts or pipe.tuned)
    ]
    names = [pipe.functional_name or type(pipe).__name__ for pipe in guarded]
    counts = {}
    for place, (name, pipe) in enumerate(zip(names, guarded, strict=True)):
        number = f" {names[place:].count(name)}" if names.count(name) > 1 else ""
        tuned = {} if pipe.tuned is None else {"tuned": [pipe.tuned]}
        counts[name + number] = {**pipe.error_policy.stats, **tuned}
    return counts
