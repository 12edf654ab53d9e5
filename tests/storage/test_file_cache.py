"""cache_files: what was fetched once is read from the disk, whole, within the bound, by any number of processes."""

from __future__ import annotations

import errno
import io
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock import Retry, check_operator
from penstock.pipes.iter import file_cache
from penstock.storage import objects
from penstock.storage.local import disk_cache
from penstock.storage.local.locks import FileLock
from s3 import S3Server

IterableWrapper = ps.iter.IterableWrapper

pytestmark = pytest.mark.timeout(50)

LARGE = 10**9


class Server:
    """Opens URLs, and counts how often."""

    def __init__(self, contents: Callable[[str], bytes] = str.encode, sized: bool = False) -> None:
        self.contents = contents
        self.sized = sized
        self.opened: Counter[str] = Counter()

    def __call__(self, url: str) -> Any:
        self.opened[url] += 1
        stream = Stream(self.contents(url))
        if self.sized:
            stream.size = len(stream.getvalue())
        return stream


class Stream(io.BytesIO):
    size: Any = None


def cached(folder: Path, urls: Any, opener: Any = None, max_bytes: int = LARGE, **options: Any) -> Any:
    source = urls if isinstance(urls, ps.IterDataPipe) else IterableWrapper(urls)
    return source.cache_files(folder, max_bytes, opener or Server(), **options)


def read(dp: Any) -> list[tuple[str, bytes]]:
    return [(url, stream.read()) for url, stream in dp]


def pairs(urls: Any) -> list[tuple[str, bytes]]:
    return [(url, url.encode()) for url in urls]


def counts(dp: Any) -> dict[str, int]:
    """What was counted and is not 0."""
    of_step = dp.stats()["cache_files"]
    return {name: of_step[name] for name in file_cache._COUNTS if of_step[name]}


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("???/*") if len(path.parent.name) == 3)


def left_in_hand(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "fetching").iterdir())


def bytes_in(folder: Path) -> int:
    """All bytes that count; the finished ones first, or one could be seen twice."""
    paths = [*files(folder), *(path for path in (folder / "fetching").iterdir() if path.suffix != ".lock")]
    total = 0
    for path in paths:
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


# What comes out


def test_objects_of_a_store_small_and_large_are_kept(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "LARGE", 1000)
    bucket = s3_server.root / "cached"
    bucket.mkdir()
    contents = {f"s3://cached/{size}": random.Random(size).randbytes(size) for size in (0, 1, 1000, 1001, 3_000_000)}
    for url, content in contents.items():
        (bucket / url.rpartition("/")[2]).write_bytes(content)
    dp = IterableWrapper([*contents]).cache_files(tmp_path / "cache", LARGE)
    assert dict(read(dp)) == contents
    shutil.rmtree(bucket)
    assert dict(read(dp)) == contents
    assert counts(dp) == {"hits": 5}


def test_the_second_epoch_does_not_touch_the_server(tmp_path: Path) -> None:
    server = Server()
    urls = [f"s3://bucket/{number}" for number in range(20)]
    dp = cached(tmp_path, urls, server)
    assert len(dp) == 20
    assert read(dp) == pairs(urls)
    assert counts(dp) == {"misses": 20}
    assert read(dp) == pairs(urls)
    assert counts(dp) == {"hits": 20}
    assert read(cached(tmp_path, urls[::-1], Server(lambda url: b"not asked"))) == pairs(urls[::-1])
    assert server.opened == Counter(urls)


@given(st.lists(st.text(st.characters()), max_size=6))
@example(["x" * 10_000, "../../etc", "\udcff", "\udcfe", "/", ""])
@settings(max_examples=40)
def test_each_url_has_a_file_of_its_own(tmp_path_factory: Any, urls: list[str]) -> None:
    folder = tmp_path_factory.mktemp("cache")
    for _ in range(2):
        assert read(cached(folder, urls, Server(lambda url: repr(url).encode()))) == [
            (url, repr(url).encode()) for url in urls
        ]


def test_the_directory_may_be_below_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read(cached(Path("~/cache"), ["a"])) == pairs(["a"])
    assert len(files(tmp_path / "cache")) == 1


# The bound


