"""Items made into others by a function that is called on many of them at once."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar, TypeVar

from ...registry import (
    Guard,
    IterDataPipe,
    OnError,
    expect_whole,
    functional_datapipe,
)
from ...workers.calls import Processes, is_made_once
from ...workers.threads import Arrivals, Outcome, Threads
from ..bases.input_columns import Columns, check_function, one_output_col, replacing_columns
from ..bases.works_ahead import WorksAhead

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE_WITH_PROCESSES = 5.0
"""Seconds that a process may go on with an item that nobody waits for any more, before it is killed."""


@functional_datapipe("threadpool_map")
class ThreadPoolMapper(WorksAhead[Any]):
    """Yield `fn(item)` for each item, called by `max_workers` threads at once, in the order of the items.

    Threads gain time where `fn` waits, as for a network, or computes outside of Python, as when it decodes an image;
    elsewhere use `processpool_map`. Up to `scheduled_tasks` items are read ahead before the first result comes. With
    `ordered=False`, results come as they are ready; then a state holds which these were, and going on gives the others.

    `input_col` and `output_col` are as for `map`. `max_workers` is by default the number of processors and four more,
    but no more than 32. What else ThreadPoolExecutor takes may be given by name: `thread_name_prefix`, `initializer`
    and `initargs`. `on_error` handles an item for which `fn` raises.

    The threads start with the first item and end with the pass. Closing drops what has not begun and waits for what
    has; RuntimeError is raised where that takes longer than half a minute.

    >>> dp = IterableWrapper(range(4)).threadpool_map(lambda x: x * 10, max_workers=2)
    >>> list(dp)
    [0, 10, 20, 30]
    """

    holds_items = False
    gives = "same"

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Columns | None = None,
        output_col: Hashable | list[Hashable] | None = None,
        scheduled_tasks: int = 128,
        max_workers: int | None = None,
        *,
        ordered: bool = True,
        on_error: OnError = "raise",
        **threadpool_kwargs: Any,
    ) -> None:
        check_function("fn", fn, input_col)
        expect_whole("scheduled_tasks", scheduled_tasks)
        if max_workers is not None:
            expect_whole("max_workers", max_workers)
        if unknown := threadpool_kwargs.keys() - {"thread_name_prefix", "initializer", "initargs"}:
            raise TypeError(f"threadpool_map has no parameter {', '.join(map(repr, sorted(unknown)))}")
        self.source = source
        self.fn = fn
        self.input_col = input_col
        self.output_col = one_output_col(input_col, output_col)
        self.scheduled_tasks = scheduled_tasks
        self.max_workers = max_workers
        self.ordered = ordered
        self.on_error = on_error
        self.guard = Guard(on_error)
        self.threadpool_kwargs = threadpool_kwargs

    def __iter__(self) -> Iterator[Any]:
        most = self.max_workers or min(32, (os.cpu_count() or 1) + 4)
        name = self.threadpool_kwargs.get("thread_name_prefix", "penstock-threadpool")
        return self._results(lambda arrivals: Threads(self._in_thread, arrivals, most, name), self.scheduled_tasks)

    def _in_thread(self) -> Callable[[Any], Any]:
        initializer = self.threadpool_kwargs.get("initializer")
        if initializer is not None:
            initializer(*self.threadpool_kwargs.get("initargs", ()))
        return self.guard.wrap(replacing_columns(self.fn, self.input_col, self.output_col))


@functional_datapipe("processpool_map")
class ProcessPoolMapper(WorksAhead[Any]):
    """Yield `fn(item)` for each item, called in `max_workers` processes at once, in the order of the items.

    That is for functions that compute in Python. Items and results are pickled, which takes its time with many small
    objects; the memory of tensors and arrays is copied once on each way, to memory that both processes share. It is
    used again when nobody has those tensors any more, so results are the consumer's, to keep and to write to. Where
    `fn` is a class whose instances can be called, or a `functools.partial` of one, each process makes it once and calls
    its instance: so a model is loaded once for each process. `fn` travels by cloudpickle, so it may be a lambda or come
    from a notebook; scripts need no `if __name__ == "__main__"`.

    `max_workers` is by default the number of processors. `scheduled_tasks`, `ordered`, `input_col`, `output_col` and
    `on_error` are as for `threadpool_map`; attempts and skipped items are counted in this process.

    The processes start with the first item, and live until the pipe is collected or the program ends, so that the next
    pass finds them ready. One that is still at work 5 seconds after its pass was given up is killed. In each, torch has
    one thread, and random numbers begin anew. In the workers of a loader, each shard has processes of its own: divide
    `max_workers` by their number, or let the loader's workers do the work with `map`.

    Raises RuntimeError where a process ends while `fn` is in it, and says how and on which item; for `on_error`, that
    is an item's failure as any other, and the next item goes to a new process. Errors that cannot be pickled come as
    RuntimeError with their text. Raises what pickle raises where `fn` or an item cannot be pickled.

    >>> dp = IterableWrapper(range(4)).processpool_map(lambda x: x * 10, max_workers=1)
    >>> list(dp)
    [0, 10, 20, 30]
    """

    holds_items = False
    gives = "same"
    transient: ClassVar[tuple[str, ...]] = ("_processes",)
    _processes: Processes | None = None

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        max_workers: int | None = None,
        *,
        input_col: Columns | None = None,
        output_col: Hashable | list[Hashable] | None = None,
        scheduled_tasks: int = 128,
        ordered: bool = True,
        on_error: OnError = "raise",
    ) -> None:
        if not is_made_once(fn):  # how instances are to be called is known when there are some
            check_function("fn", fn, input_col)
        if max_workers is not None:
            expect_whole("max_workers", max_workers)
        expect_whole("scheduled_tasks", scheduled_tasks)
        self.source = source
        self.fn = fn
        self.max_workers = max_workers
        self.input_col = input_col
        self.output_col = one_output_col(input_col, output_col)
        self.scheduled_tasks = scheduled_tasks
        self.ordered = ordered
        self.on_error = on_error
        self.guard = Guard(on_error)

    def __iter__(self) -> Iterator[Any]:
        most = self.max_workers or _processors()
        if self._processes is None or not self._processes.are_ours():
            self._processes = Processes(self.fn, most)
            weakref.finalize(self, self._processes.close)
        processes = self._processes
        processes.begin()

        def in_thread() -> Callable[[Any], Any]:
            return self.guard.wrap(replacing_columns(processes.take().call, self.input_col, self.output_col))

        def threads(arrivals: Arrivals[Outcome]) -> Threads:
            name = "penstock-processpool"
            return Threads(in_thread, arrivals, most, name, _PATIENCE_WITH_PROCESSES, processes.kill_busy)

        return self._results(threads, self.scheduled_tasks)


def _processors() -> int:
    """The number of processors that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
