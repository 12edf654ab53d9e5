from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
import textwrap
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botocore.exceptions import BotoCoreError

import penstock as ps
from fault_proxy import Fault, FaultProxy
from penstock import MultiProcessingReadingService
from penstock.pipes.iter import IterableWrapper, TarWriter
from penstock.registry import SHARDING_PRIORITIES, apply_sharding
from penstock.testing import check_operator
from ranks import run_ranks
from resuming import assert_resumes_everywhere, passed_on
from s3 import S3Server, uploads_under_way

SAMPLES = [
    {"__key__": f"group/{number:03d}", "txt": f"Größe {number}", "cls": number, "bin": bytes([number]) * number}
    for number in range(7)
]
OPTIONS: dict[str, Any] = {"config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 5}}
"""Of a client that gives up soon."""


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


def test_samples_are_read_back_as_they_were(tmp_path: Path) -> None:
    urls = [f"{tmp_path}/train-000{number}.tar" for number in range(3)]
    assert written(tmp_path) == [(urls[0], 3), (urls[1], 3), (urls[2], 1)]
    assert samples_of(*urls) == SAMPLES
    assert sorted(contents(tmp_path)) == [*(os.path.basename(url) for url in urls), "train-index.json"]


def test_the_package_webdataset_reads_the_same(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    urls = [url for url, _ in written(tmp_path)]
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # it leaves files to be collected
        read = [*webdataset.WebDataset(urls, shardshuffle=False, empty_check=False).decode()]
        gc.collect()
    assert [{name: value for name, value in sample.items() if name in SAMPLES[0]} for sample in read] == SAMPLES


def test_the_index_tells_of_each_shard_what_is_in_it(tmp_path: Path) -> None:
    written(tmp_path)
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


def test_no_samples_are_no_shards_and_an_empty_index(tmp_path: Path) -> None:
    assert written(tmp_path, []) == []
    assert {name: json.loads(content) for name, content in contents(tmp_path).items()} == {
        "train-index.json": {"shards": []}
    }


VALUES: list[tuple[str, Any]] = [
    ("raw", b"\xff\x00"),
    ("empty", b""),
    ("seg.png.bin", b"two dots"),
    ("txt", "zwölf\n"),
    ("cls", -3),
    ("json", {"b": [1, 2.5, None, True], "a": {"ü": "ü"}}),
    ("json", [1, "x"]),
    ("json", 1.5),
    ("json", False),
    ("npy", np.arange(6, dtype=np.int16).reshape(2, 3)),
    ("npy", np.asfortranarray(np.ones((2, 3), np.float32))),
    ("npy", np.array(1.5)),
    ("pt", torch.arange(4, dtype=torch.bfloat16)),
    ("pth", {"x": torch.ones(2, 0), "n": [1, (2, "three")]}),
]


@pytest.mark.parametrize(("name", "value"), VALUES)
@pytest.mark.parametrize("dot", ["", "."])
def test_a_value_is_read_back_by_the_extension(tmp_path: Path, name: str, value: Any, dot: str) -> None:
    [(url, _)] = written(tmp_path, [{"__key__": "a", f"{dot}{name}": value}])
    [sample] = samples_of(url)
    assert sample.keys() == {"__key__", name}
    assert type(sample[name]) is type(value)
    assert repr(sample[name]) == repr(value)
    if isinstance(value, (np.ndarray, torch.Tensor)):
        assert sample[name].dtype == value.dtype


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("bin", bytearray(b"ab"), b"ab"),
        ("bin", memoryview(b"abcd")[::2], b"ac"),
        ("bin", io.BytesIO(b"ab"), b"ab"),
        ("cls", np.int64(5), 5),
        ("json", {"score": np.float32(0.5), "ids": [np.int8(1)]}, {"score": 0.5, "ids": [1]}),
        ("txt", "raw", "raw"),
        ("json", '{"already": "text"}', {"already": "text"}),
    ],
)
def test_what_stands_for_a_value_is_written_as_that(tmp_path: Path, name: str, value: Any, expected: Any) -> None:
    [(url, _)] = written(tmp_path, [{"__key__": "a", name: value}])
    assert samples_of(url) == [{"__key__": "a", name: expected}]


