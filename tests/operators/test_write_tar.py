from __future__ import annotations

import gc
import gzip
import hashlib
import io
import json
import os
import pickle
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import penstock as ps
from penstock import MultiProcessingReadingService
from penstock.pipes.iter import IterableWrapper
from penstock.registry import SHARDING_PRIORITIES, apply_sharding
from resuming import assert_resumes_everywhere

SAMPLES = [
    {"__key__": f"group/{number:03d}", "txt": f"Größe {number}", "cls": number, "bin": bytes([number]) * number}
    for number in range(7)
]


def written(folder: object, samples: Any = SAMPLES, each: int = 3, **arguments: Any) -> list[tuple[str, int]]:
    arguments = {"mode": "overwrite", **arguments}
    return list(
        IterableWrapper(samples, deepcopy=False).write_tar(f"{folder}/train-{{shard:04d}}.tar", each, **arguments)
    )


def samples_of(*urls: str) -> list[dict[str, Any]]:
    """The samples in shards, as the package reads them, by their keys in the archive and the names of their files."""
    dp = IterableWrapper(urls).open_files_by_fsspec("rb").load_from_tar().webdataset().routed_decode()
    return [
        {name.removeprefix("."): value for name, value in sample.items()}
        | {"__key__": sample["__key__"].partition(".tar/")[2]}
        for sample in dp
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# What is written


def test_samples_are_read_back_and_the_index_tells_of_each_shard_what_is_in_it(tmp_path: Path) -> None:
    urls = [f"{tmp_path}/train-000{number}.tar" for number in range(3)]
    assert written(tmp_path) == [(urls[0], 3), (urls[1], 3), (urls[2], 1)]
    assert samples_of(*urls) == SAMPLES
    files = contents(tmp_path)
    index = json.loads(files.pop("train-index.json"))
    assert index == {
        "shards": [
            {
                "name": name,
                "samples": number,
                "bytes": len(files[name]),
                "sha256": hashlib.sha256(files[name]).hexdigest(),
            }
            for name, number in zip(files, (3, 3, 1), strict=True)
        ]
    }
    assert [*files] == [os.path.basename(url) for url in urls]


def test_the_package_webdataset_reads_the_same(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    urls = [url for url, _ in written(tmp_path)]
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # it leaves files to be collected
        read = [*webdataset.WebDataset(urls, shardshuffle=False, empty_check=False).decode()]
        gc.collect()
    assert [{name: value for name, value in sample.items() if name in SAMPLES[0]} for sample in read] == SAMPLES


VALUES: list[tuple[str, Any]] = [
    ("raw", b"\xff\x00"),
    ("empty", b""),
    ("seg.png.bin", b"two dots"),
    ("txt", "zwölf\n"),
    ("cls", -3),
    ("json", {"b": [1, 2.5, None, True], "a": {"ü": "ü"}}),
    ("json", 1.5),
    ("npy", np.arange(6, dtype=np.int16).reshape(2, 3)),
    ("npy", np.asfortranarray(np.ones((2, 3), np.float32))),
    ("npy", np.array(1.5)),
    ("ten", [np.arange(6, dtype=np.uint16).reshape(2, 3), np.array(1.5), np.zeros((0, 2), np.float16)]),
    ("tb", []),
    ("txt.gz", "zwölf\n"),
    ("png", torch.arange(24, dtype=torch.float32).reshape(3, 2, 4) / 255),
    ("seg.json.gz", {"a": [1, None]}),
    ("npy.gz", np.arange(3)),
    ("raw.gz", gzip.compress(b"stays", mtime=0)),
    ("pt", torch.arange(4, dtype=torch.bfloat16)),
    ("pth", {"x": torch.ones(2, 0), "n": [1, (2, "three")]}),
]


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_a_value_is_read_back_by_the_extension(tmp_path: Path, name: str, value: Any) -> None:
    for key in (name, f".{name}"):
        [(url, _)] = written(tmp_path, [{"__key__": "a", key: value}])
        [sample] = samples_of(url)
        assert sample.keys() == {"__key__", name}
        assert type(sample[name]) is type(value)
        assert repr(sample[name]) == repr(value)
        if isinstance(value, (np.ndarray, torch.Tensor)):
            assert sample[name].dtype == value.dtype


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ({"bin": bytearray(b"ab")}, {"bin": b"ab"}),
        ({"bin": memoryview(b"abcd")[::2]}, {"bin": b"ac"}),
        ({"bin": io.BytesIO(b"ab")}, {"bin": b"ab"}),
        ({"cls": np.int64(5)}, {"cls": 5}),
        ({"json": {"score": np.float32(0.5), "ids": [np.int8(1)]}}, {"json": {"score": 0.5, "ids": [1]}}),
        ({"json": '{"already": "text"}'}, {"json": {"already": "text"}}),
        ({"__url__": "t.tar", "txt": "x", "__n__": object()}, {"txt": "x"}),
        *(
            ({"__key__": key, "txt": "x"}, {"__key__": key, "txt": "x"})
            for key in ["v1.0/a", "ein Schlüssel %20/ä b", "x" * 300, "1/" * 90 + "x", "a\nb"]
        ),
    ],
)
def test_what_stands_for_a_value_and_keys_of_all_kinds_are_written(tmp_path: Path, sample: Any, expected: Any) -> None:
    [(url, _)] = written(tmp_path, [{"__key__": "a", **sample}])
    assert samples_of(url) == [{"__key__": "a", **expected}]


PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 3, 4) * 10


@pytest.mark.parametrize(
    ("value", "spec", "expected"),
    [
        (PIXELS[..., 0], "l8", PIXELS[..., 0]),
        (PIXELS[..., :1], "l8", PIXELS[..., 0]),
        (PIXELS[..., :3], "rgb8", PIXELS[..., :3]),
        (PIXELS, "rgba8", PIXELS),
        (PIXELS[..., :3][::-1, ::-1], "rgb8", PIXELS[..., :3][::-1, ::-1]),
        (PIXELS[..., :3].astype(np.float32) / 255, "rgb8", PIXELS[..., :3]),
        (torch.from_numpy(PIXELS[..., 0]) / 255, "l8", PIXELS[..., 0]),
        (torch.from_numpy(PIXELS[..., :3]).permute(2, 0, 1), "rgb8", PIXELS[..., :3]),
        (Image.fromarray(PIXELS[..., :3]), "rgb8", PIXELS[..., :3]),
    ],
)
def test_pictures_are_written_as_png(tmp_path: Path, value: Any, spec: str, expected: Any) -> None:
    for name in ("png", ".seg.PNG"):
        [(url, _)] = written(tmp_path, [{"__key__": "a", name: value}])
        members = IterableWrapper([url]).open_files_by_fsspec("rb").load_from_tar()
        [sample] = members.webdataset(with_url=True).routed_decode(spec)
        assert sample[f".{name.lower().lstrip('.')}"].tolist() == expected.tolist()


def test_a_tensor_is_written_without_what_it_is_a_part_of(tmp_path: Path) -> None:
    part = torch.zeros(1_000_000, requires_grad=True)[:2]
    [(url, _)] = written(tmp_path, [{"__key__": "a", "pt": {"part": part}}])
    assert os.path.getsize(url) < 20_000
    assert not samples_of(url)[0]["pt"]["part"].requires_grad


