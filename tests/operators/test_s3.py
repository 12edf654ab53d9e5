from __future__ import annotations

import shutil
import threading
import time
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import obstore
import pytest
import s3fs
from obstore.store import MemoryStore
from torch.utils.data import DataLoader

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from penstock.pipes.iter import s3 as loading
from penstock.storage import objects
from penstock.storage.addresses import Address
from penstock.storage.streaming import ranged
from penstock.testing import LAWS, check_operator
from resuming import passed_on
from s3 import S3Server

FILES = {"b.txt": b"two", "a.txt": b"one", "c.bin": b"\xff", "sub/d.txt": b"four", "sub/deep/e.txt": b"five", "z": b""}
URLS = [f"s3://lists/{name}" for name in sorted(FILES)]


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """The URL of a bucket with files."""
    for name, content in FILES.items():
        path = s3_server.root / "lists" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (s3_server.root / "other").mkdir(exist_ok=True)
    (s3_server.root / "other" / "f.txt").write_bytes(b"six")
    return "s3://lists"


def listed(*prefixes: str, **arguments: Any) -> list[str]:
    return list(IterableWrapper(prefixes).list_files_by_s3(**arguments))


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize(
    ("prefix", "masks", "expected"),
    [
        ("s3://lists/", "", URLS),
        ("s3://lists/su", "", URLS[3:5]),
        ("s3a://lists/a.txt", "", ["s3a://lists/a.txt"]),
        ("s3://lists", ["d.*", "*.bin"], [URLS[2], URLS[3]]),
        ("s3://lists", "s3://*/sub/*", URLS[3:5]),
        ("s3://lists", "sub*", []),
    ],
)
def test_objects_are_listed_by_prefix_and_by_masks_of_names_or_urls(
    prefix: str, masks: Any, expected: list[str]
) -> None:
    assert listed(prefix, masks=masks) == expected


@pytest.mark.usefixtures("bucket")
def test_a_prefix_without_objects_is_an_error_unless_it_may_be_empty() -> None:
    for prefix in ("s3://lists/none", "s3://lists/none/"):
        with pytest.raises(FileNotFoundError, match=f"no objects .*allow_empty=True.*: '{prefix}'"):
            listed("s3://lists/a.txt", prefix)
        assert listed("s3://lists/a.txt", prefix, allow_empty=True) == ["s3://lists/a.txt"]
        dp = IterableWrapper([prefix, "s3://lists/a.txt"]).list_files_by_s3(on_error=ps.Skip(errors=FileNotFoundError))
        assert list(dp) == ["s3://lists/a.txt"]
    assert listed("s3://lists/a.txt", masks="*.bin") == []
    dp = IterableWrapper(["s3://lists/a", "s3://lists/z"]).list_files_by_s3()
    assert list(islice(dp, 2)) == ["s3://lists/a.txt", "s3://lists/z"]
    resumed = IterableWrapper(["s3://lists/a", "s3://lists/z"]).list_files_by_s3()
    resumed.load_state_dict(dp.state_dict())
    assert list(resumed) == []


def test_more_objects_than_a_page_has_are_listed(bucket: str, s3_server: S3Server) -> None:
    folder = s3_server.root / "many"
    folder.mkdir()
    for number in range(1_100):
        (folder / f"{number:05}").touch()
    try:
        iterator = iter(IterableWrapper(["s3://many", bucket]).list_files_by_s3())
        assert list(islice(iterator, 1_100)) == [f"s3://many/{number:05}" for number in range(1_100)]
        assert list(iterator) == URLS
    finally:
        shutil.rmtree(folder)


def test_objects_are_loaded_as_streams_of_bytes(bucket: str) -> None:
    dp = IterableWrapper([bucket, "s3://other"]).list_files_by_s3().load_files_by_s3()
    assert list(dp.read_from_stream()) == [
        *((url, FILES[url.removeprefix(f"{bucket}/")]) for url in URLS),
        ("s3://other/f.txt", b"six"),
    ]
    [(_, stream)] = IterableWrapper([f"{bucket}/sub/d.txt"]).load_files_by_s3()
    assert stream.seek(1) == 1
    assert stream.read(2) == b"ou"


