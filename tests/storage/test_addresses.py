from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from penstock.pipes.iter import FSSpecFileLister, FSSpecFileOpener, IterableWrapper
from s3 import S3Server

FILES = {"b.txt": b"two", "a.txt": b"one", "c.bin": b"\xff", "sub/d.txt": b"four"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "shelf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "shelf"


@pytest.fixture
def memory() -> Iterator[str]:
    """The URL of a folder in memory."""
    files = fsspec.filesystem("memory")
    files.pipe({f"/shelf/{name}": content for name, content in FILES.items()})
    yield "memory://shelf"
    files.rm("/shelf", recursive=True)


def packed(archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as pack:
        for name in ("a.txt", "b.txt", "sub/d.txt"):
            pack.writestr(name, FILES[name])
    return archive


def read(*urls: str, mode: str = "b", **arguments: Any) -> list[tuple[str, Any]]:
    return list(IterableWrapper(urls).open_files_by_fsspec(mode, **arguments).read_from_stream())


# Listing


@pytest.mark.parametrize("slash", ["", "/"])
def test_files_of_a_folder_come_sorted_with_whole_urls_and_without_subfolders(memory: str, slash: str) -> None:
    assert list(FSSpecFileLister(memory + slash)) == [f"{memory}/{name}" for name in ("a.txt", "b.txt", "c.bin")]


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ("*.txt", ["a.txt", "b.txt"]),
        (["a.*", "*.bin"], ["a.txt", "c.bin"]),
        ("memory://*/b.*", ["b.txt"]),
        ("shelf*", []),
    ],
)
def test_a_mask_is_for_the_name_and_one_with_a_slash_for_the_url(memory: str, masks: Any, expected: list[str]) -> None:
    assert list(FSSpecFileLister(memory, masks)) == [f"{memory}/{name}" for name in expected]


def test_roots_come_as_one_as_a_list_and_as_a_pipe(memory: str, folder: Path) -> None:
    roots = [f"{memory}/sub", str(folder / "sub")]
    expected = [f"{memory}/sub/d.txt", str(folder / "sub" / "d.txt")]
    assert list(FSSpecFileLister(roots)) == expected
    assert list(IterableWrapper(roots).list_files_by_fsspec()) == expected


def test_a_root_that_is_a_file_is_listed_itself_where_a_mask_matches(memory: str) -> None:
    assert list(FSSpecFileLister(f"{memory}/a.txt")) == [f"{memory}/a.txt"]
    assert list(FSSpecFileLister(f"{memory}/a.txt", "*.bin")) == []


def test_local_paths_come_out_absolute_and_local_urls_as_urls(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert list(FSSpecFileLister("shelf", "a*")) == [str(folder / "a.txt")]
    assert list(FSSpecFileLister(folder, "a*")) == [str(folder / "a.txt")]
    assert list(FSSpecFileLister(f"file://{folder}", "a*")) == [f"file://{folder}/a.txt"]
    assert list(FSSpecFileLister("file://shelf", "a*")) == [f"file://{folder}/a.txt"]
    assert list(FSSpecFileLister("shelf/a.txt")) == ["shelf/a.txt"]


def test_links_to_folders_are_left_out_and_links_to_files_listed(folder: Path) -> None:
    (folder / "to_folder").symlink_to(folder / "sub")
    (folder / "to_file").symlink_to(folder / "a.txt")
    assert [Path(path).name for path in FSSpecFileLister(str(folder), "to_*")] == ["to_file"]


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("zip://::{archive}", ["zip://a.txt::{archive}", "zip://b.txt::{archive}"]),
        ("zip://sub::{archive}", ["zip://sub/d.txt::{archive}"]),
        ("zip://sub/::memory://shelf/all.zip", ["zip://sub/d.txt::memory://shelf/all.zip"]),
        ("simplecache::memory://shelf/sub", ["simplecache::memory://shelf/sub/d.txt"]),
        ("simplecache::zip://sub::memory://shelf/all.zip", ["simplecache::zip://sub/d.txt::memory://shelf/all.zip"]),
    ],
)
def test_chained_urls_come_out_chained_and_can_be_opened(
    memory: str, folder: Path, tmp_path: Path, root: str, expected: list[str]
) -> None:
    archive = packed(tmp_path / "all.zip")
    fsspec.filesystem("memory").pipe("/shelf/all.zip", archive.read_bytes())
    urls = list(FSSpecFileLister(root.format(archive=archive)))
    assert urls == [url.format(archive=archive) for url in expected]
    names = [re.split("//|::", url.removeprefix("simplecache::"))[1].removeprefix("shelf/") for url in urls]
    assert [content for _, content in read(*urls)] == [FILES[name] for name in names]


