"""The contestants of `benchmarks.object_storage`: how each reads a bucket's objects whole, or tars member by member.

Each makes `bytes` of its objects, and counts them. Those that read many objects at once use 16 threads, or 32 requests
without threads. Of 4, 8, 16, 32 and 64, these numbers were best for obstore, and for the others not worse.
"""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from .harness import cpu_seconds

THREADS, AT_ONCE, WORKERS, OPEN = 16, 32, 2, 4
EPOCHS = 3
"""The number of timed epochs."""

CATS = 256
"""The number of objects that one call of s3fs requests, and the most MB."""

REGION = "us-east-1"

Epoch = Callable[[], int]
"""Read all once, and return the number of bytes."""


def on_threads(read: Callable[[str], bytes], names: list[str]) -> int:
    with ThreadPoolExecutor(THREADS) as threads:
        return total(threads.map(read, names))


def total(contents: Iterable[bytes]) -> int:
    return sum(map(len, contents))


def obstore_of(urls: list[str]) -> tuple[Any, list[str]]:
    """Return a store, and the keys in it."""
    from obstore.store import HTTPStore, S3Store

    scheme, _, bucket, _ = urls[0].split("/", 3)
    if scheme == "http:":
        server = f"{scheme}//{bucket}"
        return HTTPStore(server, client_options={"allow_http": True}), [url.removeprefix(f"{server}/") for url in urls]
    store = S3Store(
        bucket,
        endpoint=os.environ["AWS_ENDPOINT_URL"],
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region=REGION,
        client_options={"allow_http": True},
    )
    return store, [url.removeprefix(f"s3://{bucket}/") for url in urls]


@contextmanager
def obstore_on_threads(urls: list[str]) -> Iterator[Epoch]:
    import obstore

    store, keys = obstore_of(urls)
    yield lambda: on_threads(lambda key: bytes(obstore.get(store, key).bytes()), keys)


@contextmanager
def obstore_async(urls: list[str]) -> Iterator[Epoch]:
    import obstore

    store, keys = obstore_of(urls)

    async def read_on(left: Iterator[str]) -> int:
        read = 0
        for key in left:
            answer = await obstore.get_async(store, key)
            read += len(bytes(await answer.bytes_async()))
        return read

    async def read_all() -> int:
        left = iter(keys)
        return sum(await asyncio.gather(*(read_on(left) for _ in range(AT_ONCE))))

    yield lambda: asyncio.run(read_all())


def of_connector(kind: str, urls: list[str]) -> Any:
    import s3torchconnector

    return getattr(s3torchconnector, kind).from_objects(
        urls,
        region=REGION,
        endpoint=os.environ["AWS_ENDPOINT_URL"],
        transform=lambda reader: reader.read(),
        s3client_config=s3torchconnector.S3ClientConfig(force_path_style=True),
    )


@contextmanager
def connector_dataset(urls: list[str]) -> Iterator[Epoch]:
    dataset = of_connector("S3IterableDataset", urls)
    yield lambda: total(dataset)


@contextmanager
def connector_on_threads(urls: list[str]) -> Iterator[Epoch]:
    dataset = of_connector("S3MapDataset", urls)
    with ThreadPoolExecutor(THREADS) as threads:
        yield lambda: total(threads.map(dataset.__getitem__, range(len(urls))))


@contextmanager
def s3fs_cat(urls: list[str]) -> Iterator[Epoch]:
    import s3fs

    file_system = s3fs.S3FileSystem()
    size = file_system.size(urls[0]) / 1e6
    at_once = max(int(CATS / max(size, 1)), 1)

    def epoch() -> int:
        starts = range(0, len(urls), at_once)
        return sum(total(file_system.cat(urls[start : start + at_once]).values()) for start in starts)

    yield epoch


@contextmanager
def boto3_on_threads(urls: list[str]) -> Iterator[Epoch]:
    import boto3
    from botocore.config import Config

    client = boto3.client("s3", region_name=REGION, config=Config(max_pool_connections=THREADS))

    def read(url: str) -> bytes:
        _, _, bucket, key = url.split("/", 3)
        content: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    yield lambda: on_threads(read, urls)


def content_of(pair: Any) -> Any:
    return pair[1].read()


@contextmanager
def ours(urls: list[str], **arguments: Any) -> Iterator[Epoch]:
    import penstock as ps

    dp: Any = ps.iter.IterableWrapper(urls).load_files_by_s3(**arguments).map(content_of)
    yield lambda: total(dp)


def ours_unordered(urls: list[str]) -> AbstractContextManager[Epoch]:
    return ours(urls, ordered=False)


@contextmanager
def ours_in_workers(urls: list[str]) -> Iterator[Epoch]:
    import penstock as ps

    dp: Any = ps.iter.IterableWrapper(urls).sharding_filter().load_files_by_s3().map(content_of)
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(WORKERS)) as loader:
        yield lambda: total(loader)


