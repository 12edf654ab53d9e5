"""One chain for each operator, in penstock, in torchdata 0.9, and written by hand.

`python -m benchmarks.operator_cases LIBRARY` times them on request, line by line. The two libraries need different
environments, so a process in each takes turns. Imports nothing but the library, torch and their dependencies.
"""

from __future__ import annotations

import asyncio
import bz2
import csv
import gc
import gzip
import hashlib
import io
import itertools
import json
import lzma
import os
import random
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from torch.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from torch.utils.data.datapipes.utils.common import StreamWrapper


def _as_it_is(stream: Any) -> Any:
    return stream


class Data:
    """The inputs of the chains: the namespaces of a library, a number of items, and files in a folder."""

    def __init__(self, library: str, n: int, folder: Path) -> None:
        self.iter = import_module(f"{library}.iter")
        self.map = import_module(f"{library}.map")
        self.n = n
        # torchdata's loaders take only wrapped streams.
        self.stream: Callable[[Any], Any] = StreamWrapper if library.startswith("torchdata") else _as_it_is
        self.folder = folder

    @property
    def numbers(self) -> Any:
        return self.iter.IterableWrapper(range(self.n), deepcopy=False)

    def items(self, items: list[Any]) -> Any:
        """Return a pipe over items that were made before the timing starts."""
        return self.iter.IterableWrapper(items, deepcopy=False)

    def sequence(self, items: Any) -> Any:
        return self.map.SequenceWrapper(items, deepcopy=False)

    def files(self) -> list[str]:
        """Return the paths of files on disk."""
        folder = self.folder / str(self.n)
        paths = [folder / f"{number:06}.txt" for number in range(self.n)]
        if not folder.exists():
            folder.mkdir(parents=True)
            for path in paths:
                path.write_bytes(TEXT)
        return [*map(str, paths)]


class Case(NamedTuple):
    """How one operator is measured. Each function gets the data and returns an iterable, which is read to its end."""

    operator: str
    chain: Callable[[Data], Iterable[Any]]
    by_hand: Callable[[Data], Iterable[Any]] | None = None
    most: int = 1_000_000
    """The most items: more would need too many files."""


def add_one(x: Any) -> Any:
    return x + 1


def is_even(x: int) -> bool:
    return x % 2 == 0


def last_digit(x: int) -> int:
    return x % 10


def twice(x: Any) -> list[Any]:
    return [x, x]


def doubled(batch: list[Any]) -> list[Any]:
    return [x + 1 for x in batch]


async def add_one_later(x: Any) -> Any:
    return x + 1


def by_key(pair: Any) -> Any:
    return pair[0]


def merged(one: Any, other: Any) -> Any:
    return one, other


def two_streams(data: Data) -> Any:
    return data.numbers, data.numbers


def pairs(data: Data) -> list[Any]:
    return [(number, number) for number in range(data.n)]


def dicts(data: Data) -> list[Any]:
    return [{"a": number} for number in range(data.n)]


