"""Requests without a signature, and those that the requester pays for, against a server that refuses all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
import s3fs
import torch
import torch.distributed.checkpoint as dcp

import penstock as ps
from moto_server import serving_moto
from penstock.checkpoint import LightningCheckpoint, StorageReader, StorageWriter
from penstock.compat.s3torchconnector import S3ClientConfig, S3IterableDataset, S3MapDataset
from penstock.pipes.iter import IterableWrapper

REGION = "us-east-1"
LARGE = 17 * 2**20
"""Bytes of an object that is read by ranges."""


@pytest.fixture(scope="module")
def moto_process() -> Iterator[str]:
    with serving_moto() as endpoint:
        client = boto3.client("s3", REGION, endpoint_url=endpoint, aws_access_key_id="k", aws_secret_access_key="s")
        client.create_bucket(Bucket="open-to-all", ACL="public-read")
        client.create_bucket(Bucket="closed")
        for key in ("folder/a.txt", "folder/b.txt", "folder//odd.txt"):
            client.put_object(Bucket="open-to-all", Key=key, Body=key.encode(), ACL="public-read")
        client.put_object(Bucket="open-to-all", Key="large", Body=bytes(LARGE), ACL="public-read")
        client.put_object(Bucket="closed", Key="folder/a.txt", Body=b"secret")
        client.meta.events.register("before-call.s3", lambda params, **_: params["headers"].update(PAYING))
        client.create_bucket(Bucket="paid")
        for key in ("folder/a.txt", "folder/b.txt", "folder//odd.txt"):
            client.put_object(Bucket="paid", Key=key, Body=key.encode())
        client.put_object(Bucket="paid", Key="large", Body=bytes(LARGE))
        yield endpoint


PAYING = {"x-amz-request-payer": "requester"}


@pytest.fixture
def moto(moto_process: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lead to the server by the environment, which has no credentials; return what can set them."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_process)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    s3fs.S3FileSystem.clear_instance_cache()
    yield monkeypatch
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def keys(moto: pytest.MonkeyPatch) -> None:
    moto.setenv("AWS_ACCESS_KEY_ID", "k")
    moto.setenv("AWS_SECRET_ACCESS_KEY", "s")


def by_s3(urls: list[str], options: Any) -> list[bytes]:
    return [stream.read() for _, stream in IterableWrapper(urls).load_files_by_s3(storage_options=options)]


def by_fsspec(urls: list[str], options: Any) -> list[bytes]:
    return [s.read() for _, s in IterableWrapper(urls).open_files_by_fsspec("rb", storage_options=options)]


def by_index(urls: list[str], options: Any) -> list[bytes]:
    return [*ps.map.ObjectReader(urls, storage_options=options)]


def by_seeking(urls: list[str], options: Any) -> list[bytes]:
    read = list[bytes]()
    for url in urls:
        with ps.open_to_seek(url, options) as file:
            file.seek(0)
            read.append(file.read())
    return read


READING = [by_s3, by_fsspec, by_index, by_seeking]
Read = Callable[[list[str], Any], list[bytes]]
KEYS = ["folder/a.txt", "folder/b.txt", "folder//odd.txt"]


def names(prefix: str, options: Any) -> list[str]:
    return sorted(IterableWrapper([prefix]).list_files_by_s3(storage_options=options))


@pytest.mark.usefixtures("moto")
@pytest.mark.parametrize("read", READING)
def test_public_objects_are_read_without_credentials(read: Read) -> None:
    contents = [key.encode() for key in KEYS]
    assert read([f"s3://open-to-all/{key}" for key in KEYS], {"anon": True}) == contents
    assert read([f"s3://anonymous@open-to-all/{key}" for key in KEYS], {}) == contents
    assert read(["s3://open-to-all/large"], {"anon": True}) == [bytes(LARGE)]


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("read", READING)
def test_what_is_not_public_needs_a_signature(read: Read) -> None:
    assert read(["s3://closed/folder/a.txt"], {}) == [b"secret"]
    with pytest.raises(PermissionError, match="s3://closed/folder/a.txt"):
        read(["s3://closed/folder/a.txt"], {"anon": True})


@pytest.mark.usefixtures("moto")
def test_a_public_bucket_is_listed_without_credentials() -> None:
    for prefix in ("s3://open-to-all/folder/", "s3://open-to-all/fol"):
        found = [f"s3://open-to-all/{key}" for key in sorted(KEYS)]
        assert names(prefix, {"anon": True}) == found
    dataset = ps.read_text("s3://anonymous@open-to-all/folder/")
    assert {row["text"] for row in dataset} >= {"folder/a.txt", "folder/b.txt"}


@pytest.mark.usefixtures("moto")
def test_the_connectors_client_that_is_unsigned_reads() -> None:
    config = S3ClientConfig(unsigned=True)
    for kind in (S3IterableDataset, S3MapDataset):
        dataset = kind.from_prefix("s3://open-to-all/folder/", region=REGION, s3client_config=config)
        assert sorted(item.read() for item in dataset) == sorted(key.encode() for key in KEYS)


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("read", READING)
def test_who_pays_reads_and_nobody_else(read: Read) -> None:
    urls = [f"s3://paid/{key}" for key in KEYS]
    assert read(urls, {"requester_pays": True}) == [key.encode() for key in KEYS]
    assert read(["s3://paid/large"], {"requester_pays": True}) == [bytes(LARGE)]
    for url in (urls[0], urls[2]):
        with pytest.raises(PermissionError, match=url):
            read([url], {})


@pytest.mark.usefixtures("keys")
def test_who_pays_lists() -> None:
    for prefix in ("s3://paid/folder/", "s3://paid/fol"):
        assert names(prefix, {"requester_pays": True}) == [f"s3://paid/{key}" for key in sorted(KEYS)]
        with pytest.raises(PermissionError, match="s3://paid"):
            names(prefix, {})


@pytest.mark.usefixtures("keys")
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled", "ignore:Detected an existing checkpoint")
def test_who_pays_writes_replaces_and_removes() -> None:
    options = {"requester_pays": True}
    for number in range(2):
        ps.checkpoint.save("s3://paid/run/last.pt", step=number, weight=torch.zeros(5 * 2**20), storage_options=options)
        assert ps.checkpoint.load("s3://paid/run/last.pt", storage_options=options)["step"] == number
        writer = StorageWriter("s3://paid/run/sharded", storage_options=options)
        dcp.save({"step": number}, storage_writer=writer)
        state = {"step": -1}
        dcp.load(state, storage_reader=StorageReader("s3://paid/run/sharded", storage_options=options))
        assert state["step"] == number
    files = LightningCheckpoint(options)
    files.save_checkpoint({"epoch": 1}, "s3://paid/run/last.ckpt")
    assert files.load_checkpoint("s3://paid/run/last.ckpt") == {"epoch": 1}
    files.remove_checkpoint("s3://paid/run/last.ckpt")
    assert [name.rpartition(".")[2] for name in names("s3://paid/run/", options)] == ["pt", "metadata", "distcp"]
    rows = [{"x": 1}, {"x": 2}]
    IterableWrapper(rows).write_parquet("s3://paid/table", storage_options=options).run()
    assert [*ps.read_parquet("s3://paid/table", storage_options=options).rows()] == rows
    with pytest.raises(PermissionError, match="s3://paid/run/last.pt"):
        ps.checkpoint.save("s3://paid/run/last.pt", step=1)
