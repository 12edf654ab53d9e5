"""Items made into others by a function that is called on many of them at once."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, ClassVar, Protocol, TypeVar

from ...registry import (
    Guard,
    IterDataPipe,
    OnError,
    Provenance,
    Reading,
    expect_whole,
    functional_datapipe,
    own,
    provenance_of,
    say_where,
)
from ...registry.display import step
from ...registry.notes import add_note
from ...workers.threads import Arrivals, Interrupted, Outcome, Threads
from ..calls import Processes, is_made_once
from ..columns import Columns, check_function, replacing_columns
from .transform import one_output_col

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE_WITH_PROCESSES = 5.0
"""Seconds that a process may go on with an item that nobody waits for any more, before it is killed."""


class Workers(Protocol):
    """What works on items in the background, and puts what becomes of each into the queue of its operator."""

    def submit(self, number: int, item: Any) -> None: ...

    def stop(self) -> None: ...


class WorksAhead(IterDataPipe[R]):
    """The base of operators that have many items worked on at once, of which each becomes one other.

    The source is read in the thread of the consumer. Failures, the source's too, are raised in their turn, after the
    items before them.
    """

    holds_items = False
    ordered: bool = True
    source: IterDataPipe[Any]

    done: int = own(0, saved=False)
    """All items before this number are done with."""
    done_beyond: set[int] = own(set, save=sorted)
    """The numbers of the items after it that are done with."""
    _arrivals: Arrivals[Outcome] = own(Arrivals, saved=False)
    _provenance: Provenance | None = own(None, saved=False)

    def provenance(self) -> Provenance | None:
        return self._provenance if self._provenance is None else self._provenance.changed()

    def interrupt(self) -> None:
        super().interrupt()
        self._arrivals.put((None, None, Interrupted()))

    def __len__(self) -> int:
        if self.guard.skips:
            raise TypeError(f"{type(self).__name__} leaves out items that fail, so its length is not known")
        return len(self.source)

    def _results(self, workers_for: Callable[[Arrivals[Outcome]], Workers], room: int) -> Iterator[R]:
        """Yield what becomes of the items, of which the workers have no more at a time than there is room for."""
        self.done_beyond = {*self.done_beyond}
        items = self.read(self.source)
        self.done = items.first
        self._move_on()
        outcomes, failures = self._outcomes(), list[Exception]()
        under_way: dict[int, tuple[Any, Provenance | None]] = {}
        workers = workers_for(self._arrivals)
        try:
            for number, item in until_error(items, failures):
                if number < self.done or number in self.done_beyond:
                    continue
                under_way[number] = item, provenance_of(self.source)
                workers.submit(number, item)
                if len(under_way) == room:
                    yield from self._next(items, outcomes, under_way)
            while under_way:
                yield from self._next(items, outcomes, under_way)
        finally:
            self.guard.give_up()
            workers.stop()
        if failures:
            raise failures.pop()

    def _outcomes(self) -> Iterator[tuple[int, Any, BaseException | None]]:
        """Yield what becomes of the items, in the order in which they are to be handed out."""
        early: dict[int, tuple[int, Any, BaseException | None]] = {}
        while True:
            number, result, error = self._arrivals.get()
            if number is None:
                if isinstance(error, Exception):
                    add_note(error, f"penstock: raised in {step(self)}, before it was ready for items")
                raise error or Interrupted
            if not self.ordered:
                yield number, result, error
                continue
            early[number] = number, result, error
            while (outcome := early.pop(self.done, None)) is not None:
                yield outcome

    def _next(
        self,
        items: Reading[Any],
        outcomes: Iterator[tuple[int, Any, BaseException | None]],
        under_way: dict[int, tuple[Any, Provenance | None]],
    ) -> Iterator[R]:
        """Hand out the next result, if it is one to be handed out."""
        number, result, error = next(outcomes)
        item, provenance = under_way.pop(number)
        try:
            if isinstance(error, StopIteration):  # out of a generator it would come without a word on the item
                raise RuntimeError("a function raised StopIteration, which says nothing here") from error
            if error is not None:
                raise error
            kept = self.guard.keep(result)
        except Exception as raised:
            say_where(raised, self, item, provenance)  # the newest item of the source is another
            raise
        self.done_beyond.add(number)
        self._move_on()
        items.keep_from(self.done)
        if kept:
            self._provenance = provenance
            yield result

    def _move_on(self) -> None:
        while self.done in self.done_beyond:
            self.done_beyond.remove(self.done)
            self.done += 1


def until_error(items: Iterable[T], failures: list[Exception]) -> Iterator[T]:
    """Yield items up to an error, which is kept for later."""
    try:
        yield from items
    except Exception as error:
        failures.append(error)


@functional_datapipe("threadpool_map")
class ThreadPoolMapper(WorksAhead[Any]):
    """Yield `fn(item)` for each item, called by `max_workers` threads at once, in the order of the items.

    Threads gain time where `fn` waits, as for a network, or computes outside of Python, as when it decodes an image;
    elsewhere use `processpool_map`. Up to `scheduled_tasks` items are read ahead before the first result comes. With
    `ordered=False`, results come as they are ready; then a state holds which these were, and going on gives the others.

    `input_col` and `output_col` are as for `map`. `max_workers` is by default the number of processors and four more,
    but no more than 32. What else ThreadPoolExecutor takes may be given by name: `thread_name_prefix`, `initializer`
    and `initargs`. `on_error` is what becomes of an item for which `fn` raises.

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
