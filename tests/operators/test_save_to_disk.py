from __future__ import annotations

import gzip
import os
import stat
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import s3fs

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock.pipes.iter import IterableWrapper
from s3 import S3Server, uploads_under_way

LOCAL = ["save_to_disk", "save_by_fsspec", "save_by_iopath"]


@pytest.fixture
def memory() -> Iterator[str]:
    """The URL of a folder in memory, which is not made yet."""
    yield "memory://saved"
    files = fsspec.filesystem("memory")
    if files.exists("/saved"):
        files.rm("/saved", recursive=True)


def save(method: str, items: list[tuple[Any, Any]], mode: str = "w", **arguments: Any) -> list[str]:
    return list(getattr(IterableWrapper(items), method)(mode, **arguments))


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("method", LOCAL)
def test_data_is_written_and_the_path_handed_on(tmp_path: Path, method: str) -> None:
    for mode, data, expected in (
        ("w", "Grüße\n", "Grüße\n".encode()),
        ("t", "", b""),
        ("b", bytearray(b"\x00\xff"), b"\x00\xff"),
        ("wb", np.arange(3, dtype=np.uint8), b"\x00\x01\x02"),
    ):
        path = str(tmp_path / "new" / mode / "a.txt")
        assert save(method, [(path, data)], mode) == [path]
        assert files_in(tmp_path / "new" / mode) == {"a.txt": expected}


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize(("mode", "data"), [("a", "x"), ("ab", b"x")])
def test_appending_keeps_what_is_there_also_after_resuming(
    tmp_path: Path, method: str, mode: str, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    interrupted, resumed = (getattr(IterableWrapper([("a.txt", data)] * 3), method)(mode) for _ in range(2))
    assert list(islice(interrupted, 2)) == ["a.txt"] * 2
    resumed.load_state_dict(interrupted.state_dict())
    assert list(resumed) == ["a.txt"]
    save(method, [("a.txt", data)], mode)
    assert files_in(tmp_path) == {"a.txt": b"xxxx"}
    save(method, [("a.txt", data)], mode.replace("a", "w"))
    assert files_in(tmp_path) == {"a.txt": b"x"}


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize(
    ("items", "arguments", "error", "message"),
    [
        ([("a.txt", b"one")], {}, TypeError, "mode 'w' writes text, .* type bytes: give mode='wb'"),
        ([("a.txt", 3)], {"mode": "a"}, TypeError, "mode 'a' writes text, .* type int: turn it into a string"),
        ([("a.txt", "one")], {"mode": "wb"}, TypeError, "mode 'wb' writes bytes, .* type str: give mode='w', or"),
        ([("a.txt", [1])], {"mode": "ab"}, TypeError, "mode 'ab' writes bytes, .* type list: turn it into bytes"),
        ([("a", "b", "c")], {}, TypeError, "pairs of a path and data are needed, and this is of type tuple"),
        (["ab"], {}, TypeError, "pairs of a path and data are needed, and this is of type str"),
        ([(3, "b")], {}, TypeError, "a path must be a string or os.PathLike, and is of type int"),
        ([], {"filepath_fn": "a.txt"}, TypeError, "filepath_fn"),
        *(([], {"mode": mode}, ValueError, "mode must be 'w'") for mode in ("r", "x", "", "w+", "wbt")),
    ],
)
def test_wrong_data_and_arguments_are_errors_and_leave_the_file_alone(
    tmp_path: Path,
    method: str,
    items: Any,
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_bytes(b"earlier")
    with pytest.raises(error, match=message):
        save(method, items, **arguments)
    assert files_in(tmp_path) == {"a.txt": b"earlier"}


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_earlier_file(
    tmp_path: Path, method: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(*paths: str) -> None:
        raise error

    (tmp_path / "a.txt").write_bytes(b"earlier")
    monkeypatch.setattr(os, "replace", replace)  # the last thing that can fail
    with pytest.raises(type(error)):
        save(method, [(str(tmp_path / "a.txt"), "later")])
    assert files_in(tmp_path) == {"a.txt": b"earlier"}


@pytest.mark.parametrize("method", LOCAL)
def test_links_stay_and_what_is_no_file_is_written_to(tmp_path: Path, method: str) -> None:
    (tmp_path / "real").write_text("earlier")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    save(method, [(str(tmp_path / "link"), "one"), (str(tmp_path / "pipe"), "two")])
    reader.join(20)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"one"
    assert read == [b"two"]
    assert (tmp_path / "pipe").is_fifo()


# Errors, state


@pytest.mark.parametrize("method", LOCAL)
def test_items_that_fail_are_skipped_and_counted(tmp_path: Path, method: str) -> None:
    items = [("a", "one"), ("b", b"two"), ("c", "three")]

    def path_of(name: str) -> Path:
        return {"a": tmp_path / "a", "b": tmp_path / "b"}[name]

    dp = getattr(IterableWrapper(items), method)(filepath_fn=path_of, on_error="skip")
    assert list(dp) == [str(tmp_path / "a")]
    assert dp.stats()[method]["skipped"] == 2
    assert files_in(tmp_path) == {"a": b"one"}
    with pytest.raises(KeyError):
        save(method, items[2:], filepath_fn=path_of)
    attempts = iter("xa")
    retry = ps.Retry(1, backoff=0)
    assert save(method, items[:1], filepath_fn=lambda _: path_of(next(attempts)), on_error=retry) == [
        str(tmp_path / "a")
    ]


# fsspec


def test_urls_of_all_kinds_are_written_and_handed_on(tmp_path: Path, memory: str) -> None:
    urls = [f"{memory}/sub/a.txt", f"file://{tmp_path}/sub/b.txt", str(tmp_path / "c.txt")]
    assert save("save_by_fsspec", [(url, b"one") for url in urls], "wb") == urls
    read = IterableWrapper(urls).open_files_by_fsspec("b").read_from_stream()
    assert [content for _, content in read] == [b"one"] * 3


def test_arguments_for_opening_reach_the_file(tmp_path: Path, memory: str) -> None:
    for folder in (str(tmp_path), memory):
        arguments = {"encoding": "latin-1", "newline": "\r\n", "compression": "infer"}
        save("save_by_fsspec", [(f"{folder}/a.gz", "Grüße\n")], kwargs_for_open=arguments)
        with fsspec.open(f"{folder}/a.gz", "rb") as file:
            assert gzip.decompress(file.read()) == "Grüße\r\n".encode("latin-1")
        with pytest.raises(UnicodeEncodeError):
            save("save_by_fsspec", [(f"{folder}/a.txt", "ü")], kwargs_for_open={"encoding": "ascii"})
        files, path = fsspec.url_to_fs(f"{folder}/a.txt")
        assert not files.exists(path)


def test_s3_is_written_and_appended_to_and_no_bucket_is_made(s3_server: S3Server) -> None:
    (s3_server.root / "bucket").mkdir(exist_ok=True)
    url = "s3://bucket/saved/deep/a.txt"
    assert save("save_by_fsspec", [(url, "one")]) == [url]
    saved = s3_server.root / "bucket" / "saved" / "deep"
    assert files_in(saved) == {"a.txt": b"one"}
    save("save_by_fsspec", [(url, "two")])
    assert files_in(saved) == {"a.txt": b"two"}
    save("save_by_fsspec", [(url, "three")], "a")
    assert files_in(saved) == {"a.txt": b"twothree"}
    with pytest.raises(FileNotFoundError) as caught:
        save("save_by_fsspec", [("s3://nobucket/a.txt", "one")])
    assert "s3://nobucket/a.txt" in caught.value.__notes__[0]
    assert not (s3_server.root / "nobucket").exists()


@pytest.fixture
def bucket(s3_server: S3Server) -> Path:
    """The folder behind the bucket `saves`, which is empty."""
    return s3_server.empty_bucket("saves")


LARGE = np.random.default_rng(0).bytes(20_000_000)
SOON = {"config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 5}}
"""Options of a client that gives up soon."""


@pytest.mark.parametrize(
    "fault",
    [
        Fault("reset", "?partNumber=2", at=None),
        Fault("status", "POST /saves/a?uploadId=", status=503),
        Fault("status", "POST /saves/a?uploads", status=403, code="AccessDenied"),
    ],
    ids=["a connection", "the completion", "the beginning"],
)
def test_a_failed_upload_leaves_the_earlier_object(bucket: Path, fault_proxy: FaultProxy, fault: Fault) -> None:
    (bucket / "a").write_bytes(b"earlier")
    fault_proxy.play(fault)
    with pytest.raises(OSError, match="s3://saves/a") as caught:
        save("save_by_fsspec", [("s3://saves/a", LARGE)], "wb", **SOON)
    assert "s3://saves/a" in caught.value.__notes__[-1]
    assert fault_proxy.played()[fault.kind] > 0
    del caught
    assert files_in(bucket) == {"a": b"earlier"}
    assert uploads_under_way("saves") == []


def test_an_upload_that_cannot_be_aborted_says_so(bucket: Path, fault_proxy: FaultProxy) -> None:
    fault_proxy.play(
        *(Fault("status", request, status=403, code="AccessDenied") for request in ("?partNumber=2", "DELETE "))
    )
    with pytest.raises(PermissionError, match="take space until the store drops them"):
        save("save_by_fsspec", [("s3://saves/a", LARGE)], "wb", **SOON)
    assert not (bucket / "a").exists()
    fault_proxy.play()
    s3fs.S3FileSystem(skip_instance_cache=True).clear_multipart_uploads("saves")


@pytest.mark.parametrize("compression", ["xz", "infer"])
def test_what_is_compressed_is_sent_when_it_is_whole(bucket: Path, fault_proxy: FaultProxy, compression: str) -> None:
    url = "s3://saves/a.bz2"
    arguments = {"kwargs_for_open": {"compression": compression}, **SOON}
    assert save("save_by_fsspec", [(url, LARGE[:1000])], "wb", **arguments) == [url]
    earlier = files_in(bucket)
    decompressing = {"compression": "bz2" if compression == "infer" else compression}
    with fsspec.open(str(bucket / "a.bz2"), "rb", **decompressing) as file:
        assert file.read() == LARGE[:1000]
    fault_proxy.play(Fault("status", "PUT /saves/a.bz2", status=403, code="AccessDenied"))
    with pytest.raises(PermissionError):
        save("save_by_fsspec", [(url, LARGE[:2000])], "wb", **arguments)
    assert files_in(bucket) == earlier


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_file_that_others_may_not_read_stays_so(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.touch(0o600)
    path.chmod(0o600)
    for method in ("save_to_disk", "save_by_fsspec"):
        list(getattr(IterableWrapper([(str(path), method.encode())]), method)(mode="wb"))
        assert path.read_bytes() == method.encode()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
