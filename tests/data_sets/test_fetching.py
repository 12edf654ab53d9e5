"""Resources: downloaded once, completed where a download broke, verified, and named where they cannot be had."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import multiprocessing
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archives import tar_of, zip_of
from fault_proxy import FaultProxy
from penstock.datasets import Files, Resource
from penstock.datasets.fetching import fetch, unpacked
from penstock.storage.local.atomic import lock_beside
from penstock.storage.local.locks import FileLock
from s3 import S3Server
from served import FileServer
from terminal import Terminal, writing_to_terminal

CONTENT = bytes(range(256)) * 20_000
DIGEST = hashlib.sha256(CONTENT).hexdigest()

pytestmark = pytest.mark.timeout(40)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "set").mkdir()
    return str(tmp_path / "set")


@pytest.fixture
def resource(server: FileServer) -> Resource:
    server.files["set/a.bin"] = CONTENT
    return Resource(f"{server.url}/set/a.bin", sha256=DIGEST, size=len(CONTENT))


def test_a_resource_is_downloaded_once(
    server: FileServer, resource: Resource, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for off in ("0", "false", "no", " off "):
        monkeypatch.setenv("PENSTOCK_OFFLINE", off)
        path = fetch(resource, folder)
        assert Path(path).read_bytes() == CONTENT
    assert server.requests["set/a.bin"] == 1
    assert sorted(os.listdir(folder)) == [".a.bin.verified", "a.bin"]


@writing_to_terminal
def test_a_download_and_unpacking_show_how_far_they_are(server: FileServer, folder: str, terminal: Terminal) -> None:
    archive = tar_of({"a.bin": CONTENT}, "")
    server.files["set/all.tar"] = archive
    resource = Resource(f"{server.url}/set/all.tar", sha256=hashlib.sha256(archive).hexdigest())
    unpacked(resource, folder)
    assert "\rall.tar: 100%|" in terminal.getvalue()
    assert "5.13M/5.13M [" in terminal.getvalue()
    assert "\runpack all.tar: 5.12MB [" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()


def test_several_processes_download_it_once(server: FileServer, resource: Resource, folder: str) -> None:
    with multiprocessing.get_context("fork").Pool(3) as pool:  # each has a lock, and a memory, of its own
        told = pool.starmap(fetch, [(resource, folder)] * 3, chunksize=1)
    assert told == [os.path.join(folder, "a.bin")] * 3
    assert server.requests["set/a.bin"] == 1


def test_a_broken_download_goes_on_where_it_stopped(server: FileServer, resource: Resource, folder: str) -> None:
    server.cuts["set/a.bin"] = [1_500_000, 2_000_000] + [0] * 10
    with pytest.raises(FileNotFoundError, match=r"a\.bin is missing.*cut"):
        fetch(resource, folder)
    firsts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in server.ranges]
    assert 1_000_000 <= firsts[0] < firsts[1] <= os.path.getsize(os.path.join(folder, "a.bin.part"))
    server.forget()
    server.files["set/a.bin"] = CONTENT
    assert Path(fetch(resource, folder)).read_bytes() == CONTENT  # as another process would
    assert len(server.ranges) == 1
    assert sorted(os.listdir(folder)) == [".a.bin.verified", "a.bin"]


@pytest.mark.parametrize("what_changed", ["the file", "no etags"])
def test_a_download_begins_again_where_the_file_may_be_another(
    server: FileServer, resource: Resource, folder: str, what_changed: str
) -> None:
    server.etags = what_changed == "the file"
    server.cuts["set/a.bin"] = [2_000_000] + [0] * 10
    with pytest.raises(FileNotFoundError, match="cut"):
        fetch(resource, folder)
    content = CONTENT[::-1]
    server.forget()
    server.files["set/a.bin"] = content
    other = replace(resource, sha256=hashlib.sha256(content).hexdigest())
    assert Path(fetch(other, folder)).read_bytes() == content


@pytest.mark.parametrize("answer", ["another version", "another length"])
def test_a_range_of_another_version_is_not_joined(server: FileServer, folder: str, answer: str) -> None:
    resource = Resource(f"{server.url}/set/a.bin")
    server.files["set/a.bin"] = CONTENT
    server.cuts["set/a.bin"] = [1_100_000] + [0] * 10
    with pytest.raises(FileNotFoundError, match="cut"):
        fetch(resource, folder)
    server.forget()
    server.files["set/a.bin"] = CONTENT[::-1]
    server.takes_any_range = True
    if answer == "another length":
        server.headers["set/a.bin"] = {"ETag": f'"{hashlib.sha256(CONTENT).hexdigest()[:16]}"'}
        server.files["set/a.bin"] = CONTENT
        server.cuts["set/a.bin"] = [100_000]
    assert Path(fetch(resource, folder)).read_bytes() == server.files["set/a.bin"]


def test_a_whole_download_that_was_not_kept_is_kept(server: FileServer, resource: Resource, folder: str) -> None:
    server.cuts["set/a.bin"] = [1_100_000] + [0] * 10
    with pytest.raises(FileNotFoundError):
        fetch(resource, folder)
    Path(folder, "a.bin.part").write_bytes(CONTENT)  # as after a kill while it was verified
    server.cuts.clear()
    assert Path(fetch(resource, folder)).read_bytes() == CONTENT
    assert server.ranges[-1] == f"bytes={len(CONTENT)}-"


@pytest.mark.parametrize("size", [1_000, 9_000_000])
def test_a_file_of_another_size_is_refused(resource: Resource, folder: str, size: int) -> None:
    with pytest.raises(RuntimeError, match=f"has {len(CONTENT)} bytes, and {size} were expected"):
        fetch(replace(resource, sha256=None, size=size), folder)


def test_part_files_and_errors_have_no_secret(server: FileServer, folder: str) -> None:
    server.files["set/a.bin"] = CONTENT
    server.cuts["set/a.bin"] = [1_100_000] + [0] * 10
    resource = Resource(f"{server.url}/set/a.bin?token=SECRET", name="a.bin")
    with pytest.raises(FileNotFoundError) as raised:
        fetch(resource, folder)
    assert "SECRET" not in Path(folder, "a.bin.part.json").read_text() + str(raised.value) + repr(resource)


PAGE = b"<html>please sign in</html>"
OTHER_KINDS = [
    ("x.txt", b""),
    *((name, content) for name in ("x.zip", "x.tar", "x.tar.gz", "x.gz") for content in (b"", PAGE)),
]


@pytest.mark.parametrize(("name", "content"), OTHER_KINDS)
def test_a_file_of_another_kind_is_refused_without_a_digest(
    server: FileServer, folder: str, name: str, content: bytes
) -> None:
    server.files[f"set/{name}"] = content
    with pytest.raises(RuntimeError, match=rf"{name} is empty, or no file of its kind"):
        fetch(Resource(f"{server.url}/set/{name}"), folder)
    assert not [each for each in os.listdir(folder) if each.startswith("x")]


def test_a_page_in_place_of_a_file_is_refused(server: FileServer, folder: str) -> None:
    server.files["set/a.txt"] = PAGE
    server.headers["set/a.txt"] = {"Content-Type": "text/html; charset=utf-8"}
    with pytest.raises(RuntimeError, match="sends a page, such as one for signing in, and no file"):
        fetch(Resource(f"{server.url}/set/a.txt"), folder)


def test_temporary_failures_are_retried_and_others_are_not(server: FileServer, resource: Resource, folder: str) -> None:
    server.statuses["set/a.bin"] = [503, 500]
    fetch(resource, folder)
    assert server.requests["set/a.bin"] == 3
    server.statuses["set/b.bin"] = [403] * 9
    with pytest.raises(PermissionError, match="refused: 403"):
        fetch(Resource(f"{server.url}/set/b.bin"), folder)
    assert server.requests["set/b.bin"] == 1


def test_mirrors_are_tried_in_order(
    server: FileServer, resource: Resource, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["broken/a.bin"] = b"a page"
    urls = ("nonsense://host/a.bin", f"{server.url}/nowhere/a.bin", f"{server.url}/broken/a.bin", resource.urls[0])
    assert Path(fetch(replace(resource, url=urls), folder)).read_bytes() == CONTENT
    assert list(server.requests) == ["nowhere/a.bin", "broken/a.bin", "set/a.bin"]
    server.files["mirror/set/a.bin"] = CONTENT
    monkeypatch.setenv("PENSTOCK_MIRROR", f"{server.url}/mirror/")
    os.unlink(os.path.join(folder, "a.bin"))
    fetch(resource, folder)
    assert list(server.requests)[3:] == ["mirror/set/a.bin"]


def test_another_digest_is_told_with_both(server: FileServer, resource: Resource, folder: str) -> None:
    server.files["set/a.bin"] = content = CONTENT[:-1] + b"!"
    with pytest.raises(RuntimeError) as raised:
        fetch(resource, folder)
    assert DIGEST in str(raised.value)
    assert hashlib.sha256(content).hexdigest() in str(raised.value)
    assert "it came from http://" in raised.value.__notes__[0]
    assert not [name for name in os.listdir(folder) if "a.bin" in name and not name.startswith(".penstock")]


def test_what_somebody_put_there_is_verified_once(resource: Resource, folder: str, server: FileServer) -> None:
    place = Path(folder, "a.bin")
    place.write_bytes(CONTENT)
    fetch(resource, folder)
    assert not server.requests
    with pytest.raises(RuntimeError, match="sha256 digest"):  # a new version of the data set has another
        fetch(replace(resource, sha256="0" * 64), folder)
    place.write_bytes(CONTENT[::-1])
    with pytest.raises(RuntimeError, match="sha256 digest"):
        fetch(resource, folder)


def test_one_of_several_processes_verifies_a_users_file(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(folder, "a.bin").write_bytes(CONTENT)
    resource = Resource(name="a.bin", sha256=DIGEST)
    processes = multiprocessing.get_context("fork")
    verified, two_at_once = processes.Value("i", 0), processes.Barrier(2)

    def verify(*arguments: object) -> None:
        with verified.get_lock():
            verified.value += 1
        with suppress(threading.BrokenBarrierError):
            two_at_once.wait(1)

    monkeypatch.setattr("penstock.datasets.fetching.check_digest", verify)
    workers = [processes.Process(target=fetch, args=(resource, folder)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert verified.value == 1
    os.utime(os.path.join(folder, "a.bin"), (1, 1))
    fetch(resource, folder)
    assert verified.value == 2
    assert sorted(os.listdir(folder)) == [".a.bin.verified", "a.bin"]


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.ENOLCK, errno.ENOSYS])
def test_a_users_file_is_read_where_nothing_can_be_locked(
    folder: str, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    Path(folder, "a.txt").write_bytes(b"one\n")

    def refused(*arguments: object, **others: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("penstock.datasets.fetching.FileLock", refused)
    monkeypatch.setattr("penstock.datasets.fetching.whole_file", refused)
    assert fetch(Resource(name="a.txt", sha256=hashlib.sha256(b"one\n").hexdigest()), folder)
    with pytest.raises(RuntimeError, match="sha256 digest"):
        fetch(Resource(name="a.txt", sha256=hashlib.sha256(b"two\n").hexdigest()), folder)


@pytest.mark.parametrize("why", ["offline", "no network", "no url"])
def test_a_missing_file_tells_what_to_put_where(
    resource: Resource, folder: str, why: str, monkeypatch: pytest.MonkeyPatch, server: FileServer
) -> None:
    expected = {"offline": "PENSTOCK_OFFLINE is set", "no network": "no connection", "no url": "cannot be downloaded"}
    if why == "offline":
        monkeypatch.setenv("PENSTOCK_OFFLINE", "1")
    elif why == "no network":
        resource = replace(resource, url="http://127.0.0.1:9/a.bin")
    else:
        resource = replace(resource, url=(), note="Ask its authors for it.")
    with pytest.raises(FileNotFoundError) as raised:
        fetch(resource, folder)
    assert expected[why] in str(raised.value)
    assert f"sha256 {DIGEST}" in str(raised.value)
    assert raised.value.filename == os.path.join(folder, "a.bin")
    if why == "no url":
        assert "Ask its authors" in str(raised.value)
    assert not server.requests


def test_a_full_disk_is_told_before_the_download(
    resource: Resource, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.datasets.download.shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(OSError, match=r"it needs 5,120,000 bytes, and 1,000 are free") as raised:
        fetch(resource, folder)
    assert raised.value.errno == errno.ENOSPC
    assert not [name for name in os.listdir(folder) if name.startswith("a.bin")]


def test_a_read_only_root_is_read_and_not_written(
    resource: Resource, folder: str, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(folder, "a.bin").write_bytes(CONTENT)

    def read_only(*arguments: object, **others: object) -> Any:
        raise OSError(errno.EROFS, "Read-only file system", folder)

    for name in ("makedirs", "replace"):
        monkeypatch.setattr(os, name, read_only)
    monkeypatch.setattr("penstock.datasets.fetching.whole_file", read_only)
    assert fetch(resource, folder) == os.path.join(folder, "a.bin")
    assert os.listdir(folder) == ["a.bin"]
    with pytest.raises(FileNotFoundError, match=r"b\.bin is missing, and the folder cannot be written to \(Read-only"):
        fetch(replace(resource, name="b.bin"), folder)
    assert not server.requests


def test_a_root_in_a_store_is_asked_for_the_file_only(
    fault_proxy: FaultProxy, s3_server: S3Server, resource: Resource, server: FileServer
) -> None:
    (s3_server.root / "sets").mkdir(exist_ok=True)
    folder = "s3://sets/by path/set"
    assert fetch(resource, folder) == fetch(resource, folder) == "s3://sets/by path/set/a.bin"
    assert server.requests["set/a.bin"] == 1
    assert [(path, stream.read()) for path, stream in Files(resource, folder).open()] == [("a.bin", CONTENT)]
    server.files["set/b.tar.gz"] = tar_of({"b/one.txt": b"1", "b/two.txt": b"2"})
    packed = Files(Resource(f"{server.url}/set/b.tar.gz", unpack=True), folder)
    assert list(packed.list()) == ["b/one.txt", "b/two.txt"]
    assert packed.read("b/one.txt") == b"1"
    before = fault_proxy.requests().total()
    assert packed.read("b/two.txt") == b"2"
    assert fault_proxy.requests().total() == before + 1
    server.files["set/c.zip"] = zip_of({"c/one.txt": b"1", "c/two.txt": b"2"})
    assert Files(Resource(f"{server.url}/set/c.zip"), folder).read("c/one.txt") == b"1"


@pytest.mark.parametrize("waits", [True, False])
def test_others_wait_for_the_process_that_gets_a_file(
    resource: Resource, folder: str, server: FileServer, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    if not waits:
        monkeypatch.setattr("penstock.datasets.fetching._WAIT", 0.1)
    held, stop, ended = threading.Event(), threading.Event(), threading.Event()

    def download_slowly() -> None:
        with FileLock(lock_beside(os.path.join(folder, "a.bin")), 1, threading.Event()):
            held.set()
            stop.wait(0.5)
            ended.set()

    other = threading.Thread(target=download_slowly)
    other.start()
    held.wait(5)
    if waits:
        assert Path(fetch(resource, folder)).read_bytes() == CONTENT
        assert ended.is_set()
    else:
        with pytest.raises(TimeoutError, match=r"is held by process \d+"):
            fetch(resource, folder)
        assert not server.requests
    stop.set()
    other.join()


ARCHIVES: dict[str, Callable[[Any], bytes]] = {
    "x.zip": zip_of,
    "x.tar": lambda files: tar_of(files, ""),
    "x.tar.gz": tar_of,
    "x.tgz": tar_of,
    "x.tar.xz": lambda files: tar_of(files, "xz"),
}
FILES = {"d/a.txt": b"one", "d/b.txt": b"two", "d/e/c.png": b"three"}


@pytest.mark.parametrize("unpack", [False, True])
@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_are_read_in_place_or_unpacked(server: FileServer, folder: str, name: str, unpack: bool) -> None:
    server.files[f"set/{name}"] = ARCHIVES[name](FILES)
    files = Files(Resource(f"{server.url}/set/{name}", unpack=unpack), folder)
    assert {path: stream.read() for path, stream in files.open()} == FILES
    assert [path for path, _ in files.open("d/b.txt", "*.png")] == ["d/b.txt", "d/e/c.png"]
    with pytest.raises(FileNotFoundError, match=rf"{name} has no 'd/z.txt': its layout has changed.*'d/a.txt'"):
        list(files.open("d/z.txt"))
    if name.endswith((".tar.gz", ".tgz", ".tar.xz")) and not unpack:
        with pytest.raises(ValueError, match="can be read in order only: give its Resource unpack=True"):
            files.read("d/a.txt")
        return
    assert list(files.list("*.txt")) == ["d/a.txt", "d/b.txt"]
    assert files.read("d/e/c.png") == b"three"
    with pytest.raises(FileNotFoundError, match=rf"{name} has no 'z'"):
        files.read("z")
    with pytest.raises(FileNotFoundError, match=rf"{name} has no '\*\.jpg'"):
        list(files.list("*.jpg"))


def test_a_compressed_file_is_decompressed(server: FileServer, folder: str) -> None:
    server.files["set/labels.GZ"] = gzip.compress(b"0 1 2")
    files = Files(Resource(f"{server.url}/set/labels.GZ"), folder)
    assert [(path, stream.read()) for path, stream in files.open()] == [("labels", b"0 1 2")]
    assert files.paths() == ["labels"]
    assert files.read("labels") == b"0 1 2"


def test_an_archive_that_would_leave_its_folder_is_refused(server: FileServer, folder: str, tmp_path: Path) -> None:
    server.files["set/evil.tar.gz"] = tar_of({"ok.txt": b"1", "../../evil.txt": b"2"})
    files = Files(Resource(f"{server.url}/set/evil.tar.gz", unpack=True), folder)
    with pytest.raises(ValueError, match=r"\.\."):
        list(files.list())
    Path(folder, "x.zip").write_bytes(zip_of({"../evil.txt": b"1"}))
    with pytest.raises(ValueError, match="no name within it"):
        Files(Resource(name="x.zip"), folder).paths()
    assert not list(tmp_path.rglob("evil.txt"))
    assert not list(tmp_path.rglob("*.unpacked"))


def test_unpacking_that_was_cut_off_is_done_again(server: FileServer, folder: str) -> None:
    server.files["set/x.tar.gz"] = tar_of(FILES)
    files = Files(Resource(f"{server.url}/set/x.tar.gz", unpack=True), folder)
    list(files.list())
    os.unlink(os.path.join(folder, ".x.tar.gz.unpacked"))  # as after a kill
    os.unlink(os.path.join(folder, "x", "d", "b.txt"))
    assert files.read("d/b.txt") == b"two"
    assert unpacked(files.resource, folder) == os.path.join(folder, "x")


def test_another_archive_is_unpacked_anew(server: FileServer, folder: str) -> None:
    old, new = tar_of({"a.txt": b"old"}), tar_of({"a.txt": b"new"})
    for content in (old, new):
        server.files["set/x.tar.gz"] = content
        digest = hashlib.sha256(content).hexdigest()
        files = Files(Resource(f"{server.url}/set/x.tar.gz", sha256=digest, unpack=True), folder)
        if content is new:
            os.unlink(os.path.join(folder, "x.tar.gz"))
        assert files.read("a.txt") == (b"old" if content is old else b"new")


def test_a_tar_cut_between_two_files_is_an_error(folder: str) -> None:
    whole = tar_of({f"{number}.txt": b"x" * 512 for number in range(8)}, "")
    Path(folder, "x.tar").write_bytes(whole[: 4 * 1024])
    with pytest.raises(Exception, match="cut|end mark"):
        Files(Resource(name="x.tar"), folder).paths()


def test_names_with_brackets_are_names(folder: str) -> None:
    Path(folder, "x.zip").write_bytes(zip_of({"x[1].txt": b"brackets", "x1.txt": b"none"}))
    files = Files(Resource(name="x.zip"), folder)
    assert [(path, stream.read()) for path, stream in files.open("x[1].txt")] == [("x[1].txt", b"brackets")]
    assert files.paths("x[*.txt") == ["x[1].txt"]


@pytest.mark.parametrize("way", ["open", "read", "unpack"])
def test_links_in_a_tar_are_left_out_and_counted(folder: str, way: str) -> None:
    name = "x.tar.gz" if way == "unpack" else "x.tar"
    links = {"a-link.txt": "a.txt", "outside.txt": "/etc/passwd"}
    with tarfile.open(Path(folder, name), "w:gz" if way == "unpack" else "w") as archive:
        for path in ("a.txt", *links):
            header = tarfile.TarInfo(path)
            header.type, header.linkname = (tarfile.SYMTYPE, links[path]) if path in links else (tarfile.REGTYPE, "")
            archive.addfile(header, io.BytesIO())
    files = Files(Resource(name=name, unpack=way == "unpack"), folder)
    text = rf"2 links or special files are left out of .*{name}: the first is 'a-link.txt' to 'a.txt'"
    with pytest.warns(UserWarning, match=text):
        paths = [path for path, _ in files.open()] if way == "open" else files.paths()
    assert paths == ["a.txt"]
    assert not Path(folder, "x", "outside.txt").exists()


@pytest.mark.parametrize("unpack", [False, True])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_in_a_zip_is_its_last_file(folder: str, unpack: bool) -> None:
    with zipfile.ZipFile(Path(folder, "x.zip"), "w") as archive:
        for path, content in [("a.txt", b"old"), ("b.txt", b"one"), ("a.txt", b"new")]:
            archive.writestr(path, content)
    files = Files(Resource(name="x.zip", unpack=unpack), folder)
    assert [(path, stream.read()) for path, stream in files.open()] == [("a.txt", b"new"), ("b.txt", b"one")]
    assert files.paths() == ["a.txt", "b.txt"]
    assert files.read("a.txt") == b"new"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"url": "https://host/a.zip", "sha256": "abc"}, "64 hexadecimal digits"),
        ({"url": "https://host/a.zip", "md5": "g" * 32}, "32 hexadecimal digits"),
        ({"url": "https://host/"}, "give name="),
        ({"url": "https://host/a.zip", "name": "../a.zip"}, "give name="),
        ({}, "give name="),
        ({"url": "https://h/words.txt", "unpack": True}, r"words\.txt is no archive, and not compressed"),
    ],
)
def test_a_wrong_resource_is_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Resource(**arguments)
