"""Objects in a store, read by ranges."""

from __future__ import annotations

import errno
import io
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from ..errors.policy import ErrorPolicy, Retry
from .addresses import Address
from .file_systems import file_behind, opened, stream_size
from .retrying import attempts_of
from .stores import asked, store_of
from .streaming.ranged import PART, Ranged
from .streaming.streams import Loaded, stream_over

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult
    from obstore.store import ObjectStore

LARGE = 16 * 2**20
"""Bytes above which an object is streamed instead of loaded into memory."""


_IN_MEMORY = 6 * PART
"""Bytes of a response kept in memory: more than sequential reads request at a time."""


def _called(call: Callable[[], Any]) -> Any:
    return call()


_without_ranges: weakref.WeakValueDictionary[int, ObjectStore] = weakref.WeakValueDictionary()
"""`id` → store, for servers that answer range requests incorrectly."""


class _Ranges:
    """Fetch ranges of an object, and fail if the object changes after it was opened.

    Some servers answer a request for a range with the complete object, or with the status of one, which obstore
    rejects. From such servers, one response is copied to a temporary file as far as needed.
    """

    def __init__(self, address: Address, attempts: ErrorPolicy, answer: GetResult | None = None) -> None:
        import obstore

        self._url = url = address.url
        self.give_up = attempts.give_up
        retrying: Any = attempts.wrap(_called)  # nothing is skipped
        self._retrying: Callable[[Callable[[], Any]], Any] = retrying
        self._get = obstore.get
        self._store, self._key = store_of(address)
        self._meta: Mapping[str, Any] = (
            self._retrying(partial(asked, url, obstore.head, self._store, self._key)) if answer is None else answer.meta
        )
        self.size: int = self._meta["size"]
        self._answer = answer if self.has_no_ranges else None  # else the connection is free
        self._copy: _WholeResponse | None = None
        self._copying = threading.Lock()

    @property
    def has_no_ranges(self) -> bool:
        """Say whether the server has answered a request for a range with the whole object."""
        return _without_ranges.get(id(self._store)) is self._store

    def __call__(self, start: int, end: int) -> Any:
        return self._retrying(partial(self._attempt, start, end))

    def _attempt(self, start: int, end: int) -> Any:
        content = None if self.has_no_ranges else asked(self._url, self._range, start, end)
        if content is None:
            content = self._copied(start, end)
        if len(content) != end - start:
            raise ConnectionError(errno.EIO, f"{len(content)} of {end - start} bytes came", self._url)
        return content

    def _range(self, start: int, end: int) -> Any:
        """Return a range, or None if the server's range response does not follow HTTP."""
        from obstore.exceptions import GenericError, NotSupportedError, PreconditionError

        options: GetOptions = {"range": (start, end)}
        e_tag = self._meta["e_tag"]
        if e_tag is not None and not e_tag.startswith("W/"):  # a weak ETag never matches
            options["if_match"] = e_tag
        try:
            result = self._get(self._store, self._key, options=options)
        except PreconditionError as error:
            raise self._changed() from error
        except (GenericError, NotSupportedError) as error:
            if "NotPartial" not in str(error) and "RangeNotSupported" not in str(error):
                raise
            _without_ranges[id(self._store)] = self._store
            return None
        self._check(result.meta)
        return result.bytes()

    def _copied(self, start: int, end: int) -> bytes:
        """Return a range out of one response for the complete object."""
        with self._copying:
            copy, self._copy = self._copy, None  # a failed response is not read further
            if copy is None:
                copy = _WholeResponse(self._begin_response)
            content = asked(self._url, copy.read, start, end)
            self._copy = copy
            return content

    def _begin_response(self) -> Any:
        result, self._answer = self._answer, None
        if result is None:
            result = asked(self._url, self._get, self._store, self._key)
            self._check(result.meta)
        return result.stream(PART)

    def _check(self, now: Mapping[str, Any]) -> None:
        """Raise OSError if the size or version shows that the object was replaced."""
        of_version = "e_tag" if now["e_tag"] is not None and self._meta["e_tag"] is not None else "last_modified"
        if now["size"] != self.size or now[of_version] != self._meta[of_version]:
            raise self._changed()

    def _changed(self) -> OSError:
        return OSError(errno.ESTALE, "the object was replaced while it was read", self._url)


