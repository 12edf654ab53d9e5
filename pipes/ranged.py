"""Objects read by ranges, of which the next are fetched while one is read."""

from __future__ import annotations

import errno
import io
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from ..registry import Guard, Retry
from .stores import asked, store_of, trying_again
from .threads import Outcome, Threads

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult
    from obstore.store import ObjectStore

__all__ = ["Fetch", "Ranged", "open_ranged"]

PART = 4 * 2**20
"""Bytes that are asked for at a time where an object is read on and on."""

CHUNK = 2**20
"""Bytes that are taken at a time, at least, out of an answer that is read on."""

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
        self.name = name
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
        self._arrivals: SimpleQueue[Outcome] = SimpleQueue()
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


def _called(call: Callable[[], Any]) -> Any:
    return call()


_answer_whole: WeakValueDictionary[int, ObjectStore] = WeakValueDictionary()
"""The stores, by their `id`, of servers that do not answer as they should where a range is asked for."""


class _Ranges:
    """Fetch ranges of an object, which must stay the one that it was when it was opened.

    Some servers send a range, but say that it is the whole: obstore refuses that. Of these, an object that is read from
    its start comes out of one answer, which is read on, and other ranges come by fsspec.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        attempts: Guard,
        meta: Mapping[str, Any] | None,
        answer: GetResult | None,
    ) -> None:
        import obstore

        self._url = url
        self._options = options
        self.give_up = attempts.give_up
        retrying: Any = attempts.wrap(_called)  # nothing is skipped
        self._retrying: Callable[[Callable[[], Any]], Any] = retrying
        self._get, self._head = obstore.get, obstore.head
        self._store, self._key = store_of(url, options)
        self._meta: Mapping[str, Any] = meta or self._retrying(partial(asked, url, self._head, self._store, self._key))
        self.size: int = self._meta["size"]
        self._body = self._body_of(answer) if answer is not None and self.in_order else None
        self._body_at = 0
        self._reading_body = threading.Lock()

    @property
    def in_order(self) -> bool:
        return _answer_whole.get(id(self._store)) is self._store

    def __call__(self, start: int, end: int) -> Any:
        return self._retrying(partial(self._attempt, start, end))

    def _attempt(self, start: int, end: int) -> Any:
        content = None if self.in_order else asked(self._url, self._range, start, end)
        if content is None:
            with self._reading_body:
                if start == (self._body_at if self._body is not None else 0):
                    return self._out_of_body()
            content = self._by_fsspec(start, end)
        if len(content) != end - start:
            raise ConnectionError(errno.EIO, f"of {end - start} bytes there came {len(content)}", self._url)
        return content

    def _range(self, start: int, end: int) -> Any:
        """Return a range, or None where the server does not send it in the way that is agreed on."""
        from obstore.exceptions import GenericError, NotSupportedError, PreconditionError

        options: GetOptions = {"range": (start, end)}
        e_tag = self._meta["e_tag"]
        if e_tag is not None and not e_tag.startswith("W/"):  # a weak one would match nothing
            options["if_match"] = e_tag
        try:
            result = self._get(self._store, self._key, options=options)
        except PreconditionError as error:
            raise self._changed() from error
        except (GenericError, NotSupportedError) as error:
            if "NotPartial" not in str(error) and "RangeNotSupported" not in str(error):
                raise
            _answer_whole[id(self._store)] = self._store
            return None
        self._check(result.meta)
        return result.bytes()

    def _out_of_body(self) -> bytes:
        """Return the next bytes of the one answer that has them all."""
        body, self._body = self._body, None  # where this fails, it is not read on
        if body is None:
            body, self._body_at = self._body_of(asked(self._url, self._get, self._store, self._key)), 0
        content = asked(self._url, next, body, b"")
        if not content:
            raise ConnectionError(errno.EIO, f"the answer ended after {self._body_at} of {self.size} bytes", self._url)
        self._body_at += len(content)
        self._body = body
        return content

    def _body_of(self, result: GetResult) -> Iterator[bytes]:
        self._check(result.meta)
        return iter(result.stream(CHUNK))

    def _by_fsspec(self, start: int, end: int) -> bytes:
        from .iter.storage import locate_for_one_attempt  # whose package uses this module

        # It may also send the checksum of the whole with a part.
        config = {**(self._options.get("config_kwargs") or {}), "response_checksum_validation": "when_required"}
        options = {**self._options, "config_kwargs": config} if self._url.startswith("s3") else self._options
        file_system, path = locate_for_one_attempt(self._url, options)
        self._check(asked(self._url, self._head, self._store, self._key))  # fsspec does not tell what it reads
        content: bytes = asked(self._url, file_system.cat_file, path, start=start, end=end)
        if len(content) > end - start:
            raise io.UnsupportedOperation("the server sends whole objects only, which cannot be read from the middle")
        return content

    def _check(self, now: Mapping[str, Any]) -> None:
        """Raise where an object's size or version tell that it is another one now."""
        of_version = "e_tag" if now["e_tag"] is not None and self._meta["e_tag"] is not None else "last_modified"
        if now["size"] != self.size or now[of_version] != self._meta[of_version]:
            raise self._changed()

    def _changed(self) -> OSError:
        return OSError(errno.ESTALE, "the object was replaced while it was read", self._url)


def open_ranged(
    url: str,
    options: Mapping[str, Any],
    meta: Mapping[str, Any] | None = None,
    *,
    answer: GetResult | None = None,
    retry: Retry | None = None,
    counted_by: Guard | None = None,
) -> IO[bytes]:
    """Return a stream of an object that is read by ranges.

    `meta` is what obstore says of the object, where somebody has asked already, and `answer` what its `get` gave, which
    is read on where the server knows no ranges. `retry` tells how often and after which errors a range is asked for
    again, by default five times after those that may pass; `counted_by` counts that.

    Raises what `store_of` and `asked` raise and, when it is read, OSError where the object is not the one any more that
    was opened.
    """
    ranges = _Ranges(url, options, Guard(retry or trying_again("raise"), counted_by=counted_by), meta, answer)
    return io.BufferedReader(Ranged(ranges, ranges.size, url))
