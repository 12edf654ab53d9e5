"""Objects in a store, read by ranges."""

from __future__ import annotations

import errno
import io
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import IO, TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..errors.policy import ErrorPolicy, Retry
from .file_systems import OF_S3, OF_WEB, file_behind, opened, stream_size
from .retrying import trying_again
from .stores import asked, store_of
from .streaming.ranged import PART, Ranged
from .streaming.streams import Loaded, stream_over

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult
    from obstore.store import ObjectStore

__all__ = ["LARGE", "open_by_fsspec", "open_object", "open_ranged"]

LARGE = 16 * 2**20
"""Bytes above which an object is streamed instead of loaded into memory."""


def _called(call: Callable[[], Any]) -> Any:
    return call()


_answer_whole: WeakValueDictionary[int, ObjectStore] = WeakValueDictionary()
"""`id` → store, for servers that answer range requests incorrectly."""


class _Ranges:
    """Fetch ranges of an object, and fail if the object changes after it was opened.

    Some servers send a range with the status of a complete object, which obstore rejects. With such servers, reads from
    the start come from one response, read sequentially; fsspec reads other ranges.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        attempts: ErrorPolicy,
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
        self._in_order_at = -1
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
                    self._in_order_at = start
                    return self._out_of_body()
            try:
                content = self._by_fsspec(start, end)
            except io.UnsupportedOperation:
                if start != self._in_order_at:
                    raise
                with self._reading_body:
                    return self._out_of_another_body(start)
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
            _answer_whole[id(self._store)] = self._store
            return None
        self._check(result.meta)
        return result.bytes()

    def _out_of_body(self) -> bytes:
        """Return the next bytes of the one response for the complete object."""
        body, self._body = self._body, None  # a failed response is not read further
        if body is None:
            body, self._body_at = self._body_of(asked(self._url, self._get, self._store, self._key)), 0
        content = asked(self._url, next, body, b"")
        if not content:
            raise ConnectionError(errno.EIO, f"the answer ended after {self._body_at} of {self.size} bytes", self._url)
        self._body_at += len(content)
        self._body = body
        return content

    def _out_of_another_body(self, start: int) -> bytes:
        """Return the bytes from `start`, where a response was cut; for servers that send complete objects only."""
        self._body = None
        while True:
            content = self._out_of_body()
            if self._body_at > start:
                return content[start - self._body_at :]

    def _body_of(self, result: GetResult) -> Iterator[bytes]:
        self._check(result.meta)
        return iter(result.stream(PART))

    def _by_fsspec(self, start: int, end: int) -> bytes:
        self._check(asked(self._url, self._head, self._store, self._key))  # the object may have been replaced
        content: bytes = asked(self._url, self._file[0]._fetch_range, start, end)
        return content

    @cached_property
    def _file(self) -> tuple[Any, ...]:
        options = self._options
        if self._url.startswith(OF_S3):  # S3 may send the object's checksum with a range
            config = {**(options.get("config_kwargs") or {}), "response_checksum_validation": "when_required"}
            options = {**options, "config_kwargs": config}
        return file_behind(self._url, options, {})

    def _check(self, now: Mapping[str, Any]) -> None:
        """Raise OSError if the size or version shows that the object was replaced."""
        of_version = "e_tag" if now["e_tag"] is not None and self._meta["e_tag"] is not None else "last_modified"
        if now["size"] != self.size or now[of_version] != self._meta[of_version]:
            raise self._changed()

    def _changed(self) -> OSError:
        return OSError(errno.ESTALE, "the object was replaced while it was read", self._url)


def open_object(
    url: str, options: Mapping[str, Any], *, retry: Retry | None = None, counted_by: ErrorPolicy | None = None
) -> tuple[IO[bytes], int]:
    """Return a stream of an object, and its size: in memory, or from `open_ranged` if it is large."""
    import obstore

    store, key = store_of(url, options)
    result = asked(url, obstore.get, store, key)
    size = result.meta["size"]
    if size <= LARGE:
        return Loaded(asked(url, result.bytes), url), size
    return open_ranged(url, options, result.meta, answer=result, retry=retry, counted_by=counted_by), size


def open_by_fsspec(
    url: str,
    options: Mapping[str, Any],
    *,
    retry: Retry | None = None,
    counted_by: ErrorPolicy | None = None,
    expect: Callable[[int], None] | None = None,
) -> tuple[IO[bytes], int | None]:
    """Return a stream of a file, and its size if known; the rest is as for `open_object`.

    `expect` receives the number of bytes before they are loaded into memory.
    """
    attempts = ErrorPolicy(retry or trying_again("raise"), counted_by=counted_by)
    if not url.startswith((*OF_S3, *OF_WEB)):
        return opened(url, options, None, {}, attempts), None
    file, file_system, _ = file_behind(url, options, {})
    size = stream_size(file)
    if size is None or size > LARGE:
        return stream_over(file, url, None, file_system, attempts), None
    if expect is not None:
        expect(size)
    with stream_over(file, url, None, file_system) as stream:
        content = stream.read()
    return Loaded(content, url), len(content)


def open_ranged(
    url: str,
    options: Mapping[str, Any],
    meta: Mapping[str, Any] | None = None,
    *,
    answer: GetResult | None = None,
    retry: Retry | None = None,
    counted_by: ErrorPolicy | None = None,
) -> IO[bytes]:
    """Return a stream of an object that is read by ranges.

    `meta` is obstore's description of the object, if known; `answer` is the result of its `get`, which is read if the
    server does not support ranges. `retry` says how often, and after which errors, a range is retried: by default five
    times, after transient errors. `counted_by` counts the retries.

    Raises what `store_of` and `asked` raise. Reading raises OSError if the object was replaced since it was opened.
    """
    ranges = _Ranges(url, options, ErrorPolicy(retry or trying_again("raise"), counted_by=counted_by), meta, answer)
    return io.BufferedReader(Ranged(ranges, ranges.size, url))
