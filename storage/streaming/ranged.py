"""Objects read by ranges, with prefetching of the next ranges."""

from __future__ import annotations

import errno
import io
import os
from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Protocol

from ...errors.observer import count_bytes
from ...errors.secrets import stream_name
from ...workers.threads import Interrupted, Threads

PART = 4 * 2**20
"""Bytes per request in a long sequential read."""

AHEAD = 4
"""Most ranges to prefetch."""

AT_START, ELSEWHERE = 2**20, 2**16
"""Bytes of the first range: reads at the start mostly continue, reads elsewhere are mostly short."""


class Fetch(Protocol):
    """Fetch the bytes `start` to `end - 1` of an object; called by several threads."""

    def __call__(self, start: int, end: int) -> Any: ...

    @property
    def has_no_ranges(self) -> bool:
        """Say whether the server has answered a request for a range with the whole object."""

    def give_up(self) -> None:
        """Stop retrying, and end a wait before a retry."""


@dataclass(eq=False)
class _Range:
    """A requested part of an object."""

    start: int
    end: int
    content: memoryview | None = None
    error: BaseException | None = None
    wanted: bool = True


class Ranged(io.RawIOBase):
    """The bytes of an object, fetched by ranges.

    Sequential reads prefetch up to `ahead` ranges in as many threads, but no more bytes than were read since the last
    seek: random access fetches little extra. Ranges grow during a sequential read, up to `part` bytes. At most
    `ahead + 1` ranges are in memory, twice as many after a seek.

    Errors of a range are raised when it is read; reading again fetches it again. The threads end when this is closed or
    dropped.
    """

    def __init__(self, fetch: Fetch, size: int, name: str, part: int = PART, ahead: int = AHEAD) -> None:
        self.name = stream_name(name)
        self.size = size
        self._fetch = fetch
        self._part = part
        self._ahead = ahead
        self._position = 0
        self._read_from = 0  # where the sequential read began, with a range up to `_first_to`
        self._first_to = min(AT_START, part)
        self._least = AT_START
        self._ranges: deque[_Range] = deque()  # contiguous, up to `_next`
        self._next = 0
        self._pending: dict[int, _Range] = {}
        self._numbers = count()
        work = partial(_fetched, fetch)  # without a reference to `self`, which would keep it alive
        # One more than `ahead`: after a seek, one thread is free for the range wanted now.
        self._threads = Threads(lambda: work, ahead + 1, "penstock-ranged")
        self._arrivals = self._threads.arrivals

    @property
    def has_no_ranges(self) -> bool:
        """Say whether the server has answered a request for a range with the whole object."""
        return self._fetch.has_no_ranges

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._expect_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._expect_open()
        position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        if position < 0:
            raise OSError(errno.EINVAL, "negative position in an object", self.name)
        self._position = position
        return position

    def readinto(self, buffer: Any) -> int:
        into = memoryview(buffer).cast("B")
        piece = self._piece(len(into))
        into[: len(piece)] = piece
        return len(piece)

    def read(self, size: int | None = -1) -> bytes:
        return self.readall() if size is None or size < 0 else bytes(self._piece(size))

    def readall(self) -> bytes:
        content = io.BytesIO()
        while piece := self._piece(self.size - self._position):
            content.write(piece)
        return content.getvalue()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._forget()
        self._fetch.give_up()
        self._arrivals.put((None, None, ValueError("the object was closed while it was read")))
        self._threads.stop()
        del self._threads, self._fetch  # drops open connections

    def interrupt(self) -> None:
        """Make a waiting read raise an error; another thread calls this, possibly during `close`."""
        if (fetch := getattr(self, "_fetch", None)) is not None:
            fetch.give_up()
        self._arrivals.put((None, None, Interrupted()))

    def _expect_open(self) -> None:
        if self.closed:
            raise ValueError("read of a closed object")

    def _piece(self, most: int) -> memoryview:
        """Return the next bytes, up to the end of their range, and advance past them."""
        self._expect_open()
        at = self._position
        if at >= self.size or most <= 0:
            return memoryview(b"")
        # BufferedReader first reads a multiple of its buffer size, then fills the buffer.
        rest = io.DEFAULT_BUFFER_SIZE if most > io.DEFAULT_BUFFER_SIZE else 0
        until = min(at + most + rest, self.size)
        while (current := self._ask(at, until)).content is None and current.error is None:
            self._take_arrival()
        if current.content is None:
            self._forget()
            assert current.error is not None
            raise current.error
        piece = current.content[at - current.start :][:most]
        self._position += len(piece)
        count_bytes(len(piece))
        return piece

    def _ask(self, at: int, until: int) -> _Range:
        """Return the range at a position, requesting it if needed, and prefetch the next ranges."""
        while not self._arrivals.empty():
            self._take_arrival()
        ranges = self._ranges
        while ranges and ranges[0].end <= at:
            ranges.popleft().wanted = False
        if at != self._next and not (ranges and ranges[0].start <= at):
            self._forget()
            self._least = ELSEWHERE
            self._read_from = self._next = at
            self._first_to = at + min(max(ELSEWHERE, until - at), self._part)
        read = at - self._read_from if at >= self._first_to else 0  # the first range may be all that is needed
        while self._next < self.size and len(ranges) <= self._ahead:
            ahead = self._next - at
            if ahead and ahead >= read and self._next >= until:
                break
            length = min(max(self._least, read, until - self._next), self._part)
            asked_for = _Range(self._next, min(self._next + length, self.size))
            ranges.append(asked_for)
            self._next = asked_for.end
            number = next(self._numbers)
            self._pending[number] = asked_for
            self._threads.submit(number, asked_for)
        return ranges[0]

    def _take_arrival(self) -> None:
        number, content, error = self._arrivals.get()
        if number is None:
            raise error or ValueError
        arrived = self._pending.pop(number)
        if arrived.wanted:
            arrived.content, arrived.error = content, error

    def _forget(self) -> None:
        """Discard all ranges, so that the next read requests one."""
        for each in self._ranges:
            each.wanted = False
        self._ranges.clear()
        self._next = -1


def _fetched(fetch: Fetch, wanted: _Range) -> memoryview | None:
    return memoryview(fetch(wanted.start, wanted.end)) if wanted.wanted else None
