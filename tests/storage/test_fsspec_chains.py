"""Chains of fsspec's file systems: faults, options and secrets."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock import checkpoint
from penstock.pipes.iter import IterableWrapper
from s3 import S3Server

LINES = b"".join(b"%06d\n" % number for number in range(100_000))


class CutsAtFirst(BaseHTTPRequestHandler):
    """Cuts the body of the first answer for each path."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(LINES)))
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.asked.append(self.path)
        is_cut = self.asked.count(self.path) == 1
        self.close_connection = is_cut
        self.wfile.write(LINES[:350_000] if is_cut else LINES)


class SendsRanges(CutsAtFirst):
    """Sends what a Range header asks for."""

    def do_GET(self) -> None:
        first, last = map(int, self.headers.get("Range", f"bytes=0-{len(LINES) - 1}").removeprefix("bytes=").split("-"))
        part = LINES[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(LINES)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)


@pytest.fixture
def cutting() -> Iterator[str]:
    with serving(type("Handler", (CutsAtFirst,), {"asked": []})) as url:
        yield url


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.handle_error = lambda request, client: None  # type: ignore[method-assign]  # a client that hangs up
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/a.txt"
        server.shutdown()


READERS: dict[str, Callable[[str, Path], int]] = {
    "read_text": lambda url, _: sum(len(row["text"]) + 1 for row in IterableWrapper([url]).read_text()),
    "load_files_by_s3": lambda url, _: sum(len(s.read()) for _, s in IterableWrapper([url]).load_files_by_s3()),
    "ObjectReader": lambda url, _: len(ps.map.ObjectReader([url])[0]),
    "cache_files": lambda url, folder: sum(
        len(stream.read()) for _, stream in IterableWrapper([url]).cache_files(folder / "cache", max_bytes=10**9)
    ),
    "open_files_by_fsspec": lambda url, _: sum(
        len(stream.read())
        for _, stream in IterableWrapper([url]).open_files_by_fsspec(mode="rb", on_error=ps.Retry(2, backoff=0.01))
    ),
}


@pytest.mark.parametrize("cache", ["simplecache", "filecache"])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_no_part_of_a_download_that_was_cut_is_served_from_a_cache(
    read: Callable[[str, Path], int], cache: str, cutting: str, tmp_path: Path
) -> None:
    assert read(f"{cache}::{cutting}", tmp_path) == len(LINES)


def test_an_epoch_after_one_that_skipped_a_cut_file_has_it_whole(cutting: str) -> None:
    dp = IterableWrapper([f"simplecache::{cutting}"]).open_files_by_fsspec(mode="rb", on_error="skip")
    assert [[len(stream.read()) for _, stream in dp] for _ in range(2)] == [[], [len(LINES)]]


def test_a_server_in_trouble_is_not_a_missing_file(s3_server: S3Server, fault_proxy: FaultProxy) -> None:
    (s3_server.empty_bucket("links") / "a.txt").write_bytes(LINES)
    fault_proxy.play(Fault("status", " /links"))
    with pytest.raises(ConnectionError, match="in trouble: 503"):
        list(IterableWrapper(["simplecache::s3://links/a.txt"]).open_files_by_fsspec(mode="rb"))


