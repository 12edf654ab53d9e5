from __future__ import annotations

import gzip
import multiprocessing
import os
import pickle
import re
import signal
import stat
import threading
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import s3fs
from botocore.client import BaseClient  # type: ignore[import-untyped]

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock.pipes.iter import IterableWrapper
from resuming import assert_resumes_everywhere
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
@pytest.mark.parametrize(
    ("mode", "data", "expected"),
    [
        ("w", "Grüße\n", "Grüße\n".encode()),
        ("wt", "", b""),
        ("t", "one", b"one"),
        ("wb", b"\x00\xff", b"\x00\xff"),
        ("b", bytearray(b"one"), b"one"),
        ("wb", memoryview(b"one"), b"one"),
        ("wb", np.arange(3, dtype=np.uint8), b"\x00\x01\x02"),
    ],
)
def test_data_is_written_and_the_path_handed_on(
    tmp_path: Path, method: str, mode: str, data: Any, expected: bytes
) -> None:
    path = str(tmp_path / "new" / "folders" / "a.txt")
    assert save(method, [(path, data)], mode) == [path]
    assert files_in(tmp_path) == {"new/folders/a.txt": expected}


@pytest.mark.parametrize("method", LOCAL)
def test_the_function_makes_the_path_and_may_give_a_path_object(tmp_path: Path, method: str) -> None:
    items = [({"id": 1}, "one"), ({"id": 2}, "two")]
    paths = save(method, items, filepath_fn=lambda told: tmp_path / f"{told['id']}.txt")
    assert paths == [str(tmp_path / "1.txt"), str(tmp_path / "2.txt")]
    assert files_in(tmp_path) == {"1.txt": b"one", "2.txt": b"two"}


