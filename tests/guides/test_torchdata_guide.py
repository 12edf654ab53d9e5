"""The lines of torchdata's tutorials, "DataPipe Tutorial" and "DataLoader2 Tutorial", as they print them.

Only the imports and the addresses change. Addresses of Google's and Azure's stores stand for such as need an account:
their lines run against files in memory.
"""

from __future__ import annotations

import csv
import io
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch.distributed as dist
from torch.utils.data import DataLoader

import penstock as dp
from penstock import (
    DataLoader2,
    DistributedReadingService,
    IterDataPipe,
    SequentialReadingService,
    functional_datapipe,
)
from penstock import MultiProcessingReadingService as PrototypeMultiProcessingReadingService
from penstock.iter import IterableWrapper
from penstock.registry import operators
from s3 import S3Server


def generate_csv(file_label: Any, num_rows: int = 5000, num_features: int = 20) -> None:
    fieldnames = ["label"] + [f"c{i}" for i in range(num_features)]
    with open(f"sample_data{file_label}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=fieldnames)
        writer.writeheader()
        for _ in range(num_rows):
            row_data: dict[str, float] = {col: random.random() for col in fieldnames}
            row_data["label"] = random.randint(0, 9)
            writer.writerow(row_data)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The guide's three files in the current folder."""
    monkeypatch.chdir(tmp_path)
    num_files_to_generate = 3
    for i in range(num_files_to_generate):
        generate_csv(file_label=i, num_rows=10, num_features=3)
    return str(tmp_path)


# DataPipe Tutorial: using DataPipes


def test_a_chain_of_csv_files_is_split(files: str) -> None:
    FOLDER = files  # noqa: N806
    datapipe = dp.iter.FileLister([FOLDER]).filter(filter_fn=lambda filename: filename.endswith(".csv"))
    datapipe = dp.iter.FileOpener(datapipe, mode="rt")
    datapipe = datapipe.parse_csv(delimiter=",")
    N_ROWS = 33  # total number of rows of data  # noqa: N806
    train, valid = datapipe.random_split(total_length=N_ROWS, weights={"train": 0.5, "valid": 0.5}, seed=0)

    seen = 0
    for x in train:  # Iterating through the training dataset  # noqa: B007
        seen += 1

    for y in valid:  # Iterating through the validation dataset  # noqa: B007
        seen += 1
    assert seen == N_ROWS


# Working with DataLoader


def filter_for_data(filename: str) -> bool:
    return "sample_data" in filename and filename.endswith(".csv")


def row_processer(row: Any) -> dict[str, Any]:
    return {"label": np.array(row[0], np.int32), "data": np.array(row[1:], dtype=np.float64)}


def build_datapipes(root_dir: str = ".") -> Any:
    datapipe = dp.iter.FileLister(root_dir)
    datapipe = datapipe.filter(filter_fn=filter_for_data)
    datapipe = datapipe.open_files(mode="rt")
    datapipe = datapipe.parse_csv(delimiter=",", skip_lines=1)
    # Shuffle will happen as long as you do NOT set `shuffle=False` later in the DataLoader
    datapipe = datapipe.shuffle()
    datapipe = datapipe.map(row_processer)
    return datapipe  # noqa: RET504


@pytest.mark.usefixtures("files")
def test_the_loader_of_torch(capsys: pytest.CaptureFixture[str]) -> None:
    datapipe = build_datapipes()
    dl = DataLoader(dataset=datapipe, batch_size=5, num_workers=2)
    first = next(iter(dl))
    labels, features = first["label"], first["data"]
    print(f"Labels batch shape: {labels.size()}")
    print(f"Feature batch shape: {features.size()}")
    n_sample = 0
    for row in iter(dl):  # noqa: B007
        n_sample += 1
    print(f"{n_sample = }")
    assert capsys.readouterr().out.splitlines() == [
        "Labels batch shape: torch.Size([5])",
        "Feature batch shape: torch.Size([5, 3])",
        "n_sample = 12",
    ]

    datapipe = build_datapipes()
    datapipe = datapipe.sharding_filter()
    assert sum(1 for _ in DataLoader(dataset=datapipe, batch_size=5, num_workers=2)) == 6


# Implementing a Custom DataPipe


def test_a_custom_datapipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_entries", {**operators})  # other tests list all operators

    @functional_datapipe("map_by_hand")
    class MapperIterDataPipe(IterDataPipe):  # type: ignore[type-arg]
        def __init__(self, source_dp: IterDataPipe, fn: Any) -> None:  # type: ignore[type-arg]
            super().__init__()
            self.dp = source_dp
            self.fn = fn

        def __iter__(self) -> Any:
            for d in self.dp:
                yield self.fn(d)

        def __len__(self) -> int:
            return len(self.dp)

    datapipe = MapperIterDataPipe(IterableWrapper(range(3)), fn=str)
    assert list(datapipe) == list(IterableWrapper(range(3)).map_by_hand(str)) == ["0", "1", "2"]  # type: ignore[attr-defined]
    assert len(datapipe) == 3
    del IterDataPipe.map_by_hand  # type: ignore[attr-defined]


def test_both_forms_of_a_chain_over_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.file", "b.file"):
        Path(name).write_text(f"content of {name}")

    def decoder(item: Any) -> Any:
        return item[1].read()

    # Using functional form (recommended)
    datapipes1 = dp.iter.FileOpener(["a.file", "b.file"]).map(fn=decoder).shuffle().batch(2)
    # Using class constructors
    datapipes2: Any = dp.iter.FileOpener(["a.file", "b.file"])
    datapipes2 = dp.iter.Mapper(datapipes2, fn=decoder)
    datapipes2 = dp.iter.Shuffler(datapipes2)
    datapipes2 = dp.iter.Batcher(datapipes2, 2)
    for chain in (datapipes1, datapipes2):
        assert [sorted(batch) for batch in chain] == [["content of a.file", "content of b.file"]]


# Working with Cloud Storage Providers


def test_files_on_s3(s3_server: S3Server) -> None:
    bucket = s3_server.empty_bucket("guide-of-torchdata")
    with tarfile.open(bucket / "1.tar", "w") as tar:
        info = tarfile.TarInfo("a.txt")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"one"))

    listed = IterableWrapper(["s3://guide-of-torchdata"]).list_files_by_fsspec()
    assert list(listed) == ["s3://guide-of-torchdata/1.tar"]

    datapipe = IterableWrapper(["s3://guide-of-torchdata/1.tar"])
    datapipe = datapipe.open_files_by_fsspec(mode="rb").load_from_tar(mode="r|")  # type: ignore[assignment]
    assert [stream.read() for _, stream in datapipe] == [b"one"]  # type: ignore[has-type]

    streamed = (
        IterableWrapper(["s3://guide-of-torchdata/1.tar"])
        .open_files_by_fsspec(mode="rb", anon=True)
        .load_from_tar(mode="r|")
    )
    assert "anon" in repr(streamed)  # an open bucket is read in tests/operators/test_s3.py


