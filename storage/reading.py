"""Files at addresses: opened or read completely, each by its client."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ..errors.observer import count_bytes
from ..errors.policy import ErrorPolicy, Retry
from .addresses import Address, Client, address_of
from .errors import UnknownStoreError, in_plain_words
from .file_systems import locate, opened
from .objects import open_by_fsspec, open_object, open_ranged
from .retrying import attempts_of
from .stores import asked, store_of


def open_file(
    url: str, options: Mapping[str, Any], *, retry: Retry | None = None, counted_by: ErrorPolicy | None = None
) -> tuple[IO[bytes], int | None]:
    """Return a stream of a file for sequential reading, and its size if known.

    `options` are named as in fsspec's file systems. `retry` says how often, and after which errors, a part of a large
    object is retried: by default five times, after transient errors. `counted_by` counts the retries.

    Raises FileNotFoundError, PermissionError, ConnectionError, TimeoutError or another OSError.
    """
    address = address_of(url, options)
    if address.client is Client.OBSTORE:
        with suppress(UnknownStoreError):
            return open_object(address, retry=retry, counted_by=counted_by)
    return open_by_fsspec(address, retry=retry, counted_by=counted_by)


def open_to_seek(
    url: str,
    storage_options: Mapping[str, Any] | None = None,
    *,
    retry: Retry | None = None,
    counted_by: ErrorPolicy | None = None,
) -> IO[bytes]:
    """Return a stream of the bytes of a file, given its path or any URL that fsspec reads, for random access.

    Objects of stores and of the web are read by ranges. `storage_options` are named as in fsspec's file systems.
    `retry` says how often, and after which errors, a read is retried: by default five times, after transient errors.
    `counted_by`, the `error_policy` of an operator, counts the retries.

    Raises FileNotFoundError, PermissionError, ConnectionError, TimeoutError or another OSError.

    >>> import fsspec
    >>> import penstock as ps
    >>> fsspec.filesystem("memory").pipe("/to_seek.bin", b"onetwo")
    >>> with ps.open_to_seek("memory://to_seek.bin") as file:
    ...     file.seek(3), file.read()
    (3, b'two')
    """
    address = address_of(url, storage_options or {})
    if address.client is Client.OBSTORE:
        return open_ranged(address, retry=retry, counted_by=counted_by)
    attempts = attempts_of(retry, counted_by)
    stream: Any = attempts.wrap(lambda _: opened(address, attempts=attempts))(url)
    return stream  # type: ignore[no-any-return]


def read_whole(url: str, options: Mapping[str, Any]) -> bytes:
    """Return all bytes of a file; the rest is as for `open_file`, but without retries."""
    content = _read_whole(address_of(url, options))
    count_bytes(len(content))
    return content


def _read_whole(address: Address) -> bytes:
    url = address.url
    if address.client is Client.SYSTEM:
        return Path(url).read_bytes()
    if address.client is Client.OBSTORE:
        import obstore

        store, key = store_of(address)
        with suppress(UnknownStoreError):
            return bytes(asked(url, asked(url, obstore.get, store, key).bytes))
    elif address.of_web:  # one request; the response marks its own end
        file_system, path = locate(address, one_attempt=True)
        content: bytes = in_plain_words(url, file_system.cat_file, path)
        return content
    with opened(address) as stream:
        whole: bytes = stream.read()
        return whole