def test_a_tensor_is_written_without_what_it_is_a_part_of(tmp_path: Path) -> None:
    part = torch.zeros(1_000_000, requires_grad=True)[:2]
    [(url, _)] = written(tmp_path, [{"__key__": "a", "pt": {"part": part}}])
    assert os.path.getsize(url) < 20_000
    assert not samples_of(url)[0]["pt"]["part"].requires_grad


def test_entries_that_begin_with_two_underscores_are_left_out(tmp_path: Path) -> None:
    [(url, _)] = written(tmp_path, [{"__key__": "a", "__url__": "t.tar", "txt": "x", "__n__": object()}])
    assert samples_of(url) == [{"__key__": "a", "txt": "x"}]


@pytest.mark.parametrize("key", ["a", "v1.0/a", "ein Schlüssel %20/ä b", "x" * 300, "1/" * 90 + "x", "a\nb", "~a", "+"])
def test_keys_of_all_kinds_are_read_back(tmp_path: Path, key: str) -> None:
    [(url, _)] = written(tmp_path, [{"__key__": key, "txt": "x"}])
    assert samples_of(url) == [{"__key__": key, "txt": "x"}]


@pytest.mark.parametrize(
    "key", ["", "a.b", "/a", "x/../a", "./a", "a//b", "a\\b", "C:/a", "x/", "a\0b", "s3://b/t.tar/a"]
)
def test_a_key_that_would_be_read_as_another_is_an_error(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match=r"would be read as another file's(.|\n)*while writing 'txt' of the sample"):
        written(tmp_path, [{"__key__": key, "txt": "x"}])


@pytest.mark.parametrize("name", ["", ".", "a/b", "a\\b", "x\0"])
def test_a_name_that_would_be_read_as_another_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="would be read as another file's"):
        written(tmp_path, [{"__key__": "a", name: "x"}])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("png", object(), "a object cannot be written under the extension 'png'"),
        ("cls", None, "a NoneType cannot be written under the extension 'cls'"),
        ("cls", torch.tensor(1), "a Tensor cannot be written under the extension 'cls': tensors go under pt"),
        ("npy", torch.ones(2), "a Tensor cannot be written under the extension 'npy'"),
        ("npy", [1], "a list cannot be written under the extension 'npy'"),
        ("jpg", np.zeros(3), "a ndarray cannot be written under the extension 'jpg'"),
        ("json", {"x": torch.ones(2)}, "JSON has no Tensor"),
        ("json", (1, 2), "a tuple cannot be written"),
        ("pt", {"x": np.ones(2)}, "torch.load would refuse a ndarray"),
        ("txt", io.StringIO("x"), "the stream is open as text"),
    ],
)
def test_a_value_of_another_kind_is_an_error_that_names_key_and_entry(
    tmp_path: Path, name: str, value: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=f"{message}(.|\n)*while writing '{name}' of the sample 'b/c'"):
        written(tmp_path, [{"__key__": "a", "txt": "x"}, {"__key__": "b/c", name: value}])
    assert contents(tmp_path) == {}


def test_arrays_of_objects_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        written(tmp_path, [{"__key__": "a", "npy": np.array([{}])}])


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ([3], TypeError, 'a sample must be a dict with its name, a string, at "__key__"'),
        ([{"txt": "x"}], TypeError, 'at "__key__"'),
        ([{"__key__": 3, "txt": "x"}], TypeError, 'at "__key__"'),
        ([{"__key__": "a", "__url__": "x"}], ValueError, "the sample 'a' has no files"),
        ([{"__key__": "a", "txt": "x", ".txt": "y"}], ValueError, "the sample has this twice"),
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
    samples = IterableWrapper(urls).open_files_by_fsspec("rb").load_from_tar().webdataset()
    with pytest.raises(ValueError, match=r"\.map\(lambda key: key\.rpartition"):
        list(samples.write_tar(f"{tmp_path}/small/{{shard}}.tar", 2))
    cut = samples.map(lambda key: key.rpartition(".tar/")[2], "__key__")
    small = [url for url, _ in cut.write_tar(f"{tmp_path}/small/{{shard}}.tar", 2)]
    assert samples_of(*small) == SAMPLES
    assert len(small) == 4