@pytest.mark.parametrize(
    "sample",
    [
        *(
            {"__key__": key, "txt": "x"}
            for key in ["", "a.b", "/a", "x/../a", "./a", "a//b", "a\\b", "C:/a", "x/", "a\0b", "s3://b/t.tar/a"]
        ),
        *({"__key__": "a", name: "x"} for name in ("", ".", "a/b", "x\0")),
    ],
)
def test_a_name_that_would_be_read_as_another_is_an_error(tmp_path: Path, sample: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"would be read as another file's(.|\n)*while writing '.*' of the sample"):
        written(tmp_path, [sample])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("npy", np.array([{}]), "Object arrays cannot be saved"),
        ("png", object(), "a object cannot be written under the extension 'png'"),
        ("cls", None, "a NoneType cannot be written under the extension 'cls'"),
        ("cls", torch.tensor(1), "a Tensor cannot be written under the extension 'cls': tensors go under pt"),
        ("npy", [1], "a list cannot be written under the extension 'npy'"),
        ("npy.gz", [1], "a list cannot be written under the extension 'npy'"),
        ("ten", np.ones(2), "a ndarray cannot be written under the extension 'ten'"),
        ("ten", [1], "a file of arrays takes NumPy arrays of numbers, .*, and not int"),
        ("ten", [np.array(["a"])], "and not U1"),
        ("jpg", np.zeros(3), "a ndarray cannot be written under the extension 'jpg'"),
        ("png", np.zeros((3, 2, 2)), r"and this has \(3, 2, 2\), the channels last"),
        ("seg.png", torch.zeros(2, 2, 3), r"with 1, 3 or 4 channels, and this has \(2, 3, 2\), the channels last"),
        ("png", np.zeros((0, 2), np.uint8), r"and this has \(0, 2\)"),
        ("png", np.full((2, 2), 1.5), "an image has uint8 or floats in 0 … 1, and this has float64, or other floats"),
        ("png", np.full((2, 2), np.nan), "or other floats"),
        ("png", np.zeros((2, 2), np.uint16), "and this has uint16"),
        ("png", Image.fromarray(np.zeros((2, 2), np.uint16)), "this is one of Pillow's mode 'I;16'"),
        ("png", [[0]], "a list cannot be written under the extension 'png'"),
        ("json", {"x": torch.ones(2)}, "JSON has no Tensor"),
        ("json", (1, 2), "a tuple cannot be written"),
        ("pt", {"x": np.ones(2)}, "torch.load would refuse a ndarray"),
        ("txt", io.StringIO("x"), "the stream is open as text"),
    ],
)
def test_a_value_of_another_kind_is_an_error(tmp_path: Path, name: str, value: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{message}(.|\n)*while writing '{name}' of the sample 'b/c'"):
        written(tmp_path, [{"__key__": "a", "txt": "x"}, {"__key__": "b/c", name: value}])
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ([3], TypeError, 'a sample must be a dict with its name, a string, at "__key__"'),
        ([{"txt": "x"}], TypeError, 'at "__key__"'),
        ([{"__key__": 3, "txt": "x"}], TypeError, 'at "__key__"'),
        ([{"__key__": "a", "__url__": "x"}], ValueError, "the sample 'a' has no files"),
        ([{"__key__": "a", "txt": "x", ".txt": "y"}], ValueError, "the sample has this twice"),
        ([{"__key__": "a", "txt": "x", "TXT": "y"}], ValueError, "in upper and lower case"),
        ([{"__key__": "a", "txt": "x"}, {"__key__": "a", "cls": 1}], ValueError, "two consecutive samples"),
    ],
)
def test_what_could_not_be_told_apart_again_is_an_error(
    tmp_path: Path, samples: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        written(tmp_path, samples)


def test_streams_of_a_sample_are_closed_whether_it_is_written_or_not(tmp_path: Path) -> None:
    streams = [io.BytesIO(b"x") for _ in range(4)]
    written(tmp_path, [{"__key__": "a", "x": streams[0], "y": streams[1]}])
    with pytest.raises(TypeError):
        written(tmp_path, [{"__key__": "a", "x": streams[2], "w": None, "y": streams[3]}])
    assert [stream.closed for stream in streams] == [True] * 4


def test_shards_can_be_divided_anew(tmp_path: Path) -> None:
    urls = [url for url, _ in written(tmp_path / "large")]
    members = IterableWrapper(urls).open_files_by_fsspec("rb").load_from_tar()
    with pytest.raises(ValueError, match=r"webdataset\(with_url=True\)"):
        list(members.webdataset().write_tar(f"{tmp_path}/small/{{shard}}.tar", 2))
    small = [url for url, _ in members.webdataset(with_url=True).write_tar(f"{tmp_path}/small/{{shard}}.tar", 2)]
    assert samples_of(*small) == SAMPLES
    assert len(small) == 4


# The size of shards

OF_BYTES = [{"__key__": f"{number:02}", "bin": bytes(size)} for number, size in enumerate([40, 70, 10, 200, 20, 90, 5])]


@pytest.mark.parametrize(
    ("samples_per_shard", "max_bytes", "counts"),
    [(None, 100, [2, 2, 2, 1]), (2, 100, [2, 2, 2, 1]), (3, 220, [3, 2, 2]), (1, 1000, [1] * 7), (None, 1, [1] * 7)],
)
def test_a_shard_ends_at_a_number_of_samples_or_of_bytes(
    tmp_path: Path, samples_per_shard: int | None, max_bytes: int, counts: list[int]
) -> None:
    dp = IterableWrapper(OF_BYTES).write_tar(f"{tmp_path}/{{shard}}.tar", samples_per_shard, max_bytes=max_bytes)
    shards = list(dp)
    assert [number for _, number in shards] == counts
    assert samples_of(*(url for url, _ in shards)) == OF_BYTES
    with pytest.raises(TypeError, match="ends a shard at a size in bytes"):
        len(dp)


def test_shards_of_a_size_in_bytes_are_the_same_wherever_it_is_resumed(tmp_path: Path) -> None:
    samples = IterableWrapper(OF_BYTES)
    assert_resumes_everywhere(lambda: samples.write_tar(f"{tmp_path}/{{shard}}.tar", max_bytes=100, mode="overwrite"))
    assert samples_of(*(f"{tmp_path}/{shard}.tar" for shard in range(4))) == OF_BYTES


def test_each_part_counts_the_samples_of_its_several_shards(tmp_path: Path) -> None:
    dp = IterableWrapper(OF_BYTES).sharding_filter().write_tar(f"{tmp_path}/{{shard}}.tar", max_bytes=50)
    with ps.DataLoader2(dp, reading_service=MultiProcessingReadingService(2)) as loader:
        shards = {os.path.basename(url): number for url, number in loader}
    assert shards == {"0.tar": 2, "2.tar": 2, "1.tar": 1, "3.tar": 1, "5.tar": 1}
    for part, names in enumerate((["0.tar", "2.tar"], ["1.tar", "3.tar", "5.tar"])):
        index = json.loads((tmp_path / f"index-{part}-of-2.json").read_bytes())
        assert [(entry["name"], entry["samples"]) for entry in index["shards"]] == [(n, shards[n]) for n in names]
    read = samples_of(*(f"{tmp_path}/{name}" for name in shards))
    assert sorted(read, key=lambda sample: sample["__key__"]) == OF_BYTES


# Errors, state, length


def test_samples_that_fail_are_skipped_and_counted(tmp_path: Path) -> None:
    samples = [*SAMPLES[:2], {"__key__": "bad", "cls": 1, "txt": None}, *SAMPLES[2:]]
    dp = IterableWrapper(samples).write_tar(f"{tmp_path}/{{shard}}.tar", 3, on_error="skip")
    shards = list(dp)
    assert [number for _, number in shards] == [3, 3, 1]
    assert samples_of(*(url for url, _ in shards)) == SAMPLES
    assert dp.stats()["write_tar"]["skipped"] == 1
    with pytest.raises(TypeError, match="leaves out samples"):
        len(dp)


def test_len_is_the_number_of_shards(tmp_path: Path) -> None:
    for number, shards in ((0, 0), (1, 1), (3, 1), (4, 2), (7, 3)):
        dp = IterableWrapper(SAMPLES[:number]).write_tar(f"{tmp_path}/{{shard}}.tar", 3, mode="overwrite")
        assert len(dp) == shards


def test_shards_have_the_same_bytes_when_they_are_written_again(tmp_path: Path) -> None:
    samples = [{"__key__": "a", "npy": np.arange(3), "pt": {"x": torch.ones(3)}, "json": {"b": 1, "a": 2}}, *SAMPLES]
    written(tmp_path / "one", samples)
    written(tmp_path / "two", pickle.loads(pickle.dumps(samples)))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    with tarfile.open(tmp_path / "one" / "train-0000.tar") as tar:
        headers = {(file.mtime, file.uid, file.gid, file.uname, file.gname, file.mode) for file in tar}
    assert headers == {(0, 0, 0, "", "", 0o644)}


# Several readers


def check_shards(folder: Path, parts: int) -> None:
    """All samples must be in the shards once, each shard in one index, with its digest."""
    files = contents(folder)
    indices = {name: json.loads(content) for name, content in files.items() if name.endswith(".json")}
    assert indices.keys() == {f"index-{part}-of-{parts}.json" for part in range(parts)}
    told = {shard["name"]: shard["sha256"] for index in indices.values() for shard in index["shards"]}
    assert told == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name.endswith(".tar")
    }
    samples = samples_of(*(str(folder / name) for name in told))
    assert sorted(samples, key=lambda sample: sample["__key__"]) == SAMPLES


