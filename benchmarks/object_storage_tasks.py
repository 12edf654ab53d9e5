"""The contestants of `benchmarks.object_storage` at listing, at writing, and in a fresh process."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from .harness import cpu_seconds
from .object_storage_peers import REGION, Epoch, Peer, measure, obstore_of, on_threads, total

FOLDER = "s3://bench/small/"
PREFIX = "s3://bench/small"
SHARD, CHECKPOINT, MEMBER = 100_000_000, 500_000_000, 110_000
PIECE = 2**20
LISTINGS = 10
"""The listings per epoch: a single one takes a few hundredths of a second, too short to compare."""


def keys_of_all(listing: Callable[[], Sequence[object]]) -> Epoch:
    """Return an epoch that lists `LISTINGS` times, and counts the keys."""
    return lambda: sum(len(listing()) for _ in range(LISTINGS))


def stored() -> Any:
    return obstore_of([FOLDER])[0]


@contextmanager
def list_by_obstore(urls: list[str]) -> Iterator[Epoch]:
    import obstore

    store = stored()
    yield keys_of_all(
        lambda: [found["path"] for page in obstore.list(store, "small", chunk_size=1000) for found in page]
    )


@contextmanager
def list_by_s3fs(urls: list[str]) -> Iterator[Epoch]:
    import s3fs

    file_system = s3fs.S3FileSystem(use_listings_cache=False)
    yield keys_of_all(lambda: file_system.find(FOLDER))


@contextmanager
def list_by_connector(urls: list[str]) -> Iterator[Epoch]:
    import s3torchconnector

    yield keys_of_all(
        lambda: [
            *s3torchconnector.S3IterableDataset.from_prefix(
                FOLDER,
                region=REGION,
                endpoint=os.environ["AWS_ENDPOINT_URL"],
                transform=lambda reader: reader.key,
                s3client_config=s3torchconnector.S3ClientConfig(force_path_style=True),
            )
        ]
    )


@contextmanager
def list_by_us(urls: list[str], prefix: str = FOLDER) -> Iterator[Epoch]:
    import penstock as ps

    dp = ps.iter.IterableWrapper([prefix]).list_files_by_s3()
    yield keys_of_all(lambda: [*dp])


def content_of(size: int) -> bytes:
    import numpy as np

    return np.random.default_rng(0).bytes(size)


@contextmanager
def put_by_obstore(urls: list[str], size: int, **arguments: Any) -> Iterator[Epoch]:
    """Send content that is in memory already."""
    import obstore

    store, content = stored(), content_of(size)

    def put() -> int:
        obstore.put(store, "written/obstore", content, **arguments)
        return size

    yield put


@contextmanager
def write_by_connector(urls: list[str], size: int) -> Iterator[Epoch]:
    from s3torchconnector import S3Checkpoint, S3ClientConfig

    content = content_of(size)
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    client = S3Checkpoint(REGION, endpoint=endpoint, s3client_config=S3ClientConfig(force_path_style=True))

    def write() -> int:
        with client.writer("s3://bench/written/connector") as file:
            for start in range(0, size, PIECE):
                file.write(content[start : start + PIECE])
        return size

    yield write


@contextmanager
def write_by_s3fs(urls: list[str], size: int) -> Iterator[Epoch]:
    import s3fs

    content, file_system = content_of(size), s3fs.S3FileSystem()

    def write() -> int:
        with file_system.open("bench/written/s3fs", "wb", block_size=2**24) as file:
            for start in range(0, size, PIECE):
                file.write(content[start : start + PIECE])
        return size

    yield write


def samples_of(size: int) -> list[dict[str, Any]]:
    content = content_of(MEMBER + size // MEMBER)
    return [{"__key__": f"{number:06}", "jpg": content[number : number + MEMBER]} for number in range(size // MEMBER)]


@contextmanager
def tar_by_obstore(urls: list[str], size: int) -> Iterator[Epoch]:
    """Hand-written code: make the archive in memory, and send it."""
    import obstore

    store, samples = stored(), samples_of(size)

    def write() -> int:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            for sample in samples:
                header = tarfile.TarInfo(f"{sample['__key__']}.jpg")
                header.size = MEMBER
                tar.addfile(header, io.BytesIO(sample["jpg"]))
        obstore.put(store, "written/obstore.tar", made.getbuffer())
        return size

    yield write


@contextmanager
def tar_by_us(urls: list[str], size: int) -> Iterator[Epoch]:
    import penstock as ps

    samples = samples_of(size)
    source = ps.iter.IterableWrapper(samples, deepcopy=False)
    dp = source.write_tar("s3://bench/written/{shard}.tar", len(samples), mode="overwrite")

    def write() -> int:
        [_] = dp
        return size

    yield write


@contextmanager
def save_by_us(urls: list[str], size: int) -> Iterator[Epoch]:
    import penstock as ps

    item = ("s3://bench/written/penstock", content_of(size))
    dp = ps.iter.IterableWrapper([item], deepcopy=False).save_by_fsspec("wb")

    def write() -> int:
        [_] = dp
        return size

    yield write


@contextmanager
def checkpoint_by_us(urls: list[str], size: int) -> Iterator[Epoch]:
    import torch

    from penstock import checkpoint

    weight = torch.rand(size // 4)

    def write() -> int:
        checkpoint.save("s3://bench/written/penstock.pt", weight=weight)
        return size

    yield write


@contextmanager
def fresh_obstore(urls: list[str]) -> Iterator[Epoch]:
    def epoch() -> int:
        import obstore

        store = stored()
        keys = [found["path"] for page in obstore.list(store, "small", chunk_size=1000) for found in page]
        return on_threads(lambda key: bytes(obstore.get(store, key).bytes()), keys)

    yield epoch


@contextmanager
def fresh_penstock(urls: list[str], prefix: str = FOLDER) -> Iterator[Epoch]:
    def epoch() -> int:
        import penstock as ps

        dp: Any = ps.iter.IterableWrapper([prefix]).list_files_by_s3().load_files_by_s3()
        return total(stream.read() for _, stream in dp)

    yield epoch


def fresh_penstock_imported(urls: list[str]) -> AbstractContextManager[Epoch]:
    import penstock as ps

    assert ps.iter.IterableWrapper is not None
    return fresh_penstock(urls)


@dataclass(frozen=True)
class Task:
    """A task: its contestants, what is counted, which contestants are raw or ours, and our goal.

    `measured` measures it: in repeated epochs, or in a process that has imported only torch.
    """

    peers: Mapping[str, Peer]
    unit: str
    raw: tuple[str, ...]
    ours: tuple[str, ...]
    goal: float
    measured: Callable[[Peer, list[str]], dict[str, float]] = measure


def measure_once(peer: Peer, urls: list[str]) -> dict[str, float]:
    """Return the figures of the first epoch in a process that has imported torch."""
    import torch

    assert torch.get_num_threads() > 0
    with peer(urls) as epoch:
        cpu_before, began = cpu_seconds(), time.perf_counter()
        done = epoch()
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "cpu": cpu_seconds() - cpu_before, "bytes": done}


def measure_task(kind: str, peer: str) -> dict[str, float]:
    task = TASKS[kind]
    return task.measured(task.peers[peer], [])


def writers_of(size: int, ours: Mapping[str, Callable[..., AbstractContextManager[Epoch]]]) -> dict[str, Peer]:
    writers: dict[str, Callable[..., AbstractContextManager[Epoch]]] = {
        "obstore's put": put_by_obstore,
        "s3torchconnector's writer": write_by_connector,
        "s3fs": write_by_s3fs,
        **ours,
    }
    return {name: partial(writer, size=size) for name, writer in writers.items()}


TASKS: Mapping[str, Task] = {
    "list": Task(
        {
            "obstore": list_by_obstore,
            "s3torchconnector": list_by_connector,
            "s3fs": list_by_s3fs,
            "penstock": list_by_us,
            "penstock, no slash at the end": partial(list_by_us, prefix=PREFIX),
        },
        "keys",
        ("obstore",),
        ("penstock", "penstock, no slash at the end"),
        0.8,
    ),
    "shard": Task(
        writers_of(
            SHARD, {"obstore and tarfile": tar_by_obstore, "penstock, bytes": save_by_us, "penstock, a tar": tar_by_us}
        ),
        "bytes",
        ("obstore's put", "s3torchconnector's writer"),
        ("penstock, bytes", "penstock, a tar"),
        0.9,
    ),
    "checkpoint": Task(
        writers_of(CHECKPOINT, {"penstock": checkpoint_by_us}),
        "bytes",
        ("obstore's put", "s3torchconnector's writer"),
        ("penstock",),
        0.9,
    ),
    "fresh": Task(
        {
            "obstore on threads": fresh_obstore,
            "penstock": fresh_penstock,
            "penstock, no slash at the end": partial(fresh_penstock, prefix=PREFIX),
            "penstock, imported before": fresh_penstock_imported,
        },
        "bytes",
        ("obstore on threads",),
        ("penstock", "penstock, no slash at the end", "penstock, imported before"),
        0.95,
        measure_once,
    ),
}