@contextmanager
def ours_by_index(urls: list[str]) -> Iterator[Epoch]:
    import penstock as ps

    dp: Any = ps.map.ObjectReader(urls, workers=THREADS)
    at_once = 256 if len(urls) > 256 else 4
    starts = range(0, len(urls), at_once)
    yield lambda: sum(total(dp.__getitems__([*range(start, min(start + at_once, len(urls)))])) for start in starts)


@contextmanager
def members_by_obstore(urls: list[str]) -> Iterator[Epoch]:
    """Hand-written code: read each tar whole, and the next ones meanwhile."""
    import obstore

    store, keys = obstore_of(urls)

    def members() -> Iterator[bytes]:
        with ThreadPoolExecutor(OPEN) as threads:
            for content in threads.map(lambda key: bytes(obstore.get(store, key).bytes()), keys):
                with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                    for header in tar:
                        file = tar.extractfile(header)
                        yield file.read() if file is not None else b""

    yield lambda: total(members())


@contextmanager
def members_by_s3fs(urls: list[str]) -> Iterator[Epoch]:
    import penstock as ps

    dp: Any = ps.iter.IterableWrapper(urls).open_files_by_fsspec(mode="rb").load_from_tar().map(content_of)
    yield lambda: total(dp)


@contextmanager
def ours_of_tar(urls: list[str]) -> Iterator[Epoch]:
    import penstock as ps

    dp: Any = ps.iter.IterableWrapper(urls).load_files_by_s3().load_from_tar().map(content_of)
    yield lambda: total(dp)


@contextmanager
def ours_of_tar_interleaved(urls: list[str]) -> Iterator[Epoch]:
    import penstock as ps

    def members(url: str) -> Any:
        return ps.iter.IterableWrapper([url]).load_files_by_s3().load_from_tar()

    dp: Any = ps.iter.IterableWrapper(urls).shuffled_flatmap(members, buffer_size=OPEN).map(content_of)
    yield lambda: total(dp)


@contextmanager
def ours_of_tar_in_workers(urls: list[str]) -> Iterator[Epoch]:
    import penstock as ps

    dp: Any = ps.iter.IterableWrapper(urls).sharding_filter().load_files_by_s3().load_from_tar().map(content_of)
    loader = ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_workers=2))
    yield lambda: total(loader)
    loader.shutdown()


@contextmanager
def webdataset(urls: list[str], workers: int = 0) -> Iterator[Epoch]:
    """Its shards come through pipes, as its documents show: curl signs for S3, and starts sooner than aws."""
    import webdataset as wds

    signed = f"curl -s --aws-sigv4 aws:amz:{REGION}:s3 --user $AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"
    pipes = [f"pipe:{signed} $AWS_ENDPOINT_URL/{url.removeprefix('s3://')}" for url in urls]
    dataset = wds.WebDataset(pipes, shardshuffle=False).map(member_of)
    if not workers:
        yield lambda: total(dataset)
    else:
        loader = wds.WebLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=True)
        yield lambda: total(loader)


def member_of(sample: dict[str, bytes]) -> bytes:
    return sample["jpg"]


Peer = Callable[[list[str]], AbstractContextManager[Epoch]]
WHOLE: Mapping[str, Peer] = {
    "obstore, async": obstore_async,
    "obstore on threads": obstore_on_threads,
    "s3torchconnector, its dataset": connector_dataset,
    "s3torchconnector on threads": connector_on_threads,
    "s3fs": s3fs_cat,
    "boto3 on threads": boto3_on_threads,
    "penstock": ours,
    "penstock, unordered": ours_unordered,
    "penstock, by index": ours_by_index,
    "penstock in two workers": ours_in_workers,
}
BEST_RAW, CONNECTOR, S3FS, OURS = (
    ("obstore, async", "obstore on threads"),
    ("s3torchconnector, its dataset", "s3torchconnector on threads"),
    "s3fs",
    "penstock",
)
TAR: Mapping[str, Peer] = {
    **{name: WHOLE[name] for name in BEST_RAW},
    "obstore and tarfile": members_by_obstore,
    "s3fs, streamed": members_by_s3fs,
    "penstock, streamed": ours_of_tar,
    "penstock, four interleaved": ours_of_tar_interleaved,
    "penstock in two workers": ours_of_tar_in_workers,
    "WebDataset": webdataset,
    "WebDataset in two workers": partial(webdataset, workers=2),
}
RANGED: Mapping[str, Peer] = {name: WHOLE[name] for name in (*BEST_RAW, OURS)}
OURS_OF_TAR = ("penstock, streamed", "penstock, four interleaved", "penstock in two workers")
OF_WEBDATASET = ("WebDataset", "WebDataset in two workers")


def measure(peer: Peer, urls: list[str]) -> dict[str, float]:
    """Return the figures of reading all, after a warm-up that imports, connects and starts everything."""
    with peer(urls) as epoch:
        epoch()
        cpu_before, began = cpu_seconds(), time.perf_counter()
        read = sum(epoch() for _ in range(EPOCHS))
        seconds = time.perf_counter() - began
        cpu = cpu_seconds() - cpu_before
    return {"seconds": seconds / EPOCHS, "cpu": cpu / EPOCHS, "bytes": read / EPOCHS}
