"""List and read objects in an AIStore cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

from ...errors.optional import require
from ...registry import IterDataPipe, OnError, functional_datapipe
from ...storage.streaming.streams import checked_path, stream_over
from ..bases.listers_and_openers import GivenLength, Opener, check_length


@functional_datapipe("list_files_by_ais")
class AISFileLister(GivenLength, IterDataPipe[str]):
    """Yield the URL of each object whose URL begins with a prefix, for each prefix.

    Take it for a cluster of AIStore. A prefix is a bucket and the start of a name, such as `ais://bucket/train-`, or
    the bucket alone. Its provider is `ais` or a cloud behind the cluster: `s3` (or `aws`), `gs` (or `gcp`), `azure`,
    `oci`. `url` is the endpoint of the cluster. The `aistore` package takes tokens and certificates from the
    environment and retries network failures. Objects come in the cluster's order, a page at a time. `len` returns
    `length`; without `length` it raises TypeError. `on_error` handles a prefix that cannot be listed.

    Raises the errors of `aistore`: `AISError` for a missing bucket, `requests.ConnectionError` (an OSError) for an
    unreachable cluster. Raises ImportError where `aistore` is not installed. Resuming counts objects within a prefix,
    so the objects must be the same.

    >>> prefixes = IterableWrapper(["ais://a-bucket/train-"])
    >>> shards = prefixes.list_files_by_ais("http://localhost:51080", length=8)
    >>> len(shards)
    8
    >>> dp = IterableWrapper([]).list_files_by_ais("http://localhost:51080")
    >>> list(dp)
    []
    """

    def __init__(self, source: IterDataPipe[str], url: str, length: int = -1, *, on_error: OnError = "raise") -> None:
        require("aistore", "aistore")
        self.source = source
        self.url = url
        self.length = check_length(length)
        self.handle_errors(on_error)

    def __iter__(self) -> Iterator[str]:
        client = _ais_client(self.url)

        def objects_under(prefix: Any) -> Iterator[str]:
            provider, bucket, start = _bucket_and_name(prefix)
            for entry in client.bucket(bucket, provider=provider).list_objects_iter(prefix=start, props="name"):
                yield f"{provider}://{bucket}/{entry.name}"

        return self.outputs_of_each(self.error_policy.outputs(objects_under), self.source)


@functional_datapipe("load_files_by_ais")
class AISFileLoader(Opener):
    """Yield the URL and a stream of the bytes of each object, given its URL.

    Take it for a cluster of AIStore. A URL is a bucket and a name, such as `ais://bucket/train-0.tar`, with the
    providers of `list_files_by_ais`. `url` is the endpoint of the cluster. The `aistore` package resumes a stream that
    breaks off. A dropped stream is closed. `len` returns `length`, or else the length of the source. `on_error` handles
    an object that cannot be read.

    Raises the errors of `aistore`: `AISError` for a missing object, `requests.ConnectionError` (an OSError) for an
    unreachable cluster. Raises ImportError where `aistore` is not installed.

    >>> cluster = "http://localhost:51080"
    >>> shards = IterableWrapper(["ais://a-bucket/train-"]).list_files_by_ais(cluster, length=8)
    >>> len(shards.load_files_by_ais(cluster))
    8
    >>> dp = IterableWrapper([]).load_files_by_ais(cluster)
    >>> list(dp)
    []
    """

    def __init__(self, source: IterDataPipe[str], url: str, length: int = -1, *, on_error: OnError = "raise") -> None:
        require("aistore", "aistore")
        super().__init__(source, on_error)
        self.url = url
        self.length = check_length(length)

    def _function(self) -> Callable[[Any], tuple[str, IO[bytes]]]:
        client = _ais_client(self.url)

        def load(item: Any) -> tuple[str, IO[bytes]]:
            provider, bucket, name = _bucket_and_name(item)
            file = client.bucket(bucket, provider=provider).object(name).get_reader().as_file()
            stream: Any = stream_over(file, item, None)
            stream.peek(1)  # requests the object, so this operator raises where it is missing
            return item, stream

        return load


def _ais_client(url: str) -> Any:
    return require("aistore.sdk", "aistore").Client(url)


def _bucket_and_name(url: object) -> tuple[str, str, str]:
    """Return the provider, the bucket and the rest of a URL; raise ValueError where it has no bucket."""
    provider, _, place = checked_path(url).partition("://")
    bucket, _, name = place.partition("/")
    if not bucket:
        raise ValueError(f"a URL of a bucket is needed, as in 'ais://bucket/name', and this is {url!r:.100}")
    return provider, bucket, name
