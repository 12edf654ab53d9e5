"""Writers refuse to write where their chain reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import MultiProcessingReadingService
from penstock.pipes.iter import FileLister, FSSpecFileLister, IterableWrapper
from s3 import S3Server

REFUSED = "write_parquet writes to the folder that {} reads, .*: write to another folder"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with 100 rows in 5 files."""
    rows = ps.from_items([{"id": number} for number in range(100)])
    rows.write_parquet(tmp_path / "F", rows_per_file=20).run()
    return tmp_path / "F"


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(("mode", "workers"), [("error", 0), ("overwrite", 0), ("append", 0), ("overwrite", 2)])
def test_the_folder_that_is_read_stays_as_it_is(folder: Path, mode: Any, workers: int) -> None:
    before = content(folder)
    dp = ps.read_parquet(folder).to_tensors().shuffle_rows(50).write_parquet(folder, rows_per_file=7, mode=mode)
    service = MultiProcessingReadingService(workers)
    refused = pytest.raises(ValueError, match=REFUSED.format("list_table_files"))
    with ps.DataLoader2(dp, reading_service=service) as loader, refused:
        next(iter(loader))
    assert content(folder) == before


def linked(place: str) -> str:
    os.symlink(place, f"{place}-link")
    return f"{place}-link"


READ = {
    "file://": lambda place: ps.read_parquet(f"file://{place}/"),
    "relative": lambda place: ps.read_parquet(os.path.relpath(place)),
    "a link": lambda place: ps.read_parquet(linked(place)),
    "row groups": lambda place: ps.read_parquet(place, shuffle_row_groups=True),
    "a list": lambda place: ps.read_parquet(["elsewhere", place]),
    "a pattern": lambda place: ps.read_parquet(f"{place}/part-*.parquet"),
    "a pattern of folders": lambda place: ps.read_parquet(f"{os.path.dirname(place)}/*/*.parquet"),
    "any depth": lambda place: ps.read_parquet(f"{os.path.dirname(place)}/**/*.parquet"),
    "the folder above": lambda place: ps.read_parquet(os.path.dirname(place)),
    "a folder below": lambda place: ps.read_parquet(f"{place}/year=2024"),
    "a file": lambda place: ps.read_parquet(f"{place}/part-00003.parquet"),
    "list_files": lambda place: FileLister(place).read_parquet(),
    "list_files below": lambda place: FileLister(os.path.dirname(place), recursive=True).read_parquet(),
    "list_files_by_fsspec": lambda place: FSSpecFileLister(f"file://{place}", "*.parquet").read_parquet(),
    "roots in a pipe": lambda place: IterableWrapper([place]).list_table_files("parquet").read_parquet(),
    "one of two branches": lambda place: ps.read_parquet("elsewhere").concat(ps.read_parquet(place)),
}


@pytest.mark.parametrize("read", READ)
def test_however_the_folder_is_spelt(folder: Path, read: str) -> None:
    before = content(folder)
    dp = READ[read](str(folder))
    for spelt in ("{}", "local://{}/", "{}/part-{{shard:05d}}.parquet"):
        with pytest.raises(ValueError, match=REFUSED.format("list_(table_)?files(_by_fsspec)?")):
            dp.write_parquet(spelt.format(folder), mode="overwrite").run()
    assert content(folder) == before


def test_paths_in_a_list_count_too(folder: Path) -> None:
    paths = sorted(map(str, folder.glob("*.parquet")))
    for dp in (IterableWrapper(paths).read_parquet(), IterableWrapper(paths).sharding_filter().read_parquet()):
        with pytest.raises(ValueError, match=REFUSED.format("IterableWrapper")):
            dp.write_parquet(folder, mode="overwrite").run()


def test_other_files_may_be_there(folder: Path) -> None:
    above = folder.parent
    (above / "a.csv").write_text("id\n1\n")
    pq.write_table(pa.table({"id": [1]}), above / "raw-1.parquet")
    pq.write_table(pa.table({"id": [1]}), above / "RAW.PARQUET")
    text = IterableWrapper(["", ".", "/", str(above)]).map(lambda text: {"text": text})
    others = [
        ps.read_csv(above).write_parquet(above / "csv"),
        ps.read_csv(above).write_parquet(above / "here"),
        ps.read_parquet(f"{above}/*.parquet").write_parquet(above / "below"),
        ps.read_parquet(f"{above}/raw-*.parquet").write_parquet(above / "clean-{shard}.parquet"),
        ps.read_parquet(above / "RAW.PARQUET").write_parquet(above / "clear-{shard}.parquet"),
        FileLister(above, "*.parquet").read_parquet().write_parquet(above / "listed"),
        ps.read_parquet(folder).write_parquet(above / "F2"),
        text.write_parquet(above / "text"),
    ]
    for dp in others:
        assert dp.run()["files"] == 1
    assert ps.read_parquet(above / "F2").rows().run()["items"] == 100
    with pytest.raises(FileExistsError, match="in another format"):
        ps.read_parquet(folder).write_json(folder).run()


def test_buckets_are_one_place_on_one_server(s3_server: S3Server) -> None:
    place = s3_server.empty_bucket("where") / "data"
    ps.from_items([{"id": 1}]).write_parquet("s3://where/data").run()
    before = content(place)
    listed = [
        ps.read_parquet("s3://where/data/"),
        ps.read_parquet("s3a://where"),
        IterableWrapper(["s3://where/"]).list_files_by_s3().read_parquet(),
    ]
    for dp in listed:
        with pytest.raises(ValueError, match=REFUSED.format("list_(table_files|files_by_s3)")):
            dp.write_parquet("s3://where/data", mode="overwrite").run()
    assert content(place) == before
    other = {"endpoint_url": "http://127.0.0.1:9", "key": "a", "secret": "b"}
    elsewhere = ps.read_parquet("s3://where/data", storage_options=other)
    copied = elsewhere.write_parquet("s3://where/data", mode="overwrite")
    with pytest.raises(OSError, match="where"):
        copied.run()