@pytest.mark.parametrize("method", LOCAL)
def test_a_path_without_a_folder_is_in_the_present_one(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert save(method, [("a.txt", "one")]) == ["a.txt"]
    assert files_in(tmp_path) == {"a.txt": b"one"}


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize(("mode", "data"), [("a", "x"), ("at", "x"), ("ab", b"x")])
def test_appending_keeps_what_is_there(tmp_path: Path, method: str, mode: str, data: Any) -> None:
    path = str(tmp_path / "sub" / "a.txt")
    save(method, [(path, data)] * 3, mode)
    save(method, [(path, data)], mode)
    assert files_in(tmp_path) == {"sub/a.txt": b"xxxx"}
    save(method, [(path, data)], mode.replace("a", "w"))
    assert files_in(tmp_path) == {"sub/a.txt": b"x"}


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize(
    ("mode", "data", "message"),
    [
        ("w", b"one", "mode 'w' writes text, and the data is of type bytes: give mode='wb'"),
        ("a", 3, "mode 'a' writes text, and the data is of type int: turn it into a string"),
        ("wb", "one", "mode 'wb' writes bytes, and the data is of type str: give mode='w', or encode it"),
        ("ab", [1], "mode 'ab' writes bytes, and the data is of type list: turn it into bytes"),
    ],
)
def test_data_of_the_wrong_type_is_an_error_and_leaves_the_file_alone(
    tmp_path: Path, method: str, mode: str, data: Any, message: str
) -> None:
    (tmp_path / "a.txt").write_bytes(b"earlier")
    with pytest.raises(TypeError, match=message) as caught:
        save(method, [(str(tmp_path / "a.txt"), data)], mode)
    assert "a.txt" in caught.value.__notes__[0]
    assert files_in(tmp_path) == {"a.txt": b"earlier"}


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize(
    ("item", "message"),
    [
        (("a", "b", "c"), "pairs of a path and data are needed, and this is of type tuple"),
        ("ab", "pairs of a path and data are needed, and this is of type str"),
        ((3, "b"), "a path must be a string or os.PathLike, and is of type int"),
    ],
)
def test_what_is_no_pair_of_a_path_and_data_is_an_error(method: str, item: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        save(method, [item])


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize("mode", ["r", "x", "", "w+", "wbt"])
def test_wrong_arguments_raise_at_construction(method: str, mode: str) -> None:
    with pytest.raises(ValueError, match="mode must be 'w'"):
        save(method, [], mode)
    with pytest.raises(TypeError, match="filepath_fn"):
        save(method, [], filepath_fn="a.txt")


def fail_to_write(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let the replacing of a file fail, the last thing that can."""

    def replace(*paths: str) -> None:
        raise error

    monkeypatch.setattr(os, "replace", replace)


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_earlier_file_and_nothing_else(
    tmp_path: Path, method: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes(b"earlier")
    fail_to_write(monkeypatch, error)
    with pytest.raises(type(error)):
        save(method, [(str(tmp_path / "a.txt"), "later")])
    assert files_in(tmp_path) == {"a.txt": b"earlier"}


def write_for_long(path: str) -> None:
    for number in range(256):
        save("save_to_disk", [(path, bytes([number]) * 5_000_000)] * 2, "wb")


def test_a_reader_never_sees_half_a_file_not_even_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    process = multiprocessing.get_context("spawn").Process(target=write_for_long, args=(str(path),))
    process.start()
    try:
        seen: set[bytes] = set()
        deadline = threading.Event()
        timer = threading.Timer(40, deadline.set)
        timer.start()
        while len(seen) < 4 and not deadline.is_set():
            if path.exists():
                content = path.read_bytes()
                assert content == content[:1] * 5_000_000
                seen.add(content[:1])
        timer.cancel()
        assert len(seen) == 4, "the process wrote nothing in time"
    finally:
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join(30)
    content = path.read_bytes()
    assert content == content[:1] * 5_000_000


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


@pytest.mark.parametrize("method", LOCAL)
@pytest.mark.parametrize("name", ["ü" * 127, "a" * 251 + ".txt"])
def test_the_longest_names_can_be_written(tmp_path: Path, method: str, name: str) -> None:
    save(method, [(str(tmp_path / name), "one")])
    assert files_in(tmp_path) == {name: b"one"}


@pytest.mark.parametrize("method", LOCAL)
def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: Path, method: str) -> None:
    with pytest.raises(IsADirectoryError):
        save(method, [(str(tmp_path), "one")])
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory|exists"):
        save(method, [(str(tmp_path / "file" / "a.txt"), "one")])


# Errors, state


@pytest.mark.parametrize("method", LOCAL)
def test_items_that_fail_are_skipped_and_counted(tmp_path: Path, method: str) -> None:
    items = [("a", "one"), ("b", b"two"), ("c", "three")]

    def path_of(name: str) -> str:
        return {"a": str(tmp_path / "a"), "b": str(tmp_path / "b")}[name]

    dp = getattr(IterableWrapper(items), method)(filepath_fn=path_of, on_error="skip")
    assert list(dp) == [str(tmp_path / "a")]
    assert dp.stats()[method]["skipped"] == 2
    assert files_in(tmp_path) == {"a": b"one"}
    with pytest.raises(KeyError):
        save(method, items[2:], filepath_fn=path_of)


@pytest.mark.parametrize("method", LOCAL)
def test_a_write_is_tried_again(tmp_path: Path, method: str) -> None:
    attempts = iter([OSError("busy"), OSError("busy"), None])

    def path_of(name: str) -> str:
        if (error := next(attempts)) is not None:
            raise error
        return str(tmp_path / name)

    save(method, [("a", "one")], filepath_fn=path_of, on_error=ps.Retry(2, backoff=0))
    assert files_in(tmp_path) == {"a": b"one"}


@pytest.mark.parametrize("method", LOCAL)
def test_resuming_writes_nothing_twice(tmp_path: Path, method: str) -> None:
    def make() -> Any:
        items = [(str(tmp_path / "all"), f"{number};") for number in range(5)]
        return getattr(IterableWrapper(items), method)("a")

    dp = make()
    assert len(list(islice(dp, 2))) == 2
    resumed = make()
    resumed.load_state_dict(dp.state_dict())
    assert len(list(resumed)) == 3
    assert files_in(tmp_path) == {"all": b"0;1;2;3;4;"}


@pytest.mark.parametrize("method", LOCAL)
def test_savers_resume_have_a_length_and_can_be_pickled(tmp_path: Path, method: str) -> None:
    def make() -> Any:
        return getattr(IterableWrapper([(str(tmp_path / name), name) for name in "abc"]), method)()

    assert_resumes_everywhere(make)
    assert len(make()) == 3
    assert list(pickle.loads(pickle.dumps(make()))) == list(make())


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


def test_text_that_cannot_be_encoded_leaves_no_trace(tmp_path: Path, memory: str) -> None:
    for folder in (str(tmp_path), memory):
        with pytest.raises(UnicodeEncodeError):
            save("save_by_fsspec", [(f"{folder}/a.txt", "ü")], kwargs_for_open={"encoding": "ascii"})
        files, path = fsspec.url_to_fs(f"{folder}/a.txt")
        assert not files.exists(path)


def test_options_which_may_be_secret_are_not_shown(memory: str) -> None:
    dp = IterableWrapper([(f"{memory}/a", 3)]).save_by_fsspec(token="hush")
    with pytest.raises(TypeError) as caught:
        list(dp)
    assert "hush" not in repr(dp) + "".join(caught.value.__notes__)


def test_s3_is_written_and_appended_to(s3_server: S3Server) -> None:
    (s3_server.root / "bucket").mkdir(exist_ok=True)
    url = "s3://bucket/saved/deep/a.txt"
    assert save("save_by_fsspec", [(url, "one")]) == [url]
    saved = s3_server.root / "bucket" / "saved" / "deep"
    assert files_in(saved) == {"a.txt": b"one"}
    save("save_by_fsspec", [(url, "two")])
    assert files_in(saved) == {"a.txt": b"two"}
    save("save_by_fsspec", [(url, "three")], "a")
    assert files_in(saved) == {"a.txt": b"twothree"}


def test_a_missing_bucket_is_an_error_and_not_made(s3_server: S3Server) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        save("save_by_fsspec", [("s3://nobucket/a.txt", "one")])
    assert "s3://nobucket/a.txt" in caught.value.__notes__[0]
    assert not (s3_server.root / "nobucket").exists()


@pytest.fixture
def bucket(s3_server: S3Server) -> Path:
    """The folder behind the bucket `saves`, which is empty."""
    return s3_server.empty_bucket("saves")


LARGE = np.random.default_rng(0).bytes(40_000_000)
SOON = {"config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 5}}
"""Options of a client that gives up soon."""


def test_a_small_object_is_sent_at_once_and_a_large_one_in_parts(bucket: Path, fault_proxy: FaultProxy) -> None:
    items = [("s3://saves/small", b"one"), ("s3://saves/none", b""), ("s3://saves/large", LARGE)]
    save("save_by_fsspec", items, "wb")
    assert files_in(bucket) == {"small": b"one", "none": b"", "large": LARGE}
    sent = [re.sub("uploadId=[^&]*&", "", request) for request in fault_proxy.requests() if "PUT " in request]
    assert sent[:2] == ["PUT /saves/small", "PUT /saves/none"]
    assert sorted(sent[2:]) == [f"PUT /saves/large?partNumber={number}" for number in (1, 2, 3)]
    assert uploads_under_way("saves") == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", "?partNumber=2", status=500, code="InternalError"),
        Fault("reset", "?partNumber=3", at=None),
        Fault("status", "POST /saves/a?uploadId=", status=503),
        Fault("status", "POST /saves/a?uploads", status=403, code="AccessDenied"),
    ],
    ids=["a part", "a connection", "the completion", "the beginning"],
)
def test_an_upload_that_fails_leaves_the_earlier_object_and_is_aborted(
    bucket: Path, fault_proxy: FaultProxy, fault: Fault
) -> None:
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


def test_an_upload_that_is_interrupted_is_aborted(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send = BaseClient._make_api_call

    def interrupted(self: Any, method: str, arguments: Any) -> Any:
        if method == "UploadPart" and arguments["PartNumber"] == 2:
            raise KeyboardInterrupt
        return send(self, method, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save("save_by_fsspec", [("s3://saves/a", LARGE)], "wb")
    assert files_in(bucket) == {}
    assert uploads_under_way("saves") == []


def test_what_is_skipped_for_a_fault_leaves_nothing_and_the_others_are_written(
    bucket: Path, fault_proxy: FaultProxy
) -> None:
    fault_proxy.play(Fault("status", "PUT /saves/b", status=403, code="AccessDenied"))
    items = [(f"s3://saves/{name}", name.encode()) for name in "abc"]
    dp = IterableWrapper(items).save_by_fsspec("wb", on_error="skip")
    assert list(dp) == ["s3://saves/a", "s3://saves/c"]
    assert dp.stats()["save_by_fsspec"]["skipped"] == 1
    assert files_in(bucket) == {"a": b"a", "c": b"c"}


@pytest.mark.usefixtures("bucket")
def test_no_more_than_some_parts_of_an_object_are_held_besides_it() -> None:
    content = bytes(200_000_000)
    source = IterableWrapper([("s3://saves/a", content)], deepcopy=False)
    save("save_by_fsspec", [("s3://saves/b", b"one")], "wb")  # the first makes a client, which takes memory of its own
    tracemalloc.start()
    list(source.save_by_fsspec("wb"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80_000_000


@pytest.mark.parametrize("compression", ["gzip", "xz", "infer"])
def test_what_is_compressed_is_sent_when_it_is_whole_and_its_failure_is_told(
    bucket: Path, fault_proxy: FaultProxy, compression: str
) -> None:
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
