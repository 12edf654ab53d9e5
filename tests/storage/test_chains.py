"""Chains are read link by link: faults below an archive, and files that a link keeps."""

from __future__ import annotations

import errno
import gzip
import io
import os
import signal
import subprocess
import sys
import tarfile
import traceback
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import penstock as ps
from answering import Server, running
from fault_proxy import Fault, FaultProxy
from penstock.pipes.iter import IterableWrapper
from penstock.storage.reading import open_to_seek
from s3 import S3Server

CONTENT = np.random.default_rng(0).bytes(14_000_000)
ONCE = ps.Retry(3, backoff=0.01)


def zip_of(content: bytes, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression, compresslevel=1) as archive:
        archive.writestr("a.txt", content)
    return packed.getvalue()


def tar_of(content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        header = tarfile.TarInfo("a.txt")
        header.size = len(content)
        archive.addfile(header, io.BytesIO(content))
    return packed.getvalue()


@contextmanager
def serving(content: bytes) -> Iterator[tuple[Server, str]]:
    """Yield a server of one file, and its address there."""
    with running() as server:
        server.content = content
        yield server, f"{server.url}/a"


def in_pieces(dp: Any) -> bytes:
    [(_, stream)] = dp
    return b"".join(iter(lambda: stream.read(100_000), b""))


def each_range_is_cut_once(asked: str, times: int) -> str:
    return "cut" if asked and times == 1 else ""


# Archives


@pytest.mark.parametrize(("protocol", "pack"), [("zip", zip_of), ("tar", tar_of)])
def test_what_is_cut_below_an_archive_is_asked_for_again_and_nothing_is_lost(protocol: str, pack: Any) -> None:
    with serving(pack(CONTENT)) as (server, address):
        dp = IterableWrapper([f"{protocol}://a.txt::{address}"]).load_files_by_s3(on_error=ONCE)
        begun = iter(dp)
        _, stream = next(begun)
        head = stream.read(10)
        server.befalls = each_range_is_cut_once
        assert head + b"".join(iter(lambda: stream.read(100_000), b"")) == CONTENT
        assert dp.stats()["load_files_by_s3"]["retried"] > 0


@pytest.mark.parametrize(("protocol", "pack"), [("zip", zip_of), ("tar", tar_of)])
def test_two_versions_of_an_archive_are_not_mixed(protocol: str, pack: Any) -> None:
    with serving(pack(CONTENT)) as (server, address):
        [(_, stream)] = IterableWrapper([f"{protocol}://a.txt::{address}"]).load_files_by_s3()
        server.befalls = lambda asked, times: "replace"
        with pytest.raises(OSError, match="the object was replaced while it was read") as caught:
            stream.read()
        assert caught.value.errno == errno.ESTALE


def test_a_seek_in_a_zip_is_tried_again_and_shows_no_signature() -> None:
    with serving(zip_of(CONTENT)) as (server, address):
        url = f"zip://a.txt::{address}?sig=SECRET"
        stream = open_to_seek(url, {}, retry=ONCE)
        server.befalls = lambda asked, times: "503" if times == 1 else ""
        stream.seek(12_000_000)
        assert stream.read(10) == CONTENT[12_000_000:12_000_010]
        [(_, stream)] = IterableWrapper([url]).open_files_by_fsspec("rb")
        server.befalls = lambda asked, times: "503"
        with pytest.raises(ConnectionError, match="in trouble: 503") as caught:
            stream.seek(12_000_000)
        assert "SECRET" not in "".join(traceback.format_exception(caught.value))


def test_a_forked_process_does_not_hang_in_an_archive_of_its_parent() -> None:
    with serving(zip_of(CONTENT)) as (_, address):
        [(_, stream)] = IterableWrapper([f"zip://a.txt::{address}"]).open_files_by_fsspec("rb")
        head = stream.read(10)
        if (process := os.fork()) == 0:
            signal.alarm(10)
            try:
                stream.read()
            except RuntimeError as error:
                os._exit(3 if "only that one can read it" in str(error) else 4)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 3
        assert head + stream.read() == CONTENT


def test_a_link_is_decompressed_as_its_own_name_tells(tmp_path: Path) -> None:
    def put(name: str, packed: bytes, mode: str = "w") -> None:
        if name.endswith(".zip"):
            with zipfile.ZipFile(tmp_path / name, "w") as archive:
                archive.writestr(inner, packed)
            return
        with tarfile.open(tmp_path / name, mode) as archive:
            header = tarfile.TarInfo(inner)
            header.size = len(packed)
            archive.addfile(header, io.BytesIO(packed))

    for inner, packed in {"b.tar": tar_of(b"inside"), "b.tar.gz": gzip.compress(tar_of(b"inside"))}.items():
        put("a.zip", packed)
        put("a.tar", packed)
        put("a.tar.gz", packed, "w:gz")
        for outer in (
            "zip://{}::{}/a.zip",
            "simplecache::zip://{}::{}/a.zip",
            "tar://{}::{}/a.tar",
            "tar://{}::{}/a.tar.gz",
        ):
            dp = IterableWrapper(["tar://a.txt::" + outer.format(inner, tmp_path)])
            assert in_pieces(dp.load_files_by_s3()) == b"inside"
    for inner, packed in {"a.txt.gz": gzip.compress(b"inside"), "a.txt": b"inside"}.items():
        put("a.zip", packed)
        put("a.tar", packed)
        for url in (f"zip://{inner}::{tmp_path}/a.zip", f"simplecache::tar://{inner}::{tmp_path}/a.tar"):
            dp = IterableWrapper([url]).open_files_by_fsspec("rb", kwargs_for_open={"compression": "infer"})
            assert in_pieces(dp) == b"inside"


def test_a_tar_behind_a_signed_url_is_decompressed() -> None:
    with serving(gzip.compress(tar_of(b"inside"))) as (_, address):
        dp = IterableWrapper([f"tar://a.txt::{address}.tar.gz?sig=SECRET"])
        assert in_pieces(dp.load_files_by_s3()) == b"inside"


@pytest.mark.parametrize("option", [{"mode": "w"}, {"mistyped": 1}])
def test_no_option_makes_a_reader_write_an_archive(option: dict[str, Any], tmp_path: Path) -> None:
    packed = zip_of(b"inside")
    (tmp_path / "a.zip").write_bytes(packed)
    url = IterableWrapper([f"zip://a.txt::{tmp_path}/a.zip"])
    for use in (
        lambda: list(url.load_files_by_s3(storage_options={"zip": option})),
        lambda: list(url.load_files_by_s3(storage_options=option)),
        lambda: list(url.open_files_by_fsspec("rb", zip=option)),
        lambda: list(IterableWrapper([f"zip://::{tmp_path}/a.zip"]).list_files_by_fsspec(zip=option)),
    ):
        with pytest.raises(TypeError, match=f"takes no option '{next(iter(option))}'"):
            use()
        assert (tmp_path / "a.zip").read_bytes() == packed


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("zip://b.txt::{folder}/a", "archives are only read"),
        ("simplecache::https://host/a?token=SECRET", "write to the address after it"),
    ],
)
def test_nothing_is_written_through_a_chain(url: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(zip_of(b"inside"))
    dp = IterableWrapper([(url.format(folder=tmp_path), b"new")]).save_by_fsspec("wb")
    with pytest.raises(OSError, match=message) as caught:
        list(dp)
    assert caught.value.errno == errno.EROFS
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))
    assert (tmp_path / "a").read_bytes() == zip_of(b"inside")


