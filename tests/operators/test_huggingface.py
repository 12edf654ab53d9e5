from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pytest
from torch.utils.data import DataLoader

import penstock as ps
from penstock.pipes.iter import HuggingFaceHubReader

ROWS = [{"number": number, "text": f"row {number}", "parts": [number, 0]} for number in range(7)]


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of the hub, and nothing is kept."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set in two files, the second of which has one row less."""
    where = tmp_path / "rows"
    where.mkdir()
    for number, rows in enumerate((ROWS[:4], ROWS[4:])):
        (where / f"train-{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return where


@pytest.fixture(params=[True, False], ids=["streamed", "stored"])
def streaming(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_rows_are_read_from_a_folder(folder: Path, streaming: bool) -> None:
    assert list(HuggingFaceHubReader(str(folder), streaming=streaming)) == ROWS
    assert list(HuggingFaceHubReader(str(folder), split="train", streaming=streaming)) == ROWS


def test_rows_are_read_from_files_of_a_format(folder: Path, tmp_path: Path) -> None:
    data = {"train": str(folder / "train-0.jsonl"), "test": str(folder / "train-1.jsonl")}
    assert list(HuggingFaceHubReader("json", data_files=data, split="test")) == ROWS[4:]
    with pytest.raises(ValueError, match=r"give the split to read, as in split='train': there are \['train', 'test'\]"):
        list(HuggingFaceHubReader("json", data_files=data))
    datasets.Dataset.from_list(ROWS).to_parquet(tmp_path / "a.parquet")
    assert list(HuggingFaceHubReader("parquet", data_files=str(tmp_path / "a.parquet"))) == ROWS


@pytest.mark.parametrize("given", [{}, {"revision": "main", "name": "a", "split": "train", "streaming": False}])
def test_arguments_reach_the_library_which_streams_where_it_is_not_told_else(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []

    def load_dataset(**arguments: Any) -> Any:
        seen.append(arguments)
        stored = datasets.Dataset.from_list(ROWS)
        return stored.to_iterable_dataset() if arguments["streaming"] else stored

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert list(HuggingFaceHubReader("somebody/something", **given)) == ROWS
    assert seen == [{"path": "somebody/something", "streaming": True, **given}]


def test_a_token_is_not_shown(folder: Path) -> None:
    dp = HuggingFaceHubReader(str(folder / "nowhere"), token="hush")
    with pytest.raises(OSError, match="nowhere") as caught:
        list(dp)
    assert "hush" not in repr(dp) + "".join(caught.value.__notes__)
    assert "nowhere" in caught.value.__notes__[0]


class Breaking:
    """A data set that fails after so many rows, as often as is asked for."""

    def __init__(self, after: int, failures: int) -> None:
        self.after, self.failures = after, failures
        self.loaded = 0

    def load_dataset(self, **arguments: Any) -> Any:
        self.loaded += 1
        fails = self.loaded <= self.failures

        def rows() -> Iterator[dict[str, Any]]:
            for number, row in enumerate(ROWS):
                if fails and number == self.after:
                    raise ConnectionError("gone")
                yield row

        return datasets.IterableDataset.from_generator(rows)


@pytest.mark.parametrize("after", [0, 3])
def test_a_retry_goes_on_where_the_data_set_failed(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking = Breaking(after, failures=2)
    monkeypatch.setattr(datasets, "load_dataset", breaking.load_dataset)
    dp = HuggingFaceHubReader("flaky", on_error=ps.Retry(2, backoff=0))
    assert list(dp) == ROWS
    assert dp.stats()["HuggingFaceHubReader"]["retried"] == 2
    breaking.loaded = 0
    iterator = iter(dp)
    assert list(islice(iterator, 5)) == ROWS[:5]
    resumed = HuggingFaceHubReader("flaky", on_error=ps.Retry(2, backoff=0))
    resumed.load_state_dict(dp.state_dict())
    assert list(resumed) == ROWS[5:]


def test_the_rest_of_a_data_set_that_fails_can_be_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", Breaking(3, failures=1).load_dataset)
    dp = HuggingFaceHubReader("flaky", on_error="skip")
    assert list(dp) == ROWS[:3]
    assert dp.stats()["HuggingFaceHubReader"]["skipped"] == 1


def test_in_a_worker_of_torchs_loader_only_the_sharding_filter_divides_the_rows(folder: Path) -> None:
    dp = HuggingFaceHubReader(str(folder)).map(lambda row: row["number"]).sharding_filter()
    loader = DataLoader(dp, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=30)
    assert sorted(loader) == [row["number"] for row in ROWS]
