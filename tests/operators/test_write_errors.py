from __future__ import annotations

import subprocess
import sys
import textwrap
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from botocore.exceptions import BotoCoreError
from test_write_columns import KINDS, WRITERS, contents, ids, rows_of, writing

from fault_proxy import Fault, FaultProxy
from resuming import assert_resumes_everywhere, passed_on
from s3 import S3Server

OPTIONS: dict[str, Any] = {"config_kwargs": {"retries": {"max_attempts": 0}, "read_timeout": 5}}
"""Of a client that gives up soon."""
BAD_ROWS: list[Any] = [
    3,
    {"id": 99},
    {"id": 99, "text": "x", "more": 1},
    {"id": "99", "text": "x"},
    {"id": 99, "text": object()},
]
"""Items among `ids`."""

UNFIT: list[tuple[str, Any, str]] = [
    ("csv", {"x": [1]}, "a field of CSV holds"),
    ("json", {"x": b"a"}, "JSON holds"),
    ("json", {"x": float("nan")}, "a float that is infinite or not a number in row"),
    ("csv", {"x": None}, "has null in row"),
    ("npz", {"x": b"a"}, "has bytes"),
    ("npz", {"x": None}, "could only pickle"),
    ("npz", {"x": np.zeros(2)}, "has the shape"),
    ("parquet", {"x": {}}, "Parquet has no place for it"),
    ("parquet", {"x": torch.zeros(0)}, "the column 'x' is"),
]


def mixed(good: list[Any], bad: Any, places: range) -> list[Any]:
    """Items with a bad one before those of some places."""
    return [item for place, one in enumerate(good) for item in ([bad, one] if place in places else [one])]


