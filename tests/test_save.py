from __future__ import annotations

import gzip
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from resuming import assert_resumes_everywhere
from s3 import S3Server

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