@pytest.mark.parametrize(
    "template",
    [
        *(
            "",
            "a.tar",
            "a-%06d.tar",
            "{shard}",
            "{shard}.tar.gz",
            "{}.tar",
            "{0}.tar",
            "{part}-{shard}.tar",
            "{shard.tar",
        ),
        *("{shard.real}.tar", "{shard}{shard}.tar", "{shard!r}.tar", "{shard:.0s}.tar", "{shard:{width}}.tar"),
        "{shard:06q}.tar",
    ],
)
def test_a_template_that_does_not_number_tar_files_is_an_error(template: str) -> None:
    with pytest.raises(ValueError, match="url_template must have the number of a shard once, as in"):
        IterableWrapper([]).write_tar(template, 1)


def test_wrong_arguments_raise_at_construction() -> None:
    with pytest.raises(TypeError, match="a path must be a string"):
        IterableWrapper([]).write_tar(3, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="samples_per_shard"):
        IterableWrapper([]).write_tar("{shard}.tar", 0)
    with pytest.raises(ValueError, match="on_error cannot be a Retry"):
        IterableWrapper([]).write_tar("{shard}.tar", 1, on_error=ps.Retry(2))


def test_paths_and_doubled_braces_are_taken(tmp_path: Path) -> None:
    [(url, _)] = IterableWrapper(SAMPLES).write_tar(tmp_path / "{{x}}-{shard:>3}.tar", 7)
    assert url == f"{tmp_path}/{{x}}-  0.tar"
    assert sorted(contents(tmp_path)) == ["{x}-  0.tar", "{x}-index.json"]


def test_options_which_may_be_secret_are_not_shown() -> None:
    dp = IterableWrapper([3]).write_tar("memory://none/{shard}.tar", 1, storage_options={"token": "hush"})
    with pytest.raises(TypeError) as caught:
        list(dp)
    assert "hush" not in repr(dp) + "".join(caught.value.__notes__)


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
        assert len(IterableWrapper(SAMPLES[:number]).write_tar(f"{tmp_path}/{{shard}}.tar", 3)) == shards