def all_rows(files: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [row for url, _ in files for row in rows_of(url)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_cannot_be_written_are_left_out_and_counted(tmp_path: Path, kind: str) -> None:
    source: list[Any] = ids(range(600))
    for place, bad in zip((581, 550, 300, 99, 1), BAD_ROWS, strict=True):
        source.insert(place, bad)
    for rows_per_file, expected in ((1, [1] * 5), (250, [250, 250, 100])):
        dp = writing(source, tmp_path / str(rows_per_file), kind, rows_per_file, on_error="skip")
        files = list(islice(dp, 5))
        assert [rows for _, rows in files] == expected
        assert all_rows(files) == ids(range(sum(expected)))
    stats = dp.stats()[WRITERS.get(kind, "write_numpy")]
    assert stats["skipped"] == len(stats["last_errors"]) == len(BAD_ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_that_cannot_be_written_are_left_out_whole(tmp_path: Path, kind: str) -> None:
    batches = [pa.RecordBatch.from_pylist(ids(range(start, start + 4))) for start in range(0, 12, 4)]
    bad = [
        {"id": torch.arange(2), "text": ["x"]},
        {"id": torch.arange(2)},
        {"id": torch.zeros(2), "text": ["x", "y"]},
        {"id": torch.arange(2, dtype=torch.bfloat16), "text": ["x", "y"]},
        None,
    ]
    source = [3, batches[0], *bad[:2], batches[1], *bad[2:], batches[2]]
    dp = writing(source, tmp_path, kind, 5, on_error="skip")
    files = list(dp)
    assert [rows for _, rows in files] == [5, 5, 2]
    assert all_rows(files) == ids(range(12))
    assert dp.stats()[WRITERS.get(kind, "write_numpy")]["skipped"] == 6


@pytest.mark.parametrize(("kind", "bad", "message"), UNFIT)
def test_what_a_format_does_not_hold_is_left_out_alone(tmp_path: Path, kind: str, bad: Any, message: str) -> None:
    good = [{"x": float(number)} for number in range(5)]
    sources = [[*good[:3], bad, *good[3:]]]
    if message not in ("has the shape", "the column 'x' is"):  # of which the first row tells what is right
        sources.append([bad, *good])
        with pytest.raises((TypeError, ValueError), match=f"column 'x'.*{message}"):
            list(writing([bad], tmp_path, kind, 10, batched=False))
    for source in sources:
        dp = writing(source, tmp_path, kind, 10, batched=False, on_error="skip")
        assert all_rows(list(dp)) == good
        assert dp.stats()[WRITERS.get(kind, "write_numpy")]["skipped"] == 1
    with pytest.raises((TypeError, ValueError), match="column 'x'"):
        list(writing([*good, bad], tmp_path, kind, 10, batched=False))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_per_file", [100, 600])
def test_an_error_says_which_item_it_was(tmp_path: Path, kind: str, rows_per_file: int) -> None:
    source = [*ids(range(400)), {"id": "x", "text": "y"}, *ids(range(9))]
    dp = writing(source, tmp_path, kind, rows_per_file)
    iterator = iter(dp)
    if rows_per_file == 100:
        next(iterator)
    resumed = writing(source, tmp_path, kind, rows_per_file)
    resumed.load_state_dict(passed_on(dp))
    for going_on in (iterator, resumed):
        with pytest.raises(ValueError, match="'id'") as caught:
            list(going_on)
        notes = "\n".join(caught.value.__notes__)
        assert "item 400 of the stream, counted from 0, cannot be written" in notes
        assert "on {'id': 'x', 'text': 'y'}" in notes
    assert sorted(contents(tmp_path)) == [f"train-000{number}.{kind}" for number in range(400 // rows_per_file)]


@pytest.mark.parametrize(("kind", "as_batches"), [("parquet", True), ("npz", False)], ids=["batches", "rows"])
def test_counts_and_files_are_the_same_wherever_it_is_resumed(tmp_path: Path, kind: str, as_batches: bool) -> None:
    good: list[Any] = ids(range(9))
    if as_batches:
        good = [pa.RecordBatch.from_pylist(good[start : start + 2]) for start in range(0, 9, 2)]
    source = mixed(good, {"id": 1}, range(0, len(good), 2))[1:]  # the first row says what is right
    name = WRITERS.get(kind, "write_numpy")
    for rows_per_file in (3, 10):
        make = partial(writing, source, tmp_path, kind, rows_per_file, on_error="skip")
        assert_resumes_everywhere(make, passes=2)
        whole = make()
        expected = list(whole)
        assert all_rows(expected) == ids(range(9))
        for finished in range(len(expected)):
            dp = make()
            list(islice(iter(dp), finished))
            resumed = make()
            resumed.load_state_dict(passed_on(dp))
            list(resumed)
            assert resumed.stats()[name]["skipped"] == whole.stats()[name]["skipped"] > 0


# Destinations that take no more


def test_a_full_disk_leaves_the_earlier_files(tmp_path: Path) -> None:
    methods = {kind: WRITERS.get(kind, "write_numpy") for kind in KINDS}
    program = f"""
        import resource, torch, penstock as ps
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))
        generator = torch.Generator().manual_seed(0)
        def batch(rows):
            return {{"id": torch.randint(2**62, (rows,), generator=generator), "text": ["x"] * rows}}
        for kind, method in {methods}.items():
            source = ps.iter.IterableWrapper([batch(100), batch(19_900), batch(100)], deepcopy=False)
            template = {str(tmp_path)!r} + f"/{{kind}}/{{{{shard}}}}.{{kind}}"
            dp = getattr(source, method)(template, 100, mode="overwrite", batched=True, on_error="skip")
            iterator = iter(dp)
            print(next(iterator))
            dp.rows_per_file = 20_000
            try:
                next(iterator)
            except OSError as error:
                print(error, *error.__notes__)
    """
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"1.{kind}").write_bytes(b"earlier")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.count("File too large") >= len(KINDS), done.stderr
    for kind in KINDS:
        folder = tmp_path / kind
        assert f"while writing {folder}/1.{kind}" in done.stdout
        assert sorted(contents(folder)) == [f"0.{kind}", f"1.{kind}"]
        assert (folder / f"1.{kind}").read_bytes() == b"earlier"


@pytest.fixture
def bucket(s3_server: S3Server) -> Path:
    """The folder behind the bucket `unsent`, which is empty."""
    return s3_server.empty_bucket("unsent")


@pytest.mark.parametrize(("kind", "name"), [*((kind, "train-0001") for kind in KINDS), ("parquet", ".train-index")])
def test_a_refused_upload_is_not_skipped(bucket: Path, fault_proxy: FaultProxy, kind: str, name: str) -> None:
    suffix = "json" if "index" in name else kind
    fault_proxy.play(Fault("status", f"PUT /unsent/{name}.{suffix}", status=403, code="AccessDenied"))
    dp = writing(ids(range(6)), "s3://unsent", kind, 3, on_error="skip", storage_options=OPTIONS)
    seen: list[Any] = []
    with pytest.raises((OSError, BotoCoreError), match=f"while writing s3://unsent/{name}.{suffix}"):
        seen.extend(dp)
    assert fault_proxy.played()["status"] > 0
    assert f"{name}.{suffix}" not in contents(bucket)
    assert rows_of(bucket / f"train-0000.{kind}") == ids(range(3))
