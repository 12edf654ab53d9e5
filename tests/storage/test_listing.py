from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any

import pytest

import penstock as ps
from fault_proxy import Fault, FaultProxy, passing_on
from listing_server import serving_lists
from penstock.pipes.iter import IterableWrapper
from penstock.storage.addresses import address_of
from penstock.storage.listing import Pages, files_below
from penstock.testing import check_operator

STRANGE = [
    *("/a", "a", "a//b", "a/./b", "b", "b c", "b%2F", "b-", "b/", "b/c", "b\t", "d", "e/", "f", "f!", "f/", "z*", "é"),
    *("full/", "full/a", "one", "one/", "one/a", "x/\ta", "x/b", "x/c/", "y/a", "y/b", "y/z"),
]
"""Keys of which obstore would tell others, or none."""

BUCKETS: dict[str, Any] = {
    "few": dict.fromkeys(["a", "b/c", "d", "e"], 1) | {"b/": 0},
    "strange": {key: len(key) for key in STRANGE} | {"b/": 0, "x/c/": 0, "e/": 0, "f/": 0, "one/": 0},
    "plain": dict.fromkeys(["a", "b/c", "b/d", "bc/d", "d", "e/f"], 1),
    "rooted": {"-": 1, "/a": 1, "b": 1},
    "tables": dict.fromkeys(["t/0.csv", "t/0.parquet", "t/_old/1.parquet", "t/year=1/2.parquet", "u.parquet"], 1)
    | {"t/": 0, "t/year=1/": 0},
    "pages": 3500,
    "million": 1_000_000,
}


@pytest.fixture(scope="module")
def lists() -> Iterator[FaultProxy]:
    """A proxy before a server that lists the buckets."""
    with serving_lists(BUCKETS) as endpoint, passing_on(endpoint) as proxy:
        yield proxy