def failing_at(number: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def check(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["cls"] == number:
            raise RuntimeError("no more")
        return sample

    return check


def test_a_shard_that_fails_leaves_the_earlier_one_and_nothing_else(tmp_path: Path) -> None:
    written(tmp_path, SAMPLES[::-1])
    before = contents(tmp_path)
    dp = (
        IterableWrapper(SAMPLES)
        .map(failing_at(5))
        .write_tar(f"{tmp_path}/train-{{shard:04d}}.tar", 3, mode="overwrite")
    )
    iterator = iter(dp)
    assert next(iterator) == (f"{tmp_path}/train-0000.tar", 3)
    with pytest.raises(RuntimeError, match="no more(.|\n)*while writing .*train-0001.tar"):
        next(iterator)
    after = contents(tmp_path)
    assert after.keys() == before.keys()
    assert [name for name in before if after[name] != before[name]] == ["train-0000.tar"]


def test_all_shards_have_the_same_bytes_when_they_are_written_again_by_another_process(tmp_path: Path) -> None:
    samples = [{"__key__": "a", "npy": np.arange(3), "pt": {"x": torch.ones(3)}, "json": {"b": 1, "a": 2}}, *SAMPLES]
    written(tmp_path / "one", samples)
    (tmp_path / "samples").write_bytes(pickle.dumps(samples))
    program = f"""
        import pickle, penstock as ps
        with open({str(tmp_path / "samples")!r}, "rb") as file:
            samples = pickle.load(file)
        list(ps.iter.IterableWrapper(samples).write_tar({str(tmp_path / "two")!r} + "/train-{{shard:04d}}.tar", 3))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    with tarfile.open(tmp_path / "one" / "train-0000.tar") as tar:
        headers = {(file.mtime, file.uid, file.gid, file.uname, file.gname, file.mode) for file in tar}
    assert headers == {(0, 0, 0, "", "", 0o644)}


def test_writing_resumes_after_each_shard_and_writes_no_finished_one_again(tmp_path: Path) -> None:
    written(tmp_path / "whole", each=2)

    def chain(folder: Path, fail: int | None = None) -> TarWriter:
        return (
            IterableWrapper(SAMPLES)
            .map(failing_at(-1 if fail is None else fail))
            .write_tar(f"{folder}/train-{{shard:04d}}.tar", 2)
        )

    for finished in range(5):
        folder = tmp_path / str(finished)
        dp = chain(folder, fail=2 * finished + 1)  # in the middle of the next shard
        iterator = iter(dp)
        list(islice(iterator, finished))
        state = passed_on(dp)
        if finished < 3:
            with pytest.raises(RuntimeError, match="no more"):
                next(iterator)
        shards = sorted(contents(folder)) if folder.exists() else []
        assert shards == [f"train-000{number}.tar" for number in range(finished)]
        for name in shards:
            (folder / name).write_bytes(b"as it was")
        resumed = chain(folder)
        resumed.load_state_dict(state)
        assert len(list(resumed)) == 4 - finished
        expected = contents(tmp_path / "whole")
        assert contents(folder) == expected | dict.fromkeys(shards, b"as it was")


def test_states_hold_everywhere_and_after_copies(tmp_path: Path) -> None:
    def make() -> Any:
        return IterableWrapper(SAMPLES).write_tar(f"{tmp_path}/{{shard}}.tar", 2, mode="overwrite")

    assert_resumes_everywhere(make)
    check_operator(make)
    assert list(pickle.loads(pickle.dumps(make()))) == list(make())


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


def test_the_parts_of_all_levels_write_shards_of_their_own(tmp_path: Path) -> None:
    for rank in range(2):
        for worker in range(2):
            dp = IterableWrapper(SAMPLES).sharding_filter().write_tar(f"{tmp_path}/{{shard}}.tar", 1)
            apply_sharding(dp, 2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
            apply_sharding(dp, 2, worker, SHARDING_PRIORITIES.MULTIPROCESSING)
            list(dp)
    check_shards(tmp_path, 4)
    assert samples_of(f"{tmp_path}/5.tar") == SAMPLES[5:6]  # numbers are those of the samples, one in each


def test_parts_of_two_sharding_points_on_one_path_are_told_apart(tmp_path: Path) -> None:
    for rank in range(2):
        for worker in range(2):
            by_rank = IterableWrapper(SAMPLES).sharding_filter(SHARDING_PRIORITIES.DISTRIBUTED)
            dp = by_rank.sharding_filter(SHARDING_PRIORITIES.MULTIPROCESSING).write_tar(f"{tmp_path}/{{shard}}.tar", 1)
            apply_sharding(dp, 2, rank, SHARDING_PRIORITIES.DISTRIBUTED)
            apply_sharding(dp, 2, worker, SHARDING_PRIORITIES.MULTIPROCESSING)
            list(dp)
    check_shards(tmp_path, 4)


def test_one_part_of_one_has_the_plain_names(tmp_path: Path) -> None:
    dp = IterableWrapper(SAMPLES).sharding_filter().write_tar(f"{tmp_path}/train-{{shard:04d}}.tar", 3)
    apply_sharding(dp, 1, 0)
    list(dp)
    written(tmp_path / "plain")
    assert contents(tmp_path / "plain").keys() == {path.name for path in tmp_path.iterdir() if path.is_file()}


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


def test_torchs_own_loader_writes_with_workers(tmp_path: Path) -> None:
    dp = IterableWrapper(SAMPLES).sharding_filter().write_tar(f"{tmp_path}/{{shard}}.tar", 2)
    loader = torch.utils.data.DataLoader(
        dp, num_workers=2, batch_size=None, multiprocessing_context="spawn", timeout=60
    )
    assert sum(number for _, number in loader) == len(SAMPLES)
    check_shards(tmp_path, 2)


def test_ranks_write_shards_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    run_ranks(
        tmp_path,
        f"""
        from penstock.registry import apply_sharding
        samples = [
            {{"__key__": f"group/{{n:03d}}", "txt": f"Größe {{n}}", "cls": n, "bin": bytes([n]) * n}} for n in range(7)
        ]
        dp = ps.iter.IterableWrapper(samples).sharding_filter().write_tar({str(folder)!r} + "/{{shard}}.tar", 2)
        apply_sharding(dp, ranks, rank)
        list(dp)
        """,
    )
    check_shards(folder, 2)


def test_a_loader_resumes_in_the_middle_and_all_is_there_once(tmp_path: Path) -> None:
    def make() -> Any:
        dp = IterableWrapper(SAMPLES).sharding_filter().write_tar(f"{tmp_path}/{{shard}}.tar", 1)
        return ps.DataLoader2(dp, reading_service=MultiProcessingReadingService(2, num_shards=2))

    with make() as loader:
        first = list(islice(loader, 3))
        state = json.loads(json.dumps(loader.state_dict()))
    with make() as loader:
        loader.load_state_dict(state)
        rest = list(loader)
    assert sorted(int(os.path.basename(url).removesuffix(".tar")) for url, _ in first + rest) == [*range(7)]
    check_shards(tmp_path, 2)


def test_a_stream_whose_parts_are_not_known_is_refused() -> None:
    class OwnFilter(ps.IterDataPipe[Any]):
        def __init__(self, source: Any) -> None:
            self.source = source

        def apply_sharding(self, num_of_instances: int, instance_id: int) -> None:
            pass

        def __iter__(self) -> Iterator[Any]:
            yield from self.source

    source = IterableWrapper(SAMPLES)
    for divided in (OwnFilter(source), source.sharding_round_robin_dispatch(SHARDING_PRIORITIES.MULTIPROCESSING)):
        with pytest.raises(ValueError, match="the parts would overwrite each other's shards: divide the stream by"):
            divided.map(lambda x: x).write_tar("{shard}.tar", 1)


# Object stores


@pytest.fixture
def bucket(s3_server: S3Server) -> Path:
    """The folder behind the bucket `shards`, which is empty."""
    return s3_server.empty_bucket("shards")


def large_samples(number: int, size: int = 5_000_000) -> Iterator[dict[str, Any]]:
    for place in range(number):
        yield {"__key__": f"{place:03d}", "cls": place, "bin": bytes([place]) * size}


def test_shards_are_written_to_s3_and_read_back(bucket: Path) -> None:
    shards = written("s3://shards")
    assert shards[0] == ("s3://shards/train-0000.tar", 3)
    assert samples_of(*(url for url, _ in shards)) == SAMPLES
    index = json.loads((bucket / "train-index.json").read_bytes())
    assert [shard["samples"] for shard in index["shards"]] == [3, 3, 1]


def test_large_shards_go_in_parts_and_are_the_same_as_local_ones(
    bucket: Path, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    local, remote = (written(folder, large_samples(9), 9) for folder in (tmp_path, "s3://shards"))
    assert len(local) == len(remote) == 1
    assert contents(bucket) == contents(tmp_path)
    parts = [
        request for request in fault_proxy.requests() if request.startswith("PUT /shards/train-0000.tar?partNumber=")
    ]
    assert len(parts) == 3
    assert uploads_under_way("shards") == []


@pytest.mark.usefixtures("bucket")
def test_what_is_in_memory_does_not_grow_with_the_shard() -> None:
    written("s3://shards", large_samples(1), 1)  # the first makes a client, which takes memory of its own
    peaks = []
    for samples in (40, 120):  # the smaller has many more parts than are held at a time, too
        tracemalloc.start()
        written("s3://shards", large_samples(samples), samples)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 100_000_000
    assert peaks[1] < peaks[0] * 1.2


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", "PUT /shards/train-0001.tar?partNumber=2", status=500, code="InternalError"),
        Fault("reset", "PUT /shards/train-0001.tar?partNumber=1", at=None),
        Fault("status", "POST /shards/train-0001.tar?uploadId=", status=503, code="SlowDown"),
        Fault("status", "POST /shards/train-0001.tar?uploads", status=403, code="AccessDenied"),
    ],
    ids=["a part", "a connection", "the completion", "the beginning"],
)
def test_an_upload_that_fails_leaves_the_earlier_shard_and_is_aborted(
    bucket: Path, fault_proxy: FaultProxy, fault: Fault
) -> None:
    (bucket / "train-0001.tar").write_bytes(b"earlier")
    fault_proxy.play(fault)
    dp = IterableWrapper([*large_samples(8)]).write_tar(
        "s3://shards/train-{shard:04d}.tar", 4, mode="overwrite", storage_options=OPTIONS
    )
    iterator = iter(dp)
    assert next(iterator)[1] == 4
    state = passed_on(dp)
    with pytest.raises((OSError, BotoCoreError), match=r"while writing s3://shards/train-0001\.tar") as caught:
        next(iterator)
    assert fault_proxy.played()[fault.kind] > 0
    del caught, iterator
    assert contents(bucket).keys() == {"train-0000.tar", "train-0001.tar"}
    assert (bucket / "train-0001.tar").read_bytes() == b"earlier"
    assert uploads_under_way("shards") == []
    fault_proxy.play()
    dp.load_state_dict(state)
    assert list(dp) == [("s3://shards/train-0001.tar", 4)]
    assert samples_of("s3://shards/train-0001.tar") == [*large_samples(8)][4:]
    assert len(json.loads((bucket / "train-index.json").read_bytes())["shards"]) == 2


def test_a_source_that_fails_takes_the_upload_back(bucket: Path, fault_proxy: FaultProxy) -> None:
    dp = IterableWrapper([*large_samples(8)]).map(failing_at(7)).write_tar("s3://shards/{shard}.tar", 8)
    with pytest.raises(RuntimeError, match="no more"):
        list(dp)
    assert "PUT /shards/0.tar?partNumber=1" in "".join(fault_proxy.requests())
    assert contents(bucket) == {}
    assert uploads_under_way("shards") == []


def test_faults_that_pass_are_survived(bucket: Path, fault_proxy: FaultProxy, tmp_path: Path) -> None:
    fault_proxy.play(Fault("status", "PUT ", times=2), Fault("reset", "POST ", times=1, at=None))
    written("s3://shards", large_samples(4), 4)
    assert fault_proxy.played() == {"status": 6, "reset": 2}
    written(tmp_path, large_samples(4), 4)
    assert contents(bucket) == contents(tmp_path)


def test_a_process_that_is_killed_leaves_nothing_to_be_seen(bucket: Path) -> None:
    program = """
        import itertools, penstock as ps
        def samples():
            for number in itertools.count():
                print(number, flush=True)
                yield {"__key__": str(number), "bin": bytes(5_000_000)}
        list(ps.iter.IterableWrapper(samples(), deepcopy=False).write_tar("s3://shards/{shard}.tar", 1000))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if int(line) >= 8:  # two parts were sent
                    break
        finally:
            process.kill()
            process.wait(20)
    unseen = ".rclone_temp_multipart"  # where the server keeps the parts
    assert [name for name in contents(bucket) if not name.startswith(unseen)] == []


@pytest.mark.usefixtures("s3_server")
def test_a_missing_bucket_is_an_error_that_names_the_shard() -> None:
    with pytest.raises(FileNotFoundError, match=r"while writing s3://nobucket/train-0000\.tar"):
        written("s3://nobucket")
