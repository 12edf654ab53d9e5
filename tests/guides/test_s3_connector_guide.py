"""The guide of the Amazon S3 connector for PyTorch runs as it is typed, with only its imports changed."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import tarfile
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as DCP  # noqa: N812 - as the guide has it
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

import penstock as ps
from fault_proxy import FaultProxy
from penstock.compat.s3torchconnector import (
    S3Checkpoint,
    S3ClientConfig,
    S3Exception,
    S3IterableDataset,
    S3MapDataset,
    S3Reader,
)
from penstock.compat.s3torchconnector.dcp import (
    BinaryPrefixStrategy,
    DefaultPrefixStrategy,
    HexPrefixStrategy,
    RoundRobinPrefixStrategy,
    S3PrefixStrategyBase,
    S3StorageReader,
    S3StorageWriter,
)
from ranks import run_ranks
from resuming import assert_resumes_everywhere
from s3 import S3Server

DATASET_URI = "s3://guide/images/"
CHECKPOINT_URI = "s3://guide/run/"
REGION = "us-east-1"

CONTENTS = {f"images/{number}.bin": bytes([number]) * (number + 1) for number in range(6)}


@pytest.fixture(autouse=True)
def bucket(s3_server: S3Server) -> Path:
    """The folder behind a bucket of six objects."""
    folder = s3_server.root / "guide"
    for key, content in CONTENTS.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(content)
    (folder / "run").mkdir(exist_ok=True)
    return folder


def content_of(item: S3Reader) -> bytes:
    return item.read()


# The lines of the guide


def test_the_simplest_way_to_construct_a_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    iterable_dataset = S3IterableDataset.from_prefix(DATASET_URI, region=REGION)

    for item in iterable_dataset:
        print(item.key)

    map_dataset = S3MapDataset.from_prefix(DATASET_URI, region=REGION)
    item = map_dataset[0]
    bucket = item.bucket
    key = item.key
    content = item.read()
    len(content)

    assert capsys.readouterr().out.split() == [*CONTENTS]
    assert (bucket, key, content) == ("guide", "images/0.bin", b"\0")
    assert len(map_dataset) == 6


def test_a_checkpoint_is_saved_and_loaded() -> None:
    import torchvision

    checkpoint = S3Checkpoint(region=REGION)

    model = torchvision.models.resnet18()

    with checkpoint.writer(CHECKPOINT_URI + "epoch0.ckpt") as writer:
        torch.save(model.state_dict(), writer)

    with checkpoint.reader(CHECKPOINT_URI + "epoch0.ckpt") as reader:
        state_dict = torch.load(reader)

    model.load_state_dict(state_dict)

    assert torch.equal(state_dict["fc.bias"], model.state_dict()["fc.bias"])


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_distributed_checkpoint_is_saved_and_loaded(bucket: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    saved = model[0].bias.tolist()

    s3_storage_writer = S3StorageWriter(
        region=REGION,
        path=CHECKPOINT_URI,
        thread_count=8,  # optional; number of IO threads to use to write
    )
    DCP.save(
        state_dict=model.state_dict(),
        storage_writer=s3_storage_writer,
    )

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    model_state_dict = model.state_dict()
    s3_storage_reader = S3StorageReader(region=REGION, path=CHECKPOINT_URI)
    DCP.load(
        state_dict=model_state_dict,
        storage_reader=s3_storage_reader,
    )
    model.load_state_dict(model_state_dict)

    assert model[0].bias.tolist() == saved
    assert (bucket / "run" / ".metadata").exists()


class PrefixOfMine(S3PrefixStrategyBase):
    def generate_prefix(self, rank: int) -> str:
        return f"mine/{rank}/"


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled", "ignore:Detected an existing checkpoint")
@pytest.mark.parametrize(
    ("strategy", "prefix"),
    [
        (RoundRobinPrefixStrategy(user_prefixes=["shard1", "shard2", "shard3"], epoch_num=5), "shard1/epoch_5/__0_"),
        (BinaryPrefixStrategy(epoch_num=1, min_prefix_length=10, prefix_count=16), "0000000000/epoch_1/__0_"),
        (HexPrefixStrategy(min_prefix_length=4), "0000/__0_"),
        (DefaultPrefixStrategy(), "__0_"),
        (PrefixOfMine(), "mine/0/"),
    ],
)
def test_a_distributed_checkpoint_has_the_prefixes_of_a_strategy(bucket: Path, strategy: Any, prefix: str) -> None:
    model = torch.nn.Linear(3, 2)
    writer = S3StorageWriter(region=REGION, path=f"{CHECKPOINT_URI}sharded", prefix_strategy=strategy, thread_count=2)
    DCP.save(state_dict=model.state_dict(), storage_writer=writer)

    folder = bucket / "run" / "sharded"
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*.distcp")]
    assert len(files) == 2  # one by each thread; those of the strategy before are gone
    assert all(file.startswith(prefix) for file in files)
    state = torch.nn.Linear(3, 2).state_dict()
    DCP.load(state_dict=state, storage_reader=S3StorageReader(region=REGION, path=f"{CHECKPOINT_URI}sharded"))
    assert torch.equal(state["weight"], model.weight)


def test_workers_share_an_iterable_dataset() -> None:
    dataset = S3IterableDataset.from_prefix(DATASET_URI, region=REGION, enable_sharding=True)
    with pytest.raises(TypeError, match="default_collate: batch must contain"):  # as with the connector: no transform
        next(iter(DataLoader(dataset)))

    dataset = S3IterableDataset.from_prefix(DATASET_URI, region=REGION, enable_sharding=True, transform=content_of)
    dataloader = DataLoader(dataset, num_workers=4)
    assert sorted(content for [content] in dataloader) == [*CONTENTS.values()]


def test_a_sampler_divides_a_map_dataset() -> None:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    dataset = S3MapDataset.from_prefix(DATASET_URI, region=REGION, transform=content_of)
    sampler = DistributedSampler(dataset)
    dataloader = DataLoader(dataset, sampler=sampler, num_workers=4)
    assert sorted(content for [content] in dataloader) == [*CONTENTS.values()]

    shares = [DistributedSampler(dataset, num_replicas=2, rank=rank) for rank in range(2)]
    read = [content for sampler in shares for [content] in DataLoader(dataset, sampler=sampler)]
    assert sorted(read) == [*CONTENTS.values()]


# What its users do with them


def test_a_key_is_known_without_a_download(fault_proxy: FaultProxy) -> None:
    items = list(S3IterableDataset.from_prefix(DATASET_URI, region=REGION))
    assert [item.key for item in items] == [*CONTENTS]
    assert not [request for request in fault_proxy.requests() if "images/" in request.partition("?")[0]]
    assert items[2].read() == CONTENTS["images/2.bin"]
    assert fault_proxy.requests()["GET /guide/images/2.bin"] == 1


def test_an_object_is_a_file(bucket: Path) -> None:
    Image.new("RGB", (3, 2)).save(bucket / "a.png")
    with tarfile.open(bucket / "a.tar", "w") as archive:
        archive.add(bucket / "a.png", "a.png")
    torch.save({"a": 1}, bucket / "a.pt")
    picture, model, tar = S3IterableDataset.from_objects(
        ["s3://guide/a.png", "s3://guide/a.pt", "s3://guide/a.tar"], region=REGION
    )
    assert Image.open(picture).size == (3, 2)
    assert torch.load(model) == {"a": 1}
    with tarfile.open(fileobj=tar) as archive:
        assert archive.getnames() == ["a.png"]
    [item] = S3IterableDataset.from_objects("s3://guide/images/3.bin", region=REGION)
    assert (item.tell(), item.seek(-1, io.SEEK_END), item.read(), item.tell()) == (0, 3, b"\3", 4)
    assert repr(item) == "<S3Reader name='s3://guide/images/3.bin'>"
    copy = pickle.loads(pickle.dumps(item))
    assert (copy.bucket, copy.key, copy.tell(), copy.read()) == ("guide", "images/3.bin", 0, b"\3" * 4)


def take_environment(environment: dict[str, str], _: int) -> None:
    os.environ.update(environment)


@pytest.mark.parametrize(("method", "kinds"), [("fork", "both"), ("forkserver", "iterable"), ("spawn", "by index")])
@pytest.mark.timeout(120)
def test_workers_read_however_they_start(method: str, kinds: str) -> None:
    for dataset in (S3IterableDataset, S3MapDataset):
        assert dataset.from_prefix(DATASET_URI, region=REGION).take(1)[0].read() == b"\0"  # by this process before
    loading: Any = {"num_workers": 1, "batch_size": None, "multiprocessing_context": method}
    loading["worker_init_fn"] = partial(take_environment, {**os.environ})  # a fork server has that of its start
    if kinds != "by index":
        dataset = S3IterableDataset.from_prefix(DATASET_URI, region=REGION, enable_sharding=True)
        assert [item.key for item in DataLoader(dataset, **loading)] == [*CONTENTS]
    if kinds != "iterable":
        by_index = S3MapDataset.from_prefix(DATASET_URI, region=REGION, transform=lambda item: item.read())
        assert list(DataLoader(by_index, **loading)) == [*CONTENTS.values()]


def test_without_sharding_each_worker_reads_all() -> None:
    dataset = S3IterableDataset.from_prefix(DATASET_URI, region=REGION, transform=lambda item: item.read())
    read = DataLoader(dataset, num_workers=2, batch_size=None)
    assert sorted(read) == sorted(2 * [*CONTENTS.values()])


@pytest.mark.timeout(120)
def test_ranks_share_a_dataset_that_is_to_be_sharded(tmp_path: Path) -> None:
    code = """
    from torch.utils.data import DataLoader
    from penstock.compat.s3torchconnector import S3IterableDataset
    for sharded, workers in ((True, {"num_workers": 2, "multiprocessing_context": "fork"}), (True, {}), (False, {})):
        dataset = S3IterableDataset.from_prefix("s3://guide/images/", region="us-east-1", enable_sharding=sharded)
        say([item.key for item in DataLoader(dataset, batch_size=None, **workers)])
    """
    told = zip(*run_ranks(tmp_path, code, seconds=100), strict=True)
    shared, shared_without_workers, all_of_it = ([*first, *second] for first, second in told)
    assert sorted(shared) == sorted(shared_without_workers) == [*CONTENTS]
    assert all_of_it == 2 * [*CONTENTS]


def test_datasets_chain_resume_and_are_read_by_the_loader() -> None:
    def dataset() -> Any:
        return S3IterableDataset.from_prefix(DATASET_URI, region=REGION, transform=content_of, enable_sharding=True)

    assert isinstance(dataset(), IterableDataset)
    assert list(dataset().map(len).batch(4)) == [[1, 2, 3, 4], [5, 6]]
    assert_resumes_everywhere(lambda: dataset().map(len), passes=1)
    by_index = S3MapDataset.from_prefix(DATASET_URI, region=REGION, transform=content_of)
    assert list(by_index.map(len).batch(4)) == [[1, 2, 3, 4], [5, 6]]
    for chain, workers in ((dataset(), 1), (by_index, 0)):
        service = ps.MultiProcessingReadingService(workers, num_shards=2)
        with ps.DataLoader2(chain, reading_service=service) as loader:
            begun = list(islice(loader, 2))
            state = json.dumps(loader.state_dict())
        with ps.DataLoader2(chain, reading_service=ps.MultiProcessingReadingService(0)) as loader:
            loader.load_state_dict(json.loads(state))
            assert begun + list(loader) == [*CONTENTS.values()]


def test_a_map_dataset_is_listed_when_it_is_needed_and_once(fault_proxy: FaultProxy) -> None:
    dataset = S3MapDataset.from_prefix(DATASET_URI, region=REGION)
    assert not fault_proxy.requests()
    assert (len(dataset), dataset[-1].key, len(pickle.loads(pickle.dumps(dataset)))) == (6, "images/5.bin", 6)
    assert fault_proxy.requests().total() == 1
    with pytest.raises(IndexError):
        dataset[6]
    with pytest.raises(TypeError, match="an index must be a whole number, and is '0'"):
        dataset["0"]
    assert [item.key for item in dataset[4:]] == ["images/4.bin", "images/5.bin"]
    assert S3MapDataset.from_objects([f"s3://guide/{key}" for key in CONTENTS], region=REGION)[1].read() == b"\1\1"


def test_settings_reach_the_client(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    config = S3ClientConfig(force_path_style=True)
    for kind in (S3IterableDataset, S3MapDataset):
        dataset = kind.from_prefix(DATASET_URI, region=REGION, endpoint=s3_server.endpoint, s3client_config=config)
        assert [item.read() for item in dataset] == [*CONTENTS.values()]
    unsigned = S3Checkpoint(REGION, s3_server.endpoint, S3ClientConfig(unsigned=True))
    with pytest.raises(OSError, match="the server refused: 40"):
        unsigned.reader("s3://guide/images/0.bin").read()


def test_what_is_not_there_is_an_error_that_names_it(bucket: Path) -> None:
    for kind in (S3IterableDataset, S3MapDataset):
        with pytest.raises(FileNotFoundError, match="no objects with this prefix: 's3://guide/none'"):
            list(kind.from_prefix("s3://guide/none", region=REGION))
        with pytest.raises(ValueError, match="have addresses such as s3://bucket/key, and this is 'gs://b/a'"):
            list(kind.from_objects(["gs://b/a"], region=REGION))
    checkpoint = S3Checkpoint(region=REGION)
    with pytest.raises(FileNotFoundError, match="no such object.*'s3://guide/none'") as caught:
        checkpoint.reader("s3://guide/none").read()
    assert isinstance(caught.value, S3Exception)
    with pytest.raises(ZeroDivisionError), checkpoint.writer("s3://guide/half") as writer:
        writer.write(bytes([1 // 0]))
    assert not (bucket / "half").exists()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (partial(S3IterableDataset.from_prefix, DATASET_URI, region=REGION), "reader_constructor"),
        (partial(S3MapDataset.from_objects, [], region=REGION), "reader_constructor"),
        (partial(S3Checkpoint(REGION).reader, CHECKPOINT_URI), "reader_constructor"),
        (partial(S3StorageReader, REGION, CHECKPOINT_URI), "reader_constructor"),
    ],
)
def test_an_argument_of_the_connector_that_there_is_not_says_what_to_do(make: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"takes no {name}: leave it out: "):
        make(**{name: None})


@pytest.mark.parametrize(
    ("name", "mend"), [("S3Writer", "writer(uri) gives a file to write to"), ("S3ReaderConstructor", "leave it out")]
)
def test_a_name_that_is_not_there_says_what_to_do(name: str, mend: str) -> None:
    with pytest.raises(ImportError, match=re.escape(mend)):
        exec(f"from penstock.compat.s3torchconnector import {name}")
    with pytest.raises(ImportError, match="cannot import name 'S3Nothing'"):
        exec("from penstock.compat.s3torchconnector import S3Nothing")
