"""A thread that reads a source ahead of its consumer."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TypeVar

from ....errors.observer import acquire, here
from ....registry import IterDataPipe, MapDataPipe, walk
from ....state.graph import is_one_of_several
from ....workers.threads import PATIENCE, Arrivals, join

T = TypeVar("T")


_END_OF_SOURCE = object()


class ReadingThread:
    """A thread that reads closable items into a buffer of `room` items."""

    def __init__(self, items: Any, source: IterDataPipe[Any], room: int) -> None:
        self._items = items
        self._source = source
        self._places = room
        self._room = threading.Semaphore(room)
        self._taken_back = 0
        """How many places to withdraw once their items are taken."""
        self.blocked = 0.0
        """Seconds that the thread has waited for room."""
        self._buffer: Arrivals[Any] = Arrivals()
        self._stopped = self._is_at_end = False
        self._error: BaseException | None = None
        self._observer = here.observer
        if self._observer is not None:
            self._observer.reads_ahead, self._observer.capacity = True, room
        self._thread = threading.Thread(target=self._read, name="penstock-prefetch", daemon=True)
        atexit.register(self.stop)  # a thread inside torch may abort the interpreter at exit
        self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        while (item := self._buffer.get()) is not _END_OF_SOURCE:
            if self._taken_back:
                self._taken_back -= 1
            else:
                self._room.release()
            yield item
        self._is_at_end = True
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback leads back to this frame, a cycle that would keep items

    def resize(self, room: int) -> None:
        """Read up to `room` items ahead from now on; called by the consumer."""
        more = room - self._places - self._taken_back
        self._places, self._taken_back = room, max(-more, 0)
        if more > 0:
            self._room.release(more)

    def stop(self) -> None:
        """Stop the thread, and wait until it has closed the source."""
        if self._stopped:
            return
        self._stopped = True
        self._room.release()
        atexit.unregister(self.stop)
        if self._thread is threading.current_thread() or sys.is_finalizing():
            return  # garbage-collected in the thread itself, or ended by the interpreter: nothing to wait for
        # Others may still read what is behind a branch, and an exhausted source may be read again.
        for pipe in () if self._is_at_end else walk(self._source, stop=is_one_of_several):
            if isinstance(pipe, (IterDataPipe, MapDataPipe)):
                pipe.interrupt()
        if not join([self._thread], PATIENCE):
            raise RuntimeError(
                f"the source gave no item and did not end for {PATIENCE} s after prefetching was stopped"
            )

    def _read(self) -> None:
        if self._observer is not None:
            here.observer = self._observer.worker()
        try:
            for item in self._items:
                if not self._room.acquire(blocking=False):
                    began = time.perf_counter()
                    acquire(self._room)
                    self.blocked += time.perf_counter() - began
                if self._stopped:
                    break
                self._buffer.put(item)
        except BaseException as error:
            if not self._stopped:  # otherwise nobody asks for it, and the items in its frames would be kept
                self._error = error
        finally:
            self._items.close()
            self._buffer.put(_END_OF_SOURCE)
