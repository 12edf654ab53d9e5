from __future__ import annotations

import gc
import gzip
import json
import logging
import subprocess
import sys
from contextlib import suppress
from textwrap import dedent
from typing import Any

import psutil
import pytest
import requests
import urllib3

import penstock as ps
from http_server import CONTENT, LARGE
from penstock.pipes.iter import GDriveReader, IterableWrapper, OnlineReader
from penstock.testing import check_operator


def read(*urls: str, **arguments: Any) -> list[tuple[str, bytes]]:
    return list(IterableWrapper(urls).read_from_http(**arguments).read_from_stream())


def connections(web: str) -> int:
    """How many connections to the server this process has."""
    port = int(web.rpartition(":")[2])
    return sum(bool(held.raddr) and held.raddr.port == port for held in psutil.Process().net_connections("tcp"))


# HTTP


def test_each_url_comes_with_a_stream_of_bytes_that_stays_readable(web: str) -> None:
    urls = [f"{web}/file/large", f"{web}/file/a.txt", f"{web}/redirect/3"]
    opened = list(IterableWrapper(urls).read_from_http())
    assert [url for url, _ in opened] == urls
    large, lines, redirected = (stream for _, stream in opened)
    assert large.read(2) == b"\x00\x01"
    assert list(lines) == [b"one\n", b"two\n", b"three\n"]
    assert redirected.read() == CONTENT
    assert large.read() == LARGE[2:]
    assert not large.seekable()


def test_what_the_server_packed_for_the_way_is_unpacked_and_an_archive_stays_one(web: str) -> None:
    assert [content for _, content in read(f"{web}/gzip", f"{web}/chunked")] == [CONTENT] * 2
    [(_, content)] = read(f"{web}/archive/a.gz")
    assert gzip.decompress(content) == CONTENT


def test_arguments_of_requests_reach_the_server_and_are_not_shown(web: str) -> None:
    arguments = {"headers": {"X-Own": "hush"}, "params": {"q": "1"}, "auth": ("me", "hush")}
    [(_, content)] = read(f"{web}/echo", **arguments)
    seen = json.loads(content)
    assert seen["path"] == "/echo?q=1"
    assert seen["headers"]["x-own"] == "hush"
    assert seen["headers"]["authorization"].startswith("Basic ")
    dp = IterableWrapper([f"{web}/status/404"]).read_from_http(**arguments)
    with pytest.raises(OSError, match="404") as caught:
        list(dp)
    assert "hush" not in repr(dp) + "".join(caught.value.__notes__)


def test_an_error_status_raises_and_names_the_url(web: str) -> None:
    url = f"{web}/status/404"
    with pytest.raises(requests.HTTPError, match=rf"404 .* for url: {url}") as caught:
        read(url)
    assert isinstance(caught.value, OSError)
    assert caught.value.response.status_code == 404
    assert connections(web) == 0  # although the error holds the answer
    assert f"raised in HttpReader(), on '{url}'" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("what", "error"),
    [("silent/before", requests.ReadTimeout), ("silent/inside", urllib3.exceptions.ReadTimeoutError)],
)
def test_a_silent_server_is_an_error_after_the_timeout(web: str, what: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"timed out.*0\.2|timed out"):
        read(f"{web}/{what}", timeout=0.2, on_error=ps.Retry(1, 0))


