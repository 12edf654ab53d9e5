"""An event loop in its own thread, which awaits many calls at once."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ..errors.notes import describe_item
from ..errors.policy import ErrorPolicy
from .threads import PATIENCE, Arrivals, Outcome, join


class EventLoop:
    """An event loop in its own thread that awaits a function of items, at most `most` at a time.

    It starts with the first item, and puts each result into the queue `arrivals`. The loop of the program itself may be
    running, as in a notebook.
    """

    def __init__(self, function: Callable[[Any], Awaitable[Any]], policy: ErrorPolicy, most: int) -> None:
        self._function = function
        self._guarded_function = function if policy.raises else self._guarded
        self._policy = policy
        self.arrivals: Arrivals[Outcome] = Arrivals()
        self._gate = asyncio.Semaphore(most)
        self._over = asyncio.Event()
        self._submitted: deque[tuple[int, Any]] = deque()
        self._is_woken = False
        self._tasks: dict[int, tuple[asyncio.Task[None], Any]] = {}
        self._loop: Any = None
        self._thread = threading.Thread(target=self._run, name="penstock-async", daemon=True)

    def submit(self, number: int, item: Any) -> None:
        """Await an item as soon as there is room for it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            atexit.register(self.stop)
            self._thread.start()
        self._submitted.append((number, item))
        if not self._is_woken:  # one wake-up for all items until the loop looks: wake-ups are the main cost
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._begin)

    def stop(self) -> None:
        """Cancel the calls in progress and wait for their end; raise RuntimeError where one does not end."""
        if self._loop is None:
            return
        atexit.unregister(self.stop)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._over.set)
        if not join([self._thread], PATIENCE):
            items = ", ".join(describe_item(item) for _, item in [*self._tasks.values()])
            raise RuntimeError(f"not done {PATIENCE} s after it was cancelled: {items}")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_over())

    async def _until_over(self) -> None:
        await self._over.wait()  # the runner cancels what is left

    def _begin(self) -> None:
        self._is_woken = False  # before it looks: items that come meanwhile need another wake-up
        while self._submitted:
            number, item = self._submitted.popleft()
            self._tasks[number] = self._loop.create_task(self._work(number, item)), item

    async def _work(self, number: int, item: Any) -> None:
        async with self._gate:
            try:
                outcome: Outcome = (number, await self._guarded_function(item), None)
            except asyncio.CancelledError as error:  # by the function itself, or by stop, when nobody reads it
                cancelled = RuntimeError("async_fn was cancelled")
                cancelled.__cause__ = error
                outcome = (number, None, cancelled)
            except BaseException as error:
                outcome = (number, None, error)
        del self._tasks[number]
        self.arrivals.put(outcome)

    async def _guarded(self, item: Any) -> Any:
        try:
            return await self._function(item)
        except Exception as error:
            failures = [error]

        def attempt(item: Any) -> Any:
            if failures:  # the first attempt has been made
                raise failures.pop()
            return asyncio.run_coroutine_threadsafe(self._call(item), self._loop).result()

        # In a thread, since retrying sleeps between attempts.
        return await asyncio.to_thread(self._policy.wrap(attempt), item)

    async def _call(self, item: Any) -> Any:
        return await self._function(item)  # which may return an awaitable that is no coroutine
