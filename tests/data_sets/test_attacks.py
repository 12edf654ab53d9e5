"""What broke data sets once: names that clash, digests that change, servers that lie, archives that are cut."""

from __future__ import annotations

import errno
import functools
import gzip
import io
import multiprocessing
import os
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets import Dataset, Files, Resource
from penstock.datasets.fetching import fetch
from penstock.registry.sharding import apply_sharding
from penstock.state.seeds import seed_graph
from served import FileServer

CONTENT = bytes(range(256)) * 8_000


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "set")


def lines(resources: Mapping[str, Files], split: str) -> Any:
    """Lines of a file."""
    return resources["file"].open().readlines(return_path=False)


def numbers(resources: Mapping[str, Files], split: str) -> Any:
    """Numbers in order."""
    return ps.iter.IterableWrapper(range(20)).sharding_filter()


# Definitions


@pytest.mark.parametrize(
    "resources",
    [
        {"a": Resource("https://h/a/data.csv"), "b": Resource("https://h/b/data.csv")},
        {"a": Resource("https://h/labels"), "b": Resource("https://h/labels.gz", unpack=True)},
    ],
)
def test_two_resources_of_one_name_are_refused(resources: dict[str, Resource]) -> None:
    with pytest.raises(
        ValueError, match=r"two resources would be kept as '(data\.csv|labels)': give one of them another"
    ):
        Dataset("clash", lines, resources=resources, splits={"all": None}, register=False)


def test_wrong_definitions_are_told_when_they_are_made() -> None:
    with pytest.raises(ValueError, match="give splits, a dict"):
        Dataset("a", lines, splits=["train"], register=False)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="every data set takes shuffle: give the option another name"):
        Dataset("a", lambda resources, split, *, shuffle=1: None, splits={"all": 1}, register=False)
    with pytest.raises(ValueError, match=r"words\.txt is no archive, and not compressed"):
        Resource("https://h/words.txt", unpack=True)
    with pytest.raises(TypeError, match="must return a chain, and returned"):
        Dataset("a", lambda resources, split: [1], splits={"all": 1}, title="A", register=False)()


def test_a_chain_that_divides_without_a_shuffle_gets_one() -> None:
    data = Dataset("numbers", numbers, splits={"all": 20}, register=False)
    shuffled = data(shuffle=True)
    seed_graph(shuffled, 1)
    assert list(data()) == list(range(20))
    assert list(shuffled) != list(range(20))
    assert sorted(shuffled) == list(range(20))
    assert len(data()) == 20


def test_a_count_that_is_wrong_is_told_by_index() -> None:
    with pytest.raises(RuntimeError, match="numbers should have 5 samples, and has 20"):
        Dataset("numbers", numbers, splits={"all": 5}, register=False)(map_style=True)[0]