def replayed(urls: list[str], size_of: Callable[[str], int], room: int) -> tuple[int, int, int]:
    """The hits, evictions and uncached files of a cache that evicts what was used least recently, and no more."""
    kept: OrderedDict[str, int] = OrderedDict()
    hits = evicted = uncached = 0
    for url in urls:
        if url in kept:
            hits += 1
            kept.move_to_end(url)
        elif size_of(url) > room:
            uncached += 1
        else:
            while sum(kept.values()) + size_of(url) > room:
                kept.popitem(last=False)
                evicted += 1
            kept[url] = size_of(url)
    return hits, evicted, uncached


@given(
    st.lists(st.integers(0, 12), max_size=40),
    st.lists(st.integers(0, 60), min_size=13, max_size=13),
    st.integers(1, 150),
    st.booleans(),
)
@settings(max_examples=60)
def test_the_least_recently_used_goes_and_the_bound_holds(
    tmp_path_factory: Any, accesses: list[int], sizes: list[int], room: int, sized: bool
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    urls = [f"{number}" for number in accesses]
    dp = cached(folder, urls, Server(lambda url: bytes(sizes[int(url)]), sized), room, workers=1)
    for url, stream in dp:
        assert len(stream.read()) == sizes[int(url)]
        assert bytes_in(folder) <= room
        assert int((folder / "total").read_text()) >= bytes_in(folder)
    seen = {name: dp.stats()["cache_files"][name] for name in ("hits", "evictions", "uncached")}
    assert (*seen.values(),) == replayed(urls, lambda url: sizes[int(url)], room)


@pytest.mark.parametrize("sized", [True, False])
def test_a_file_that_is_being_fetched_counts(tmp_path: Path, sized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_PIECE", 10)
    seen = []

    class Watched(Stream):
        def read(self, size: int | None = -1) -> bytes:
            seen.append(bytes_in(tmp_path))
            return super().read(size)

    class WatchedServer(Server):
        def __call__(self, url: str) -> Any:
            stream = Watched(bytes(45))
            stream.size = 45 if sized else None
            return stream

    dp = cached(tmp_path, "abcd", WatchedServer(), 100, workers=1)
    assert [content for _, content in read(dp)] == [bytes(45)] * 4
    assert counts(dp) == {"misses": 4, "evictions": 2}
    assert max(seen) == (90 if sized else 100)


def test_a_sixteenth_of_many_files_is_evicted_at_once(tmp_path: Path) -> None:
    urls = [f"{number:03}" for number in range(65)]
    dp = cached(tmp_path, urls, max_bytes=64 * 3, workers=1)
    read(dp)
    assert counts(dp) == {"misses": 65, "evictions": 4}
    assert len(files(tmp_path)) == 61
    dp = cached(tmp_path, urls[4:], max_bytes=64 * 3, workers=1)
    read(dp)
    assert counts(dp) == {"hits": 61}, "the four that were used longest ago went"


@pytest.mark.parametrize("sized", [True, False])
def test_a_file_larger_than_the_bound_is_read_without_the_cache(tmp_path: Path, sized: bool, caplog: Any) -> None:
    server = Server(lambda url: bytes(101 if url == "large" else 10), sized)
    dp = cached(tmp_path, ["a", "large", "b", "large", "a"], server, 100, workers=1)
    with caplog.at_level(logging.INFO, "penstock"):
        assert [len(content) for _, content in read(dp)] == [10, 101, 10, 101, 10]
    assert counts(dp) == {"hits": 1, "misses": 4, "uncached": 2}, "and nothing was evicted for it"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "'large' is read without the cache" in caplog.text
    assert "comes to 101 bytes of 100" in caplog.text
    assert left_in_hand(tmp_path) == []


def test_a_file_that_somebody_reads_stays_readable_when_it_is_evicted(tmp_path: Path) -> None:
    items = iter(cached(tmp_path, ["abc", "def", "ghi"], max_bytes=3, workers=1))
    _, first = next(items)
    assert first.read(1) == b"a"
    _, second = next(items)
    _, third = next(items)
    assert len(files(tmp_path)) == 1
    assert (first.read(), second.read(), third.read()) == (b"bc", b"def", b"ghi")


def test_a_pass_with_a_smaller_bound_begins_by_evicting(tmp_path: Path) -> None:
    read(cached(tmp_path, "abcd", workers=1))
    dp = cached(tmp_path, ["d"], max_bytes=2, workers=1)
    next(iter(dp))
    assert len(files(tmp_path)) == 2
    assert counts(dp) == {"hits": 1, "evictions": 2}


@pytest.mark.parametrize("content", ["garbage", "-5", "10000"])
def test_a_total_that_is_wrong_is_counted_anew(tmp_path: Path, content: str) -> None:
    read(cached(tmp_path, "abc", max_bytes=4))
    (tmp_path / "total").write_text(content)
    dp = cached(tmp_path, "abcd", max_bytes=4)
    assert read(dp) == pairs("abcd")
    assert counts(dp) == {"hits": 3, "misses": 1}
    assert int((tmp_path / "total").read_text()) == 4


def test_files_of_others_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("abc/notes.txt", "photos/1.jpg", "a")]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
    dp = cached(tmp_path, [f"{number}" for number in range(30)], max_bytes=5, workers=1)  # of several, one may not fit
    read(dp)
    assert counts(dp)["evictions"] > 20
    assert all(path.stat().st_size == 100 for path in others)


def test_a_folder_that_is_emptied_meanwhile_is_filled_anew(tmp_path: Path) -> None:
    dp = cached(tmp_path, "abc", workers=1)
    items = iter(dp)
    next(items)
    subprocess.run(["rm", "-r", *map(str, tmp_path.iterdir())], check=True)
    assert [url for url, _ in items] == ["b", "c"]
    assert len(files(tmp_path)) == 2


# Damage


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [flipped, lambda path: os.truncate(path, path.stat().st_size - 1)],
    ids=["a flipped bit", "cut"],
)
def test_a_file_that_is_damaged_is_fetched_anew_and_counted(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    urls = ["one", "two", "three"]
    server = Server()
    dp = cached(tmp_path, urls, server)
    read(dp)
    damage(next(path for path in files(tmp_path) if path.read_bytes() == b"two"))
    assert read(dp) == pairs(urls)
    assert counts(dp) == {"hits": 2, "misses": 1, "corrupt": 1}
    assert read(dp) == pairs(urls)
    assert counts(dp) == {"hits": 3}
    assert server.opened == {"one": 1, "two": 2, "three": 1}


def test_a_stream_shorter_than_its_size_is_not_kept_but_tried_again(tmp_path: Path) -> None:
    class Cutting(Server):
        def __call__(self, url: str) -> Any:
            stream = super().__call__(url)
            stream.size += self.opened[url] < 3
            return stream

    server = Cutting(sized=True)
    dp = cached(tmp_path, ["abc"], server, on_error=Retry(5, backoff=0))
    assert read(dp) == pairs(["abc"])
    assert dp.stats()["cache_files"]["retried"] == 2
    assert counts(dp) == {"misses": 1}
    with pytest.raises(ConnectionError, match="4 bytes were announced, and 3 arrived"):
        read(cached(tmp_path, ["cut"], Cutting(sized=True), on_error=Retry(1, backoff=0)))
    assert left_in_hand(tmp_path) == []


def test_a_size_that_is_no_number_says_nothing(tmp_path: Path) -> None:
    class Sized(Stream):
        def size(self) -> int:  # type: ignore[override]  # as that of an mmap
            return 100

    assert read(cached(tmp_path, ["a"], lambda url: Sized(b"one"))) == [("a", b"one")]


# Failures


def failing(times: int, error: Exception) -> Callable[[str], Any]:
    attempts: Counter[str] = Counter()

    def open_file(url: str) -> Any:
        attempts[url] += 1
        if url == "bad" and attempts[url] <= times:
            raise error
        return io.BytesIO(url.encode())

    return open_file


def test_only_a_lost_connection_is_tried_again_by_default(tmp_path: Path) -> None:
    dp = cached(tmp_path, ["a", "bad", "c"], failing(1, ConnectionError("lost")))
    assert read(dp) == pairs(["a", "bad", "c"])
    assert dp.stats()["cache_files"]["retried"] == 1
    dp = cached(tmp_path / "other", ["a", "bad", "c"], failing(1, FileNotFoundError("bad")))
    items = iter(dp)
    assert next(items)[0] == "a"
    with pytest.raises(FileNotFoundError) as caught:
        next(items)
    assert "raised in FileCacher" in caught.value.__notes__[0]
    assert "on 'bad'" in caught.value.__notes__[0]


def test_on_error_is_for_what_cannot_be_fetched(tmp_path: Path) -> None:
    dp = cached(tmp_path, ["a", "bad", "c"], failing(100, ValueError("no")), on_error="skip")
    assert read(dp) == pairs(["a", "c"])
    assert dp.stats()["cache_files"]["skipped"] == 1
    with pytest.raises(TypeError, match="its length is unknown"):
        len(dp)


@pytest.mark.parametrize(
    ("items", "arguments", "error", "said"),
    [
        ([], {"directory": 5}, TypeError, "a path must be a string"),
        ([], {"max_bytes": 0}, ValueError, "max_bytes"),
        ([], {"open": 5}, TypeError, "open must be a function"),
        ([], {"open": Server(), "storage_options": {"anon": True}}, TypeError, "anon"),
        ([], {"workers": 0}, ValueError, "workers"),
        ([], {"timeout": 0}, ValueError, "timeout"),
        ([], {"on_error": 5}, ValueError, "on_error"),
        ([("a", io.BytesIO())], {}, TypeError, "put it in place of the operator that opens"),
        ([5], {}, TypeError, "a path must be a string"),
        (["a"], {"open": lambda url: b"bytes"}, TypeError, "open must return a stream"),
        (["a"], {"open": lambda url: io.StringIO("text")}, TypeError, "its bytes are needed"),
    ],
)
def test_wrong_arguments_items_and_streams_are_errors(
    tmp_path: Path, items: Any, arguments: Any, error: Any, said: str
) -> None:
    arguments = {"directory": tmp_path, "max_bytes": LARGE, **arguments}
    with pytest.raises(error, match=said):
        read(IterableWrapper(items, deepcopy=False).cache_files(**arguments))


class FullDisk:
    """Opens files on a disk that takes only so many bytes more of what is written in pieces."""

    def __init__(self, room: int, number: int = errno.ENOSPC) -> None:
        self.room = room
        self.number = number

    def __call__(self, path: Any, mode: str = "r", **options: Any) -> Any:
        file = open(path, mode, **options)  # noqa: SIM115  who asked for it closes it
        if mode == "wb":
            write = file.write

            def write_where_there_is_room(piece: bytes) -> int:
                if len(piece) > self.room:
                    raise OSError(self.number, os.strerror(self.number), path)
                self.room -= len(piece)
                return write(piece)

            file = Through(file, write_where_there_is_room)
        return file


class Through:
    """A file whose bytes are written by another function."""

    def __init__(self, file: Any, write: Callable[[bytes], int]) -> None:
        self.file = file
        self.write = write
        self.truncate = file.truncate

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def test_on_a_full_disk_only_cached_files_are_read_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(disk_cache, "open", FullDisk(10), raising=False)
    server = Server(lambda url: url.encode() * 4)
    urls = ["a", "b", "c", "d", "a"]
    dp = cached(tmp_path, urls, server, workers=1)
    with caplog.at_level(logging.INFO, "penstock"):
        assert read(dp) == [(url, url.encode() * 4) for url in urls]
    assert counts(dp) == {"hits": 1, "misses": 4, "uncached": 2}
    assert server.opened == {"a": 1, "b": 1, "c": 2, "d": 1}, "nothing is tried again right after"
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "No space left" in caplog.text
    assert left_in_hand(tmp_path) == []
    monkeypatch.undo()
    assert read(dp) == [(url, url.encode() * 4) for url in urls]
    assert counts(dp) == {"hits": 3, "misses": 2}


def test_once_the_rest_is_over_a_disk_that_was_full_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk(0)
    monkeypatch.setattr(disk_cache, "open", disk, raising=False)
    monkeypatch.setattr(disk_cache, "_REST", 0.0)
    items = iter(cached(tmp_path, "ab", workers=1))
    next(items)
    assert files(tmp_path) == []
    disk.room = 10
    assert len(list(items)) == 1
    assert len(files(tmp_path)) == 1


def test_a_file_too_large_for_the_system_alone_is_read_without_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "open", FullDisk(10, errno.EFBIG), raising=False)
    dp = cached(tmp_path, ["a", "large file", "bc"], Server(lambda url: url.encode() * 2), workers=1)
    assert [content for _, content in read(dp)] == [b"aa", b"large file" * 2, b"bcbc"]
    assert counts(dp) == {"misses": 3, "uncached": 1}
    assert left_in_hand(tmp_path) == []


