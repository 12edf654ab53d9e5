"""Data sets of the Hugging Face hub, by their addresses: hf://datasets/…."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from hub_server import TOKEN, serving_hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("hub")
    for user, revision, numbers in (("me", "main", [1, 2, 3]), ("me", "v1", [7]), *((u, "main", [4]) for u in USERS)):
        folder = root / user / "sales" / revision
        for year in (2023, 2024):
            (folder / "data" / f"year={year}").mkdir(parents=True)
            pq.write_table(pa.table({"id": numbers}), folder / "data" / f"year={year}" / "0.parquet", row_group_size=2)
        (folder / "notes.jsonl").write_text('{"id": 9}\n')
    with serving_hub(root) as url:
        yield url


USERS = "private", "busy"


@pytest.fixture
def options(hub: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return {"storage_options": {"endpoint": hub}}


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("sales/data", [(n, year) for year in (2023, 2024) for n in (1, 2, 3)]),
        ("sales/data/*/0.parquet", [(n, year) for year in (2023, 2024) for n in (1, 2, 3)]),
        ("sales/data/year=2024/0.parquet", [(n, 2024) for n in (1, 2, 3)]),
        ("sales@v1/data", [(7, 2023), (7, 2024)]),
    ],
)
def test_files_folders_patterns_and_revisions_are_read(
    address: str, found: list[tuple[int, int]], options: dict[str, Any]
) -> None:
    rows = ps.read_parquet(f"hf://datasets/me/{address}", **options).rows()
    assert [(row["id"], row["year"]) for row in rows] == found


def test_other_readers_take_the_addresses_too(options: dict[str, Any]) -> None:
    address = "hf://datasets/me/sales/notes.jsonl"
    assert list(ps.read_json(address, **options).rows()) == [{"id": 9}]
    assert list(ps.read_text(address, **options)) == [{"text": '{"id": 9}'}]
    listed = ps.iter.FSSpecFileLister(["hf://datasets/me/sales"], **options["storage_options"])
    assert "hf://datasets/me/sales/notes.jsonl" in list(listed)


def test_a_private_data_set_needs_its_token(options: dict[str, Any]) -> None:
    address = "hf://datasets/private/sales/data"
    opened = {"storage_options": {**options["storage_options"], "token": TOKEN}}
    read = ps.read_parquet(address, **opened)
    assert [row["id"] for row in read.rows()] == [4, 4]
    assert TOKEN not in str(read)
    closed = {"storage_options": {**options["storage_options"], "token": False}}
    with pytest.raises(PermissionError, match="the server refused: 401"):
        list(ps.read_parquet(address, **closed))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("me/none/data", "there is no such data set: 'hf://datasets/me/none/data'"),
        ("me/sales@v9/data", "there is no such revision of the data set"),
        ("me/sales/none", "no such file or folder"),
        ("me/sales/data/none.parquet", "no such file or folder"),
    ],
)
def test_what_is_not_there_is_named(address: str, message: str, options: dict[str, Any]) -> None:
    with pytest.raises(FileNotFoundError, match=message):
        list(ps.read_parquet(f"hf://datasets/{address}", **options))


def test_a_hub_in_trouble_is_asked_again(options: dict[str, Any]) -> None:
    read = ps.read_parquet("hf://datasets/busy/sales/data", **options)
    assert [row["id"] for row in read.rows()] == [4, 4]
    assert read.stats()["list_table_files"]["retried"] == 1


def test_a_hub_that_is_not_there_is_an_error_in_plain_words() -> None:
    closed: Any = {"storage_options": {"endpoint": "http://127.0.0.1:1"}, "on_error": ps.Retry(1, backoff=0)}
    with pytest.raises(ConnectionError, match="no connection, or one that was cut: 'hf://datasets/me/sales/data'"):
        list(ps.read_parquet("hf://datasets/me/sales/data", **closed))


def test_the_environment_names_the_hub(hub: str) -> None:
    program = """
import penstock as ps

if __name__ == "__main__":
    dp = ps.read_parquet("hf://datasets/me/sales/data")
    with ps.DataLoader2(dp, reading_service=ps.MultiProcessingReadingService(2)) as loader:
        print(sum(batch.num_rows for batch in loader))
"""
    environment = {**os.environ, "HF_ENDPOINT": hub, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=50)
    assert done.stdout == "6\n", done.stderr


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "hf", raising=False)
    with pytest.raises(ImportError, match=r'huggingface_hub is needed for this: pip install "penstock\[hf\]"'):
        list(ps.read_parquet("hf://datasets/me/sales/data"))