def test_a_count_that_is_wrong_is_told_at_the_end_of_a_whole_pass() -> None:
    def made(count: int, **arguments: Any) -> Any:
        return Dataset("numbers", numbers, splits={"all": count}, register=False)(**arguments)

    told = r"numbers\('all'\) should have 5 samples, and has 20"
    for arguments in ({}, {"shuffle": True}):
        with pytest.warns(UserWarning, match=told):
            list(made(5, **arguments))
    read = made(5)
    read.take(7)
    resumed = made(5)
    resumed.load_state_dict(read.state_dict())
    with pytest.warns(UserWarning, match=told):
        assert list(resumed) == list(range(7, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(made(20))
        made(5).take(20)
        sharded = made(5)
        apply_sharding(sharded, 2, 1)
        assert list(sharded) == list(range(1, 20, 2))


def test_a_function_that_torchs_workers_cannot_get_breaks_a_law_and_is_named() -> None:
    def with_a_lambda(resources: Mapping[str, Files], split: str) -> Any:
        """Numbers."""
        return numbers(resources, split).map(functools.partial(lambda number: number))

    data = Dataset("numbers", with_a_lambda, splits={"all": 20}, title="Numbers", register=False)
    told = r"workers of torch's DataLoader need a plain pickle, and Mapper\.fn, which is functools\.partial.*lambda"
    with pytest.raises(AssertionError, match=told):
        ps.datasets.check_dataset(lambda **arguments: data(**arguments), ["pickles_and_copies_agree"])


def test_any_integer_is_an_index_and_several_threads_may_be_first() -> None:
    data = Dataset("numbers", numbers, splits={"all": 20}, register=False)(map_style=True)
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.append(data[7])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [7] * 8
    assert data[torch.tensor(3)] == 3
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        data["3"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"download": True}, "what is missing is downloaded when the first sample is read"),
        ({"transform": str}, r"use \.map, which gets the whole sample"),
        ({"train": "test"}, "train must be True or False"),
    ],
)
def test_habits_of_torchvision_get_an_answer(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        ps.datasets.MNIST("root", **arguments)
    assert ps.datasets.MNIST("root", False).info.split == "test"
    with pytest.raises(ValueError, match="did you mean 'mnist'"):
        ps.datasets.load("MNIST")


def test_roots_are_where_they_are_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Dataset("numbers", numbers, splits={"all": 20}, register=False)
    monkeypatch.chdir(tmp_path)
    assert data("here").info.folder == str(tmp_path / "here" / "numbers")
    assert data("memory://").info.folder == "memory://numbers"
    assert data("s3://bucket/").info.folder == "s3://bucket/numbers"
    assert data("~/x").info.folder == os.path.expanduser("~/x/numbers")
    assert "SECRET" not in str(data("s3://KEY:SECRET@bucket/x"))


# Files that change


def test_a_new_digest_in_the_definition_is_compared(server: FileServer, folder: str) -> None:
    server.files["set/a.txt"] = b"old\n"
    old = Resource(f"{server.url}/set/a.txt", sha256=sha256(b"old\n").hexdigest())
    fetch(old, folder)
    with pytest.raises(RuntimeError, match="sha256 digest"):
        fetch(replace(old, sha256=sha256(b"new\n").hexdigest()), folder)


def test_another_archive_is_unpacked_anew(server: FileServer, folder: str) -> None:
    old, new = tar_of({"a.txt": b"old"}), tar_of({"a.txt": b"new"})
    for content in (old, new):
        server.files["set/x.tar.gz"] = content
        digest = sha256(content).hexdigest()
        files = Files(Resource(f"{server.url}/set/x.tar.gz", sha256=digest, unpack=True), folder)
        if content is new:
            os.unlink(os.path.join(folder, "x.tar.gz"))
        assert files.read("a.txt") == (b"old" if content is old else b"new")


PAGE = b"<html>please sign in</html>"
WRONG = [
    ("x.txt", b""),
    *((name, content) for name in ("x.zip", "x.tar", "x.tar.gz", "x.gz") for content in (b"", PAGE)),
]


@pytest.mark.parametrize(("name", "content"), WRONG)
def test_without_a_digest_what_is_plainly_wrong_is_refused(
    server: FileServer, folder: str, name: str, content: bytes
) -> None:
    server.files[f"set/{name}"] = content
    with pytest.raises(RuntimeError, match=rf"{name} is empty, or no file of its kind"):
        fetch(Resource(f"{server.url}/set/{name}"), folder)
    assert not [each for each in os.listdir(folder) if each.startswith("x")]


def test_a_page_in_place_of_a_file_is_refused(server: FileServer, folder: str) -> None:
    server.files["set/a.txt"] = b"<html>please sign in</html>"
    server.headers["set/a.txt"] = {"Content-Type": "text/html; charset=utf-8"}
    with pytest.raises(RuntimeError, match="sends a page, such as one for signing in, and no file"):
        fetch(Resource(f"{server.url}/set/a.txt"), folder)


def test_one_of_several_processes_verifies_what_a_user_put_there(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    os.makedirs(folder)
    Path(folder, "a.bin").write_bytes(CONTENT)
    resource = Resource(name="a.bin", sha256=sha256(CONTENT).hexdigest())
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
def test_what_a_user_put_there_is_read_where_no_lock_can_be_had(
    folder: str, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    os.makedirs(folder)
    Path(folder, "a.txt").write_bytes(b"one\n")

    def refused(*arguments: object, **others: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("penstock.datasets.fetching.FileLock", refused)
    monkeypatch.setattr("penstock.datasets.fetching.whole_file", refused)
    assert fetch(Resource(name="a.txt", sha256=sha256(b"one\n").hexdigest()), folder)
    with pytest.raises(RuntimeError, match="sha256 digest"):
        fetch(Resource(name="a.txt", sha256=sha256(b"two\n").hexdigest()), folder)


# Servers that lie about ranges


@pytest.mark.parametrize("lie", ["another version", "another length"])
def test_a_range_of_another_version_is_not_joined(server: FileServer, folder: str, lie: str) -> None:
    resource = Resource(f"{server.url}/set/a.bin")
    server.files["set/a.bin"] = CONTENT
    server.cuts["set/a.bin"] = [1_100_000] + [0] * 10
    with pytest.raises(FileNotFoundError, match="cut"):
        fetch(resource, folder)
    server.forget()
    server.files["set/a.bin"] = CONTENT[::-1]
    server.takes_any_range = True
    if lie == "another length":
        server.headers["set/a.bin"] = {"ETag": f'"{sha256(CONTENT).hexdigest()[:16]}"'}
        server.files["set/a.bin"] = CONTENT
        server.cuts["set/a.bin"] = [100_000]
    assert Path(fetch(resource, folder)).read_bytes() == server.files["set/a.bin"]


def test_a_download_that_was_whole_but_not_yet_kept_is_kept(server: FileServer, folder: str) -> None:
    server.files["set/a.bin"] = CONTENT
    resource = Resource(f"{server.url}/set/a.bin", sha256=sha256(CONTENT).hexdigest())
    server.cuts["set/a.bin"] = [1_100_000] + [0] * 10
    with pytest.raises(FileNotFoundError):
        fetch(resource, folder)
    Path(folder, "a.bin.part").write_bytes(CONTENT)  # as after a kill while it was verified
    server.cuts.clear()
    assert Path(fetch(resource, folder)).read_bytes() == CONTENT
    assert server.ranges[-1] == f"bytes={len(CONTENT)}-"


@pytest.mark.parametrize("size", [1_000, 3_000_000])
def test_another_size_is_refused_before_it_fills_the_disk(server: FileServer, folder: str, size: int) -> None:
    server.files["set/a.bin"] = CONTENT
    with pytest.raises(RuntimeError, match=f"has {len(CONTENT)} bytes, and {size} were expected"):
        fetch(Resource(f"{server.url}/set/a.bin", size=size), folder)


def test_a_wrong_mirror_does_not_stop_the_others(server: FileServer, folder: str) -> None:
    server.files["set/a.txt"] = b"one\n"
    resource = Resource(("nonsense://host/a.txt", f"{server.url}/set/a.txt"), name="a.txt")
    assert Path(fetch(resource, folder)).read_bytes() == b"one\n"


@pytest.mark.parametrize("value", ["0", "false", "no", " off "])
def test_offline_may_be_switched_off(
    server: FileServer, folder: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_OFFLINE", value)
    server.files["set/a.txt"] = b"one\n"
    assert fetch(Resource(f"{server.url}/set/a.txt"), folder)


def test_notes_have_no_secrets(server: FileServer, folder: str) -> None:
    server.files["set/a.bin"] = CONTENT
    server.cuts["set/a.bin"] = [1_100_000] + [0] * 10
    resource = Resource(f"{server.url}/set/a.bin?token=SECRET", name="a.bin")
    with pytest.raises(FileNotFoundError) as raised:
        fetch(resource, folder)
    assert "SECRET" not in Path(folder, "a.bin.part.json").read_text() + str(raised.value) + repr(resource)


# Archives


def test_a_tar_that_is_cut_between_two_files_is_no_whole_one(folder: str) -> None:
    whole = tar_of({f"{number}.txt": b"x" * 512 for number in range(8)}, "")
    os.makedirs(folder)
    Path(folder, "x.tar").write_bytes(whole[: 4 * 1024])
    with pytest.raises(Exception, match="cut|end mark"):
        Files(Resource(name="x.tar"), folder).paths()


def test_names_with_brackets_are_names(folder: str) -> None:
    os.makedirs(folder)
    Path(folder, "x.zip").write_bytes(zip_of({"x[1].txt": b"brackets", "x1.txt": b"none"}))
    files = Files(Resource(name="x.zip"), folder)
    assert [(path, stream.read()) for path, stream in files.open("x[1].txt")] == [("x[1].txt", b"brackets")]
    assert files.paths("x[*.txt") == ["x[1].txt"]


def test_a_compressed_file_has_one_name_and_one_content(folder: str) -> None:
    os.makedirs(folder)
    Path(folder, "l.GZ").write_bytes(gzip.compress(b"0 1 2"))
    files = Files(Resource(name="l.GZ"), folder)
    assert [(path, stream.read()) for path, stream in files.open()] == [("l", b"0 1 2")]
    assert files.paths() == ["l"]
    assert files.read("l") == b"0 1 2"


def test_zips_that_lead_out_of_themselves_are_refused_by_path_too(folder: str) -> None:
    os.makedirs(folder)
    Path(folder, "x.zip").write_bytes(zip_of({"../evil.txt": b"1"}))
    with pytest.raises(ValueError, match="no name within it"):
        Files(Resource(name="x.zip"), folder).paths()


@pytest.mark.parametrize("way", ["open", "read", "unpack"])
def test_links_in_a_tar_are_left_out_and_counted(folder: str, way: str) -> None:
    name = "x.tar.gz" if way == "unpack" else "x.tar"
    links = {"a-link.txt": "a.txt", "outside.txt": "/etc/passwd"}
    os.makedirs(folder)
    with tarfile.open(Path(folder, name), "w:gz" if way == "unpack" else "w") as archive:
        for path in ("a.txt", *links):
            header = tarfile.TarInfo(path)
            header.type, header.linkname = (tarfile.SYMTYPE, links[path]) if path in links else (tarfile.REGTYPE, "")
            archive.addfile(header, io.BytesIO())
    files = Files(Resource(name=name, unpack=way == "unpack"), folder)
    told = rf"2 links or special files are left out of .*{name}: the first is 'a-link.txt' to 'a.txt'"
    with pytest.warns(UserWarning, match=told):
        paths = [path for path, _ in files.open()] if way == "open" else files.paths()
    assert paths == ["a.txt"]
    assert not Path(folder, "x", "outside.txt").exists()


@pytest.mark.parametrize("unpack", [False, True])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_twice_in_a_zip_is_its_last_file(folder: str, unpack: bool) -> None:
    os.makedirs(folder)
    with zipfile.ZipFile(Path(folder, "x.zip"), "w") as archive:
        for path, content in [("a.txt", b"old"), ("b.txt", b"one"), ("a.txt", b"new")]:
            archive.writestr(path, content)
    files = Files(Resource(name="x.zip", unpack=unpack), folder)
    assert [(path, stream.read()) for path, stream in files.open()] == [("a.txt", b"new"), ("b.txt", b"one")]
    assert files.paths() == ["a.txt", "b.txt"]
    assert files.read("a.txt") == b"new"
