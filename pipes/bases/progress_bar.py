"""Progress bars. A thread keeps them up to date, so that the work itself does no more than count."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import current_process, parent_process
from typing import TYPE_CHECKING, Any, TypeVar

import torch.distributed as dist

if TYPE_CHECKING:
    from tqdm import tqdm
T = TypeVar("T")

BAR_AFTER = 3.0
"""Seconds before a bar appears that nobody asked for."""
_BETWEEN_LOOKS = 0.05
"""Seconds between two looks at whether an item is being made."""
_LOOKS_PER_UPDATE = 4
_LOOKS_FOR_A_SHARE = 20
"""Fewer looks say nothing about the share of time spent waiting."""

_RATE = "{rate_noinv_fmt}{postfix}]"


def is_watched() -> bool:
    """Say whether a person may see a bar of this process, on a terminal or in a notebook.

    Workers and all ranks but the first leave it to others.
    """
    if current_process().daemon:
        return False
    if dist.is_available() and dist.is_initialized():
        if dist.get_rank() > 0:
            return False
    elif parent_process() is not None:
        return False
    return bool(sys.stderr and sys.stderr.isatty()) or is_notebook()


def is_notebook() -> bool:
    """Say whether this program is a notebook, which IPython in a terminal is not."""
    ipython = sys.modules.get("IPython")  # imported in every notebook, and slow to import elsewhere
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def known_length(sized: Any) -> int | None:
    """Return the length of a chain or loader; None where it has none, or where it fails: a bar does without."""
    try:
        return len(sized)
    except Exception:
        return None


def losses_and_waits(stats: Mapping[str, Mapping[str, Any]], waiting: float | None) -> list[str]:
    """Return as notes what `stats()` counts of items skipped and tried again, and the share of time spent waiting."""
    totals = {what: sum(counts.get(what, 0) for counts in stats.values()) for what in ("skipped", "retried")}
    losses = [f"{what} {number}" for what, number in totals.items() if number]
    return losses if waiting is None else [*losses, f"waiting for input {waiting:.0%}".replace("%", " %")]


@contextmanager
def progress_bar(
    what: str,
    count: Callable[[], int],
    *,
    total: int | None = None,
    unit: str = "items",
    notes: Callable[[float | None], list[str]] = lambda waiting: [],
    is_running: Callable[[], bool] = lambda: True,
    after: float = 0.0,
    leave: bool | None = False,
) -> Iterator[None]:
    """Show a bar until the block ends, where a person may see it.

    `count` returns how much is done; what it returns at first was done before. `notes` returns what else to show. It
    receives the share of time in which `is_running`, once that is known. A bar stops while nothing runs, since the
    program may write meanwhile. It appears `after` so many seconds. With `leave=None` it stays if no bar is around it.

    >>> with progress_bar("adding", lambda: 3):
    ...     sum(range(4))
    6
    """
    if not is_watched():
        yield
        return
    make = functools.partial(_make, what, count(), total, unit, leave)
    bar = None if after else make()  # here, so that nested bars are in order
    ended = threading.Event()
    arguments = (bar, make, count, notes, is_running, after, ended)
    thread = threading.Thread(target=_keep_up, args=arguments, name="penstock-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        # `is_running` holds the iterator for a moment, and may be the last to do so: then this is the bar's thread.
        # When the interpreter ends, the bar's thread may never run again.
        if thread is not threading.current_thread() and not sys.is_finalizing():
            thread.join()


def with_bar(items: Iterable[T], what: str, count: Callable[[], int], sized: Any, **options: Any) -> Iterator[T]:
    """Return an iterator over items; while they are read, a `progress_bar` has the length of `sized` as its total."""
    return _with_bar(items, what, count, sized, options) if is_watched() else iter(items)


def _with_bar(
    items: Iterable[T], what: str, count: Callable[[], int], sized: Any, options: dict[str, Any]
) -> Iterator[T]:
    with progress_bar(what, count, total=known_length(sized), **options):
        yield from items


@functools.cache
def _bar_class() -> type[tqdm[Any]]:
    from tqdm import TqdmWarning  # slow to import, and most processes have no bar

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TqdmWarning)  # in a notebook without widgets the bar is one of text
        from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]
        monitor_interval = 0  # without tqdm's own thread, which would outlast the bar

    return Bar


def _make(what: str, done: int, total: int | None, unit: str, leave: bool | None) -> tqdm[Any]:
    name = "{desc}: " if what else ""
    is_size = unit == "B"
    bar = _bar_class()(
        desc=what,
        initial=done,
        total=total,
        unit=unit if is_size else f" {unit}",
        unit_scale=is_size,
        bar_format=f"{name}{{n_fmt}}{{unit}} [{{elapsed}}, {_RATE}"
        if total is None
        else f"{{l_bar}}{{bar}}| {{n_fmt}}/{{total_fmt}} [{{elapsed}}<{{remaining}}, {_RATE}",
        miniters=0,  # each update is shown: the thread paces them
        mininterval=0,
        dynamic_ncols=True,
        leave=leave,
        disable=False,
    )
    if leave is None:
        bar.leave = bar.pos == 0  # tqdm decides so itself, but not in notebooks
    return bar


def _keep_up(
    made: tqdm[Any] | None,
    make: Callable[[], tqdm[Any]],
    count: Callable[[], int],
    notes: Callable[[float | None], list[str]],
    is_running: Callable[[], bool],
    after: float,
    ended: threading.Event,
) -> None:
    if after and ended.wait(after):
        return
    while after and not is_running():
        if ended.wait(_BETWEEN_LOOKS):
            return
    bar = make() if made is None else made
    bar.start_t -= after
    looks = busy_looks = busy_before = 0

    def update() -> None:
        share = busy_looks / looks if looks >= _LOOKS_FOR_A_SHARE else None
        bar.set_postfix_str(", ".join(notes(share)), refresh=False)
        bar.update(count() - bar.n)

    while not ended.wait(_BETWEEN_LOOKS):
        looks += 1
        busy_looks += is_running()
        if looks % _LOOKS_PER_UPDATE == 0 and (busy_looks > busy_before or count() != bar.n):
            busy_before = busy_looks
            update()
    update()
    bar.close()
