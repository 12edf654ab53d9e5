"""Bytes read by ranges, of which the next are fetched while one is read."""

from __future__ import annotations

import errno
import io
import os
from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Protocol

from ..registry.secrets import stream_name
from ..workers.threads import Arrivals, Interrupted, Outcome, Threads

__all__ = ["Fetch", "Ranged"]

PART = 4 * 2**20
"""Bytes that are asked for at a time where an object is read on and on."""

AHEAD = 4
"""How many ranges are fetched before they are wanted, at most."""

AT_START, ELSEWHERE = 2**20, 2**16
"""Bytes of the first range: at the start most read on, and elsewhere most look for something."""


class Fetch(Protocol):
    """Fetch the bytes from one place of an object to before another; called by several threads."""

    @property
    def in_order(self) -> bool:
        """Whether all comes out of one answer: one range is asked for at a time, and what comes may end elsewhere."""

    def __call__(self, start: int, end: int) -> Any: ...

    def give_up(self) -> None:
        """Make no further attempt, and wait no more before one."""


@dataclass(eq=False)
class _Range:
    """A part of an object that was asked for."""

    start: int
    end: int
    content: memoryview | None = None
    error: BaseException | None = None
    wanted: bool = True


class Ranged(io.RawIOBase):
    """The bytes of an object, fetched by ranges.

    While it is read on and on, up to `ahead` ranges are fetched in as many threads before they are wanted, but no more
    bytes than were read since the last seek: one who looks into an object here and there fetches little else. Ranges
    become longer as it is read on, up to `part` bytes. No more than twice `ahead + 1` of them are in memory, and that
    only after a seek.

    Errors of a range are raised when it is read, and reading it again fetches it again. The threads end when this is
    closed or dropped.
    """

    def __init__(self, fetch: Fetch, size: int, name: str, part: int = PART, ahead: int = AHEAD) -> None:
        self.name = stream_name(name)
        self.size = size
        self._fetch = fetch
        self._part = part
        self._ahead = ahead
        self._position = 0
        self._read_from = 0  # where reading on and on began, with a range up to `_first_to`
        self._first_to = min(AT_START, part)
        self._least = AT_START
        self._ranges: deque[_Range] = deque()  # one after the other, up to `_next`
        self._next = 0
        self._pending: dict[int, _Range] = {}
        self._numbers = count()
        self._arrivals: Arrivals[Outcome] = Arrivals()
        work = partial(_fetched, fetch)  # which knows nothing of this, or this could not be dropped
        # One more than ahead, so that after a seek there is one for what is wanted now.
        self._threads = Threads(lambda: work, self._arrivals, ahead + 1, "penstock-ranged")

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
            raise OSError(errno.EINVAL, "there is nothing before an object's first byte", self.name)
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
        del self._threads, self._fetch  # and with them what is open

    def interrupt(self) -> None:
        """Let whoever waits for bytes get an error instead; called by another thread, while it may be closed here."""
        if (fetch := getattr(self, "_fetch", None)) is not None:
            fetch.give_up()
        self._arrivals.put((None, None, Interrupted()))

    def _expect_open(self) -> None:
        if self.closed:
            raise ValueError("read of a closed object")

    def _piece(self, most: int) -> memoryview:
        """Return what is next, of the range that it lies in, and go on to behind it."""
        self._expect_open()
        at = self._position
        if at >= self.size or most <= 0:
            return memoryview(b"")
        # One who reads through a buffer first reads a multiple of its length, and at the end fills it.
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
        return piece

    def _ask(self, at: int, until: int) -> _Range:
        """Return the range of a place, which is asked for if it was not yet, as are those that are probably next."""
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
        read = at - self._read_from if at >= self._first_to else 0  # what it is after may lie in the first range
        while self._next < self.size and len(ranges) <= self._ahead:
            ahead = self._next - at
            if ahead and ((self._fetch.in_order and self._pending) or (ahead >= read and self._next >= until)):
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
        if not arrived.wanted:
            return
        arrived.content, arrived.error = content, error
        if content is not None and len(content) != arrived.end - arrived.start:
            while self._ranges[-1] is not arrived:  # were asked for when it was not known that they come in order
                self._ranges.pop().wanted = False
            self._next = arrived.end = arrived.start + len(content)

    def _forget(self) -> None:
        """Want no range any more, so that the next read asks for one."""
        for each in self._ranges:
            each.wanted = False
        self._ranges.clear()
        self._next = -1


def _fetched(fetch: Fetch, wanted: _Range) -> memoryview | None:
    return memoryview(fetch(wanted.start, wanted.end)) if wanted.wanted else None