@pytest.fixture
def server(lists: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> FaultProxy:
    monkeypatch.setenv("AWS_ENDPOINT_URL", lists.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    lists.play()
    return lists


def listed(*prefixes: str, **arguments: Any) -> list[str]:
    return list(IterableWrapper(prefixes).list_files_by_s3(**arguments))


@pytest.mark.parametrize(("folder", "bucket", "below"), [
    ("s3://strange/x", "strange", "x/"),
    ("s3://strange/x/", "strange", "x/"),
    ("s3a://few", "few", ""),
    ("s3://anonymous@few/", "few", ""),
])  # fmt: skip
@pytest.mark.usefixtures("server")
def test_the_files_below_a_folder(folder: str, bucket: str, below: str) -> None:
    start = f"{folder.partition(bucket)[0]}{bucket}/"
    expected = [start + key for key in sorted(BUCKETS[bucket]) if key.startswith(below) and not key.endswith("/")]
    assert list(files_below(folder, {})) == expected


def test_tables_are_listed_a_page_at_a_time_which_is_tried_again_and_counted(server: FaultProxy) -> None:
    server.play(Fault("status", "list-type=2", times=1))
    dp = IterableWrapper(["s3://tables/t/"]).list_table_files("parquet", hive=False, on_error="skip")
    assert list(dp) == ["s3://tables/t/0.parquet", "s3://tables/t/year=1/2.parquet"]
    assert dp.stats()["list_table_files"]["retried"] == server.played().total() > 0


ANSWERS = {
    "portal": "<html><body>Please sign in</body></html>",
    "loop": "<ListBucketResult><Name>loop</Name><KeyCount>1</KeyCount><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>a</NextContinuationToken><Contents><Key>t/a.parquet</Key><Size>1</Size><ETag>1</ETag>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>",
}
"""What a server says to whatever is asked of a bucket."""


class Stubborn(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = ANSWERS[self.path.strip("/").partition("?")[0].partition("/")[0]].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.mark.timeout(20)
@pytest.mark.parametrize("place", ["t/", "t"])
@pytest.mark.parametrize(
    ("bucket", "message"),
    [("portal", "is not a listing"), ("loop", "did not continue the listing")],
)
def test_what_is_no_listing_is_an_error_that_names_the_address(
    place: str, bucket: str, message: str, server: FaultProxy
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Stubborn) as stubborn:
        threading.Thread(target=stubborn.serve_forever, args=(0.01,), daemon=True).start()
        endpoint = f"http://127.0.0.1:{stubborn.server_port}"
        with pytest.raises(OSError, match=rf"{message}.*s3://{bucket}/{place}'"):
            listed(f"s3://{bucket}/{place}", storage_options={"endpoint_url": endpoint}, on_error=ps.Retry(1, 0))
        stubborn.shutdown()


def starts(server: FaultProxy) -> list[str]:
    """After which keys pages were asked for."""
    queries = [request.partition("?")[2].split("&") for request in server.requests().elements()]
    named = [dict(each.partition("=")[::2] for each in query) for query in queries]
    return sorted(query.get("start-after") or query.get("continuation-token", "") for query in named)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("bucket", ["few", "strange", "plain", "rooted"])
@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "a",
        "b",
        "b/",
        "x/",
        "y/",
        "f",
        "full/",
        "one/",
        "none/",
        "x",
        "y/b",
        "full/a",
        "on",
        "é",
        "z",
        "b ",
        "-",
        "0",
    ],
)
def test_every_key_is_listed_as_it_is_but_those_of_folders(bucket: str, prefix: str) -> None:
    keys = sorted((key for key in BUCKETS[bucket] if key.startswith(prefix)), key=str.encode)
    expected = [f"s3://{bucket}/{key}" for key in keys if not key.endswith("/")]
    assert listed(f"s3://{bucket}/{prefix}", allow_empty=True) == expected


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("bucket", ["few", "strange", "plain"])
@pytest.mark.parametrize("prefix", ["", "b", "b/", "x/", "y/", "y", "x/b"])
def test_a_listing_goes_on_after_any_key(bucket: str, prefix: str) -> None:
    keys = sorted((key for key in BUCKETS[bucket] if key.startswith(prefix)), key=str.encode)
    for number, after in enumerate(keys):
        pages = Pages(address_of(f"s3://{bucket}/{prefix}", {}), after)
        assert [key for page in iter(pages, None) for key in page] == keys[number + 1 :]


def test_what_obstore_lists_is_not_asked_of_botocore(server: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError(args)

    monkeypatch.setattr("penstock.storage.listing.locate", refuse)
    assert listed("s3://plain/b/") == ["s3://plain/b/c", "s3://plain/b/d"]
    assert server.requests().total() == 1
    assert listed("s3://plain/b/d", "s3://plain/b") == [f"s3://plain/{key}" for key in ("b/d", "b/c", "b/d", "bc/d")]
    assert server.requests().total() == 3


def test_pages_are_asked_for_when_they_are_needed(server: FaultProxy) -> None:
    iterator = iter(IterableWrapper(["s3://pages/"]).list_files_by_s3())
    next(iterator)
    assert starts(server) == ["", ""]  # and whether there are keys that begin with a slash
    assert len(list(islice(iterator, 999))) == 999
    assert len(starts(server)) == 2
    next(iterator)
    assert len(starts(server)) == 3
    assert len(list(iterator)) == 2499
    assert len(starts(server)) == 5


def test_a_resumed_listing_begins_after_its_last_object(server: FaultProxy) -> None:
    def make() -> ps.IterDataPipe[str]:
        return IterableWrapper(["s3://few/", "s3://pages/"]).list_files_by_s3()

    dp = make()
    assert list(islice(dp, 4 + 1500))[-1] == "s3://pages/0001499.jpg"
    resumed = make()
    resumed.load_state_dict(dp.state_dict())
    server.play()
    assert next(iter(resumed)) == "s3://pages/0001500.jpg"
    assert "0001499.jpg" in starts(server)
    assert len(starts(server)) == 2


@pytest.mark.usefixtures("server")
def test_listing_holds_the_laws() -> None:
    check_operator(lambda: IterableWrapper(["s3://few/", "s3://plain/b/"]).list_files_by_s3())


@pytest.mark.parametrize("fault", [Fault("status", times=2), Fault("reset", times=1), Fault("cut", times=3)])
@pytest.mark.parametrize("prefix", ["", "00"])
def test_a_page_that_fails_is_asked_for_again_and_that_is_counted(
    server: FaultProxy, fault: Fault, prefix: str
) -> None:
    dp = IterableWrapper([f"s3://pages/{prefix}"]).list_files_by_s3(on_error=ps.Retry(9, backoff=0))
    server.play(fault)
    assert list(dp) == [f"s3://pages/{number:07}.jpg" for number in range(3500)]
    assert dp.stats()["list_files_by_s3"]["retried"] == server.played()[fault.kind] > 3


@pytest.mark.usefixtures("server")
def test_a_million_keys_take_the_memory_of_a_page() -> None:
    iterator = iter(IterableWrapper(["s3://million/"]).list_files_by_s3())
    assert next(iterator) == "s3://million/0000000.jpg"
    blocks = [sys.getallocatedblocks()]
    count = 1
    while thousand := list(islice(iterator, 1000)):
        count += len(thousand)
        blocks.append(sys.getallocatedblocks())
    assert count == 1_000_000
    assert max(blocks) < blocks[0] + 20_000