def lists(data: Data, size: int = 10) -> list[Any]:
    return [list(range(size)) for _ in range(data.n // size)]


def words(data: Data) -> list[Any]:
    return ["x" * (number % 50 + 1) for number in range(data.n)]


def contents(streams: Iterable[Any]) -> Iterator[Any]:
    """Read every stream and close it; torchdata leaves closing to the reader."""
    for path, stream in streams:
        content = stream.read()
        stream.close()
        yield path, content


def in_turn(*streams: Any) -> Iterator[Any]:
    """Read the branches of one pipe in step, as users do."""
    return itertools.chain.from_iterable(zip(*streams, strict=False))


# By hand


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def shuffled(items: Iterable[Any], room: int) -> Iterator[Any]:
    draw = random.Random(0)
    buffer: list[Any] = []
    for item in items:
        if len(buffer) < room:
            buffer.append(item)
        else:
            place = draw.randrange(room)
            yield buffer[place]
            buffer[place] = item
    draw.shuffle(buffer)
    yield from buffer


def loaded(pairs: list[Any]) -> Iterator[Any]:
    values = dict(pairs)
    yield from map(values.__getitem__, range(len(values)))


def listed(folder: str) -> Iterator[str]:
    yield from sorted(entry.path for entry in os.scandir(folder) if entry.is_file())


def permuted(items: range) -> Iterator[int]:
    yield from random.sample(items, len(items))


def grouped(items: Iterable[int], size: int) -> Iterator[list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for item in items:
        group = groups[last_digit(item)]
        group.append(item)
        if len(group) == size:
            yield groups.pop(last_digit(item))
    yield from groups.values()


def bucketized(items: Iterable[str], most: int) -> Iterator[list[str]]:
    """Yield batches of up to `most` characters, from windows of sorted words."""
    for window in batched(items, 1000):
        batch: list[str] = []
        total = 0
        for item in sorted(window, key=len):
            if total + len(item) > most:
                yield batch
                batch, total = [], 0
            batch.append(item)
            total += len(item)
        if batch:
            yield batch


def in_threads(items: Iterable[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
    with ThreadPoolExecutor() as pool:
        waiting: deque[Any] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) == 128:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()


def gathered(items: Iterable[Any], size: int) -> Iterator[Any]:
    async def together(batch: list[Any]) -> list[Any]:
        return await asyncio.gather(*map(add_one_later, batch))

    with asyncio.Runner() as runner:
        for batch in batched(items, size):
            yield from runner.run(together(batch))


def opened(paths: Iterable[str]) -> Iterator[Any]:
    for path in paths:
        with open(path, "rb") as stream:
            yield path, stream.read()


def lines_of(streams: Iterable[Any]) -> Iterator[Any]:
    for path, stream in streams:
        for line in stream:
            yield path, line.rstrip("\n")


def rows_of(streams: Iterable[Any], read: Callable[[Any], Iterable[Any]] = csv.reader) -> Iterator[Any]:
    for _, stream in streams:
        yield from read(stream)


def unpacked(stream: io.BytesIO) -> Iterator[Any]:
    with tarfile.open(fileobj=stream) as tar:
        for member in tar:
            file = tar.extractfile(member)
            if file is not None:
                yield member.name, file.read()


def unzipped(stream: io.BytesIO) -> Iterator[Any]:
    with zipfile.ZipFile(stream) as archive:
        for name in archive.namelist():
            yield name, archive.read(name)


def decompressed(streams: Iterable[Any], open_file: Callable[[Any], Any]) -> Iterator[Any]:
    for path, stream in streams:
        with open_file(stream) as file:
            yield path, file.read()


def saved(items: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    for path, content in items:
        with open(path, "wb") as stream:
            stream.write(content)
        yield path


# What files hold

TEXT = b"the quick brown fox jumps over the lazy dog\n" * 20
MULTIPROCESSING = SHARDING_PRIORITIES.MULTIPROCESSING
JSON = b'{"a": [1, 2, 3]}'
GZ, BZ2, XZ = gzip.compress(TEXT), bz2.compress(TEXT), lzma.compress(TEXT)
DIGEST = hashlib.sha256(TEXT).hexdigest()


def streams(data: Data, content: bytes, ending: str = "txt") -> list[Any]:
    """Return paths with streams in memory: opening files has its own cases."""
    return [(f"{number:06}.{ending}", data.stream(io.BytesIO(content))) for number in range(data.n)]


def lines(data: Data) -> str:
    return "".join(f"line {number} of a text\n" for number in range(data.n))


def rows(data: Data) -> str:
    return "name,x,y\n" + "".join(f"row {number},{number},0.5\n" for number in range(data.n))


def tar_of(data: Data) -> io.BytesIO:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for number in range(data.n):
            header = tarfile.TarInfo(f"{number:06}.txt")
            header.size = len(TEXT)
            tar.addfile(header, io.BytesIO(TEXT))
    return io.BytesIO(archive.getvalue())


def zip_of(data: Data) -> io.BytesIO:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        for number in range(data.n):
            writer.writestr(f"{number:06}.txt", TEXT)
    return io.BytesIO(archive.getvalue())


def cached_path(url: str) -> str:
    return str(Path(tempfile.gettempdir()) / "penstock-benchmark" / str(os.getpid()) / Path(url).name)


def fresh(path: str) -> str:
    """Return the path of a missing file in an existing folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).unlink(missing_ok=True)
    return path


def in_cache(data: Data) -> list[str]:
    urls = [f"{number:06}.bin" for number in range(data.n)]
    for url in urls:
        Path(fresh(cached_path(url))).write_bytes(TEXT)
    return urls


def not_in_cache(data: Data) -> list[str]:
    urls = [f"{number:06}.bin" for number in range(data.n)]
    for url in urls:
        fresh(cached_path(url))
    return urls


def through_cache(data: Data, urls: list[str]) -> Any:
    missing = data.items(urls).on_disk_cache(filepath_fn=cached_path)
    return missing.map(with_content).end_caching(mode="wb", filepath_fn=cached_path)


def with_content(url: str) -> Any:
    return url, StreamWrapper(io.BytesIO(TEXT))


def to_save(data: Data) -> list[Any]:
    return [(fresh(cached_path(f"{number:06}.bin")), TEXT) for number in range(data.n)]


def joined(lines: list[str]) -> str:
    return "\n".join(lines)


CASES = [
    Case("iter.IterableWrapper", lambda d: d.numbers, lambda d: iter(range(d.n))),
    Case("iter.map", lambda d: d.numbers.map(add_one), lambda d: map(add_one, range(d.n))),
    Case("iter.filter", lambda d: d.numbers.filter(is_even), lambda d: filter(is_even, range(d.n))),
    Case(
        "iter.flatmap",
        lambda d: d.numbers.flatmap(twice),
        lambda d: itertools.chain.from_iterable(map(twice, range(d.n))),
    ),
    Case("iter.batch", lambda d: d.numbers.batch(10), lambda d: batched(range(d.n), 10)),
    Case("iter.unbatch", lambda d: d.items(lists(d)).unbatch(), lambda d: itertools.chain.from_iterable(lists(d))),
    Case("iter.collate", lambda d: d.items(lists(d)).collate(sum), lambda d: map(sum, lists(d))),
    Case(
        "iter.concat",
        lambda d: d.numbers.concat(d.numbers),
        lambda d: itertools.chain(range(d.n), range(d.n)),
    ),
    Case("iter.cycle", lambda d: d.numbers.cycle(3), lambda d: itertools.chain(*[range(d.n)] * 3)),
    Case(
        "iter.repeat",
        lambda d: d.numbers.repeat(3),
        lambda d: itertools.chain.from_iterable(map(itertools.repeat, range(d.n), itertools.repeat(3))),
    ),
    Case("iter.demux", lambda d: in_turn(*d.numbers.demux(2, last_digit_is_even))),
    Case("iter.fork", lambda d: in_turn(*d.numbers.fork(2)), lambda d: in_turn(*itertools.tee(range(d.n)))),
    Case("iter.round_robin_demux", lambda d: in_turn(*d.numbers.round_robin_demux(2)), lambda d: iter(range(d.n))),
    Case(
        "iter.unzip",
        lambda d: in_turn(*d.items(pairs(d)).unzip(2)),
        lambda d: itertools.chain.from_iterable(pairs(d)),
    ),
    Case(
        "iter.random_split",
        lambda d: d.numbers.random_split({"a": 0.5, "b": 0.5}, seed=0, total_length=d.n, target="a"),
    ),
    Case("iter.drop", lambda d: d.items(pairs(d)).drop(0), lambda d: ((item[1],) for item in pairs(d))),
    Case("iter.slice", lambda d: d.items(pairs(d)).slice(0, 1), lambda d: map(itemgetter(slice(0, 1)), pairs(d))),
    Case("iter.flatten", lambda d: d.items([(n, (n, n)) for n in range(d.n)]).flatten(1)),
    Case("iter.enumerate", lambda d: d.numbers.enumerate(), lambda d: enumerate(range(d.n))),
    Case(
        "iter.add_index",
        lambda d: d.items(dicts(d)).add_index(),
        lambda d: ({**item, "index": number} for number, item in enumerate(dicts(d))),
    ),
    Case("iter.header", lambda d: d.numbers.header(d.n), lambda d: itertools.islice(range(d.n), d.n)),
    Case("iter.set_length", lambda d: d.numbers.set_length(d.n), lambda d: iter(range(d.n))),
    Case("iter.groupby", lambda d: d.numbers.groupby(last_digit, group_size=5), lambda d: grouped(range(d.n), 5)),
    Case(
        "iter.bucketbatch",
        lambda d: d.items(words(d)).bucketbatch(10, sort_key=sort_by_length, batch_num=10),
        lambda d: (b for w in batched(words(d), 100) for b in batched(sorted(w, key=len), 10)),
    ),
    Case(
        "iter.max_token_bucketize",
        lambda d: d.items(words(d)).max_token_bucketize(500),
        lambda d: bucketized(words(d), 500),
    ),
    Case("iter.shuffle", lambda d: d.numbers.shuffle(buffer_size=1000), lambda d: shuffled(range(d.n), 1000)),
    Case("iter.in_batch_shuffle", lambda d: d.items(lists(d)).in_batch_shuffle()),
    Case("iter.shuffled_flatmap", lambda d: d.items(lists(d)).shuffled_flatmap(buffer_size=20)),
    Case(
        "iter.Sampler",
        lambda d: d.iter.Sampler(d.sequence(range(d.n))),
        lambda d: map(range(d.n).__getitem__, range(d.n)),
    ),
    Case("iter.sharding_filter", lambda d: d.numbers.sharding_filter(), lambda d: iter(range(d.n))),
    Case(
        "iter.sharding_round_robin_dispatch",
        lambda d: d.numbers.sharding_round_robin_dispatch(MULTIPROCESSING),
        lambda d: iter(range(d.n)),
    ),
    Case("iter.zip", lambda d: d.numbers.zip(d.numbers), lambda d: zip(range(d.n), range(d.n), strict=False)),
    Case(
        "iter.zip_longest",
        lambda d: d.numbers.zip_longest(d.numbers),
        lambda d: itertools.zip_longest(range(d.n), range(d.n)),
    ),
    Case("iter.mux", lambda d: d.numbers.mux(d.numbers), lambda d: in_turn(range(d.n), range(d.n))),
    Case("iter.mux_longest", lambda d: d.numbers.mux_longest(d.numbers), lambda d: in_turn(range(d.n), range(d.n))),
    Case(
        "iter.zip_with_iter",
        lambda d: d.items(pairs(d)).zip_with_iter(d.items(pairs(d)), by_key, by_key, merge_fn=merged),
        lambda d: zip(pairs(d), pairs(d), strict=False),
    ),
    Case(
        "iter.zip_with_map",
        lambda d: d.items(pairs(d)).zip_with_map(d.sequence(range(d.n)), by_key, merge_fn=merged),
        lambda d: ((item, range(d.n)[item[0]]) for item in pairs(d)),
    ),
    Case(
        "iter.SampleMultiplexer",
        lambda d: d.iter.SampleMultiplexer({d.numbers: 0.5, d.numbers: 0.5}, seed=0),
    ),
    Case("iter.in_memory_cache", lambda d: read_once(d.numbers.in_memory_cache()), lambda d: iter(range(d.n))),
    Case("iter.prefetch", lambda d: d.numbers.prefetch(10), most=20_000),
    Case(
        "iter.threadpool_map",
        lambda d: d.numbers.threadpool_map(add_one, max_workers=2),
        lambda d: in_threads(range(d.n), add_one),
        most=20_000,
    ),
    Case(
        "iter.map_batches",
        lambda d: d.numbers.map_batches(doubled, batch_size=10),
        lambda d: itertools.chain.from_iterable(map(doubled, batched(range(d.n), 10))),
    ),
    Case(
        "iter.async_map_batches",
        lambda d: d.numbers.async_map_batches(add_one_later, batch_size=32),
        lambda d: gathered(range(d.n), 32),
        most=20_000,
    ),
    Case(
        "iter.rows2columnar",
        lambda d: d.items([[{"a": 1, "b": 2}] * 10 for _ in range(d.n // 10)]).rows2columnar(["a", "b"]),
        lambda d: ({k: [row[k] for row in rows] for k in "ab"} for rows in [[{"a": 1, "b": 2}] * 10] * (d.n // 10)),
    ),
    Case("iter.to_map_datapipe", lambda d: d.items(pairs(d)).to_map_datapipe(), lambda d: loaded(pairs(d))),
    Case("map.to_iter_datapipe", lambda d: d.sequence(range(d.n)).to_iter_datapipe(), lambda d: iter(range(d.n))),
    Case("iter.lines_to_paragraphs", lambda d: d.items(numbered_lines(d)).lines_to_paragraphs(joined)),
    # Files
    Case("iter.list_files", lambda d: d.iter.FileLister(folder_of(d)), lambda d: listed(folder_of(d)), 5000),
    Case(
        "iter.list_files_by_fsspec",
        lambda d: d.iter.FSSpecFileLister(folder_of(d), "*.txt"),
        lambda d: (name for name in listed(folder_of(d)) if fnmatch(name, "*.txt")),
        5000,
    ),
    Case("iter.open_files", lambda d: contents(d.items(d.files()).open_files("b")), lambda d: opened(d.files()), 5000),
    Case(
        "iter.open_files_by_fsspec",
        lambda d: contents(d.items(d.files()).open_files_by_fsspec(mode="rb")),
        lambda d: opened(d.files()),
        5000,
    ),
    Case(
        "iter.read_from_stream",
        lambda d: d.items(streams(d, TEXT)).read_from_stream(),
        lambda d: contents(streams(d, TEXT)),
        50_000,
    ),
    Case(
        "iter.check_hash",
        lambda d: d.items(streams(d, TEXT)).check_hash(dict.fromkeys(map(itemgetter(0), streams(d, TEXT)), DIGEST)),
        lambda d: (hashlib.sha256(content).hexdigest() == DIGEST for _, content in contents(streams(d, TEXT))),
        50_000,
    ),
    Case(
        "iter.parse_json_files",
        lambda d: d.items(streams(d, JSON)).parse_json_files(),
        lambda d: (json.loads(content) for _, content in contents(streams(d, JSON))),
        50_000,
    ),
    Case("iter.routed_decode", lambda d: d.items(streams(d, JSON, "json")).routed_decode(decoded), most=50_000),
    Case(
        "iter.readlines",
        lambda d: d.items([("lines.txt", io.StringIO(lines(d)))]).readlines(),
        lambda d: lines_of([("lines.txt", io.StringIO(lines(d)))]),
    ),
    Case(
        "iter.parse_csv",
        lambda d: d.items([("table.csv", io.StringIO(rows(d)))]).parse_csv(),
        lambda d: rows_of([("table.csv", io.StringIO(rows(d)))]),
    ),
    Case(
        "iter.parse_csv_as_dict",
        lambda d: d.items([("table.csv", io.StringIO(rows(d)))]).parse_csv_as_dict(),
        lambda d: rows_of([("table.csv", io.StringIO(rows(d)))], csv.DictReader),
    ),
    Case(
        "iter.load_from_tar",
        lambda d: contents(d.items([("files.tar", d.stream(tar_of(d)))]).load_from_tar()),
        lambda d: unpacked(tar_of(d)),
        5000,
    ),
    Case(
        "iter.load_from_zip",
        lambda d: contents(d.items([("files.zip", d.stream(zip_of(d)))]).load_from_zip()),
        lambda d: unzipped(zip_of(d)),
        5000,
    ),
    Case(
        "iter.webdataset",
        lambda d: d.items(streams(d, TEXT)).webdataset(),
        lambda d: ({"__key__": path[:-4], ".txt": content} for path, content in contents(streams(d, TEXT))),
        50_000,
    ),
    Case(
        "iter.decompress",
        lambda d: contents(d.items(streams(d, GZ, "gz")).decompress()),
        lambda d: decompressed(streams(d, GZ), gzip.open),
        20_000,
    ),
    Case(
        "iter.extract",
        lambda d: contents(d.items(streams(d, GZ, "gz")).extract()),
        lambda d: decompressed(streams(d, GZ), gzip.open),
        20_000,
    ),
    Case(
        "iter.load_from_bz2",
        lambda d: contents(d.items(streams(d, BZ2, "bz2")).load_from_bz2()),
        lambda d: decompressed(streams(d, BZ2), bz2.open),
        20_000,
    ),
    Case(
        "iter.load_from_xz",
        lambda d: contents(d.items(streams(d, XZ, "xz")).load_from_xz()),
        lambda d: decompressed(streams(d, XZ), lzma.open),
        20_000,
    ),
    Case("iter.save_to_disk", lambda d: d.items(to_save(d)).save_to_disk("wb"), lambda d: saved(to_save(d)), 2000),
    Case(
        "iter.save_by_fsspec",
        lambda d: d.items(to_save(d)).save_by_fsspec(mode="wb"),
        lambda d: saved(to_save(d)),
        2000,
    ),
    Case("iter.on_disk_cache", lambda d: through_cache(d, in_cache(d)), most=500),
    Case("iter.end_caching", lambda d: through_cache(d, not_in_cache(d)), most=500),
    # Read by index
    Case("map.SequenceWrapper", lambda d: by_index(d.sequence(range(d.n))), lambda d: by_index(range(d.n))),
    Case("map.map", lambda d: by_index(d.sequence(range(d.n)).map(add_one)), lambda d: map(add_one, range(d.n))),
    Case("map.batch", lambda d: by_index(d.sequence(range(d.n)).batch(10)), lambda d: batched(range(d.n), 10)),
    Case(
        "map.concat",
        lambda d: by_index(d.sequence(range(d.n)).concat(d.sequence(range(d.n)))),
        lambda d: itertools.chain(range(d.n), range(d.n)),
    ),
    Case(
        "map.zip",
        lambda d: by_index(d.sequence(range(d.n)).zip(d.sequence(range(d.n)))),
        lambda d: zip(range(d.n), range(d.n), strict=False),
    ),
    Case("map.shuffle", lambda d: d.sequence(range(d.n)).shuffle(), lambda d: permuted(range(d.n))),
    Case(
        "map.in_memory_cache", lambda d: by_index(d.sequence(range(d.n)).in_memory_cache()), lambda d: iter(range(d.n))
    ),
    Case(
        "map.unzip",
        lambda d: by_index(d.sequence(pairs(d)).unzip(2)[0]),
        lambda d: map(itemgetter(0), pairs(d)),
    ),
]
"""Each operator, by its key in the registry."""

NOT_MEASURED = {
    "iter.list_files_by_ais": "needs a server of AIStore",
    "iter.load_files_by_ais": "needs a server of AIStore",
    "iter.list_files_by_s3": "torchdata's needs a compiled extension that its wheels no longer hold",
    "iter.load_files_by_s3": "torchdata's needs a compiled extension that its wheels no longer hold",
    "iter.list_files_by_iopath": "iopath does the work",
    "iter.open_files_by_iopath": "iopath does the work",
    "iter.save_by_iopath": "iopath does the work",
    "iter.read_from_http": "the network is what is measured",
    "iter.read_from_gdrive": "the network is what is measured",
    "iter.read_from_remote": "the network is what is measured",
    "iter.HuggingFaceHubReader": "the library datasets does the work",
    "iter.load_from_rar": "rarfile does the work, and nothing free writes its archives",
    "iter.load_from_tfrecord": "torchdata's runs only with protobuf 3",
    "iter.dataframe": "torchdata's needs torcharrow, which no current Python has",
    "iter.load_parquet_as_df": "torchdata's needs torcharrow, which no current Python has",
    "iter.fullsync": "needs a process group; it is one collective call for each item",
    "iter.pin_memory": "needs an accelerator",
    "iter.shard_expand": "happens once, to names",
}
"""torchdata's operators without a case, each with the reason."""


def last_digit_is_even(x: int) -> int:
    return x % 2


def sort_by_length(bucket: list[str]) -> list[str]:
    return sorted(bucket, key=len)


def numbered_lines(data: Data) -> list[Any]:
    return [("a file", "a line" if number % 5 else "") for number in range(data.n)]


def folder_of(data: Data) -> str:
    return str(Path(data.files()[0]).parent)


def read_once(pipe: Any) -> Any:
    """Return a pipe after a first pass, so that reading its cache is measured."""
    deque(pipe, maxlen=0)
    return pipe


def by_index(sequence: Any) -> Iterator[Any]:
    return map(sequence.__getitem__, range(len(sequence)))


def decoded(_: str, stream: Any) -> Any:
    return json.loads(stream if isinstance(stream, bytes) else stream.read())


def seconds(case: Case, side: str, data: Data) -> float:
    """Return the seconds of reading one side of a case to its end, the second time.

    The first time includes other costs: imports, and memory requested from the system.
    """
    make = case.by_hand if side == "by hand" else case.chain
    if make is None:
        return 0.0
    taken = 0.0
    for _ in range(2):
        built = make(data)
        gc.collect()  # else this case's time would include collecting the garbage of others
        began = time.perf_counter()
        deque(built, maxlen=0)
        taken = time.perf_counter() - began
    return taken


def serve(library: str, folder: Path) -> None:
    """Answer lines of JSON, [operator, side, items], with the seconds, or with the error as a text."""
    answers, sys.stdout = sys.stdout, sys.stderr
    warnings.simplefilter("ignore")
    cases = {case.operator: case for case in CASES}
    gc.freeze()  # else each collection would scan all imported modules
    for line in sys.stdin:
        operator, side, items = json.loads(line)
        try:
            answer: Any = seconds(cases[operator], side, Data(library, items, folder))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