@pytest.mark.usefixtures("bucket")
def test_a_region_and_a_timeout_reach_lister_and_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []
    made: list[Any] = []
    make, store_of = s3fs.S3FileSystem.__init__, loading.store_of

    def recorded(self: Any, *args: Any, **arguments: Any) -> None:
        seen.append(arguments)
        make(self, *args, **arguments)

    monkeypatch.setattr(s3fs.S3FileSystem, "__init__", recorded)
    monkeypatch.setattr(loading, "store_of", lambda *args: made.append(store_of(*args)) or made[-1])
    source = IterableWrapper(["s3://lists/a.txt"])
    assert len(list(source.list_files_by_s3(request_timeout_ms=1500, region="eu-west-1"))) == 1
    [arguments] = seen
    config = arguments["config_kwargs"]
    assert config["retries"]["total_max_attempts"] == 1
    assert (config["connect_timeout"], config["read_timeout"]) == (1.5, 1.5)
    assert arguments["client_kwargs"] == {"region_name": "eu-west-1"}
    assert arguments["use_listings_cache"] is False
    assert len(list(source.load_files_by_s3(request_timeout_ms=1500, region="eu-west-1"))) == 1
    [(store, key)] = made
    assert (store.config["region"], key) == ("eu-west-1", "a.txt")
    assert store.client_options["connect_timeout"] == store.client_options["read_timeout"]


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("method", ["list_files_by_s3", "load_files_by_s3"])
def test_a_missing_bucket_is_an_error_that_can_be_skipped(method: str) -> None:
    urls = ["s3://nobucket/a", "s3://lists/a.txt"]
    with pytest.raises(FileNotFoundError) as caught:
        list(getattr(IterableWrapper(urls), method)())
    assert "s3://nobucket/a" in caught.value.__notes__[0]
    dp = getattr(IterableWrapper(urls), method)(on_error=ps.Skip(errors=OSError))
    assert len(list(dp)) == 1
    assert dp.stats()[method]["skipped"] == 1


# Many at once