@pytest.mark.parametrize(("timeout", "expected"), [(None, 60.0), ((None, None), (None, None))])
def test_a_server_may_be_silent_for_a_minute_where_nothing_else_is_said(
    web: str, timeout: Any, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, seen = requests.Session.get, []

    def recorded(self: requests.Session, url: str, **arguments: Any) -> requests.Response:
        seen.append(arguments["timeout"])
        return get(self, url, **arguments)

    monkeypatch.setattr(requests.Session, "get", recorded)
    read(f"{web}/file/a.txt", timeout=timeout)
    assert seen == [expected]


@pytest.mark.parametrize("what", ["truncated", "chunked/cut"])
@pytest.mark.parametrize("chunk", [None, 4])
def test_content_that_ends_before_its_time_is_an_error(web: str, what: str, chunk: int | None) -> None:
    url = f"{web}/{what}"
    with pytest.raises(urllib3.exceptions.ProtocolError, match="IncompleteRead|ended") as caught:
        list(IterableWrapper([url]).read_from_http(on_error=ps.Retry(1, 0)).read_from_stream(chunk))
    assert url in caught.value.__notes__[0]


def test_no_connection_stays_open(web: str) -> None:
    streams = {}
    for number, path in enumerate(("file/large", "file/large", "file/a.txt", "status/500", "truncated")):
        with suppress(OSError):
            [(_, streams[number])] = IterableWrapper([f"{web}/{path}"]).read_from_http()
    assert connections(web) == 4
    streams[0].close()
    assert connections(web) == 3
    assert streams[1].read(10) == LARGE[:10]
    assert streams[2].read() == CONTENT
    streams.clear()
    iterator = iter(IterableWrapper([f"{web}/file/large"] * 2).read_from_http())
    next(iterator)
    del iterator
    gc.collect()
    assert connections(web) == 0


# Errors


@pytest.mark.parametrize("fault", ["500", "503", "reset"])
def test_a_retry_gets_what_a_flaky_server_gives_in_the_end(web: str, fault: str, request: Any) -> None:
    url = f"{web}/flaky/{request.node.name}/2/{fault}"
    dp = IterableWrapper([url]).read_from_http(on_error=ps.Retry(2, backoff=0))
    assert [stream.read() for _, stream in dp] == [CONTENT]
    assert dp.stats()["read_from_http"]["retried"] == 2
    with pytest.raises(OSError, match=r"500|503|reset|aborted"):
        read(f"{url}/again", on_error=ps.Retry(1, backoff=0))


@pytest.mark.parametrize("arguments", [{"skip_on_error": True}, {"on_error": ps.Skip(limit=3)}])
def test_urls_that_fail_are_left_out(web: str, arguments: Any, caplog: pytest.LogCaptureFixture) -> None:
    urls = [f"{web}/status/404", f"{web}/file/a.txt", "nonsense", "http://127.0.0.1:1/a"]
    dp = OnlineReader(IterableWrapper(urls), **arguments)
    with caplog.at_level(logging.WARNING, "penstock"):
        assert [(url, stream.read()) for url, stream in dp] == [(urls[1], CONTENT)]
    assert next(iter(dp.stats().values()))["skipped"] == 3
    assert "404 Client Error" in caplog.text


def test_importing_the_package_and_chaining_import_none_of_the_optional_libraries() -> None:
    code = """
        import sys, penstock as ps
        ps.iter.IterableWrapper(["a"]).load_parquet_as_df()
        ps.iter.IterableWrapper([1]).dataframe(columns=["x"])
        found = {"requests", "iopath", "aistore", "datasets", "pyarrow"} & {*sys.modules}
        assert not found, found
    """
    subprocess.run([sys.executable, "-c", dedent(code)], check=True, timeout=60)


# Google Drive


def drive(web: str, name: str, **arguments: Any) -> list[tuple[str, bytes]]:
    url = f"{web}/uc?export=download&id={name}"
    return list(IterableWrapper([url]).read_from_gdrive(**arguments).read_from_stream())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("small", ("small.txt", b"/uc?export=download&id=small")),
        ("large", ("large.txt", LARGE)),  # after a confirmation
        ("umlaut", ("Grüße.txt", b"/uc?export=download&id=umlaut")),
        ("climber", ("climber.txt", b"/uc?export=download&id=climber")),  # its name leads to another folder
    ],
)
def test_a_file_in_drive_comes_with_its_name(web: str, name: str, expected: tuple[str, bytes]) -> None:
    assert drive(web, name) == [expected]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quota", "download quota for this file is used up"),
        ("private", "answered with a page, 'Sign in', and not with a file: check that everybody"),
        ("nameless", "gave no name"),
        ("dots", "gave no name"),
    ],
)
def test_a_page_in_place_of_a_file_is_an_error_that_says_why(web: str, name: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=message) as caught:
        drive(web, name)
    assert f"id={name}" in caught.value.__notes__[0]
    assert drive(web, name, skip_on_error=True) == []
    del caught
    gc.collect()
    assert connections(web) == 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://drive.google.com/uc?id=one&export=download", "/uc?export=download&id=one"),
        ("http://drive.google.com/uc?id=one", "/uc?export=download&id=one"),
        ("http://drive.google.com/open?id=one", "/uc?export=download&id=one"),
        ("http://drive.google.com/file/d/one/view?usp=sharing", "/uc?export=download&id=one"),
        ("http://drive.google.com/file/u/0/d/one/edit", "/uc?export=download&id=one"),
        ("http://docs.google.com/uc?id=one&resourcekey=two", "/uc?export=download&id=one&resourcekey=two"),
    ],
)
@pytest.mark.parametrize("reader", [GDriveReader, OnlineReader])
def test_urls_for_downloading_and_for_sharing_are_read_from_drive(
    web: str, reader: Any, url: str, expected: str
) -> None:
    # The server stands in for Google's: as a proxy, it is asked for their URLs.
    dp = reader(IterableWrapper([url]), proxies={"http": web}).read_from_stream()
    host = url.partition("/file")[0].partition("/uc")[0].partition("/open")[0]
    assert list(dp) == [("one.txt", (host + expected).encode())]


@pytest.mark.parametrize("host", ["drive.google.com.example.org", "mydrive.google.com"])
def test_the_online_reader_takes_only_googles_hosts_for_drive(web: str, host: str) -> None:
    url = f"http://{host}/uc?id=one"
    assert list(OnlineReader(IterableWrapper([url]), proxies={"http": web}).read_from_stream()) == [(url, url.encode())]


def test_reading_from_drive_holds_the_laws(web: str) -> None:
    check_operator(lambda: IterableWrapper([f"{web}/uc?id=a", f"{web}/uc?id=large"]).read_from_gdrive())
