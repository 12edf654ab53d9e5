"""A stream goes on where its answer broke, whichever operator opened it, or says why it cannot."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3

import penstock as ps
from answering import NEW, OLD, SMALL, Server, keys_for, running
from fault_proxy import Fault, FaultProxy
from penstock.pipes.iter import IterableWrapper
from s3 import S3Server

MIB = 2**20


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running() as one:
        one.content = OLD
        yield one


OPENERS: dict[str, Callable[..., Any]] = {
    "open_files_by_fsspec": lambda server, **more: IterableWrapper([f"{server.url}/a"]).open_files_by_fsspec(
        "rb", **more
    ),
    "open_files_by_fsspec in one answer": lambda server, **more: IterableWrapper(
        [f"{server.url}/a?b=c"]
    ).open_files_by_fsspec("rb", block_size=0, **more),
    "open_files_by_fsspec of S3": lambda server, **more: IterableWrapper(["s3://b/a"]).open_files_by_fsspec(
        "rb", **more, **keys_for(server)
    ),
    "read_from_http": lambda server, **more: IterableWrapper([f"{server.url}/a"]).read_from_http(**more),
    "read_from_remote": lambda server, **more: IterableWrapper([f"{server.url}/a?b=c"]).read_from_remote(**more),
}
openers = pytest.mark.parametrize("opened", OPENERS.values(), ids=OPENERS)
in_one_answer = pytest.mark.parametrize(
    "opened",
    [OPENERS[name] for name in ("open_files_by_fsspec in one answer", "read_from_http", "read_from_remote")],
    ids=["fsspec", "http", "remote"],
)


def in_pieces(stream: Any) -> bytes:
    return b"".join(iter(lambda: stream.read(MIB), b""))


def at_once(stream: Any) -> bytes:
    content: bytes = stream.read()
    return content


ways = pytest.mark.parametrize("way", [in_pieces, at_once])


def read(dp: Any, way: Callable[[Any], bytes] = in_pieces) -> bytes:
    [(_, stream)] = dp
    return way(stream)


def retried(dp: Any) -> int:
    [counts] = dp.stats().values()
    count: int = counts["retried"]
    return count


# Faults that pass


@openers
@pytest.mark.parametrize("play", ["503", "cut"])
def test_a_fault_at_the_opening_passes(opened: Callable[..., Any], play: str, server: Server) -> None:
    server.plays = {"HEAD": [play], "GET": [play]}
    dp = opened(server)
    assert read(dp) == OLD
    assert retried(dp) >= 1


@openers
@ways
def test_an_answer_that_is_cut_goes_on(opened: Callable[..., Any], way: Any, server: Server) -> None:
    server.plays = {"GET": ["cut", "cut", "503"]}
    dp = opened(server)
    assert read(dp, way) == OLD
    assert retried(dp) == 3
    if way is in_pieces:  # fsspec requests a file that is read at once as a whole, once more
        assert sum("range" not in headers for asked, headers in server.asked if asked.startswith("GET")) <= 1


@openers
def test_a_retry_given_says_how_often(opened: Callable[..., Any], server: Server) -> None:
    server.plays = {"GET": ["cut"] * 7}
    dp = opened(server, on_error=ps.Retry(7, 0))
    assert read(dp) == OLD
    assert retried(dp) == 7
    server.plays = {"GET": ["cut", "ever 503"]}
    server.asked.clear()
    dp = opened(server, on_error=ps.Retry(2, 0, then="skip"))
    with pytest.raises(ConnectionError, match="503|Unavailable"):
        read(dp)  # what was opened is not skipped
    assert (retried(dp), server.count("GET")) == (2, 3)


def test_text_and_lines_go_on_too(server: Server) -> None:
    server.content = b"".join(b"line %d\n" % number for number in range(10**6))
    server.plays = {"GET": ["cut", "503"]}
    lines = IterableWrapper([f"{server.url}/a"]).open_files_by_fsspec().readlines(return_path=False)
    assert list(lines) == server.content.decode().splitlines()
    server.plays = {"GET": ["cut", "503"]}
    lines = IterableWrapper([f"{server.url}/a"]).read_from_http().readlines(return_path=False)
    assert list(lines) == server.content.splitlines()


@in_one_answer
@ways
def test_a_server_without_ranges_sends_all_again(opened: Callable[..., Any], way: Any, server: Server) -> None:
    server.knows_ranges = False
    server.plays = {"GET": ["cut", "cut"]}
    assert read(opened(server), way) == OLD


@in_one_answer
@pytest.mark.parametrize("knows_ranges", [True, False])
def test_what_is_packed_for_the_way_is_sent_again(
    opened: Callable[..., Any], knows_ranges: bool, server: Server
) -> None:
    server.packs, server.knows_ranges = True, knows_ranges
    server.plays = {"GET": ["cut", "503"]}
    assert read(opened(server)) == OLD


@in_one_answer
@pytest.mark.parametrize("told", [["ETag"], ["Last-Modified"], []])
def test_any_sign_of_the_version_will_do(opened: Callable[..., Any], told: list[str], server: Server) -> None:
    server.version = {name: server.version[name] for name in told}
    server.plays = {"GET": ["cut"]}
    assert read(opened(server)) == OLD


# Faults that stay


@openers
@pytest.mark.parametrize("told", ["ETag", "Last-Modified"])
def test_an_object_that_is_replaced_meanwhile_is_an_error(
    opened: Callable[..., Any], told: str, server: Server
) -> None:
    if opened is not OPENERS["open_files_by_fsspec of S3"]:  # which always tells the ETag
        server.version = {told: server.version[told]}
    server.plays = {"GET": ["cut", "replace"]}
    with pytest.raises(OSError, match="the object was replaced while it was read") as caught:
        read(opened(server))
    assert str(caught.value.filename).startswith(("http://127", "s3://b/a"))


@in_one_answer
@pytest.mark.parametrize("knows_ranges", [True, False])
@pytest.mark.parametrize("size", [100, len(OLD) - 1])
def test_an_object_of_another_size_is_an_error(
    opened: Callable[..., Any], knows_ranges: bool, size: int, server: Server
) -> None:
    server.version, server.knows_ranges = {}, knows_ranges
    server.plays = {"GET": ["cut"]}
    [(_, stream)] = opened(server)
    begun = stream.read(MIB)
    server.content = NEW[:size]
    with pytest.raises(OSError, match="the object was replaced while it was read"):
        begun += in_pieces(stream)


@in_one_answer
def test_another_range_than_was_asked_for_is_asked_for_again(opened: Callable[..., Any], server: Server) -> None:
    server.plays = {"GET": ["cut", "another range"]}
    dp = opened(server)
    assert read(dp) == OLD
    assert retried(dp) == 2


def test_a_status_that_stays_is_an_error_of_requests_and_of_python(server: Server) -> None:
    server.plays = {"GET": ["ever 503"]}
    with pytest.raises(requests.HTTPError, match="503 Server Error") as caught:
        list(OPENERS["read_from_http"](server, on_error=ps.Retry(1, 0, errors=ConnectionError)))
    assert isinstance(caught.value, ConnectionError)
    assert server.count("GET") == 2
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.response.status_code) == (type(caught.value), str(caught.value), 503)
    skipping = OPENERS["read_from_http"](server, on_error="skip")
    assert list(skipping) == []
    assert skipping.stats()["read_from_http"]["skipped"] == 1
    assert server.count("GET") == 2 + 6


def test_a_status_that_does_not_pass_is_an_error_at_once(server: Server) -> None:
    for opened in (OPENERS["read_from_http"], OPENERS["open_files_by_fsspec"]):
        server.plays = {method: [f"ever to 404 {server.url}"] for method in ("HEAD", "GET")}
        server.asked.clear()
        with pytest.raises(OSError, match=r"404|no such object"):
            list(opened(server))
        assert len(server.asked) <= 2  # where a HEAD fails, fsspec tries a GET


def test_no_connection_and_no_answer_are_errors_of_requests_and_of_python(server: Server) -> None:
    once = ps.Retry(1, 0)
    with pytest.raises(requests.ConnectionError, match="refused") as caught:
        list(IterableWrapper(["http://127.0.0.1:1/a"]).read_from_http(on_error=once))
    assert isinstance(caught.value, ConnectionError)
    server.plays = {"GET": ["ever silent"]}
    with pytest.raises(requests.ReadTimeout) as late:
        list(OPENERS["read_from_http"](server, timeout=0.2, on_error=once))
    assert isinstance(late.value, TimeoutError)


def test_a_range_of_the_users_own_does_not_go_on(server: Server) -> None:
    server.plays = {"GET": ["", "cut"]}
    dp = OPENERS["read_from_http"](server, headers={"Range": "bytes=10-1000009"})
    assert read(dp) == OLD[10:1000010]
    with pytest.raises(urllib3.exceptions.ProtocolError):
        read(dp)


# Other openers


def test_iopath_asks_again_for_what_it_downloads(server: Server, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("FVCORE_CACHE", str(tmp_path))
    server.content = SMALL
    server.plays = {"GET": ["503", "cut"]}
    dp = IterableWrapper([f"{server.url}/folder/a"]).open_files_by_iopath("rb")
    assert read(dp) == SMALL
    assert retried(dp) == 2
    server.plays = {"GET": ["ever 503"]}
    with pytest.raises(ConnectionError, match=f"503.*{server.url}/folder/b"):
        list(IterableWrapper([f"{server.url}/folder/b"]).open_files_by_iopath("rb", on_error=ps.Retry(1, 0)))


def test_a_compressed_file_and_a_member_of_an_archive_go_on_too(server: Server) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        header = tarfile.TarInfo("b.bin")
        header.size = 8 * MIB
        tar.addfile(header, io.BytesIO(OLD[: 8 * MIB]))
    server.content = buffer.getvalue()
    server.plays = {"GET": ["cut", "503"]}
    [(_, stream)] = IterableWrapper([f"tar://b.bin::{server.url}/a.tar"]).open_files_by_fsspec("rb")
    assert in_pieces(stream) == OLD[: 8 * MIB]
    server.content = gzip.compress(OLD, 0)
    server.plays = {"GET": ["cut", "503"]}
    dp = IterableWrapper([f"{server.url}/a.gz"]).open_files_by_fsspec("rb", kwargs_for_open={"compression": "gzip"})
    assert read(dp) == OLD


# The chain of the README


def shards(server: S3Server) -> dict[str, bytes]:
    """Lay two shards into a bucket; return the samples in them."""
    samples = {f"{number:03}": OLD[number * 10**5 : (number + 1) * 10**5] for number in range(40)}
    folder = server.root / "readme" / "digits"
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(2):
        with tarfile.open(folder / f"{shard}.tar.gz", "w:gz", compresslevel=0) as tar:
            for name in sorted(samples)[shard::2]:
                header = tarfile.TarInfo(f"{name}.bin")
                header.size = len(samples[name])
                tar.addfile(header, io.BytesIO(samples[name]))
    return samples


@pytest.mark.parametrize("loader", ["in this process", "workers"])
@pytest.mark.parametrize(
    "fault",
    [Fault("status", match="/readme", times=1), Fault("cut", times=1), Fault("reset", times=1, at=None)],
    ids=["503", "cut", "reset"],
)
def test_the_chain_of_the_readme_is_whole_after_a_fault_in_each_answer(
    fault: Fault, loader: str, s3_server: S3Server, fault_proxy: FaultProxy
) -> None:
    samples = shards(s3_server)
    files = ps.iter.FSSpecFileLister("s3://readme/digits", masks="*.tar.gz").shuffle().sharding_filter()
    dp = files.open_files_by_fsspec(mode="rb").load_from_tar().webdataset().routed_decode()
    fault_proxy.play(fault)
    if loader == "workers":
        with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(num_workers=2)) as reading:
            got = {sample["__key__"]: sample[".bin"] for sample in reading}
    else:
        got = {sample["__key__"]: sample[".bin"] for sample in dp}
    assert {key.rpartition("/")[2]: value for key, value in got.items()} == samples
    assert fault_proxy.played()[fault.kind] > 2
