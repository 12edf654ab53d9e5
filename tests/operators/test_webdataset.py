from __future__ import annotations

import io
import pathlib
from itertools import islice
from typing import Any

import pytest

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from penstock.registry import Throttle
from resuming import ALWAYS, NEVER, assert_resumes_everywhere, passed_on

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
        ("s3://bucket/t.tar/a.TXT", "s3://bucket/t.tar/a", ".TXT"),
        (pathlib.PurePosixPath("x/a.txt"), "x/a", ".txt"),
    ],
)
def test_the_key_is_the_path_up_to_the_first_dot_of_the_name(path: Any, key: str, suffix: str) -> None:
    assert list(IterableWrapper([(path, b"")]).webdataset()) == [{"__key__": key, suffix: b""}]


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


def test_consecutive_files_of_one_key_are_a_sample_and_it_resumes_from_the_first_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Throttle, "step", ALWAYS)
    pulled: list[Any] = []

    def make() -> ps.IterDataPipe[Any]:
        return IterableWrapper(FILES).map(lambda item: pulled.append(item) or item).webdataset()

    assert list(make()) == SAMPLES
    for handed_out, left in [(1, FILES[5:]), (2, FILES[7:])]:
        dp = make()
        iterator = iter(dp)
        assert list(islice(iterator, handed_out)) == SAMPLES[:handed_out]
        pulled.clear()
        resumed = make()
        resumed.load_state_dict(passed_on(dp))
        assert list(resumed) == SAMPLES[handed_out:]
        assert pulled == left


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
