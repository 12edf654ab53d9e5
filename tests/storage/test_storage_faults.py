"""What becomes of reading from S3 when the network and the server fail: all of an object, or an error that names it.

How many objects are read with one fault in twenty can be said by the environment: PENSTOCK_READS, 2,000 where it is not
there.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock.pipes.iter import IterableWrapper
from penstock.pipes.map import ObjectReader
from penstock.registry import ErrorPolicy
from penstock.storage.addresses import address_of
from penstock.storage.objects import open_ranged
from s3 import S3Server

READS = int(os.environ.get("PENSTOCK_READS", "2000"))

BUCKET = "faults"
SIZE = 200_000

SILENCE = 1000
"""Milliseconds that the server may be silent where it is to be found silent."""

SLOWNESS = 10_000
"""Milliseconds that it may be silent where it is not: on a busy machine an answer takes a while."""

PASSING = {
    "closed before the answer": Fault("cut", at=None),
    "reset in the body": Fault("reset"),
    "cut in the body": Fault("cut"),
    "silent in the body": Fault("stall"),
    "503 SlowDown": Fault("status", status=503, code="SlowDown"),
    "length too long": Fault("length", length=1000),
}
"""Faults after which another attempt may go well."""

LASTING = {
    "403 AccessDenied": (Fault("status", status=403, code="AccessDenied"), PermissionError),
    "400 ExpiredToken": (Fault("status", status=400, code="ExpiredToken"), PermissionError),
    "404": (Fault("status", status=404, code="NoSuchKey"), FileNotFoundError),
    "301": (Fault("status", status=301, code="PermanentRedirect"), OSError),
}
"""Faults that another attempt would meet again, with the errors that they are."""


def patience_with(fault: Fault) -> int:
    """Milliseconds that the server may be silent, so that there is this fault and no other."""
    return SILENCE if fault.kind == "stall" else SLOWNESS


passing_faults = pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)


def url_of(key: str) -> str:
    return f"s3://{BUCKET}/{key}"


def content_of(key: str, size: int = SIZE) -> bytes:
    """Bytes that no other key has, and of which no part is like another."""
    return hashlib.shake_128(key.encode()).digest(size)


def lay(server: S3Server, keys: Iterable[str], size: int = SIZE) -> None:
    for key in keys:
        path = server.root / BUCKET / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content_of(key, size))


def pairs(keys: Iterable[str], size: int = SIZE) -> list[tuple[str, bytes]]:
    return [(url_of(key), content_of(key, size)) for key in keys]


@pytest.fixture
def keys(s3_server: S3Server, request: pytest.FixtureRequest) -> list[str]:
    """The keys of some objects that no other test reads."""
    folder = hashlib.sha1(request.node.nodeid.encode()).hexdigest()
    keys = [f"{folder}/{number:02}" for number in range(8)]
    lay(s3_server, keys)
    return keys


def loading(keys: Sequence[str], **options: Any) -> ps.IterDataPipe[tuple[str, bytes]]:
    source = IterableWrapper([url_of(key) for key in keys])
    return source.load_files_by_s3(**options).read_from_stream()


def retried(dp: Any, step: str = "load_files_by_s3") -> int:
    count: int = dp.stats()[step]["retried"]
    return count


def words_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


# One fault and no more


@passing_faults
def test_after_a_fault_every_object_is_whole_and_the_retry_counted(
    fault: Fault, keys: list[str], fault_proxy: FaultProxy
) -> None:
    fault_proxy.play(replace(fault, times=1))
    dp = loading(keys, request_timeout_ms=patience_with(fault))
    assert list(dp) == pairs(keys)
    assert fault_proxy.played() == {fault.kind: len(keys)}
    assert retried(dp) == len(keys)


# Faults that stay


@passing_faults
def test_a_fault_that_stays_is_an_error_after_the_objects_before_it(
    fault: Fault, keys: list[str], fault_proxy: FaultProxy
) -> None:
    fault_proxy.play(replace(fault, match=f"GET /{BUCKET}/{keys[3]}"))
    dp = loading(keys, request_timeout_ms=SILENCE, on_error=ps.Retry(2, 0, errors=OSError))
    got: list[Any] = []
    with pytest.raises((ConnectionError, TimeoutError)) as caught:
        got.extend(dp)
    assert got == pairs(keys[:3])
    assert url_of(keys[3]) in words_of(caught.value)
    assert fault_proxy.played() == {fault.kind: 3}
    assert retried(dp) >= 2  # others may be under way


def test_what_may_pass_is_tried_again_before_it_is_skipped(keys: list[str], fault_proxy: FaultProxy) -> None:
    fault_proxy.play(Fault("status", match=f"GET /{BUCKET}/{keys[3]}"))
    dp = loading(keys, on_error="skip")
    assert list(dp) == pairs(keys[:3] + keys[4:])
    counts = dp.stats()["load_files_by_s3"]
    assert (counts["skipped"], counts["retried"]) == (1, 5)
    assert url_of(keys[3]) in counts["last_errors"][0]


@pytest.mark.parametrize(("fault", "kind"), LASTING.values(), ids=LASTING)
def test_what_will_not_pass_is_not_tried_again(
    fault: Fault, kind: type[OSError], keys: list[str], fault_proxy: FaultProxy
) -> None:
    fault_proxy.play(replace(fault, match=f"GET /{BUCKET}/{keys[3]}"))
    with pytest.raises(kind) as caught:
        list(loading(keys))
    assert not isinstance(caught.value, (ConnectionError, TimeoutError))
    assert url_of(keys[3]) in words_of(caught.value)
    assert fault_proxy.requests()[f"GET /{BUCKET}/{keys[3]}"] == 1


def test_a_pass_that_is_given_up_while_the_server_is_silent_ends(keys: list[str], fault_proxy: FaultProxy) -> None:
    fault_proxy.play(Fault("stall", match=f"GET /{BUCKET}/{keys[1]}"))
    running = iter(loading(keys, request_timeout_ms=SILENCE))
    assert next(running) == pairs(keys)[0]
    del running
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]


def test_a_pass_over_columns_that_is_given_up_while_the_server_is_silent_ends(
    s3_server: S3Server, fault_proxy: FaultProxy
) -> None:
    names = ["answers.parquet", "silent.parquet"]
    (s3_server.root / BUCKET).mkdir(parents=True, exist_ok=True)
    for name in names:
        pq.write_table(pa.table({"id": range(10)}), s3_server.root / BUCKET / name)
    fault_proxy.play(Fault("stall", match=f"GET /{BUCKET}/{names[1]}", at=None))
    dp = ps.read_parquet([url_of(name) for name in names], batch_size=5, storage_options=options_for())
    running = iter(dp)
    assert next(running).column("id").to_pylist() == [0, 1, 2, 3, 4]
    del running
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]


def test_the_attempts_of_reading_a_parquet_file_are_counted(s3_server: S3Server, fault_proxy: FaultProxy) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), s3_server.empty_bucket("tables") / "a.parquet")
    fault_proxy.play(Fault("status", "/tables/a.parquet", times=1))
    dp = IterableWrapper(["s3://tables/a.parquet"]).load_parquet_as_df(on_error=ps.Retry(5, backoff=0.01))
    assert [table.num_rows for table in dp] == [2]
    assert retried(dp, "load_parquet_as_df") == fault_proxy.played().total() > 0


# Objects that are unlike others


STRANGE = [
    *("a b", "a%20b", "a+b", "a%2Bb", "a?b", "a%3Fb", "a#b", "a&b=c", "a;b", "a:b", "a@b", "a=b", "a,b", "a!b", "a*b"),
    *("a'b", 'a"b', "a(b)", "a[b]", "a{b}", "a<b>", "a|b", "a^b", "a`b", "a~b", "a$b", "100%", "%", "%zz", "naïve"),
    *("日本語/文字.bin", "🙂", " leading", "trailing.", "...", "a..b", "a.b/.c", "x" * 200),
]


def test_objects_with_strange_keys_are_listed_and_loaded(s3_server: S3Server, fault_proxy: FaultProxy) -> None:
    keys = sorted((f"strange/{key}" for key in STRANGE), key=str.encode)
    lay(s3_server, keys, 100)
    dp = IterableWrapper([url_of("strange/")]).list_files_by_s3()
    assert list(dp) == [url_of(key) for key in keys]
    assert list(dp.load_files_by_s3().read_from_stream()) == pairs(keys, 100)


# Many objects at once


def mixed(rate: float) -> list[Fault]:
    """Faults of many kinds that, together, befall a share of the requests."""
    kinds = [kind for kind, fault in PASSING.items() if fault.kind != "stall"]
    # Of each kind what makes them even, since one that is first is played.
    return [replace(PASSING[kind], rate=rate / (len(kinds) - rate * place)) for place, kind in enumerate(kinds)]


@pytest.mark.timeout(60 + READS / 50)
def test_of_many_objects_none_is_lost_twice_or_corrupt(s3_server: S3Server, fault_proxy: FaultProxy) -> None:
    keys = [f"many/{number // 2500}/{number // 50 % 50}/{number}" for number in range(READS)]
    sizes = dict(zip(keys, random.Random(0).choices(range(100, 5000), k=READS), strict=True))
    for key in keys:
        lay(s3_server, [key], sizes[key])
    fault_proxy.play(*mixed(0.05), seed=2)
    dp = loading(keys)
    for key, (url, content) in zip(keys, dp, strict=True):
        assert url == url_of(key)
        assert content == content_of(key, sizes[key])
    faults = fault_proxy.played().total()
    assert 0.03 * READS < faults < 0.08 * READS
    assert retried(dp) == faults
    assert fault_proxy.requests().total() == READS + faults


# Ranges

RANGED = 3_000_000


@pytest.fixture
def ranged(s3_server: S3Server, request: pytest.FixtureRequest) -> str:
    """The key of an object that is read by ranges, which no other test reads."""
    key = hashlib.sha1(request.node.nodeid.encode()).hexdigest()
    lay(s3_server, [key], RANGED)
    return key


def options_for(milliseconds: int = SILENCE) -> dict[str, Any]:
    return {"config_kwargs": {"connect_timeout": milliseconds / 1000, "read_timeout": milliseconds / 1000}}


@passing_faults
def test_an_object_read_by_ranges_is_whole_after_a_fault_in_each(
    fault: Fault, ranged: str, fault_proxy: FaultProxy
) -> None:
    fault_proxy.play(replace(fault, times=1, match="bytes="))
    counts = ErrorPolicy("raise")
    with open_ranged(address_of(url_of(ranged), options_for()), counted_by=counts) as stream:
        assert stream.read() == content_of(ranged, RANGED)
    assert counts.retried == fault_proxy.played().total() == len(fault_proxy.requests()) - 1 > 0


@passing_faults
def test_a_range_that_is_not_to_be_had_is_an_error_that_names_the_object(
    fault: Fault, ranged: str, fault_proxy: FaultProxy
) -> None:
    fault_proxy.play(replace(fault, match="bytes="))
    retry = ps.Retry(1, 0, errors=OSError)
    with open_ranged(address_of(url_of(ranged), options_for()), retry=retry) as stream:
        stream.seek(RANGED // 2)
        with pytest.raises((ConnectionError, TimeoutError)) as caught:
            stream.read(10)
        assert url_of(ranged) in str(caught.value)
        fault_proxy.play()
        assert stream.tell() == RANGED // 2
        assert stream.read() == content_of(ranged, RANGED)[RANGED // 2 :]


def test_a_range_that_comes_short_is_asked_for_again(ranged: str, fault_proxy: FaultProxy) -> None:
    fault_proxy.play(Fault("length", length=-10, times=1, match="bytes="))
    with open_ranged(address_of(url_of(ranged), {})) as stream:
        assert stream.read() == content_of(ranged, RANGED)
    fault_proxy.play(Fault("length", length=-10, match="bytes="))
    with (
        open_ranged(address_of(url_of(ranged), {}), retry=ps.Retry(1, 0, errors=OSError)) as stream,
        pytest.raises(ConnectionError, match=url_of(ranged)),
    ):
        stream.read()


@pytest.mark.parametrize("size", [RANGED, RANGED - 1000])
def test_an_object_that_is_replaced_while_it_is_read_is_an_error(
    size: int, ranged: str, s3_server: S3Server, fault_proxy: FaultProxy
) -> None:
    with open_ranged(address_of(url_of(ranged), {})) as stream:
        assert stream.read(10) == content_of(ranged, 10)
        path = s3_server.root / BUCKET / ranged
        path.write_bytes(content_of("another", size))
        stream.seek(RANGED - 500_000)
        with pytest.raises(OSError, match=url_of(ranged)):
            stream.read(10)


# By index


def reading(keys: Sequence[str], on_error: Any = "raise") -> ObjectReader:
    return ObjectReader([url_of(key) for key in keys], on_error=on_error, storage_options=options_for())


def test_an_error_is_raised_while_the_server_is_silent_on_others(
    keys: list[str], s3_server: S3Server, fault_proxy: FaultProxy
) -> None:
    (s3_server.root / BUCKET / keys[3]).unlink()
    fault_proxy.play(*(Fault("stall", match=f"GET /{BUCKET}/{key}") for key in keys if key != keys[3]))
    with pytest.raises(FileNotFoundError) as caught:
        reading(keys).__getitems__([*range(8)])
    assert url_of(keys[3]) in words_of(caught.value)
    # For those that are under way when it is known, no other attempt is made.
    assert max(fault_proxy.requests().values()) == 1


# Objects that obstore cannot name, which fsspec reads

ODD = "odd/a line\u2028and another"


@passing_faults
def test_an_object_that_only_fsspec_can_name_is_whole_after_a_fault(
    fault: Fault, s3_server: S3Server, fault_proxy: FaultProxy
) -> None:
    lay(s3_server, [ODD])
    for read in (lambda: list(loading([ODD], request_timeout_ms=SILENCE)), lambda: [(url_of(ODD), reading([ODD])[0])]):
        fault_proxy.play(replace(fault, times=1))
        assert read() == pairs([ODD])
        assert fault_proxy.played() == {fault.kind: 1}


# Large ones


def test_with_one_answer_in_ten_that_says_slow_down_every_object_comes(
    s3_server: S3Server, fault_proxy: FaultProxy
) -> None:
    keys = [f"slow/{number:03}" for number in range(300)]
    lay(s3_server, keys, 500)
    fault_proxy.play(Fault("status", rate=0.1), seed=1)
    dp = loading(keys)
    assert list(dp) == pairs(keys, 500)
    assert retried(dp) == fault_proxy.played()["status"] > 10