def test_an_object_that_stands_for_a_folder_is_no_file(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ls = MemoryFileSystem.ls

    def as_on_s3(self: MemoryFileSystem, path: str, **arguments: Any) -> Any:
        return [{"name": "/shelf/", "size": 0, "type": "file"}, *ls(self, path, **arguments)]

    monkeypatch.setattr(MemoryFileSystem, "ls", as_on_s3)
    assert list(FSSpecFileLister(memory, "*.bin")) == [f"{memory}/c.bin"]
    assert FSSpecFileLister(memory).take(1)[0] == f"{memory}/a.txt"


@pytest.mark.parametrize("url", ["memory://nowhere", "memory://shelf/nowhere.txt", "/nowhere"])
def test_a_missing_root_or_file_is_an_error_that_names_it(memory: str, url: str) -> None:
    for dp in (FSSpecFileLister([memory, url]), IterableWrapper([url]).open_files_by_fsspec()):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            list(dp)


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: FSSpecFileLister(3), TypeError, "root must be a path"),  # type: ignore[arg-type]
        (lambda: FSSpecFileLister("memory://", 3), TypeError, "masks must be a pattern"),  # type: ignore[arg-type]
        (lambda: FSSpecFileOpener(IterableWrapper([]), "w"), ValueError, "mode must be"),
        (lambda: read(3), TypeError, "a path must be a string"),  # type: ignore[arg-type]
        (lambda: read("nonsense://a"), ValueError, "nonsense"),
        (lambda: read("memory://a", token="hush"), TypeError, "no option 'token'"),
    ],
)
def test_what_is_wrong_raises(use: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use()


# Opening


@pytest.mark.parametrize(("mode", "expected"), [("r", "one"), ("t", "one"), ("rb", b"one"), ("b", b"one")])
def test_the_mode_says_whether_text_or_bytes_are_read(memory: str, folder: Path, mode: str, expected: Any) -> None:
    urls = (f"{memory}/a.txt", str(folder / "a.txt"), f"file://{folder}/a.txt")
    assert read(*urls, mode=mode) == [(url, expected) for url in urls]


def test_arguments_for_opening_reach_the_file(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("Grüße\r\n".encode("latin-1"))
    [(_, text)] = read(str(tmp_path / "latin"), mode="r", kwargs_for_open={"encoding": "latin-1", "newline": ""})
    assert text == "Grüße\r\n"
    with fsspec.open(str(tmp_path / "packed.gz"), "wb", compression="gzip") as file:
        file.write(b"inside")
    assert read(str(tmp_path / "packed.gz"), kwargs_for_open={"compression": "gzip"})[0][1] == b"inside"


def test_options_reach_the_file_system(tmp_path: Path) -> None:
    archive = packed(tmp_path / "all.zip")
    urls = list(FSSpecFileLister("zip://sub", fo=str(archive)))
    assert urls == ["zip://sub/d.txt"]
    assert read(*urls, fo=str(archive)) == [("zip://sub/d.txt", b"four")]


def test_streams_that_somebody_holds_stay_readable_whatever_else_is_opened(memory: str) -> None:
    url = f"{memory}/a.txt"
    streams = [stream for _, stream in IterableWrapper([url, url, f"{memory}/b.txt"]).open_files_by_fsspec("b")]
    assert streams[0].read(1) == b"o"
    assert [stream.read() for stream in streams] == [b"ne", b"one", b"two"]


@pytest.mark.parametrize(("url", "extra"), [("abfs://box/a", "azure"), ("simplecache::gcs://bucket/a", "gcs")])
@pytest.mark.parametrize(
    "make", [FSSpecFileLister, lambda url: IterableWrapper([url]).open_files_by_fsspec()], ids=["list", "open"]
)
def test_a_missing_back_end_says_what_to_install(
    make: Any, url: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf'pip install "penstock\[{extra}\]"'):
        list(make(url))


# S3


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    """The URL of a bucket with files."""
    for name, content in FILES.items():
        path = s3_server.root / "bucket" / "shelf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return "s3://bucket/shelf"


def test_s3_is_listed_and_read_with_the_environments_endpoint_and_credentials(bucket: str) -> None:
    urls = list(FSSpecFileLister(bucket, "*.txt"))
    assert urls == [f"{bucket}/a.txt", f"{bucket}/b.txt"]
    assert read(*urls) == [(urls[0], b"one"), (urls[1], b"two")]
    assert list(FSSpecFileLister(f"{bucket}/a.txt")) == [f"{bucket}/a.txt"]
    cached = list(FSSpecFileLister(f"simplecache::{bucket}", "*.txt"))
    assert read(*cached) == [(f"simplecache::{urls[0]}", b"one"), (f"simplecache::{urls[1]}", b"two")]


def test_a_new_object_is_listed_by_the_next_pass(bucket: str, s3_server: S3Server) -> None:
    dp = FSSpecFileLister(bucket, "new*")
    assert list(dp) == []
    new = s3_server.root / "bucket" / "shelf" / "new.txt"
    new.write_text("new")
    assert list(dp) == [f"{bucket}/new.txt"]
    new.unlink()


@pytest.mark.usefixtures("s3_server")
def test_a_missing_bucket_is_an_error() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        list(FSSpecFileLister("s3://nobucket/a"))
    assert "s3://nobucket/a" in "".join(caught.value.__notes__)


# What becomes of what fails


def test_roots_and_files_that_fail_can_be_left_out(memory: str) -> None:
    roots = [f"{memory}/sub", "memory://nowhere", f"{memory}/a.txt"]
    dp = IterableWrapper(roots).list_files_by_fsspec(on_error="skip")
    assert list(dp) == [f"{memory}/sub/d.txt", f"{memory}/a.txt"]
    assert dp.stats()["list_files_by_fsspec"]["skipped"] == 1
    urls = [f"{memory}/a.txt", f"{memory}/nowhere", f"{memory}/b.txt"]
    dp = IterableWrapper(urls).open_files_by_fsspec("b", on_error="skip").read_from_stream()
    assert [content for _, content in dp] == [b"one", b"two"]
    assert dp.stats()["open_files_by_fsspec"]["skipped"] == 1


def test_options_of_a_file_system_are_given_as_to_any_operator(tmp_path):
    options = {"auto_mkdir": True}
    saved = IterableWrapper([("a.txt", "one")]).save_by_fsspec(
        filepath_fn=lambda name: f"file://{tmp_path}/new/{name}", storage_options=options
    )
    assert len(list(saved)) == 1
    listed = FSSpecFileLister(f"file://{tmp_path}/new", storage_options=options)
    streams = listed.open_files_by_fsspec(storage_options=options, use_listings_cache=False)
    assert [stream.read() for _, stream in streams] == ["one"]
    assert "storage_options=Options(auto_mkdir, use_listings_cache)" in repr(streams)
