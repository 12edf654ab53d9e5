"""The chains that are resumed: `benchmarks.resuming` reads them with workers and in process."""

from __future__ import annotations

import math
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import penstock as ps

PAYLOAD = "payload-payload-payload-payload"
"""The content of items, which states must not contain."""


def plus_one(x: int) -> int:
    return x + 1


def text_of(x: int) -> str:
    return f"{PAYLOAD} {x}"


def as_image(x: int) -> str:
    """Take 100 µs of CPU, as decoding a small image does."""
    until = time.perf_counter() + 100e-6
    while time.perf_counter() < until:
        pass
    return text_of(x)


def content(member: tuple[str, Any]) -> bytes:
    data: bytes = member[1].read()
    return data


def cheap(n: int, buffer_size: int = 1000) -> Any:
    return (
        ps.iter.IterableWrapper(range(n))
        .sharding_filter()
        .map(plus_one)
        .shuffle(buffer_size=buffer_size)
        .map(text_of)
        .batch(64)
    )


def branches(n: int, lag: int = 0) -> Any:
    left, right = ps.iter.IterableWrapper(range(n)).sharding_filter().map(text_of).fork(2, buffer_size=lag + 10)
    late = ps.iter.IterableWrapper([""] * 2 * lag).sharding_filter().concat(left) if lag else left  # of two shards
    return late.zip(right.map(len)).batch(64)


def archives(n: int, folder: Path, members: int = 500) -> Any:
    paths = sorted(map(str, folder.glob("*.tar")))
    wanted = [paths[number % len(paths)] for number in range(math.ceil(n / members))]
    return ps.iter.IterableWrapper(wanted).sharding_filter().open_files("rb").load_from_tar().map(content).batch(64)


def items(n: int) -> Any:
    return ps.iter.IterableWrapper(range(n)).sharding_filter().map(text_of)


def images(n: int) -> Any:
    return ps.iter.IterableWrapper(range(n)).sharding_filter().map(as_image).batch(8)


def many_steps(n: int, steps: int = 64) -> Any:
    chain: Any = ps.iter.IterableWrapper(range(n)).sharding_filter()
    for _ in range(steps):
        chain = chain.map(plus_one)
    return chain.map(text_of).batch(64)


def make_archives(folder: Path, count: int = 4, members: int = 500) -> None:
    for number in range(count):
        with tarfile.open(folder / f"{number}.tar", "w") as archive:
            for member in range(members):
                header = tarfile.TarInfo(f"{member:05}.txt")
                data = PAYLOAD.encode() * 33
                header.size = len(data)
                archive.addfile(header, BytesIO(data))


@dataclass(frozen=True)
class Case:
    """A chain, and how much of it keeps a loader busy for about half a second."""

    make: Callable[[int], Any]
    items: int
    num_shards: int = 2


def cases(folder: Path) -> dict[str, Case]:
    return {
        "cheap: map, shuffle(1,000), map, batch": Case(cheap, 400_000),
        "branches: fork, zip, batch": Case(branches, 100_000),
        "archives: open, tar members, batch": Case(partial(archives, folder=folder), 12_000),
        "images-like: 100 µs an item, batch": Case(images, 6_000),
        "64 maps, batch": Case(many_steps, 120_000),
        "shuffle(10,000), batch": Case(partial(cheap, buffer_size=10_000), 400_000),
        "cheap, 12 shards": Case(cheap, 400_000, num_shards=12),
    }
