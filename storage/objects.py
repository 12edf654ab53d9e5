"""Objects of a store, read by ranges."""

from __future__ import annotations

import errno
import io
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import IO, TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..registry import Guard, Retry
from .file_systems import OF_S3, OF_WEB, file_behind, opened, size_of
from .ranged import PART, Ranged
from .retrying import trying_again
from .stores import asked, store_of
from .streams import Loaded, stream_over

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult
    from obstore.store import ObjectStore

__all__ = ["LARGE", "open_by_fsspec", "open_object", "open_ranged"]

LARGE = 16 * 2**20
"""Bytes above which an object is read while it is used, and not before."""


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

    def _out_of_another_body(self, start: int) -> bytes:
        """Return the bytes behind a place where an answer was cut, of a server that sends wholes only."""
        self._body = None
        while True:
            content = self._out_of_body()
            if self._body_at > start:
                return content[start - self._body_at :]

    def _body_of(self, result: GetResult) -> Iterator[bytes]:
        self._check(result.meta)
        return iter(result.stream(PART))

    def _by_fsspec(self, start: int, end: int) -> bytes:
        self._check(
            asked(self._url, self._head, self._store, self._key)
        )  # another may be there than when it was opened
        content: bytes = asked(self._url, self._file[0]._fetch_range, start, end)
        return content

    @cached_property
    def _file(self) -> tuple[Any, Any]:
        options = self._options
        if self._url.startswith(OF_S3):  # which may also send the checksum of the whole with a part
            config = {**(options.get("config_kwargs") or {}), "response_checksum_validation": "when_required"}
            options = {**options, "config_kwargs": config}
        return file_behind(self._url, options, {})

    def _check(self, now: Mapping[str, Any]) -> None:
        """Raise where an object's size or version tell that it is another one now."""
        of_version = "e_tag" if now["e_tag"] is not None and self._meta["e_tag"] is not None else "last_modified"
        if now["size"] != self.size or now[of_version] != self._meta[of_version]:
            raise self._changed()

    def _changed(self) -> OSError:
        return OSError(errno.ESTALE, "the object was replaced while it was read", self._url)


def open_object(
    url: str, options: Mapping[str, Any], *, retry: Retry | None = None, counted_by: Guard | None = None
) -> tuple[IO[bytes], int]:
    """Return a stream of an object, with its size: in memory, or a large one as `open_ranged` gives it."""
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
    counted_by: Guard | None = None,
    expect: Callable[[int], None] | None = None,
) -> tuple[IO[bytes], int | None]:
    """Return a stream of a file, with its size where that is known; the rest is as for `open_object`.

    `expect` is told how many bytes will be in memory, before they are.
    """
    if not url.startswith((*OF_S3, *OF_WEB)):
        return opened(url, options, None, {}), None
    file, file_system = file_behind(url, options, {})
    size = size_of(file)
    if size is None or size > LARGE:
        attempts = Guard(retry or trying_again("raise"), counted_by=counted_by)
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
