"""The iterator of a loader, which can be paused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self, TypeVar

from ...errors.notes import describe_item
from ...errors.tracebacks import fold_traceback
from ...registry import close, expect_whole
from .interrupts import install_handler
from .position import Requests

T = TypeVar("T")


class PauseIteration(StopIteration):
    """Raised by a paused loader iterator, such as at its limit; a `for` loop ends on it."""


class DataLoader2Iterator(Iterator[T]):
    """One epoch of a loader, as `iter()` returns it. After an interrupt, it reads on.

    Raises RuntimeError where it is asked for another item after an error.

    >>> import penstock as ps
    >>> iterator = iter(ps.DataLoader2(ps.iter.IterableWrapper(range(5))))
    >>> iterator.limit(2)
    >>> list(iterator)
    [0, 1]
    >>> iterator.resume()
    >>> list(iterator)
    [2, 3]
    """

    def __init__(self, begin: Callable[[Requests, int | None], Iterator[T]], iterator_id: int) -> None:
        self.iterator_id = iterator_id
        self._begin = begin
        self._requests = Requests()
        self._items = begin(self._requests, None)
        self._ended_in: str | None = None
        """The error in which it ended; empty for an interrupt."""
        self._limit: int | None = None
        self._left: int | None = None

    def __iter__(self) -> Self:
        install_handler()
        return self

    def __next__(self) -> T:
        if self._left == 0:
            raise PauseIteration("this iterator is paused: resume() continues it")
        if self._ended_in is not None:
            self._go_on()
        self._requests.made += 1
        try:  # an interrupt in here falls before the program has the item
            item = next(self._items)
            if self._left is not None:
                self._left -= 1
            return item
        except StopIteration:
            raise
        except BaseException as error:
            self._requests.interrupt()
            self._ended_in = "" if isinstance(error, KeyboardInterrupt) else describe_item(error)
            fold_traceback(error)
            raise

    def _go_on(self) -> None:
        """Read on after an interrupt; raise RuntimeError after an error."""
        if self._ended_in:
            raise RuntimeError(
                f"this iterator of a DataLoader2 ended in {self._ended_in}: after load_state_dict(state_dict()) the "
                "loader's next iterator begins at the item that failed, and on_error of the operator skips it"
            )
        requests = Requests()
        self._items = self._begin(requests, self.iterator_id)
        self._requests, self._ended_in = requests, None

    def limit(self, num_batches: int | None) -> None:
        """Pause after `num_batches` items, and again as many after each `resume()`; None sets no limit.

        A `for` loop over a paused iterator ends.
        """
        if num_batches is not None:
            expect_whole("num_batches", num_batches, least=0)
        self._limit = self._left = num_batches

    def pause(self) -> None:
        """Hand out nothing until `resume()`. Prefetched items are kept; prefetching stays within its limits."""
        self._left = 0

    def resume(self) -> None:
        """Continue, for as many items as the limit allows."""
        self._left = self._limit

    def close(self) -> None:
        """Abandon the epoch."""
        close(self._items)
