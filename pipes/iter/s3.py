"""Objects in S3: listed by prefix, read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...registry import Guard, IterDataPipe, OnError, functional_datapipe
from ..streams import checked_path
from .files import check_length, matches, promised
from .storage import FSSpecFileOpener, locate

__all__ = ["S3FileLister", "S3FileLoader"]


@functional_datapipe("list_files_by_s3")
class S3FileLister(IterDataPipe[str]):
    """Yield the URL of each object whose URL begins with a prefix, for each prefix.

    A prefix is `s3://bucket/` with the beginning of a key, or the URL of an object; objects in its folders, at whatever
    depth, are included, those that stand for a folder (their keys end in a slash) are not. They come in the order of
    their keys, a page of the listing at a time. `masks` are shell patterns, of which an object's name must match one; a
    mask with a slash in it is matched against the whole URL. `length` is what `len` is to say; without it `len` raises
    TypeError. `request_timeout_ms` is how many milliseconds the server may be silent, and `region` is the bucket's;
    both go before the environment, from which endpoint and credentials come. `on_error` is what becomes of a prefix
    that cannot be listed.

    `list_files_by_fsspec` lists one folder of S3, or of another store.

    Raises ValueError for a URL that is not of S3, FileNotFoundError for a bucket that there is not, and PermissionError
    for one that may not be read. Resuming goes by position within a prefix, and so needs the same objects.

    >>> shards = IterableWrapper(["s3://a-bucket/train/"]).list_files_by_s3(masks="*.tar", length=64)
    >>> len(shards)
    64
    >>> dp = IterableWrapper([]).list_files_by_s3()
    >>> list(dp)
    []
    """

    def __init__(
        self,
        source: IterDataPipe[str],
        length: int = -1,
        request_timeout_ms: int = -1,
        region: str = "",
        masks: str | Sequence[str] = "",
        *,
        on_error: OnError = "raise",
    ) -> None:
        _client_options(request_timeout_ms, region)
        self.source = source
        self.length = check_length(length)
        self.request_timeout_ms = request_timeout_ms
        self.region = region
        self.masks = masks
        self.on_error = on_error
        self.guard = Guard(on_error)

    def __iter__(self) -> Iterator[str]:
        outputs_of = self.guard.outputs(self._objects_under)
        for item in self.source:
            yield from outputs_of(item)
            self.mark()

    def _objects_under(self, prefix: Any) -> Iterator[str]:
        protocol, _, place = checked_path(prefix).partition("://")
        if protocol not in ("s3", "s3a"):
            raise ValueError(
                "URLs of S3 begin with s3://: list_files_by_fsspec lists folders of all that fsspec speaks"
            )
        bucket, _, key = place.partition("/")
        s3, _ = locate(prefix, _client_options(self.request_timeout_ms, self.region))
        where = {"Bucket": bucket, "Prefix": key}
        while where:
            # Not s3fs's own ways to list, which hold all of a listing, and remember it.
            page = s3.call_s3("list_objects_v2", **where)
            for found in page.get("Contents", ()):
                url = f"{protocol}://{bucket}/{found['Key']}"
                if not url.endswith("/") and matches(url, self.masks):
                    yield url
            where = {**where, "ContinuationToken": page["NextContinuationToken"]} if page.get("IsTruncated") else {}

    def __len__(self) -> int:
        return promised(self.length)


@functional_datapipe("load_files_by_s3")
class S3FileLoader(FSSpecFileOpener):
    """Yield the URL and a stream of the bytes of each object, given its URL.

    It is `open_files_by_fsspec` for bytes, which is the one to prefer, with the parameters that this one had:
    `request_timeout_ms` is how many milliseconds the server may be silent, and `region` is the bucket's; both go before
    the environment, from which endpoint and credentials come. `buffer_size` and `multi_part_download` told a client
    that there is no more how to download; they are accepted, and mean nothing. `on_error` is what becomes of an object
    that cannot be opened.

    Raises FileNotFoundError for an object that there is not, and PermissionError for one that may not be read.

    >>> import fsspec
    >>> fsspec.filesystem("memory").pipe("/shelf/a.txt", b"one")
    >>> dp = IterableWrapper(["memory://shelf/a.txt"]).load_files_by_s3()  # or s3://…
    >>> [(url, stream.read()) for url, stream in dp]
    [('memory://shelf/a.txt', b'one')]
    """

    def __init__(
        self,
        source: IterDataPipe[str],
        request_timeout_ms: int = -1,
        region: str = "",
        buffer_size: int | None = None,
        multi_part_download: bool | None = None,
        *,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(source, "rb", on_error=on_error, **_client_options(request_timeout_ms, region))
        self.request_timeout_ms = request_timeout_ms
        self.region = region
        self.buffer_size = buffer_size
        self.multi_part_download = multi_part_download


def _client_options(request_timeout_ms: int, region: str) -> dict[str, Any]:
    """Return the options of s3fs for a timeout, -1 for none, and a region, "" for none."""
    if request_timeout_ms != -1 and request_timeout_ms <= 0:
        raise ValueError(f"request_timeout_ms must be milliseconds, or -1 for the usual, and is {request_timeout_ms}")
    options: dict[str, Any] = {}
    if request_timeout_ms != -1:
        seconds = request_timeout_ms / 1000
        options["config_kwargs"] = {"connect_timeout": seconds, "read_timeout": seconds}
    if region:
        options["client_kwargs"] = {"region_name": region}
    return options
