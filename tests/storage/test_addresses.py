from __future__ import annotations

import gc
import pickle
import re
import subprocess
import sys
import threading
import warnings
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import penstock as ps
from archives import tar_of
from penstock.pipes.iter import FSSpecFileLister, FSSpecFileOpener, IterableWrapper
from resuming import assert_resumes_everywhere
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


@pytest.mark.parametrize("root", ["memory://nowhere", "memory://shelf/nowhere.txt", "/no/such/folder"])
def test_a_missing_root_is_an_error_that_names_it(memory: str, root: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere|/no/such/folder"):
        list(FSSpecFileLister([memory, root]))


def test_wrong_arguments_raise_at_construction() -> None:
    with pytest.raises(TypeError, match="root must be a path"):
        FSSpecFileLister(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="masks must be a pattern"):
        FSSpecFileLister("memory://", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mode must be"):
        FSSpecFileOpener(IterableWrapper([]), "w")


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


def test_options_which_may_be_secret_are_not_shown(memory: str) -> None:
    lister = FSSpecFileLister("memory://nowhere", token="hush")
    opener = IterableWrapper([f"{memory}/nowhere"]).open_files_by_fsspec(token="hush")
    for dp in (lister, opener):
        with pytest.raises(TypeError, match="no option 'token'") as caught:
            list(dp)
        assert "hush" not in repr(dp) + str(caught.value) + "".join(caught.value.__notes__)


def test_streams_that_somebody_holds_stay_readable_whatever_else_is_opened(memory: str) -> None:
    url = f"{memory}/a.txt"
    streams = [stream for _, stream in IterableWrapper([url, url, f"{memory}/b.txt"]).open_files_by_fsspec("b")]
    assert streams[0].read(1) == b"o"
    assert [stream.read() for stream in streams] == [b"ne", b"one", b"two"]


def test_an_opened_file_can_be_read_from_anywhere_as_a_tar(memory: str) -> None:
    url = f"{memory}/all.tar"
    fsspec.filesystem("memory").pipe(url, tar_of(FILES, ""))
    dp = FSSpecFileLister(memory, "*.tar").open_files_by_fsspec("b").load_from_tar().read_from_stream()
    assert list(dp) == [(f"{url}/{name}", content) for name, content in FILES.items()]


@pytest.mark.parametrize("url", ["memory://shelf/nowhere", "/nowhere", "zip://nowhere::memory://shelf/a.zip"])
def test_a_missing_file_is_an_error_that_names_it(memory: str, tmp_path: Path, url: str) -> None:
    fsspec.filesystem("memory").pipe("/shelf/a.zip", packed(tmp_path / "all.zip").read_bytes())
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read(url)


def test_what_is_no_url_cannot_be_opened() -> None:
    with pytest.raises(TypeError, match=r"a path must be a string .* and is of type tuple"):
        list(IterableWrapper([("a", 1)]).open_files_by_fsspec())


@pytest.mark.parametrize(
    ("url", "extra"), [("gs://bucket/a", "gcs"), ("abfs://box/a", "azure"), ("simplecache::gcs://bucket/a", "gcs")]
)
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


def test_an_unknown_protocol_is_an_error() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        read("nonsense://a")


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_nothing_warns_of_an_open_file_even_out_of_an_error(folder: Path, memory: str, mode: str) -> None:
    def fail(item: Any) -> None:
        item[1].read(1)
        raise KeyError("no")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for url in (str(folder / "a.txt"), f"simplecache::{memory}/a.txt"):
            next(iter(IterableWrapper([url]).open_files_by_fsspec(mode)))
            held: Any = None
            try:
                list(IterableWrapper([url]).open_files_by_fsspec(mode).map(fail))
            except KeyError as error:
                held = [error]
                held.append(held)  # a cycle that keeps the frames of the error, and with them the stream
            del held
            gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_len_of_an_opener_is_that_of_its_source(memory: str) -> None:
    assert len(IterableWrapper(["a", "b"]).open_files_by_fsspec()) == 2
    with pytest.raises(TypeError):
        len(FSSpecFileLister(memory).open_files_by_fsspec())


def test_listing_and_opening_resume(memory: str, folder: Path) -> None:
    roots = [memory, str(folder), f"{memory}/sub"]
    assert_resumes_everywhere(lambda: FSSpecFileLister(roots))
    assert_resumes_everywhere(lambda: IterableWrapper(roots).list_files_by_fsspec())
    assert_resumes_everywhere(lambda: FSSpecFileLister(roots).open_files_by_fsspec("b").read_from_stream(chunk=2))


def test_a_chain_that_holds_open_files_can_be_pickled(memory: str) -> None:
    dp = FSSpecFileLister(memory, "*.txt").open_files_by_fsspec("b").read_from_stream(chunk=2)
    iterator = iter(dp)
    next(iterator)
    assert list(pickle.loads(pickle.dumps(dp))) == list(dp)


def test_importing_the_package_does_not_import_fsspec() -> None:
    code = "import sys, penstock; assert 'fsspec' not in sys.modules, 'imported'"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# HTTP


class OfUnknownSize(BaseHTTPRequestHandler):
    """Answers any request with a tar, without telling how long it is."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(tar_of(FILES, ""))

    def log_message(self, *arguments: Any) -> None:
        pass


def test_a_tar_is_read_from_a_server_that_cannot_seek() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), OfUnknownSize) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/all.tar"
            dp = IterableWrapper([url]).open_files_by_fsspec("b").load_from_tar().read_from_stream()
            assert list(dp) == [(f"{url}/{name}", content) for name, content in FILES.items()]
        finally:
            server.shutdown()
            thread.join(30)


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


def test_a_large_object_is_read_in_any_order(s3_server: S3Server) -> None:
    # In a bucket of its own: whenever the server lists a bucket it reads all that is in it, for the hashes.
    (s3_server.root / "large").mkdir()
    (s3_server.root / "large" / "object").write_bytes(bytes(range(256)) * 50_000)
    [(_, stream)] = IterableWrapper(["s3://large/object"]).open_files_by_fsspec("b")
    assert stream.seek(12_000_000) == 12_000_000
    assert stream.read(2) == bytes([12_000_000 % 256, 12_000_001 % 256])
    assert stream.seek(0) == 0
    assert len(stream.read()) == 12_800_000


def test_a_new_object_is_listed_by_the_next_pass(bucket: str, s3_server: S3Server) -> None:
    dp = FSSpecFileLister(bucket, "new*")
    assert list(dp) == []
    new = s3_server.root / "bucket" / "shelf" / "new.txt"
    new.write_text("new")
    assert list(dp) == [f"{bucket}/new.txt"]
    new.unlink()


@pytest.mark.parametrize("url", ["s3://bucket/nowhere", "s3://nobucket/a"])
def test_a_missing_bucket_or_key_is_an_error(bucket: str, url: str) -> None:
    with pytest.raises(FileNotFoundError) as listing:
        list(FSSpecFileLister(url))
    with pytest.raises(FileNotFoundError) as opening:
        read(url)
    for caught in (listing, opening):
        assert url in "".join(caught.value.__notes__)


def test_wrong_credentials_are_an_error(bucket: str) -> None:
    with pytest.raises(PermissionError):
        list(FSSpecFileLister(bucket, key="the-key", secret="wrong"))


def test_reading_from_s3_resumes(bucket: str) -> None:
    def make() -> ps.IterDataPipe[Any]:
        return FSSpecFileLister(bucket, "*.txt").open_files_by_fsspec("b").read_from_stream(chunk=2)

    assert_resumes_everywhere(make, passes=1)


# What becomes of what fails


def test_roots_and_files_that_fail_can_be_left_out(memory: str) -> None:
    def listed() -> ps.IterDataPipe[Any]:
        roots = [f"{memory}/sub", "memory://nowhere", f"{memory}/a.txt"]
        return IterableWrapper(roots).list_files_by_fsspec(on_error="skip")

    def read_all() -> ps.IterDataPipe[Any]:
        urls = [f"{memory}/a.txt", f"{memory}/nowhere", f"{memory}/b.txt"]
        return IterableWrapper(urls).open_files_by_fsspec("b", on_error="skip").read_from_stream()

    dp = listed()
    assert list(dp) == [f"{memory}/sub/d.txt", f"{memory}/a.txt"]
    assert dp.stats()["list_files_by_fsspec"]["skipped"] == 1
    assert_resumes_everywhere(listed)
    dp = read_all()
    assert [content for _, content in dp] == [b"one", b"two"]
    assert dp.stats()["open_files_by_fsspec"]["skipped"] == 1
    assert_resumes_everywhere(read_all)


def test_a_file_is_opened_again_after_an_error(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opening, failures = MemoryFileSystem.open, []

    def failing(self: Any, *arguments: Any, **named: Any) -> Any:
        if len(failures) < 2:
            failures.append(arguments)
            raise TimeoutError("the network is slow")
        return opening(self, *arguments, **named)

    monkeypatch.setattr(MemoryFileSystem, "open", failing)
    dp = IterableWrapper([f"{memory}/a.txt"]).open_files_by_fsspec("b", on_error=ps.Retry(2, backoff=0))
    assert [stream.read() for _, stream in dp] == [b"one"]
    assert dp.stats()["open_files_by_fsspec"]["retried"] == 2
    assert "on_error" not in FSSpecFileOpener(IterableWrapper([]), on_error="skip").storage_options


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
