"""Call a function on many items in parallel."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any, ClassVar, Literal

from ...errors.checks import AUTO
from ...errors.hints import did_you_mean
from ...registry import (
    IterDataPipe,
    OnError,
    expect_whole,
    functional_datapipe,
)
from ...workers.calls import Processes, is_made_once
from ...workers.event_loop import EventLoop
from ...workers.processes import processors
from ...workers.threads import Pool, Threads
from ..bases.ahead.tuning import DERIVED, MOST_THREADS
from ..bases.ahead.works_ahead import WorksAhead
from ..bases.input_columns import Columns, check_function, one_output_col, replacing_columns, taking_columns

_OF_EXECUTORS = ["thread_name_prefix", "initializer", "initargs"]
"""What `threadpool_map` takes of the arguments of `concurrent.futures.ThreadPoolExecutor`."""


@functional_datapipe("threadpool_map")
class ThreadPoolMapper(WorksAhead[Any]):
    """Yield `fn(item)` for each item, called by `max_workers` threads at once, in the order of the items.

    Threads help where `fn` waits, as for a network, or releases the GIL, as in decoding an image; otherwise use
    `processpool_map`. Up to `scheduled_tasks` items are read ahead. With `ordered=False`, results come as they are
    ready; a state then lists the finished ones, and resuming gives the others.

    `input_col` and `output_col` are as for `map`. `max_workers` is by default the number of processors plus 4, at most
    32. With "auto", `max_workers` and `scheduled_tasks` are found by measuring, up to 32 threads and within a tenth of
    the free memory; `stats()` has what was found. Other arguments of ThreadPoolExecutor may be given by name:
    `thread_name_prefix`, `initializer` and `initargs`. `on_error` handles an item for which `fn` raises.

    The threads start at the first item and end with the pass. Closing drops calls that have not begun and waits for the
    others. It raises RuntimeError where that takes longer than half a minute.

    >>> dp = IterableWrapper(range(4)).threadpool_map(lambda x: x * 10, max_workers=2)
    >>> list(dp)
    [0, 10, 20, 30]
    """

    traits = ("expensive",)
    buffers = ("scheduled_tasks",)
    resumes_from_start = False
    gives = "same"
    works_in = "threads"

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Columns | None = None,
        output_col: Hashable | list[Hashable] | None = None,
        scheduled_tasks: int | Literal["auto"] = 128,
        max_workers: int | Literal["auto"] | None = None,
        *,
        ordered: bool = True,
        on_error: OnError = "raise",
        **threadpool_kwargs: Any,
    ) -> None:
        check_function("fn", fn, input_col)
        expect_whole("scheduled_tasks", scheduled_tasks, or_word=AUTO)
        expect_whole("max_workers", max_workers, or_word=AUTO, optional=True)
        if unknown := sorted(threadpool_kwargs.keys() - {*_OF_EXECUTORS}):
            known = [*inspect.signature(type(self)).parameters][1:-1] + _OF_EXECUTORS
            raise TypeError(
                f"threadpool_map has no parameter {', '.join(map(repr, unknown))}: it takes {', '.join(known)}"
                + did_you_mean(unknown[0], known)
            )
        self.source = source
        self.fn = fn
        self.input_col = input_col
        self.output_col = one_output_col(input_col, output_col)
        self.scheduled_tasks = scheduled_tasks
        self.max_workers = max_workers
        self.ordered = ordered
        self.handle_errors(on_error)
        self.threadpool_kwargs = threadpool_kwargs
        most = max_workers or _usual_threads()
        self._set_concurrency(("max_workers", most, MOST_THREADS), ("scheduled_tasks", scheduled_tasks))

    def __iter__(self) -> Iterator[Any]:
        name = self.threadpool_kwargs.get("thread_name_prefix", "penstock-threadpool")
        most = self._at_once.value if self.max_workers else _usual_threads()  # of this machine
        return self._results(Threads(self._in_thread, most, name))

    def _in_thread(self) -> Callable[[Any], Any]:
        initializer = self.threadpool_kwargs.get("initializer")
        if initializer is not None:
            initializer(*self.threadpool_kwargs.get("initargs", ()))
        return self.error_policy.wrap(replacing_columns(self.fn, self.input_col, self.output_col))


def _usual_threads() -> int:
    return min(32, (os.cpu_count() or 1) + 4)


@functional_datapipe("processpool_map")
class ProcessPoolMapper(WorksAhead[Any]):
    """Yield `fn(item)` for each item, called in `workers` processes at once, in the order of the items.

    Take it for functions that compute in Python. Items and results are pickled, which is slow for many small objects.
    Tensors and arrays are copied once in each direction, into shared memory. That memory is reused only after the
    tensors are dropped, so results may be kept and written to. Where `fn` is a class with callable instances, or a
    `functools.partial` of one, each process makes one instance and calls it: a model is loaded once per process. `fn`
    is pickled by cloudpickle, so it may be a lambda or come from a notebook. Scripts need no `if __name__ ==
    "__main__"`.

    `workers` is by default the number of processors. Up to `prefetch` items are read ahead. With "auto", both are found
    by measuring, up to the number of processors and within a tenth of the free memory. `ordered`, `input_col`,
    `output_col` and `on_error` are as for `threadpool_map`; attempts and skipped items are counted in this process.

    The processes start at the first item and live until the pipe is collected or the program ends, so the next pass can
    use them. A process that is busy 5 seconds after its pass was given up is killed. In each process, torch has one
    thread, and random generators are reseeded. In the workers of a loader, each shard has its own processes: divide
    `workers` by the number of workers, or use `map` in them.

    Raises RuntimeError, with the cause and the item, where a process dies during a call. `on_error` handles this as any
    failure of an item, and a new process takes the next item. Errors that cannot be pickled become a RuntimeError with
    their text. Raises the errors of pickle where `fn` or an item cannot be pickled.

    >>> dp = IterableWrapper(range(4)).processpool_map(lambda x: x * 10, workers=1)
    >>> list(dp)
    [0, 10, 20, 30]
    """

    traits = ("expensive",)
    buffers = ("prefetch",)
    resumes_from_start = False
    gives = "same"
    works_in = "processes"
    broken_laws = {"abandoned_pass_closes_its_files": "its processes wait for the next pass, with open connections"}
    transient: ClassVar[tuple[str, ...]] = ("_pool",)
    _pool: Pool | None = None
    _called = "fn"
    """The argument that the processes call."""
    _are_threads = False
    """Whether the workers are threads of this process, which may hinder one another."""

    def __init__(
        self,
        source: IterDataPipe[Any],
        fn: Callable[..., Any],
        *,
        input_col: Columns | None = None,
        output_col: Hashable | list[Hashable] | None = None,
        workers: int | Literal["auto"] | None = None,
        prefetch: int | Literal["auto"] = 128,
        ordered: bool = True,
        on_error: OnError = "raise",
    ) -> None:
        if not is_made_once(fn):  # the signature of instances is checked once they exist
            check_function("fn", fn, input_col)
        expect_whole("workers", workers, or_word=AUTO, optional=True)
        expect_whole("prefetch", prefetch, or_word=AUTO)
        self.source = source
        self.fn = fn
        self.input_col = input_col
        self.output_col = one_output_col(input_col, output_col)
        self.workers = workers
        self._prefetch = prefetch
        self.ordered = ordered
        self.handle_errors(on_error)
        self._set_concurrency(
            ("workers", workers or processors(), MOST_THREADS if self._are_threads else processors()),
            ("prefetch", prefetch),
            may_shrink=self._are_threads,
        )

    def __iter__(self) -> Iterator[Any]:
        if self._pool is None or not self._pool.are_ours():
            self._pool = self._new_pool()
            weakref.finalize(self, self._pool.close)
        most = self._at_once.value if self.workers else processors()  # of this machine
        return self._results(self._pool.threads(self._guarded, most))

    def _new_pool(self) -> Pool:
        return Processes(
            self.fn, self._at_once.most if self.workers else processors(), f"{self._called} of {self.functional_name}"
        )

    def _guarded(self, call: Callable[..., Any]) -> Callable[[Any], Any]:
        return self.error_policy.wrap(replacing_columns(call, self.input_col, self.output_col))


@functional_datapipe("async_map_batches")
class BatchAsyncMapper(WorksAhead[Any]):
    """Yield what `await async_fn(item)` gives for each item, in order; many are awaited at once.

    Take it for coroutines, such as requests to a server. Up to `batch_size` items are read ahead, and `max_concurrency`
    of them are awaited at a time. Each pass has an event loop in its own thread, so this works in notebooks, where a
    loop already runs. With `flatten=False`, lists of `batch_size` results are yielded; the last may be short.

    `input_col` and `output_col` are as for `map`. `on_error` handles an item for which `async_fn` raises. Closing
    cancels the calls in progress. It raises RuntimeError for a call that has not ended half a minute later.

    >>> async def load(number):
    ...     await asyncio.sleep(0.01)
    ...     return number * 10
    >>> import asyncio
    >>> dp = IterableWrapper(range(5)).async_map_batches(load, batch_size=3)
    >>> list(dp)
    [0, 10, 20, 30, 40]
    """

    traits = ("expensive",)
    works_in = "a thread"
    buffers = ("batch_size",)
    resumes_from_start = False

    def __init__(
        self,
        source: IterDataPipe[Any],
        async_fn: Callable[..., Awaitable[Any]],
        batch_size: int,
        input_col: Columns | None = None,
        output_col: Hashable | list[Hashable] | None = None,
        max_concurrency: int = 32,
        flatten: bool = True,
        *,
        on_error: OnError = "raise",
    ) -> None:
        check_function("async_fn", async_fn, input_col)
        expect_whole("batch_size", batch_size)
        expect_whole("max_concurrency", max_concurrency)
        self.source = source
        self.async_fn = async_fn
        self.batch_size = batch_size
        self.input_col = input_col
        self.output_col = one_output_col(input_col, output_col)
        self.max_concurrency = max_concurrency
        self._set_concurrency(("max_concurrency", max_concurrency, max_concurrency), (DERIVED, batch_size))
        self._flatten = flatten  # `flatten` would hide the method of that name
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[Any]:
        function = self.async_fn if self.input_col is None else self._of_columns
        results: Any = self._results(EventLoop(function, self.error_policy, self.max_concurrency))
        return results if self._flatten else self._in_batches(results)

    def __len__(self) -> int:
        items = super().__len__()
        return items if self._flatten else -(-items // self.batch_size)

    def _in_batches(self, results: Any) -> Iterator[list[Any]]:
        with closing(results):
            while batch := list(islice(results, self.batch_size)):
                yield batch

    async def _of_columns(self, item: Any) -> Any:
        result = await taking_columns(self.async_fn, self.input_col)(item)
        return replacing_columns(lambda *_: result, self.input_col, self.output_col)(item)
