"""Data sets whose files stay in a store: `check_dataset` reads them in processes of its own."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import get_worker_info

import penstock as ps
from penstock.datasets import Dataset, check_dataset
from s3 import S3Server

pytestmark = pytest.mark.timeout(60)

SAMPLES = [*range(12)]


@pytest.fixture
def lake(s3_server: S3Server) -> Path:
    """A bucket with the numbers in four Parquet files, four files of lines, and a tar."""
    folder = s3_server.root / "laws"
    folder.mkdir(exist_ok=True)
    for file in range(4):
        rows = SAMPLES[file * 3 : file * 3 + 3]
        pq.write_table(pa.table({"x": rows}), folder / f"{file}.parquet")
        (folder / f"{file}.txt").write_text("".join(f"{row}\n" for row in rows))
    with tarfile.open(folder / "all.tar", "w") as archive:
        for row in SAMPLES:
            member = tarfile.TarInfo(f"{row:02}.cls")
            member.size = 2
            archive.addfile(member, io.BytesIO(b"%02d" % row))
    return folder


def _of_row(row: dict[str, int]) -> int:
    return row["x"]


def _of_member(member: tuple[str, Any]) -> int:
    return int(member[1].read())


def parquet() -> Any:
    return ps.read_parquet("s3://laws", filter="x >= 0").rows().map(_of_row)


def lines() -> Any:
    files = ps.iter.FSSpecFileLister("s3://laws", masks="*.txt").shuffle().sharding_filter()
    return files.open_files_by_fsspec().readlines(return_path=False).map(int)


def members() -> Any:
    tar = ps.iter.IterableWrapper(["s3://laws/all.tar"]).open_files_by_fsspec(mode="rb")
    return tar.load_from_tar().map(_of_member).shuffle().sharding_filter()


def listed_by_s3() -> Any:
    files = ps.iter.IterableWrapper(["s3://laws/"]).list_files_by_s3(masks="*.txt").shuffle().sharding_filter()
    return files.load_files_by_s3().readlines(return_path=False).map(int)


def streamed(chain: Any, **arguments: Any) -> Any:
    pipe: Any = lambda resources, split: chain()  # noqa: E731
    return Dataset("streamed", pipe, splits={"all": 12}, title="Streamed", register=False)(**arguments)


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("chain", [parquet, lines, members, listed_by_s3])
def test_a_set_in_s3_holds_its_laws_where_this_process_has_read_from_it(chain: Any) -> None:
    assert sorted(streamed(chain)) == SAMPLES
    check_dataset(lambda **arguments: streamed(chain, **arguments))


def _lost_in_torchs_workers(number: int) -> int:
    return number if get_worker_info() is None else 0


def test_samples_that_differ_in_torchs_workers_are_found() -> None:
    def chain() -> Any:
        return ps.iter.IterableWrapper(SAMPLES).shuffle().sharding_filter().map(_lost_in_torchs_workers)

    with pytest.raises(
        AssertionError, match="breaks the law 'two_workers_read_it'.*\n.*\n.*\ntorch's DataLoader differs"
    ):
        check_dataset(lambda **arguments: streamed(chain, **arguments), laws=["two_workers_read_it"])