# Passes that are given up, and resumed


def test_a_pass_given_up_leaves_nothing_of_a_fetch(tmp_path: Path) -> None:
    begun = threading.Event()

    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            begun.set()
            time.sleep(0.001)
            return b"x" * min(size, 1000)

    dp = cached(tmp_path, ["a", "endless"], lambda url: Endless() if url == "endless" else io.BytesIO(b"a"))
    items = iter(dp.prefetch(1))
    assert next(items)[0] == "a"
    assert begun.wait(20)
    items.close()
    assert len(files(tmp_path)) == 1
    assert left_in_hand(tmp_path) == []


def test_the_laws_hold_where_there_is_too_little_room_and_one_worker(tmp_path: Path) -> None:
    check_operator(lambda: cached(tmp_path, "abcdef", max_bytes=2, workers=1))


# Several processes

PROGRAM = """
import io, os, random, sys, time
import penstock as ps

folder, max_bytes, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

class Slow(io.RawIOBase):
    def __init__(self, url, n):
        self.url, self.rest, self.size = url, n, n if int(url) % 2 else None
    def read(self, n):
        n = min(self.rest, 1000, n)
        self.rest -= n
        return (self.url[-1:] * n).encode()

class Hanging(Slow):
    def read(self, n):
        if self.rest < 1000:
            print("half", flush=True)
            time.sleep(60)
        return super().read(n)

def fetch(url):
    os.write(log, f"{url}\\n".encode())
    return (Hanging if what == "hang" else Slow)(url, 500 + int(url) * 131 % 5000)

input()
draw = random.Random(what)
urls = [str(number) for number in range(60)]
if what != "each":
    urls = draw.choices(urls, k=100_000 if what.startswith("endless") else 200)
if what == "hang":
    urls = ["11"]
dp = ps.iter.IterableWrapper(urls).cache_files(os.path.join(folder, "cache"), max_bytes, fetch, workers=4)
for url, stream in dp:
    content = stream.read()
    assert content == (url[-1:] * (500 + int(url) * 131 % 5000)).encode(), url
counts = dp.stats()["cache_files"]
print(counts["hits"], counts["misses"], counts["evictions"], counts["corrupt"], counts["uncached"])
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a process that reads through the cache in the folder, once it is given a line."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with ExitStack() as running:

        def begin(what: Any, max_bytes: int = LARGE, go: bool = True) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, str(program), str(tmp_path), str(max_bytes), str(what)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            running.callback(process.communicate)
            running.callback(process.kill)
            if go:
                let_go(process)
            return process

        yield begin


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def told(process: subprocess.Popen[str]) -> list[int]:
    """The counts that a process tells at its end: hits, misses, evictions, corrupt, uncached."""
    output, _ = process.communicate(timeout=40)
    assert process.returncode == 0
    return [int(count) for count in output.split()]


def test_one_of_several_processes_fetches_a_file(tmp_path: Path, start: Any) -> None:
    processes = [start("each", go=False) for _ in range(4)]
    for process in processes:
        let_go(process)
    counted = [told(process) for process in processes]
    assert all(hits + misses == 60 for hits, misses, *_ in counted)
    assert sum(misses for _, misses, *_ in counted) == 60
    assert all(others == [0, 0, 0] for _, _, *others in counted)
    assert sorted((tmp_path / "log").read_text().split(), key=int) == [str(number) for number in range(60)]
    assert left_in_hand(tmp_path / "cache") == []
    assert int((tmp_path / "cache" / "total").read_text()) == bytes_in(tmp_path / "cache")


def test_processes_that_evict_each_others_files_stay_within_the_bound(tmp_path: Path, start: Any) -> None:
    room, folder = 30_000, tmp_path / "cache"
    folder.mkdir()
    processes = [start(seed, room) for seed in range(3)]
    looks, most = 0, 0
    while any(process.poll() is None for process in processes):
        with FileLock(str(folder / "total.lock"), 30, threading.Event()):  # nothing grows meanwhile
            if (folder / "fetching").exists():
                most = max(most, bytes_in(folder))
                looks += 1
        time.sleep(random.uniform(0.001, 0.01))
    assert room / 2 < most <= room
    assert looks > 10
    for process in processes:
        hits, misses, evictions, corrupt, _ = told(process)
        assert hits + misses == 200
        assert min(hits, evictions) > 0
        assert corrupt == 0


def test_after_kill_9_in_the_middle_of_a_fetch_the_next_fetches_at_once(tmp_path: Path, start: Any) -> None:
    killed = start("hang")
    assert killed.stdout.readline() == "half\n"
    waiting = start("each")
    [part, lock] = left_in_hand(tmp_path / "cache")
    assert lock == f"{part}.lock"
    killed.kill()
    killed.wait(20)
    assert told(waiting) == [0, 60, 0, 0, 0]
    assert left_in_hand(tmp_path / "cache") == []


def test_what_killed_processes_leave_is_removed_when_the_next_pass_begins(tmp_path: Path, start: Any) -> None:
    killed = start("hang", 5000)
    assert killed.stdout.readline() == "half\n"
    folder = tmp_path / "cache"
    read(cached(folder, ["before"], max_bytes=5000))
    assert len(left_in_hand(folder)) == 2, "as long as its owner lives, it stays"
    killed.kill()
    killed.wait(20)
    dp = cached(folder, ["before", "4096"], Server(lambda url: bytes(4096)), max_bytes=5000, workers=1)
    next(iter(dp))
    assert left_in_hand(folder) == []
    read(dp)
    assert counts(dp) == {"hits": 1, "misses": 1}, "there is room for what was not finished"


def test_killed_at_any_moment_processes_leave_a_cache_that_is_whole(tmp_path: Path, start: Any) -> None:
    room, folder = 30_000, tmp_path / "cache"
    draw = random.Random(7)
    # Those that are killed do not end by themselves before, however late this process looks.
    processes = [start(f"endless {seed}" if seed < 3 else seed, room, go=False) for seed in range(4)]
    for process in processes[:3]:
        let_go(process)
    (tmp_path / "log").touch()
    for process in processes[:3]:
        before = (tmp_path / "log").stat().st_size
        deadline = time.monotonic() + 20
        while (tmp_path / "log").stat().st_size < before + 50 and time.monotonic() < deadline:
            time.sleep(draw.uniform(0.001, 0.02))
        process.kill()
        process.wait(20)
    let_go(processes[3])
    hits, misses, _, corrupt, _ = told(processes[3])
    assert hits + misses == 200
    assert corrupt == 0
    assert left_in_hand(folder) == []
    assert bytes_in(folder) <= int((folder / "total").read_text()) <= room


def test_who_waits_too_long_for_another_reads_without_the_cache(tmp_path: Path, start: Any, caplog: Any) -> None:
    hanging = start("hang")
    assert hanging.stdout.readline() == "half\n"
    dp = cached(tmp_path / "cache", ["11", "12"], timeout=0.2)
    assert read(dp) == pairs(["11", "12"])
    assert counts(dp) == {"misses": 2, "uncached": 1}
    assert f"is held by process {hanging.pid}" in caplog.text


def test_who_waits_ends_soon_when_its_pass_is_given_up(tmp_path: Path, start: Any) -> None:
    hanging = start("hang")
    assert hanging.stdout.readline() == "half\n"
    server = Server()
    items: Any = iter(cached(tmp_path / "cache", ["12", "11"], server, workers=2, ordered=False))
    assert next(items)[0] == "12"
    items.close()
    assert server.opened == {"12": 1}


def test_urls_that_come_twice_at_once_are_fetched_once_by_the_threads_too(tmp_path: Path) -> None:
    server = Server()
    dp = cached(tmp_path, ["a", "b"] * 8, server)
    assert read(dp) == pairs(["a", "b"] * 8)
    assert server.opened == {"a": 1, "b": 1}
    assert counts(dp) == {"hits": 14, "misses": 2}


def test_a_file_that_a_server_refuses_is_no_fault_of_the_folder(tmp_path: Path) -> None:
    opened = []

    def refused(url: str) -> Any:
        opened.append(url)
        raise PermissionError(errno.EACCES, "the server refused", url)

    dp = IterableWrapper(["s3://bucket/a"]).cache_files(tmp_path, 100, refused)
    with pytest.raises(PermissionError, match="the server refused"):
        list(dp)
    assert opened == ["s3://bucket/a"]
