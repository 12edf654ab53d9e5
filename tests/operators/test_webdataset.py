from __future__ import annotations

import copy
import gc
import io
import pathlib
import pickle
import warnings
from itertools import islice
from typing import Any

import pytest

import penstock as ps
from archives import tar_of, zip_of
from penstock.pipes.iter import IterableWrapper
from penstock.registry import Throttle
from resuming import ALWAYS, NEVER, assert_resumes_everywhere

FILES = [
    ("t.tar/README", b"about"),
    ("t.tar/1.png", b"one"),
    ("t.tar/1.cls", b"1"),
    ("t.tar/1.seg.png", b"mask"),
    ("t.tar/._2.png", b"metadata"),
    ("t.tar/v1.0/2.png", b"two"),
    ("t.tar/LICENSE", b"terms"),
    ("t.tar/1.png", b"another one"),
    ("t.tar/NOTES", b"end"),
]
SAMPLES = [
    {"__key__": "t.tar/1", ".png": b"one", ".cls": b"1", ".seg.png": b"mask"},
    {"__key__": "t.tar/v1.0/2", ".png": b"two"},
    {"__key__": "t.tar/1", ".png": b"another one"},
]


@pytest.mark.parametrize(
    ("path", "key", "suffix"),
    [
        ("a.txt", "a", ".txt"),
        ("C:\\data\\t.tar/x/a.b.c", "C:/data/t.tar/x/a", ".b.c"),
        ("s3://bucket/t.tar/A.TXT", "s3://bucket/t.tar/A", ".txt"),
        (pathlib.PurePosixPath("x/a.txt"), "x/a", ".txt"),
    ],
)
def test_the_key_is_the_path_up_to_the_first_dot_of_the_name(path: Any, key: str, suffix: str) -> None:
    assert list(IterableWrapper([(path, b"")]).webdataset()) == [{"__key__": key, suffix: b""}]


def read_tar(url: str) -> ps.IterDataPipe[Any]:
    return IterableWrapper([url]).open_files_by_fsspec("rb").load_from_tar()


@pytest.mark.parametrize("form", ["tar", "tgz", "zip"])
def test_the_address_of_the_archive_can_stand_beside_the_key(tmp_path: pathlib.Path, form: str) -> None:
    files = {"x.tar/1.TXT": b"one", "x.tar/1.Seg.PNG": b"mask", "2.txt": b"two"}
    path = str(tmp_path / f"t.tar.{form}")
    pathlib.Path(path).write_bytes(zip_of(files) if form == "zip" else tar_of(files, "gz" if form == "tgz" else ""))
    members = IterableWrapper([path]).open_files_by_fsspec("rb")
    members = members.load_from_zip() if form == "zip" else members.load_from_tar()
    contents = members.map(lambda stream: stream.read(), 1)  # the path goes through other steps
    samples: list[dict[str, Any]] = [
        {"__key__": "x.tar/1", "__url__": path, ".txt": b"one", ".seg.png": b"mask"},
        {"__key__": "2", "__url__": path, ".txt": b"two"},
    ]
    assert list(contents.webdataset(with_url=True)) == samples
    assert [sample["__key__"] for sample in contents.webdataset()] == [f"{path}/x.tar/1", f"{path}/2"]
    kept = contents.webdataset(with_url=True, lower_case=False)
    assert [[*sample][2:] for sample in kept] == [[".TXT", ".Seg.PNG"], [".txt"]]