@pytest.mark.parametrize("points", [1, 2])
def test_parts_of_all_levels_write_shards_of_their_own(tmp_path: Path, points: int) -> None:
    for rank in range(2):
        for worker in range(2):
            source = IterableWrapper(SAMPLES)
            if points == 1:
                divided = source.sharding_filter()
            else:
                by_rank = source.sharding_filter(SHARDING_PRIORITIES.DISTRIBUTED)
                divided = by_rank.sharding_filter(SHARDING_PRIORITIES.MULTIPROCESSING)
            dp = divided.write_tar(f"{tmp_path}/{{shard}}.tar", 1)
            apply_sharding(dp, 2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
            apply_sharding(dp, 2, worker, SHARDING_PRIORITIES.MULTIPROCESSING)
            list(dp)
    check_shards(tmp_path, 4)
    if points == 1:
        assert samples_of(f"{tmp_path}/5.tar") == SAMPLES[5:6]  # numbers are those of the samples, one in each


def test_workers_write_the_same_however_many_there_are(tmp_path: Path) -> None:
    seen = []
    for workers in (0, 2):
        folder = tmp_path / str(workers)
        dp = IterableWrapper(SAMPLES).sharding_filter().write_tar(f"{folder}/{{shard}}.tar", 2)
        service = MultiProcessingReadingService(workers, num_shards=3)
        with ps.DataLoader2(dp, reading_service=service) as loader:
            seen.append(sorted((os.path.basename(url), number) for url, number in loader))
        check_shards(folder, 3)
    assert seen[0] == seen[1]
    assert contents(tmp_path / "0") == contents(tmp_path / "2")
