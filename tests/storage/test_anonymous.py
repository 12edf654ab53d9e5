"""Addresses as `s3://anonymous@bucket/key` are read without credentials, whatever reads them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from PIL import Image

import penstock as ps
from fault_proxy import Fault, FaultProxy, passing_on
from penstock.pipes.iter import IterableWrapper
from penstock.storage.addresses import Client, address_of
from s3 import S3Server, serving_s3

PUBLIC = "s3://anonymous@public"
CSV = f"{PUBLIC}/tables/a.csv"


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[S3Server, FaultProxy]]:
    with serving_s3(tmp_path_factory.mktemp("open"), asks_for_keys=False) as server:
        for bucket in ("public", "private"):
            tables = server.root / bucket / "tables"
            tables.mkdir(parents=True)
            (tables / "a.csv").write_text("x\n1\n")
        folder = server.root / "public"
        for name in ("images", "archives", "run"):
            (folder / name).mkdir()
        Image.new("RGB", (2, 2)).save(folder / "images" / "a.png")
        np.save(folder / "a.npy", np.zeros(2))
        (folder / "large.bin").write_bytes(bytes(2**20))
        with zipfile.ZipFile(folder / "archives" / "a.zip", "w") as archive:
            archive.writestr("a.csv", "x\n1\n")
        with passing_on(server.endpoint) as proxy:
            yield server, proxy


@pytest.fixture(autouse=True)
def choosy(
    open_server: tuple[S3Server, FaultProxy], s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> FaultProxy:
    """A server that refuses signed requests to one bucket, and unsigned ones to the other; there are credentials."""
    _, proxy = open_server
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    refusal: dict[str, Any] = {"at": None, "status": 403, "code": "AccessDenied"}
    proxy.play(
        Fault("status", match="/public", signed=True, **refusal),
        Fault("status", match="/private", signed=False, **refusal),
    )
    return proxy


def urls(*names: str) -> ps.IterDataPipe[str]:
    return IterableWrapper([f"{PUBLIC}/{name}" for name in names])


READERS: dict[str, Callable[[], Any]] = {
    "read_csv": lambda: [row["x"] for row in ps.read_csv(CSV).rows()],
    "read_csv of a folder": lambda: [row["x"] for row in ps.read_csv(f"{PUBLIC}/tables").rows()],
    "read_csv of a pattern": lambda: [row["x"] for row in ps.read_csv(f"{PUBLIC}/tables/*.csv").rows()],
    "read_csv in a zip": lambda: [row["x"] for row in ps.read_csv(f"zip://a.csv::{PUBLIC}/archives/a.zip").rows()],
    "simplecache": lambda: [row["x"] for row in ps.read_csv(f"simplecache::{CSV}").rows()],
    "read_images": lambda: [row["image"].numel() // 12 for row in ps.read_images(f"{PUBLIC}/images")],
    "read_numpy": lambda: [len(list(urls("a.npy").read_numpy()))],
    "read_text": lambda: [len(list(urls("tables/a.csv").read_text())) - 1],
    "open_files_by_fsspec": lambda: [
        int(stream.read()[2:]) for _, stream in urls("tables/a.csv").open_files_by_fsspec()
    ],
    "load_files_by_s3": lambda: [int(stream.read()[2:]) for _, stream in urls("tables/a.csv").load_files_by_s3()],
    "ObjectReader": lambda: [int(content[2:]) for content in ps.map.ObjectReader([CSV])],
    "open_to_seek": lambda: [len(ps.open_to_seek(f"{PUBLIC}/large.bin").read()) >> 20],
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_public_object_is_read_without_a_signature(read: Callable[[], Any]) -> None:
    assert read() == [1]


@pytest.mark.parametrize(
    "listed",
    [
        lambda folder: IterableWrapper([f"{folder}/"]).list_files_by_s3(),
        lambda folder: IterableWrapper([folder[:-1]]).list_files_by_s3(),  # by botocore
        lambda folder: IterableWrapper([folder]).list_files_by_fsspec(),
        lambda folder: IterableWrapper([folder]).list_table_files("csv"),
    ],
)
def test_a_listed_name_is_read_as_its_folder_was(listed: Any) -> None:
    dp = listed(f"{PUBLIC}/tables")
    assert list(dp) == [CSV]
    assert [stream.read() for _, stream in dp.load_files_by_s3()] == [b"x\n1\n"]


def test_checkpoints_go_where_anyone_may_write() -> None:
    ps.checkpoint.save(f"{PUBLIC}/run/last.pt", step=1)
    assert ps.checkpoint.load(f"{PUBLIC}/run/last.pt") == {"step": 1}
    state = {"weight": torch.ones(2)}
    dcp.save(state, storage_writer=ps.checkpoint.StorageWriter(f"{PUBLIC}/run/sharded"))
    state["weight"].zero_()
    dcp.load(state, storage_reader=ps.checkpoint.StorageReader(f"{PUBLIC}/run/sharded"))
    assert state["weight"].tolist() == [1, 1]


def test_another_bucket_needs_a_signature_still() -> None:
    assert [row["x"] for row in ps.read_csv("s3://private/tables/a.csv").rows()] == [1]
    for address in ("s3://anonymous@private/tables/a.csv", "s3://public/tables/a.csv"):
        with pytest.raises(PermissionError, match=r"the server refused: 403.*(anonymous@private|s3://public)/tables"):
            list(ps.read_csv(address))
        with pytest.raises(PermissionError, match=r"the server refused: 403.*(anonymous@private|s3://public)/tables"):
            list(IterableWrapper([address]).load_files_by_s3())


def test_the_spelling_chooses_the_client_as_the_option_does() -> None:
    assert address_of(CSV, {}).client is Client.OBSTORE
    assert address_of("s3a://anonymous@public/a", {}).client is Client.OBSTORE
    assert address_of(f"{PUBLIC}/a//b", {}).client is Client.FSSPEC