def test_damage_in_an_archive_names_the_whole_address() -> None:
    packed = zip_of(b"inside", zipfile.ZIP_STORED).replace(b"inside", b"inSide", 1)
    with serving(packed) as (_, address):
        [(_, stream)] = IterableWrapper([f"zip://a.txt::{address}?sig=SECRET"]).load_files_by_s3()
        with pytest.raises(zipfile.BadZipFile) as caught:
            stream.read()
    assert caught.value.__notes__ == [f"while reading zip://a.txt::{address}?…"]


# Files that a link keeps

READING = """
import sys, penstock as ps
dp = ps.iter.IterableWrapper([sys.argv[1]]).load_files_by_s3(storage_options={"cache_storage": sys.argv[2]})
print(sum(len(stream.read()) for _, stream in dp))
"""


def started(url: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", READING, url, folder], stdout=subprocess.PIPE, text=True)


def test_two_processes_keep_one_file_and_none_reads_half_of_it(tmp_path: Path) -> None:
    with serving(CONTENT) as (server, address):
        server.befalls = lambda asked, times: "wait" if times == 1 else ""
        url = f"filecache::{address}"
        with started(url, tmp_path) as other:
            assert server.begun.wait(60)
            Thread(target=lambda: (Event().wait(0.5), server.go_on.set())).start()
            dp = IterableWrapper([url]).load_files_by_s3(storage_options={"cache_storage": tmp_path})
            assert in_pieces(dp) == CONTENT
            assert other.communicate(timeout=60)[0] == f"{len(CONTENT)}\n"
        assert server.count("GET") == 1


def test_no_half_of_a_file_stays_behind_a_process_that_is_killed(tmp_path: Path) -> None:
    with serving(CONTENT) as (server, address):
        server.befalls = lambda asked, times: "wait" if times == 1 else ""
        url = f"simplecache::{address}"
        with started(url, tmp_path) as killed:
            assert server.begun.wait(60)
            killed.kill()
            killed.wait(20)
        server.go_on.set()
        dp = IterableWrapper([url]).load_files_by_s3(storage_options={"cache_storage": tmp_path})
        assert in_pieces(dp) == CONTENT


def test_a_download_that_is_cut_in_the_middle_of_a_chain_does_not_stay(tmp_path: Path) -> None:
    with serving(zip_of(CONTENT)) as (server, address):
        server.befalls = lambda asked, times: "cut" if times <= 2 else ""
        options = {"simplecache": {"cache_storage": str(tmp_path)}}
        dp = IterableWrapper([f"zip://a.txt::simplecache::{address}"]).load_files_by_s3(
            on_error=ONCE, storage_options=options
        )
        assert in_pieces(dp) == CONTENT
        assert dp.stats()["load_files_by_s3"]["retried"] == 2
        assert in_pieces(dp) == CONTENT
        assert server.count("GET") == 3


def test_a_kept_file_is_read_without_its_server_and_from_no_folder_of_others(tmp_path: Path) -> None:
    with serving(CONTENT) as (server, address):
        url = f"simplecache::{address}"
        options = {"cache_storage": tmp_path}
        for _ in range(2):
            assert in_pieces(IterableWrapper([url]).load_files_by_s3(storage_options=options)) == CONTENT
        assert server.count("GET") == 1
        for headers in ({"a": "1"}, {"a": "2"}):  # kept until this process ends, for each of these
            dp = IterableWrapper([url]).load_files_by_s3(storage_options={"headers": headers})
            assert [in_pieces(dp), in_pieces(dp)] == [CONTENT, CONTENT]
        assert server.count("GET") == 3


def test_a_file_that_cannot_be_kept_is_read_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "total").write_text("the total of all my expenses")
    with serving(zip_of(CONTENT)) as (server, address):
        server.befalls = each_range_is_cut_once
        dp = IterableWrapper([f"zip://a.txt::simplecache::{address}?sig=SECRET"]).load_files_by_s3(
            on_error=ps.Retry(20, backoff=0.001), storage_options={"cache_storage": tmp_path}
        )
        assert in_pieces(dp) == CONTENT
        assert dp.stats()["load_files_by_s3"]["retried"] > 0
    assert "is read without the cache" in caplog.text
    assert "SECRET" not in caplog.text


