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
BAD_ROWS: dict[str, Any] = {
    "no dict": 3,
    "a column less": {"id": 99},
    "a column more": {"id": 99, "text": "x", "more": 1},
    "another type": {"id": "99", "text": "x"},
    "a kind that no file holds": {"id": 99, "text": object()},
}
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
@pytest.mark.parametrize("bad", BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_that_cannot_be_written_are_left_out_and_counted(tmp_path: Path, kind: str, bad: Any) -> None:
    source = mixed(ids(range(600)), bad, range(1, 600, 97))
    for rows_per_file in (1, 250):
        dp = writing(source, tmp_path / str(rows_per_file), kind, rows_per_file, on_error="skip")
        files = list(islice(dp, 5))
        assert [rows for _, rows in files] == ([1] * 5 if rows_per_file == 1 else [250, 250, 100])
        assert all_rows(files) == ids(range(5 if rows_per_file == 1 else 600))
    stats = dp.stats()[WRITERS.get(kind, "write_numpy")]
    assert stats["skipped"] == len(stats["last_errors"]) == len(range(1, 600, 97))


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
@pytest.mark.parametrize("first", [False, True], ids=["later", "first"])
def test_what_a_format_does_not_hold_is_left_out_alone(
    tmp_path: Path, kind: str, bad: Any, message: str, first: bool
) -> None:
    if first and message in ("has the shape", "the column 'x' is"):
        pytest.skip("the first row tells what is right")
    good = [{"x": float(number)} for number in range(5)]
    source = [bad, *good] if first else [*good[:3], bad, *good[3:]]
    dp = writing(source, tmp_path, kind, 10, batched=False, on_error="skip")
    files = list(dp)
    assert all_rows(files) == good
    assert dp.stats()[WRITERS.get(kind, "write_numpy")]["skipped"] == 1
    with pytest.raises((TypeError, ValueError), match="column 'x'") as caught:
        list(writing([bad] if first else [*good, bad], tmp_path / "raising", kind, 10, batched=False))
    if first:
        assert message in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_per_file", [100, 600])
def test_an_error_says_which_item_it_was(tmp_path: Path, kind: str, rows_per_file: int) -> None:
    dp = writing([*ids(range(400)), {"id": "x", "text": "y"}, *ids(range(9))], tmp_path, kind, rows_per_file)
    with pytest.raises(ValueError, match="'id'") as caught:
        list(dp)
    notes = "\n".join(caught.value.__notes__)
    assert "item 400 of the stream, counted from 0, cannot be written" in notes
    assert "on {'id': 'x', 'text': 'y'}" in notes
    assert sorted(contents(tmp_path)) == [f"train-000{number}.{kind}" for number in range(400 // rows_per_file)]


def test_an_error_says_which_item_it_was_after_resuming(tmp_path: Path) -> None:
    source = [pa.RecordBatch.from_pylist(ids(range(start, start + 3))) for start in range(0, 12, 3)]
    make = partial(writing, [*source, {"id": torch.zeros(1)}], tmp_path, "parquet", 4)
    dp = make()
    next(iter(dp))
    resumed = make()
    resumed.load_state_dict(passed_on(dp))
    with pytest.raises(ValueError, match="no column 'text'") as caught:
        list(resumed)
    assert "item 4 of the stream" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("kind", ["parquet", "npz"])
@pytest.mark.parametrize("as_batches", [False, True], ids=["rows", "batches"])
def test_counts_and_files_are_the_same_wherever_it_is_resumed(tmp_path: Path, kind: str, as_batches: bool) -> None:
    good: list[Any] = ids(range(9))
    if as_batches:
        good = [pa.RecordBatch.from_pylist(good[start : start + 2]) for start in range(0, 9, 2)]
    source = mixed(good, {"id": 1}, range(0, len(good), 2))[1:]  # the first row says what is right
    name = WRITERS.get(kind, "write_numpy")
    for rows_per_file in (1, 3, 10):
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


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_leaves_the_earlier_files(tmp_path: Path, kind: str) -> None:
    program = f"""
        import resource, torch, penstock as ps
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))
        generator = torch.Generator().manual_seed(0)
        def batch(rows):
            return {{"id": torch.randint(2**62, (rows,), generator=generator), "text": ["x"] * rows}}
        source = ps.iter.IterableWrapper([batch(100), batch(19_900), batch(100)], deepcopy=False)
        write = source.{WRITERS.get(kind, "write_numpy")}
        dp = write({str(tmp_path)!r} + "/{{shard}}.{kind}", 100, mode="overwrite", batched=True, on_error="skip")
        iterator = iter(dp)
        print(next(iterator))
        dp.rows_per_file = 20_000
        try:
            next(iterator)
        except OSError as error:
            print(error, *error.__notes__)
    """
    (tmp_path / f"1.{kind}").write_bytes(b"earlier")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "File too large" in done.stdout, done.stderr
    assert f"while writing {tmp_path}/1.{kind}" in done.stdout
    assert sorted(contents(tmp_path)) == [f"0.{kind}", f"1.{kind}"]
    assert (tmp_path / f"1.{kind}").read_bytes() == b"earlier"


@pytest.fixture
def bucket(s3_server: S3Server) -> Path:
    """The folder behind the bucket `unsent`, which is empty."""
    return s3_server.empty_bucket("unsent")


@pytest.mark.parametrize("name", ["train-0001", "_train-index"])
@pytest.mark.parametrize("kind", KINDS)
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