class Shelf:
    """Objects in memory, which the loader reads in place of a server's, and what is done to them."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.loading = threading.Semaphore(0)
        self.slow: dict[str, threading.Event] = {}
        self.failures: dict[str, list[Exception]] = {}

    def put(self, count: int, size: int) -> list[str]:
        for number in range(count):
            obstore.put(self.store, f"{number:04}", number.to_bytes(2, "big") * (size // 2))
        return [f"s3://shelf/{number:04}" for number in range(count)]

    def store_of(self, address: Address, *_: Any) -> tuple[Any, str]:
        url = address.url

        self.loading.release()
        if url in self.slow:
            assert self.slow[url].wait(30)
        if self.failures.get(url):
            raise self.failures[url].pop()
        return self.store, url.rpartition("/")[2]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    made = Shelf()
    monkeypatch.setattr(loading, "store_of", made.store_of)
    monkeypatch.setattr(objects, "store_of", made.store_of)
    return made


def expected_of(urls: list[str], size: int) -> list[tuple[str, bytes]]:
    return [(url, int(url[-4:]).to_bytes(2, "big") * (size // 2)) for url in urls]


def test_many_objects_are_loading_at_once_and_come_in_order(shelf: Shelf) -> None:
    urls = shelf.put(40, 10)
    shelf.slow[urls[0]] = threading.Event()
    results: list[Any] = []
    dp = IterableWrapper(urls).load_files_by_s3(workers=8).read_from_stream()
    reader = threading.Thread(target=lambda: results.extend(dp))
    reader.start()
    for _ in range(16):  # those that may be loading or loaded while the oldest is
        assert shelf.loading.acquire(timeout=30)
    assert results == []
    shelf.slow[urls[0]].set()
    reader.join(30)
    assert results == expected_of(urls, 10)


def test_out_of_order_those_come_first_that_are_ready(shelf: Shelf) -> None:
    urls = shelf.put(10, 10)
    shelf.slow[urls[0]] = threading.Event()
    iterator = iter(IterableWrapper(urls).load_files_by_s3(workers=4, ordered=False).read_from_stream())
    first = list(islice(iterator, 7))
    assert urls[0] not in [url for url, _ in first]
    shelf.slow[urls[0]].set()
    assert sorted([*first, *iterator]) == expected_of(urls, 10)


@pytest.mark.parametrize("ordered", [True, False])
def test_however_little_memory_there_is_all_arrives_and_the_threads_end(shelf: Shelf, ordered: bool) -> None:
    urls = shelf.put(60, 1000)
    for max_bytes in (1, 1000, 2500, 10**6):
        dp = IterableWrapper(urls).load_files_by_s3(workers=8, max_bytes=max_bytes, ordered=ordered)
        assert sorted(dp.read_from_stream()) == expected_of(urls, 1000)
        iterator = iter(dp)
        next(iterator)
        assert any(thread.name.startswith("penstock-s3") for thread in threading.enumerate())
        iterator.close()  # type: ignore[attr-defined]
        assert not any(thread.name.startswith("penstock-s3") for thread in threading.enumerate())


def test_loaded_objects_take_no_more_memory_than_was_said(shelf: Shelf) -> None:
    size = 2**20
    urls = shelf.put(48, size)
    dp = IterableWrapper(urls).load_files_by_s3(workers=16, max_bytes=4 * size)
    tracemalloc.start()
    try:
        for number, (_, stream) in enumerate(dp):
            time.sleep(0.01)  # so that what may be loaded meanwhile is
            assert stream.read(2) == number.to_bytes(2, "big")
            del stream
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * size


def test_large_objects_are_not_read_before_they_are_used(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LARGE", 999)
    urls = shelf.put(3, 1000)
    items = list(IterableWrapper(urls).load_files_by_s3(max_bytes=1))
    assert [stream.name for _, stream in items] == urls
    assert all(isinstance(stream.raw, ranged.Ranged) for _, stream in items)  # type: ignore[attr-defined]
    assert [(url, stream.read()) for url, stream in items] == expected_of(urls, 1000)


def test_an_error_that_may_pass_is_tried_again_and_one_that_stays_can_be_skipped(shelf: Shelf) -> None:
    urls = shelf.put(5, 10)
    for error in (ConnectionError("cut"), TimeoutError("silent")):
        shelf.failures[urls[1]] = [error] * 2
        dp = IterableWrapper(urls).load_files_by_s3()
        assert list(dp.read_from_stream()) == expected_of(urls, 10)
        assert dp.stats()["load_files_by_s3"]["retried"] == 2
        shelf.failures[urls[1]] = [error] * 2
        with pytest.raises(type(error)) as caught:
            list(IterableWrapper(urls).load_files_by_s3(on_error=ps.Retry(1, backoff=0)))
        assert urls[1] in caught.value.__notes__[0]
        shelf.failures.clear()
    shelf.failures[urls[1]] = [PermissionError("no")]
    dp = IterableWrapper([*urls, "s3://shelf/9999"]).load_files_by_s3(max_bytes=1, on_error="skip")
    assert list(dp.read_from_stream()) == expected_of([urls[0], *urls[2:]], 10)
    stats = dp.stats()["load_files_by_s3"]
    assert (stats["skipped"], stats["retried"]) == (2, 0)
    assert "no such object: 's3://shelf/9999'" in stats["last_errors"][1]


def test_loading_holds_the_laws(shelf: Shelf) -> None:
    urls = shelf.put(7, 10)
    laws = [law for law in LAWS["iter"] if law != "another_process_agrees"]  # the shelf is in this one
    check_operator(lambda: IterableWrapper(urls).load_files_by_s3(workers=2, max_bytes=25).read_from_stream(), laws)


def test_out_of_order_the_rest_comes_after_resuming(shelf: Shelf) -> None:
    urls = shelf.put(12, 10)
    for count in (0, 1, 5, 11, 12):
        dp = IterableWrapper(urls).load_files_by_s3(workers=3, ordered=False)
        first = [(url, stream.read()) for url, stream in islice(dp, count)]
        resumed = IterableWrapper(urls).load_files_by_s3(workers=3, ordered=False)
        resumed.load_state_dict(passed_on(dp))
        assert sorted([*first, *((url, stream.read()) for url, stream in resumed)]) == expected_of(urls, 10)


def test_local_files_are_loaded_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    urls = [str(tmp_path / "a"), f"file://{tmp_path}/a"]
    dp = IterableWrapper(urls).load_files_by_s3(-1, "", 1 << 20, True)
    assert "buffer_size=1048576, multi_part_download=True" in repr(dp)
    assert len(dp) == len(IterableWrapper(["s3://lists"]).list_files_by_s3(2)) == 2
    assert list(dp.read_from_stream()) == [(url, b"one") for url in urls]
    not_by_obstore = IterableWrapper(urls[:1]).load_files_by_s3().read_from_stream()
    forked = DataLoader(not_by_obstore, num_workers=1, batch_size=None, multiprocessing_context="fork", timeout=30)
    assert [content for _, content in forked] == [b"one"]


# Processes


@pytest.mark.usefixtures("bucket")
def test_a_process_forked_after_loading_raises() -> None:
    dp = IterableWrapper(URLS).load_files_by_s3(on_error="skip").read_from_stream()
    assert len(list(dp)) == len(URLS)
    forked = DataLoader(dp, num_workers=1, batch_size=None, multiprocessing_context="fork", timeout=30)
    with pytest.raises(RuntimeError, match='forked from one.*"forkserver" or "spawn".*DataLoader2'):
        list(forked)