def test_what_is_opened_otherwise_is_another_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    for content, arguments in ((b"one", {}), (b"two", {"version": 2}), (b"one", {}), (b"two", {"version": 2})):
        dp = IterableWrapper([f"simplecache::{tmp_path}/a"])
        assert in_pieces(dp.open_files_by_fsspec("rb", kwargs_for_open=arguments, cache_storage=tmp_path)) == content
        (tmp_path / "a").write_bytes(b"two")


def test_options_are_for_all_links_of_their_protocol(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of(tar_of(b"inside")))
    for number, options in enumerate(
        [{"cache_storage": tmp_path / "0"}, {"simplecache": {"cache_storage": tmp_path / "1"}}]
    ):
        dp = IterableWrapper([f"tar://a.txt::simplecache::zip://a.txt::simplecache::{tmp_path}/a.zip"])
        assert in_pieces(dp.load_files_by_s3(storage_options=options)) == b"inside"
        assert len(list((tmp_path / str(number)).glob("???/*"))) == 2


@pytest.mark.parametrize(
    ("url", "option", "message"),
    [
        ("simplecache::memory://a", {"expiry_time": 1}, "memory://a takes no option 'expiry_time'"),
        ("simplecache::memory://a", {"simplecache": {"expiry_time": 1}}, "simplecache:: takes no option 'expiry_time'"),
        ("filecache::memory://a", {"filecache": {"same_names": True}}, "'same_names', only with cache_storage"),
        ("simplecache::memory://a", {"cache_storage": 1}, "cache_storage must be the path of a folder"),
        ("blockcache::memory://a", {}, "take simplecache::, or cache_files"),
        ("zip://a.txt::/folder/a.zip", {"anon": True}, r"a\.zip takes no option 'anon'"),
        ("simplecache::s3://b/a", {"s33": {"anon": True}}, "s33"),
    ],
)
def test_an_option_that_no_link_takes_is_an_error(url: str, option: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        list(IterableWrapper([url]).load_files_by_s3(storage_options=option))


# Objects


DEAD = {"endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"total_max_attempts": 1}}}


@pytest.mark.parametrize("options", [DEAD, {"s3": DEAD}])
@pytest.mark.usefixtures("s3_server")
def test_options_of_a_chain_reach_the_store(options: dict[str, Any]) -> None:
    url = IterableWrapper(["simplecache::s3://chains/a"])
    for dp in (
        url.load_files_by_s3(storage_options=options, on_error=ps.Retry(1, backoff=0.01)),
        url.open_files_by_fsspec("rb", **options),
    ):
        with pytest.raises(ConnectionError):
            list(dp)


def test_a_server_in_trouble_is_not_a_missing_file(s3_server: S3Server, fault_proxy: FaultProxy) -> None:
    (s3_server.empty_bucket("chains") / "a").write_bytes(b"one")
    fault_proxy.play(Fault("status", " /chains"))
    with pytest.raises(ConnectionError, match="in trouble: 503"):
        list(IterableWrapper(["simplecache::s3://chains/a"]).open_files_by_fsspec("rb"))


@pytest.mark.parametrize(
    "url",
    ["s3://chains/a/", "zip://a.txt::s3://chains/a/", "simplecache::s3a://chains/a/"],
)
def test_a_key_that_s3fs_would_change_is_neither_read_nor_written(url: str, s3_server: S3Server) -> None:
    file = s3_server.empty_bucket("chains") / "a"
    file.write_bytes(b"the object a")
    for use in (
        lambda: list(IterableWrapper([url]).load_files_by_s3()),
        lambda: list(IterableWrapper([url]).open_files_by_fsspec("rb")),
        lambda: list(IterableWrapper([(url, b"new")]).save_by_fsspec("wb")),
        lambda: ps.checkpoint.save(url, step=1),
    ):
        with pytest.raises(ValueError, match="ends in a slash: s3fs would take another object"):
            use()
    assert file.read_bytes() == b"the object a"


def test_a_key_with_colons_at_the_end_of_a_chain_is_a_key(s3_server: S3Server) -> None:
    (s3_server.empty_bucket("chains") / "a::b").write_bytes(b"content")
    for url in ("s3://chains/a::b", "simplecache::s3://chains/a::b"):
        assert in_pieces(IterableWrapper([url]).load_files_by_s3()) == b"content"


@pytest.mark.parametrize("chain", ["", "simplecache::"])
def test_what_came_after_a_listing_is_read_as_it_is_now(chain: str, s3_server: S3Server) -> None:
    folder = s3_server.empty_bucket("chains")
    (folder / "a").write_bytes(b"one")
    assert list(IterableWrapper(["s3://chains/"]).list_files_by_fsspec()) == ["s3://chains/a"]
    name = f"b{len(chain)}"  # what is kept has another
    (folder / name).write_bytes(b"two")
    (folder / "a").write_bytes(b"longer than before")
    for url, content in ((f"{chain}s3://chains/{name}", b"two"), ("s3://chains/a", b"longer than before")):
        assert in_pieces(IterableWrapper([url]).open_files_by_fsspec("rb")) == content
        assert in_pieces(IterableWrapper([url]).load_files_by_s3()) == content
