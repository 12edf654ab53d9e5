"""The lines of WebDataset's README, rewritten for Penstock: a comment has the line as it stands there.

The README reads publaynet's public tars, of pairs of a `.json` and a `.png`. These tests make such tars.
"""

from __future__ import annotations

import io
import json
import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.utils.data
from torch.utils.data import RandomSampler

import penstock as ps
from archives import tar_of
from penstock import IterDataPipe

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

SHARDS, OF_A_SHARD = 4, 6


def png_of(number: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (30 + number, 40), (number, 0, 255)).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The README's `dataset`, in a folder in place of its bucket."""
    for shard in range(SHARDS):
        files = {}
        for number in range(shard * OF_A_SHARD, (shard + 1) * OF_A_SHARD):
            label = {"annotations": [{"category_id": number}] if number % 2 else []}
            files |= {f"PMC_{number:05}.json": json.dumps(label).encode(), f"PMC_{number:05}.png": png_of(number)}
        (tmp_path / f"publaynet-train-{shard:06}.tar").write_bytes(tar_of(files, ""))
    return str(tmp_path / "publaynet-train-{000000..000003}.tar")


def web_dataset(url: str) -> IterDataPipe[Any]:
    # wds.WebDataset(url)
    shards = ps.iter.IterableWrapper([url]).shard_expand().sharding_filter()
    return shards.open_files_by_fsspec(mode="rb").load_from_tar().webdataset(with_url=True)


def png_and_json(sample: dict[str, Any]) -> tuple[Any, Any]:
    return sample[".png"], sample[".json"]


def pil_dataset_of(url: str) -> IterDataPipe[Any]:
    shuffle_buffer = 10  # usually, pick something bigger, like 1000
    # wds.WebDataset(url).shuffle(shuffle_buffer).decode("pil").to_tuple("png", "json")
    return web_dataset(url).shuffle(buffer_size=shuffle_buffer).routed_decode("pil").map(png_and_json)


def preprocess(sample: Any) -> tuple[torch.Tensor, int]:
    image, page = sample
    try:
        label = page["annotations"][0]["category_id"]
    except Exception:
        label = 0
    return 1 - torch.from_numpy(np.array(image.resize((224, 224)))).permute(2, 0, 1) / 255, label


LABELS = sorted(number if number % 2 else 0 for number in range(SHARDS * OF_A_SHARD))


# The webdataset library


def test_the_data_set(url: str) -> None:
    pil_dataset = pil_dataset_of(url)

    # isinstance(pil_dataset, torch.utils.data.IterableDataset)
    assert isinstance(pil_dataset, torch.utils.data.IterableDataset)

    # for image, json in pil_dataset:
    #     break
    for image, page in pil_dataset:  # noqa: B007
        break
    assert isinstance(image, Image.Image)
    assert (image.mode, image.height) == ("RGB", 40)
    assert [*page] == ["annotations"]
    assert len(list(pil_dataset)) == SHARDS * OF_A_SHARD


def test_samples_have_the_keys_that_the_package_gives(url: str) -> None:
    sample = next(iter(web_dataset(url)))
    assert [*sample] == ["__key__", "__url__", ".json", ".png"]
    assert (sample["__key__"], sample["__url__"]) == ("PMC_00000", url.replace("{000000..000003}", "000000"))


def test_augmentation_and_preparation_are_added(url: str) -> None:
    pil_dataset = pil_dataset_of(url)

    # dataset = pil_dataset.map(preprocess)
    dataset = pil_dataset.map(preprocess)

    for image, label in dataset:  # noqa: B007
        break
    assert image.shape == (3, 224, 224)
    assert label in LABELS
    assert sorted(label for _, label in dataset) == LABELS


def test_the_transforms_of_torchvision(url: str) -> None:
    transforms = pytest.importorskip("torchvision.transforms", reason="torchvision is not installed")

    preproc = transforms.Compose(
        [
            transforms.Resize((224, 224)),
            transforms.ToTensor(),
            lambda x: 1 - x,
        ]
    )
    dataset = pil_dataset_of(url).map(preproc, input_col=0)
    assert [image.shape for image, _ in dataset.header(2)] == [(3, 224, 224)] * 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_loader_of_torch(url: str, num_workers: int) -> None:
    dataset = pil_dataset_of(url).map(preprocess)

    # torch.utils.data.DataLoader(dataset, num_workers=2, batch_size=8)
    loader: Any = torch.utils.data.DataLoader(dataset, num_workers=num_workers, batch_size=8)

    batches = list(loader)
    assert sorted(label for _, labels in batches for label in labels.tolist()) == LABELS
    assert batches[0][0].shape == (8, 3, 224, 224)