DEAD = {"endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"total_max_attempts": 1}}}
ONCE = ps.Retry(1, backoff=0.01)
USERS: dict[str, Callable[[str, Any], object]] = {
    "read_text": lambda url, options: list(IterableWrapper([url]).read_text(storage_options=options, on_error=ONCE)),
    "read_parquet": lambda url, options: list(
        IterableWrapper([url]).read_parquet(storage_options=options, on_error=ONCE)
    ),
    "load_files_by_s3": lambda url, options: list(
        IterableWrapper([url]).load_files_by_s3(storage_options=options, on_error=ONCE)
    ),
    "open_files_by_fsspec": lambda url, options: list(IterableWrapper([url]).open_files_by_fsspec("rb", **options)),
    "checkpoint.load": lambda url, options: checkpoint.load(url, storage_options=options),
}


@pytest.mark.parametrize("use", USERS.values(), ids=USERS)
def test_options_of_a_chain_reach_the_store(use: Callable[[str, Any], object], s3_server: S3Server) -> None:
    file = s3_server.empty_bucket("links") / "a.txt"
    file.write_bytes(b"x")
    with pytest.raises(ConnectionError):
        use("simplecache::s3://links/a.txt", DEAD)
    with pytest.raises(ConnectionError):
        use("simplecache::s3://links/a.txt", {"s3": DEAD})
    for wrong in ({"mistyped": 1}, {"s33": {"anon": True}}):
        with pytest.raises(TypeError, match=next(iter(wrong))):
            use("simplecache::s3://links/a.txt", wrong)
    assert file.read_bytes() == b"x"


def test_options_of_a_chain_reach_its_first_link(s3_server: S3Server, tmp_path: Path) -> None:
    (s3_server.empty_bucket("links") / "a.txt").write_bytes(b"one")
    options = {"cache_storage": str(tmp_path / "kept"), "anon": False}
    dp = IterableWrapper(["simplecache::s3://links/a.txt"]).read_text(storage_options=options)
    assert [row["text"] for row in dp] == ["one"]
    assert (tmp_path / "kept").is_dir()


@pytest.mark.parametrize("url", ["simplecache::file:///a.txt", "zip://a.txt::/folder/a.zip"])
def test_an_option_that_no_link_takes_is_an_error(url: str) -> None:
    with pytest.raises(TypeError, match=r"a\.(txt|zip) takes no option 'anon'"):
        list(IterableWrapper([url]).read_text(storage_options={"anon": True}))


@pytest.mark.parametrize("url", ["gs://shelf/a", "az://shelf/a", "file:///a"])
@pytest.mark.parametrize("name", ["client_kwargs", "config_kwargs"])
def test_options_of_botocore_are_for_s3_only(url: str, name: str) -> None:
    with pytest.raises(TypeError, match=f"only S3 takes the option 'conect_timeout' in {name}"):
        list(IterableWrapper([url]).load_files_by_s3(storage_options={name: {"conect_timeout": 1}}))


def test_an_error_of_writing_shows_no_token(cutting: str) -> None:
    dp = IterableWrapper([(f"simplecache::{cutting}?token=SECRET", b"x")]).save_by_fsspec("wb")
    with pytest.raises(OSError, match="a.txt") as caught:
        list(dp)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))


def test_a_forked_process_does_not_hang_in_a_stream_of_its_parent() -> None:
    with serving(SendsRanges) as url:
        files = IterableWrapper([url]).open_files_by_fsspec("rb", block_size=2**16)
        lines = iter(files.readlines(return_path=False))
        next(lines)
        if (process := os.fork()) == 0:
            signal.alarm(10)
            try:
                for _ in lines:
                    pass
            except RuntimeError as error:
                os._exit(3 if "only that one can read it" in str(error) else 4)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 3
        assert sum(1 for _ in lines) == 99_999


def test_a_parquet_file_is_read_with_options_and_its_attempts_are_counted(
    s3_server: S3Server, fault_proxy: FaultProxy
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2]}), s3_server.empty_bucket("links") / "a.parquet")
    fault_proxy.play(Fault("status", "/links/a.parquet", times=1))
    url = IterableWrapper(["s3://links/a.parquet"])
    dp = url.load_parquet_as_df(on_error=ps.Retry(5, backoff=0.01))
    assert [table.num_rows for table in dp] == [2]
    assert dp.stats()["load_parquet_as_df"]["retried"] == fault_proxy.played().total() > 0
    with pytest.raises(ConnectionError):
        list(url.load_parquet_as_df(storage_options=DEAD, on_error=ONCE))