def test_files_in_stores_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    memory = fsspec.filesystem("memory")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("05900035/README.txt", "read me")
    memory.pipe("/uspto-pair/applications/05900035.zip", content.getvalue())
    memory.pipe("/public/ecdc_cases.csv", b"date_rep,day\n2020-12-14,14\n")

    datapipe = IterableWrapper(["memory://uspto-pair/applications/05900035.zip"]) \
        .open_files_by_fsspec(mode="rb") \
        .load_from_zip()  # fmt: skip
    # Logic to process those archive files comes after
    for path, filestream in datapipe:
        print(path, filestream)
    assert "05900035.zip/05900035/README.txt" in capsys.readouterr().out

    cases = IterableWrapper(["memory://public/ecdc_cases.csv"]).open_files_by_fsspec().parse_csv()
    assert list(cases)[:3] == [["date_rep", "day"], ["2020-12-14", "14"]]

    storage_options = {"account_name": "ACCOUNT_NAME", "account_key": "ACCOUNT_KEY"}
    listed = IterableWrapper(["abfs://CONTAINER/DIRECTORY"]).list_files_by_fsspec(**storage_options)
    assert "ACCOUNT_KEY" not in repr(listed)


# DataLoader2 Tutorial


def fn(row: Any) -> Any:
    return row


def model(batch: Any) -> None:
    seen.append(batch)


seen: list[Any] = []


@pytest.fixture
def datapipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    for name in ("train1.csv", "train2.csv"):
        Path(name).write_text("".join(f"{name},{number}\n" for number in range(20)))
    seen.clear()
    datapipe = IterableWrapper(["./train1.csv", "./train2.csv"])
    datapipe = datapipe.open_files(encoding="utf-8").parse_csv()
    datapipe = datapipe.shuffle().sharding_filter()
    datapipe = datapipe.map(fn).batch(8)
    return datapipe  # noqa: RET504


@pytest.fixture
def one_rank() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


@pytest.mark.usefixtures("one_rank")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("services", ["distributed", "both"])
def test_multiprocessing_and_distributed(datapipe: Any, services: str) -> None:
    mp_rs = PrototypeMultiProcessingReadingService(num_workers=4)
    dist_rs = DistributedReadingService()
    rs = SequentialReadingService(dist_rs, mp_rs) if services == "both" else dist_rs

    dl = DataLoader2(datapipe, reading_service=rs)
    for epoch in range(10):
        dl.seed(epoch)
        for d in dl:
            model(d)
    dl.shutdown()
    rows = [tuple(row) for batch in seen for row in batch]
    assert (len(rows), len({*rows})) == (400, 40)