class _WholeResponse:
    """Ranges of an object out of one response: the last pieces are kept in memory.

    A range before these begins the response again, which is then kept in a temporary file.
    """

    def __init__(self, begin: Callable[[], Iterable[Any]]) -> None:
        self._begin = begin
        self._pieces = iter(begin())
        self._recent: deque[memoryview] = deque()
        self._recent_at = self._size = 0
        self._file: IO[bytes] | None = None

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end - 1`; fewer where the response ended before."""
        if start < self._recent_at and self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
            weakref.finalize(self, self._file.close)
            self._pieces, self._recent_at, self._size = iter(self._begin()), 0, 0
            self._recent.clear()
        while self._size < end and (piece := memoryview(next(self._pieces, b""))):
            self._recent.append(piece)
            self._size += len(piece)
        parts, at = list[memoryview | bytes](), self._recent_at
        if start < at and self._file is not None:
            self._file.seek(start)
            parts.append(self._file.read(min(end, at) - start))
        for piece in self._recent:
            parts.append(piece[max(start - at, 0) : max(end - at, 0)])
            at += len(piece)
        while self._size - self._recent_at > _IN_MEMORY:
            self._drop(self._recent.popleft())
        return b"".join(parts)

    def _drop(self, piece: memoryview) -> None:
        if self._file is not None:
            self._file.seek(self._recent_at)
            self._file.write(piece)
        self._recent_at += len(piece)


def open_object(
    address: Address, *, retry: Retry | None = None, counted_by: ErrorPolicy | None = None
) -> tuple[IO[bytes], int]:
    """Return a stream of an object, and its size: in memory, or from `open_ranged` if it is large."""
    import obstore

    store, key = store_of(address)
    result = asked(address.url, obstore.get, store, key)
    size = result.meta["size"]
    if size <= LARGE:
        return Loaded(asked(address.url, result.bytes), address.url), size
    return open_ranged(address, result, retry=retry, counted_by=counted_by), size


def open_by_fsspec(
    address: Address,
    *,
    retry: Retry | None = None,
    counted_by: ErrorPolicy | None = None,
    expect: Callable[[int], None] | None = None,
) -> tuple[IO[bytes], int | None]:
    """Return a stream of a file, and its size if known; the rest is as for `open_object`.

    `expect` receives the number of bytes before they are loaded into memory.
    """
    attempts = attempts_of(retry, counted_by)
    if not (address.of_amazon or address.of_web):
        return opened(address, attempts=attempts), None
    file, file_system, _ = file_behind(address, {})
    size = stream_size(file)
    if size is None or size > LARGE:
        return stream_over(file, address.url, None, file_system, attempts), None
    if expect is not None:
        expect(size)
    with stream_over(file, address.url, None, file_system) as stream:
        content = stream.read()
    return Loaded(content, address.url), len(content)


def open_ranged(
    address: Address,
    answer: GetResult | None = None,
    *,
    retry: Retry | None = None,
    counted_by: ErrorPolicy | None = None,
) -> IO[bytes]:
    """Return a stream of an object that is read by ranges.

    `answer` is the result of obstore's `get` for the object, if there is one: it is read if the server does not support
    ranges. `retry` says how often, and after which errors, a range is retried: by default five times, after transient
    errors. `counted_by` counts the retries.

    Raises what `store_of` and `asked` raise. Reading raises OSError if the object was replaced since it was opened.
    """
    ranges = _Ranges(address, attempts_of(retry, counted_by), answer)
    return io.BufferedReader(Ranged(ranges, ranges.size, address.url))