def test_the_package_webdataset_names_samples_and_fields_the_same(tmp_path: pathlib.Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    path = tmp_path / "t.tar"
    path.write_bytes(tar_of({"a/1.TXT": b"one", "a/1.seg.Png": b"mask", "a/README": b"", "v1.0/2.cls": b"2"}, ""))
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # it leaves files to be collected
        theirs = [*webdataset.WebDataset(str(path), shardshuffle=False, empty_check=False)]
        gc.collect()
    ours = list(read_tar(str(path)).webdataset(with_url=True).routed_decode(only=[]))
    assert ours == [
        {
            name if name.startswith("__") else f".{name}": value
            for name, value in sample.items()
            if name != "__local_path__"
        }
        for sample in theirs
    ]


def test_samples_of_one_key_in_two_archives_stay_apart(tmp_path: pathlib.Path) -> None:
    urls = [str(tmp_path / name) for name in ("a.tar", "b.tar")]
    for url in urls:
        pathlib.Path(url).write_bytes(tar_of({"1.txt": b""}, ""))
    tars = IterableWrapper(urls).open_files_by_fsspec("rb").load_from_tar()
    assert [sample["__url__"] for sample in tars.webdataset(with_url=True)] == urls


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_copies_of_paths_and_those_from_workers_know_their_archive(tmp_path: pathlib.Path, copied: Any) -> None:
    path = tmp_path / "t.tar"
    path.write_bytes(tar_of({"a/1.txt": b"one"}, ""))
    [(name, _)] = read_tar(str(path))
    assert (copied(name), copied(name).archive) == (f"{path}/a/1.txt", str(path))
    [sample] = IterableWrapper([(copied(name), b"one")]).webdataset(with_url=True)
    assert sample == {"__key__": "a/1", "__url__": str(path), ".txt": b"one"}


def test_a_path_that_does_not_know_its_archive_is_an_error() -> None:
    dp = IterableWrapper([("t.tar/1.txt", b"")]).webdataset(with_url=True)
    with pytest.raises(TypeError, match=r"with_url needs paths as load_from_tar gives them, .* 't.tar/1.txt' is a str"):
        list(dp)


@pytest.mark.parametrize("with_url", [False, True])
def test_files_whose_extensions_differ_by_case_are_two_only_where_case_is_kept(
    tmp_path: pathlib.Path, with_url: bool
) -> None:
    path = tmp_path / "t.tar"
    path.write_bytes(tar_of({"1.txt": b"one", "1.TXT": b"two"}, ""))
    with pytest.raises(ValueError, match="has two files '.txt': .*1.TXT' is the second"):
        list(read_tar(str(path)).webdataset(with_url=with_url))
    [sample] = read_tar(str(path)).webdataset(with_url=with_url, lower_case=False)
    assert (sample[".txt"].read(), sample[".TXT"].read()) == (b"one", b"two")


def test_streams_of_what_belongs_to_no_sample_are_closed() -> None:
    streams = [io.BytesIO(b"") for _ in range(5)]
    paths = ["README", "1.txt", ".hidden.txt", "1.txt", "2.txt"]
    dp = IterableWrapper(list(zip(paths, streams, strict=True)), deepcopy=False).webdataset(on_error="skip")
    first, _ = dp
    assert [stream.closed for stream in streams] == [True, False, True, True, False]
    assert first[".txt"] is streams[1]


def test_streams_that_are_read_past_on_resuming_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Throttle, "step", NEVER)
    streams = [io.BytesIO(b"") for _ in range(3)]
    dp = IterableWrapper(list(zip(["1.txt", "2.txt", "3.txt"], streams, strict=True)), deepcopy=False).webdataset()
    iterator = iter(dp)
    next(iterator)
    dp.load_state_dict(dp.state_dict())
    assert [sample["__key__"] for sample in dp] == ["2", "3"]
    assert [stream.closed for stream in streams] == [True, False, False]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([("t/1.txt", b"a"), ("t/1.cls", b"0"), ("t/1.txt", b"b")], "'t/1' has two files '.txt': 't/1.txt' is the"),
        *(([item], "(?i)path") for item in (3, (3, b""), ("a.txt",))),
    ],
)
def test_what_is_no_pair_or_comes_twice_is_an_error(items: list[Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        list(IterableWrapper(items).webdataset())
    assert f"raised in WebDataset(), on {items[-1]!r}" in "\n".join(caught.value.__notes__)


def test_consecutive_files_of_one_key_are_a_sample() -> None:
    assert list(IterableWrapper(FILES).webdataset()) == SAMPLES


BAD_FILES: list[Any] = [
    ("t/1.x", b"1x"),
    3,
    ("t/1.y", b"1y"),
    ("t/1.x", b"again"),
    ("t/2.x", b"2x"),
    ("t/2.x", b"again"),
    (None, b""),
    ("t/3.x", b"3x"),
]


def test_files_that_fit_no_sample_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> ps.IterDataPipe[Any]:
        return IterableWrapper(BAD_FILES).webdataset(on_error="skip")

    dp = make()
    assert list(dp) == [
        {"__key__": "t/1", ".x": b"1x", ".y": b"1y"},
        {"__key__": "t/2", ".x": b"2x"},
        {"__key__": "t/3", ".x": b"3x"},
    ]
    assert dp.stats()["webdataset"]["skipped"] == 4
    assert "the sample 't/1' has two files '.x'" in dp.stats()["webdataset"]["last_errors"][1]
    assert_resumes_everywhere(make)
    for due in (ALWAYS, NEVER):
        monkeypatch.setattr(Throttle, "step", due)
        dp = make()
        assert len(list(islice(dp, 2))) == 2
        resumed = make()
        resumed.load_state_dict(dp.state_dict())
        assert len(list(resumed)) == 1
        assert resumed.stats()["webdataset"]["skipped"] == 4