# The pipeline API


def pipeline(url: str) -> IterDataPipe[Any]:
    shuffle_buffer = 10
    return (
        # wds.SimpleShardList(url),
        ps.iter.IterableWrapper([url])
        .shard_expand()
        # wds.shuffle(100),
        .shuffle(buffer_size=100)
        # wds.split_by_node, wds.split_by_worker,
        .sharding_filter()
        # wds.tarfile_to_samples(),
        .open_files_by_fsspec(mode="rb")
        .load_from_tar()
        .webdataset(with_url=True)
        # wds.shuffle(shuffle_buffer),
        .shuffle(buffer_size=shuffle_buffer)
        # wds.decode("pil"),
        .routed_decode("pil")
        # wds.to_tuple("png", "json"),
        .map(png_and_json)
        # wds.map(preprocess),
        .map(preprocess)
        # wds.batched(16)
        .batch(16)
        .collate()
    )


def test_the_pipeline(url: str) -> None:
    dataset = pipeline(url)

    # batch = next(iter(dataset))
    # batch[0].shape, batch[1].shape
    batch = next(iter(dataset))
    assert (batch[0].shape, batch[1].shape) == ((16, 3, 224, 224), (16,))


def test_shard_resampling_for_training_on_several_nodes(url: str) -> None:
    # wds.WebDataset(url, resampled=True).with_epoch(100)
    shards = list(ps.iter.IterableWrapper([url]).shard_expand())
    drawn = ps.iter.Sampler(shards, RandomSampler, replacement=True).cycle().map(shards.__getitem__).sharding_filter()
    samples = drawn.open_files_by_fsspec(mode="rb").load_from_tar().webdataset(with_url=True)
    dataset = samples.header(100)

    keys = [sample["__key__"] for sample in dataset]
    assert len(keys) == 100 > len({*keys})


# Other lines: pipes, secure mode, wids


def test_files_are_read_from_any_pipe(url: str) -> None:
    # wds.WebDataset(f"pipe:cat {url}")
    shards = ps.iter.IterableWrapper([f"pipe:cat {url}"]).shard_expand().sharding_filter()
    tars = shards.open_files_by_fsspec(mode="rb", allow_commands=True).load_from_tar()
    keys = [sample["__key__"] for sample in tars.webdataset(with_url=True)]
    assert keys == [sample["__key__"] for sample in web_dataset(url)]


def test_secure_mode_is_the_only_one(url: str, tmp_path: Path) -> None:
    # webdataset.utils.enforce_security = True
    with pytest.raises(ValueError, match="allow_commands=True"):
        list(web_dataset(f"pipe:cat {url}"))
    (tmp_path / "pickles.tar").write_bytes(tar_of({"1.pyd": pickle.dumps([1])}, ""))
    [sample] = web_dataset(str(tmp_path / "pickles.tar")).routed_decode()
    assert sample[".pyd"] == pickle.dumps([1])


def test_samples_are_read_by_index(url: str) -> None:
    # wids.ShardListDataset(shards)
    dataset = ps.map.TarReader(list(ps.iter.IterableWrapper([url]).shard_expand()))
    assert len(dataset) == SHARDS * OF_A_SHARD
    assert dataset[7][".png"] == png_of(7)


def test_the_format_is_written(url: str, tmp_path: Path) -> None:
    # with wds.ShardWriter("out-%06d.tar", maxcount=10) as sink: sink.write(sample)
    decoded = web_dataset(url).routed_decode("rgb8")
    shards = list(decoded.write_tar(f"{tmp_path}/out-{{shard:06d}}.tar", 10))
    assert [number for _, number in shards] == [10, 10, 4]
    again = web_dataset(f"{tmp_path}/out-{{000000..000002}}.tar").routed_decode("rgb8")
    for written, sample in zip(again, islice(decoded, 24), strict=True):
        assert (written["__key__"], written[".json"]) == (sample["__key__"], sample[".json"])
        assert np.array_equal(written[".png"], sample[".png"])
