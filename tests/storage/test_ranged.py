from __future__ import annotations

import gc
import io
import os
import random
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock.pipes.iter import IterableWrapper
from penstock.storage.addresses import address_of
from penstock.storage.objects import open_ranged
from penstock.storage.streaming import ranged
from penstock.storage.streaming.ranged import Ranged
from penstock.workers.threads import Interrupted
from s3 import S3Server

PATIENCE = 10.0
KIB, MIB = 2**10, 2**20
NOISE = random.Random(0).randbytes(MIB)
LARGE = NOISE * 24


class Spans:
    """What fetches from memory, and keeps what it was asked for."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.asked: list[tuple[int, int]] = []
        self.failing: set[int] = set()
        self.let_go = threading.Event()
        self.let_go.set()
        self.given_up = False
        self.at_a_time = self.most_at_a_time = 0
        self.counting = threading.Lock()

    def __call__(self, start: int, end: int) -> bytes:
        with self.counting:
            self.asked.append((start, end))
            self.at_a_time += 1
            self.most_at_a_time = max(self.at_a_time, self.most_at_a_time)
        assert self.let_go.wait(PATIENCE)
        with self.counting:
            self.at_a_time -= 1
        if start in self.failing:
            self.failing.remove(start)
            raise ConnectionError(f"played at {start}")
        return self.content[start:end]

    def give_up(self) -> None:
        self.given_up = True


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("penstock-ranged")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert threads() == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 400)),
        st.tuples(st.just("seek"), st.integers(0, 1100)),
        st.tuples(st.just("back"), st.integers(-300, 0)),
        st.tuples(st.just("line"), st.just(0)),
    ),
    max_size=12,
)


@given(STEPS, st.integers(1, 300), st.integers(0, 4), st.booleans())
def test_it_reads_as_the_same_bytes_in_memory_do(
    steps: list[tuple[str, int]], part: int, ahead: int, buffered: bool
) -> None:
    content = NOISE[:1000]
    memory: Any = io.BytesIO(content)
    read: Any = Ranged(Spans(content), len(content), "object", part, ahead)
    with io.BufferedReader(read, 64) if buffered else read as stream:
        for step, number in steps:
            if step == "read" and buffered:
                assert stream.read(number) == memory.read(number)
            elif step == "read":  # which may give less, but nothing only at the end
                got = stream.read(number)
                assert got == memory.read(len(got))
                assert got or not number or memory.tell() >= len(content)
            elif step == "seek":
                assert stream.seek(number) == memory.seek(number)
            elif step == "back":
                place = max(memory.tell() + number, 0) - memory.tell()
                assert stream.seek(place, os.SEEK_CUR) == memory.seek(place, os.SEEK_CUR)
            else:
                assert stream.readline() == memory.readline()
            assert stream.tell() == memory.tell()
        stream.seek(-5, os.SEEK_END)
        assert stream.read() == content[-5:]


def test_an_object_read_through_is_fetched_once_in_growing_ranges() -> None:
    fetch = Spans(LARGE)
    with io.BufferedReader(Ranged(fetch, len(fetch.content), "object")) as stream:
        while stream.read(50_000):
            pass
    spans = sorted(fetch.asked)
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(fetch.content)
    lengths = [end - start for start, end in spans[:-1]]
    assert lengths == sorted(lengths)
    assert lengths[0] == ranged.AT_START
    assert lengths[-1] == ranged.PART


def test_no_more_is_fetched_ahead_than_there_is_room_for() -> None:
    part, ahead = 1000, 3
    fetch = Spans(NOISE[:100_000])
    with Ranged(fetch, len(fetch.content), "object", part, ahead) as stream:
        for place in range(0, 100_000, 500):
            assert len(stream.read(500)) == 500
            assert max(end for _, end in [*fetch.asked]) - place <= (ahead + 1) * part
        assert max(end for _, end in fetch.asked) == 100_000


def test_ranges_are_fetched_at_the_same_time_before_they_are_wanted() -> None:
    fetch = Spans(NOISE[:100_000])
    with Ranged(fetch, len(fetch.content), "object", 1000, 3) as stream:
        for _ in range(3):
            stream.read(1000)
        assert eventually(lambda: not fetch.at_a_time)
        fetch.let_go.clear()
        stream.seek(70_000)
        reader = threading.Thread(target=stream.readall)
        reader.start()
        assert eventually(lambda: fetch.at_a_time == 3 + 1)
        fetch.let_go.set()
        reader.join(PATIENCE)


def test_after_a_seek_little_is_fetched_until_it_is_read_on() -> None:
    fetch = Spans(NOISE * 8)
    with Ranged(fetch, len(fetch.content), "object") as stream:
        for place in (5 * MIB, 2 * MIB, 7 * MIB, MIB):
            stream.seek(place)
            assert stream.read(100) == fetch.content[place : place + 100]
        assert fetch.asked == [(place, place + ranged.ELSEWHERE) for place in (5 * MIB, 2 * MIB, 7 * MIB, MIB)]
        for _ in range(5 * ranged.ELSEWHERE // KIB):
            stream.read(KIB)
        assert eventually(lambda: len(fetch.asked) > 6)
        ahead = max(end for _, end in fetch.asked[3:]) - stream.tell()
        assert 0 < ahead <= 2 * (stream.tell() - MIB)


def test_a_large_read_after_a_seek_is_fetched_by_no_more_than_what_it_asks_for() -> None:
    fetch = Spans(NOISE * 8)
    with io.BufferedReader(Ranged(fetch, len(fetch.content), "object")) as stream:
        stream.seek(MIB)
        assert len(stream.read(500_000)) == 500_000
        assert sum(end - start for start, end in fetch.asked) < 500_000 + io.DEFAULT_BUFFER_SIZE


def test_a_failure_is_raised_where_it_is_read_and_reading_again_fetches_again() -> None:
    fetch = Spans(NOISE[:10_000])
    fetch.failing = {3000}
    with Ranged(fetch, 10_000, "object", 1000, 2) as stream:
        for _ in range(3):
            stream.read(1000)
        with pytest.raises(ConnectionError, match="played at 3000"):
            stream.read(1000)
        assert stream.tell() == 3000
        assert stream.readall() == fetch.content[3000:]


@pytest.mark.parametrize("close", [Ranged.close, lambda stream: None], ids=["closed", "dropped"])
def test_threads_end_when_it_is_closed_or_dropped(close: Callable[[Ranged], None]) -> None:
    fetch = Spans(NOISE[:10_000])
    stream = Ranged(fetch, 10_000, "object", 1000, 3)
    for _ in range(3):
        stream.read(1000)
    assert len(threads()) > 1
    close(stream)
    del stream
    assert eventually(lambda: threads() == [])
    assert fetch.given_up


def test_no_thread_begins_before_it_is_read_and_nothing_of_an_empty_object_is_fetched() -> None:
    fetch = Spans(b"")
    with Ranged(fetch, 0, "object") as stream:
        assert stream.read() == stream.read(10) == b""
        assert stream.seek(0, os.SEEK_END) == 0
        assert threads() == []
    assert fetch.asked == []


@pytest.mark.parametrize(
    ("let_go", "error", "message"),
    [(Ranged.close, ValueError, "closed while it was read"), (Ranged.interrupt, Interrupted, "")],
)
def test_whoever_waits_is_told_when_another_thread_lets_go_of_it(
    let_go: Callable[[Ranged], None], error: type[BaseException], message: str
) -> None:
    fetch = Spans(NOISE[:1000])
    fetch.let_go.clear()
    stream = Ranged(fetch, 1000, "object")
    raised: list[BaseException] = []

    def read() -> None:
        try:
            stream.read(10)
        except error as raised_there:
            raised.append(raised_there)

    reader = threading.Thread(target=read)
    reader.start()
    assert eventually(lambda: len(fetch.asked) == 1)
    other = threading.Thread(target=let_go, args=(stream,))
    other.start()
    reader.join(PATIENCE)
    fetch.let_go.set()
    other.join(PATIENCE)
    (told,) = raised
    assert message in str(told)
    stream.close()
    stream.interrupt()  # which may come after its end


def test_places_that_are_none_are_errors() -> None:
    with Ranged(Spans(b"abc"), 3, "object") as stream:
        with pytest.raises(OSError, match="negative position in an object"):
            stream.seek(-4, os.SEEK_END)
        assert stream.seek(10) == 10
        assert stream.read(5) == b""
    for call in (stream.tell, stream.read, lambda: stream.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            call()


# On a server


@pytest.fixture
def bucket(s3_server: S3Server) -> Iterator[Path]:
    """The folder of a bucket, which is there for one test: the server hashes all that it is asked for."""
    folder = s3_server.root / "ranges"
    folder.mkdir()
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def spans_of(proxy: FaultProxy, name: str) -> Counter[tuple[int, int]]:
    """How often each range of an object was asked for, from its first byte to before its last."""
    counts: Counter[tuple[int, int]] = Counter()
    for request, times in proxy.requests().items():
        _, separator, span = request.partition(f"/{name} bytes=")
        if separator:
            first, last = map(int, span.split("-"))
            counts[first, last + 1] += times
    return counts


def bytes_of(spans: Counter[tuple[int, int]]) -> int:
    return sum((end - start) * times for (start, end), times in spans.items())


def test_a_server_that_knows_no_ranges_is_read_from_one_answer(bucket: Path) -> None:
    (bucket / "o").write_bytes(LARGE)
    for _ in range(2):  # the second time, it is known
        with open_ranged(address_of("s3://ranges/o", {})) as stream:
            assert stream.read(10 * MIB) == LARGE[: 10 * MIB]
            stream.seek(-100, os.SEEK_END)
            assert stream.read() == LARGE[-100:]
            stream.seek(5 * MIB)
            assert stream.read(3 * MIB) == LARGE[5 * MIB : 8 * MIB]
            stream.seek(0)
            assert stream.read() == LARGE


def test_a_local_object_that_is_replaced_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "o").write_bytes(LARGE)
    with open_ranged(address_of(f"file://{tmp_path}/o", {})) as stream:
        assert stream.read(10) == LARGE[:10]
        (tmp_path / "o").unlink()
        (tmp_path / "o").write_bytes(LARGE)
        stream.seek(20 * MIB)
        with pytest.raises(OSError, match="the object was replaced while it was read"):
            stream.read(10)


# Archives


def test_of_a_zip_only_the_directory_and_the_members_that_are_read_are_fetched(
    bucket: Path, fault_proxy: FaultProxy
) -> None:
    size = 17 * MIB  # files above 16 MiB are read when somebody reads them
    with zipfile.ZipFile(bucket / "z.zip", "w") as archive:
        for name in "abcd":
            archive.writestr(name, name.encode() * size)
    read = {}
    for path, stream in IterableWrapper(["s3://ranges/z.zip"]).load_files_by_s3().load_from_zip():
        if path.endswith("/c"):
            read[path] = stream.read()
    assert read == {"s3://ranges/z.zip/c": b"c" * size}
    spans = spans_of(fault_proxy, "z.zip")
    assert size < bytes_of(spans) < size + 3 * MIB + (ranged.AHEAD + 1) * ranged.PART
    assert all(start >= 2 * size - MIB for start, end in spans if end - start > ranged.ELSEWHERE)


def test_a_connection_that_fails_is_not_taken_for_a_zip_that_is_corrupt(bucket: Path, fault_proxy: FaultProxy) -> None:
    (bucket / "z.zip").write_bytes(LARGE)
    loader = IterableWrapper(["s3://ranges/z.zip"]).load_files_by_s3(on_error=ps.Retry(1, backoff=0))
    with pytest.raises(zipfile.BadZipFile):
        list(loader.load_from_zip())
    fault_proxy.play(Fault("status", match="bytes="))
    with pytest.raises(ConnectionError, match="SlowDown"):
        list(loader.load_from_zip())
