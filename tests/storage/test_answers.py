"""What servers answer by fsspec: from the host that was asked, of the range and the version that was meant, in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from answering import OLD, SECRET, SMALL, Server, keys_for, running
from penstock.pipes.iter import IterableWrapper
from penstock.storage.addresses import address_of
from penstock.storage.errors import UnknownStoreError
from penstock.storage.file_systems import is_file, locate
from penstock.storage.writing import whole_file
from s3 import S3Server


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as one:
        yield one


@pytest.fixture
def other() -> Iterator[Server]:
    with running() as one:
        yield one


def in_pieces(stream: Any) -> bytes:
    return b"".join(iter(lambda: stream.read(2**20), b""))


def read(chain: Any) -> bytes:
    [(_, stream)] = chain
    return in_pieces(stream)


# Keys stay with their host

OF_S3: dict[str, Callable[[dict[str, Any]], Any]] = {
    "open_files_by_fsspec": lambda keys: read(IterableWrapper(["s3://b/a"]).open_files_by_fsspec("rb", **keys)),
    "what is no folder": lambda keys: list(IterableWrapper(["s3://b/tra"]).list_files_by_s3(storage_options=keys)),
    "read_csv": lambda keys: list(ps.read_csv("s3://b/a.csv", storage_options=keys)),
    "save_by_fsspec": lambda keys: list(IterableWrapper([("s3://b/a", b"x")]).save_by_fsspec("wb", **keys)),
    "save_by_fsspec by s3fs": lambda keys: list(
        IterableWrapper([("s3://b/a", b"x")]).save_by_fsspec("wb", **keys, s3_additional_kwargs={})
    ),
}


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("use", OF_S3.values(), ids=OF_S3)
def test_a_redirect_takes_no_token_of_s3_to_another_host_whoever_asks(
    use: Callable[[dict[str, Any]], Any], status: int, server: Server, other: Server
) -> None:
    play = [f"ever to {status} http://localhost:{other.server_port}"]
    server.plays = dict.fromkeys(("GET", "HEAD", "PUT", "POST"), play)
    with pytest.raises(OSError, match="redirects to another host"):
        use(keys_for(server))
    assert server.asked[0][1]["x-amz-security-token"] == SECRET  # or there would be nothing to take along
    assert other.asked == []


def test_a_redirect_takes_nothing_that_a_chain_was_given_to_another_host(
    server: Server, other: Server, tmp_path: Path
) -> None:
    play = f"ever to 307 http://localhost:{other.server_port}"
    server.plays = {"GET": [play], "HEAD": [play]}
    chain = IterableWrapper([f"simplecache::{server.url}/a"])
    options = {"client_kwargs": {"cookies": {"a": SECRET}}}
    assert read(chain.open_files_by_fsspec("rb", http=options, cache_storage=str(tmp_path))) == SMALL
    assert SECRET in str(server.asked)
    assert other.asked
    assert SECRET not in str(other.asked)


# One version of one object

OF_THE_WEB: dict[str, Callable[[str, Path], Any]] = {
    "open_files_by_fsspec": lambda url, folder: read(IterableWrapper([url]).open_files_by_fsspec("rb")),
    "cache_files": lambda url, folder: read(IterableWrapper([f"{url}?sig=1"]).cache_files(folder, 10**9)),
}


@pytest.mark.parametrize("told", ["ETag", "Last-Modified"])
@pytest.mark.parametrize("make", OF_THE_WEB.values(), ids=OF_THE_WEB)
def test_a_file_of_the_web_that_is_replaced_while_it_is_read_is_an_error(
    make: Callable[[str, Path], Any], told: str, server: Server, tmp_path: Path
) -> None:
    server.content = OLD
    server.version = {told: server.version[told]}
    assert make(f"{server.url}/a", tmp_path) == OLD
    server.plays = {"GET": ["", "replace"]}
    with pytest.raises(OSError, match="the object was replaced while it was read"):
        make(f"{server.url}/b", tmp_path)


@pytest.mark.parametrize("play", ["portal", "another range", "half a range", "another version"])
def test_what_is_no_part_of_an_object_is_not_taken_for_one(play: str, server: Server) -> None:
    server.plays = {"GET": [f"ever {play}"]}
    again = ps.Retry(1, 0, errors=ConnectionError)
    with pytest.raises(OSError, match=r"bytes came|were requested|was replaced") as caught:
        read(IterableWrapper(["s3://b/a"]).open_files_by_fsspec("rb", on_error=again, **keys_for(server)))
    assert caught.value.filename == "s3://b/a"
    assert server.count("GET") == (1 if play == "another version" else 2)
    server.plays = {"GET": [play]}
    if play != "another version":
        assert read(IterableWrapper(["s3://b/a"]).open_files_by_fsspec("rb", **keys_for(server))) == SMALL


def test_a_version_is_known_without_its_quotes(s3_server: S3Server) -> None:
    (s3_server.empty_bucket("quotes") / "a").write_bytes(SMALL)
    file_system, _ = locate(address_of("s3://quotes/a", {}), one_attempt=True)
    [listed] = file_system.ls("s3://quotes", detail=True)  # which it remembers
    assert '"' not in listed["ETag"]
    assert read(IterableWrapper(["s3://quotes/a"]).open_files_by_fsspec("rb")) == SMALL


@pytest.mark.parametrize("play", ["cut", "portal", "503"])
@pytest.mark.parametrize("url", ["s3://b/./a", "{web}/a?sig=1"])
def test_a_large_file_that_fsspec_reads_is_asked_for_from_where_it_was_cut(url: str, play: str, server: Server) -> None:
    server.content = OLD
    options: dict[str, Any] = keys_for(server) if url.startswith("s3") else {}
    dp = IterableWrapper([url.format(web=server.url)]).load_files_by_s3(storage_options=options)
    [(_, stream)] = dp
    begun = stream.read(10)
    server.plays = {"GET": [play]}
    assert begun + in_pieces(stream) == OLD
    assert dp.stats()["load_files_by_s3"]["retried"] == (0 if url.startswith("s3") else 1)  # of S3, all is there


def test_an_answer_that_is_cut_is_read_on_where_a_server_sends_wholes_only(server: Server) -> None:
    server.content = OLD
    server.knows_ranges = False
    assert read(IterableWrapper([f"{server.url}/a"]).load_files_by_s3()) == OLD  # now it is known
    for plays in (["cut"], ["cut", "", "cut"]):
        server.plays = {"GET": [*plays]}
        dp = IterableWrapper([f"{server.url}/a"]).load_files_by_s3()
        assert read(dp) == OLD
        assert dp.stats()["load_files_by_s3"]["retried"] > 0


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_half_of_an_object_is_an_error_where_the_answer_tells_no_length(knows_ranges: bool, server: Server) -> None:
    server.plays = {"GET": ["ever half, no length"]}
    server.knows_ranges = knows_ranges
    once = ps.Retry(1, 0)
    with pytest.raises(ConnectionError):
        ps.map.ObjectReader(["s3://b/a"], on_error=once, storage_options=keys_for(server))[0]
    with pytest.raises(ConnectionError):
        read(IterableWrapper(["s3://b/a"]).load_files_by_s3(on_error=once, storage_options=keys_for(server)))
    with pytest.raises(ConnectionError):
        read(IterableWrapper([f"{server.url}/a"]).load_files_by_s3(on_error=once))
    server.plays = {"GET": ["ever no length"]}
    assert read(IterableWrapper([f"{server.url}/a"]).load_files_by_s3()) == SMALL
    reader = ps.map.ObjectReader(["s3://b/a"], on_error=once, storage_options=keys_for(server))
    if knows_ranges:
        assert reader[0] == SMALL
    else:
        with pytest.raises(ConnectionError, match="'something else' came"):
            reader[0]


# Attempts, and patience

PATIENT: dict[str, Any] = {"config_kwargs": {"read_timeout": 0.3, "connect_timeout": 1}}


@pytest.mark.parametrize("play", ["503", "silent"])
@pytest.mark.parametrize("chain", [False, True])
def test_an_attempt_is_one_request(chain: bool, play: str, server: Server) -> None:
    server.plays = {method: [f"ever {play}"] for method in ("HEAD", "GET")}
    options: dict[str, Any] = {**keys_for(server), **PATIENT}
    urls, options = (["simplecache::s3://b/a"], {"s3": options}) if chain else (["s3://b/a"], options)
    with pytest.raises(OSError, match=r"Unavailable|did not answer"):
        list(IterableWrapper(urls).open_files_by_fsspec("rb", on_error=ps.Retry(1, 0), **options))
    assert len(server.asked) == 2


def test_what_s3fs_writes_is_sent_up_to_five_more_times(server: Server) -> None:
    server.plays = {"PUT": ["ever 503"]}
    options = {**keys_for(server), "s3_additional_kwargs": {}}
    with pytest.raises(OSError, match="s3://b/a"), whole_file("s3://b/a", "wb", options) as file:
        file.write(b"x")
    assert server.count("PUT") == 6


def test_a_web_server_may_be_silent_for_as_long_as_is_said(server: Server) -> None:
    server.plays = {"HEAD": ["ever silent"], "GET": ["ever silent"]}
    began = time.monotonic()
    for use in (
        lambda: list(IterableWrapper([f"{server.url}/a"]).open_files_by_fsspec("rb", **PATIENT)),
        lambda: list(
            IterableWrapper([f"{server.url}/a?b=c"]).load_files_by_s3(request_timeout_ms=300, on_error=ps.Retry(1, 0))
        ),
    ):
        with pytest.raises(TimeoutError, match="did not answer in time"):
            use()
    assert time.monotonic() - began < 10
    with pytest.raises(TypeError, match="'proxies' in config_kwargs"):
        locate(address_of(f"{server.url}/a", {"config_kwargs": {"proxies": {}}}))
    by_default, _ = locate(address_of(f"{server.url}/a", {}))
    server.plays = {}
    assert by_default.isfile(f"{server.url}/a")
    assert by_default._session.timeout.sock_read == 20
    assert by_default._session.timeout.sock_connect == 5


@pytest.mark.parametrize("of_s3", [True, False])
def test_a_server_that_does_not_tell_is_not_taken_for_one_without_the_file(of_s3: bool, server: Server) -> None:
    url, options = ("s3://b/a", keys_for(server)) if of_s3 else (f"{server.url}/a", {})
    address = address_of(url, options)
    file_system, path = locate(address, one_attempt=True)
    assert is_file(address, file_system, path)
    server.plays = {"HEAD": ["503"], "GET": ["503"]}
    with pytest.raises(ConnectionError):
        is_file(address, file_system, path)
    server.plays = {"HEAD": ["no length"]}
    if of_s3:
        with pytest.raises(UnknownStoreError):
            is_file(address, file_system, path)


@pytest.mark.parametrize("of_s3", [True, False])
def test_a_reader_of_one_file_asks_again_whether_it_is_there_and_counts_that(of_s3: bool, server: Server) -> None:
    server.content = b"n\n1\n"
    server.plays = {"HEAD": ["503", "503"], "GET": [] if of_s3 else ["503"]}
    url, options = ("s3://b/a.csv", keys_for(server)) if of_s3 else (f"{server.url}/a.csv", {})
    dp = ps.read_csv(url, storage_options=options)
    assert [batch.num_rows for batch in dp] == [1]
    assert dp.stats()["list_table_files"]["retried"] == (2 if of_s3 else 1)  # of the web, a GET comes after a HEAD


# Options


def test_an_option_is_not_dropped_where_a_local_file_is_read_or_listed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    url = f"file://{tmp_path}/a"
    uses: list[Callable[[], Any]] = [
        lambda: read(IterableWrapper([url]).load_files_by_s3(storage_options={"nosuch": 1})),
        lambda: list(IterableWrapper([str(tmp_path)]).list_files_by_fsspec(nosuch=1)),
    ]
    for use in uses:
        with pytest.raises(TypeError, match="option 'nosuch'"):
            use()
    assert read(IterableWrapper([url]).load_files_by_s3(request_timeout_ms=1000)) == b"one"
