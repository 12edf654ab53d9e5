"""Makes the outputs of items in threads, before they are wanted, for several items at once."""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ..errors.closing import close
from ..errors.observer import acquire
from .threads import Arrivals, Interrupted, Outcome, Threads

__all__ = ["Flows"]

K = TypeVar("K")
T = TypeVar("T")

_END_OF_FLOW = object()


class _Flow(Generic[K]):
    """The outputs of one item; one is made before it is wanted."""

    def __init__(self, number: int, item: K) -> None:
        self.number = number
        self.item = item
        self.room = threading.Semaphore(1)
        self.wanted = True
        self.arrived: deque[tuple[Any, BaseException | None]] = deque()

    def __repr__(self) -> str:
        return repr(self.item)

    def drop(self) -> None:
        self.wanted = False
        self.room.release()


class Flows(Generic[K, T]):
    """Call a function that gives many outputs for an item, on up to `at_once` items at a time, each in a thread.

    For items not being read, one output is buffered. While an output of the item being read is in use, the next is
    made. `give_up` is called when no more are wanted; it should end what waits for something outside.
    """

    def __init__(
        self, outputs_of: Callable[[K], Iterator[T]], at_once: int, name: str, give_up: Callable[[], object]
    ) -> None:
        self._outputs_of = outputs_of
        self._at_once = at_once
        self._give_up = give_up
        self._arrivals: Arrivals[Outcome] = Arrivals()
        self._threads = Threads(lambda: self._make, self._arrivals, at_once, name)
        self._under_way: deque[_Flow[K]] = deque()
        self._flows: dict[int, _Flow[K]] = {}

    def read(self, items: Iterable[K]) -> Iterator[tuple[K, Iterator[T]]]:
        """Yield each item with its outputs, in order; the next step drops outputs that were not taken."""
        for number, item in enumerate(items):
            flow = self._flows[number] = _Flow(number, item)
            self._under_way.append(flow)
            self._threads.submit(number, flow)
            if number == 0:  # after theirs, so it runs first at interpreter exit
                atexit.register(self.stop)
            if len(self._under_way) == self._at_once:
                yield from self._oldest()
        while self._under_way:
            yield from self._oldest()

    def interrupt(self) -> None:
        """Make a wait for an output raise an error; called by another thread."""
        self._arrivals.put((None, None, Interrupted()))

    def stop(self) -> None:
        """Drop what was not read, and wait for what is being made; RuntimeError if that does not end."""
        atexit.unregister(self.stop)
        for flow in self._under_way:
            flow.drop()
        self._give_up()
        self._threads.stop()

    def _oldest(self) -> Iterator[tuple[K, Iterator[T]]]:
        flow = self._under_way[0]
        try:
            yield flow.item, self._outputs(flow)
        finally:
            flow.drop()
        self._under_way.popleft()
        del self._flows[flow.number]

    def _outputs(self, flow: _Flow[K]) -> Iterator[T]:
        while True:
            while not flow.arrived:
                number, output, error = self._arrivals.get()
                if number is None:
                    raise error or Interrupted
                if (arrived := self._flows.get(number)) is not None:
                    arrived.arrived.append((output, error))
            output, error = flow.arrived.popleft()
            if error is not None:
                raise error
            if output is _END_OF_FLOW:
                return
            flow.room.release()
            yield output

    def _make(self, flow: _Flow[K]) -> object:
        """Put an item's outputs into the queue one by one, each when there is room."""
        outputs = self._outputs_of(flow.item)
        try:
            acquire(flow.room)
            while flow.wanted and (output := next(outputs, _END_OF_FLOW)) is not _END_OF_FLOW:
                self._arrivals.put((flow.number, output, None))
                del output
                acquire(flow.room)
        finally:
            close(outputs)
        return _END_OF_FLOW
