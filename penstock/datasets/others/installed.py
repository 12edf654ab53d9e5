"""Small, real data sets that are installed with Penstock: nothing is downloaded, and nothing written."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import torch

from ...pipes.iter import Concater
from ...pipes.iter.decode import ImageDecoder
from ...registry import IterDataPipe, close
from ..definition import dataset
from ..facts import facts
from ..files import Files
from ..records import numbered, rows_of

_SHARDS = [f"digits-00{number}" for number in range(4)]


@dataset(**facts("digits"))
def Digits(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Handwritten digits, 8×8 pixels each.

    Items: `(image, label)`, the image a uint8 tensor of shape (1, 8, 8), the label from 0 to 9. The split "train" is
    the first three of four shards and "test" the last, as in `penstock demo`. Pillow decodes them.

    >>> import penstock as ps
    >>> image, label = ps.datasets.Digits(map_style=True)[3]
    >>> image.shape, image.dtype, label
    (torch.Size([1, 8, 8]), torch.uint8, 3)
    """
    shards = {"all": _SHARDS, "train": _SHARDS[:-1], "test": _SHARDS[-1:]}[split]
    members = Concater(*(resources[shard].open() for shard in shards))
    return members.webdataset().map(_in_memory).shuffle().sharding_filter().map(_image_and_label)


def _in_memory(sample: dict[str, Any]) -> tuple[bytes, int]:
    png, label = sample[".png"].read(), int(sample[".cls"].read())
    close(sample[".png"])
    close(sample[".cls"])
    return png, label


def _image_and_label(sample: tuple[bytes, int]) -> tuple[torch.Tensor, int]:
    png, label = sample
    return ImageDecoder("torchl8")("png", png), label


@dataset(**facts("breast_cancer"))
def BreastCancer(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Measures of the nuclei of cells, and whether the tumour is benign.

    Items: `(measures, label)`, the measures a float32 tensor of 30: mean, standard error and worst value of ten, in
    the order of the file's header; label 0 is malignant and 1 benign.

    >>> import penstock as ps
    >>> measures, label = next(iter(ps.datasets.BreastCancer()))
    >>> measures[:3], label
    (tensor([ 17.9900,  10.3800, 122.8000]), 0)
    """
    return rows_of(resources["table"], "breast_cancer.csv", "BreastCancer", _measures_and_label, skip_lines=1)


def _measures_and_label(row: list[str]) -> tuple[torch.Tensor, int]:
    return torch.tensor([float(field) for field in row[:-1]]), numbered(0, 1, row[-1])


@dataset(**facts("movie_reviews"))
def MovieReviews(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[str, int]]:
    """Sentences of film reviews, each with its sentiment.

    Items: `(text, label)`; label 0 is negative and 1 positive, half of each. The layout is that of SST-2. The sentences
    are those that twenty people rated above 0.5 or below -0.5, on a scale from -4 to 4.

    >>> import penstock as ps
    >>> next(iter(ps.datasets.MovieReviews()))
    ('Offers a breath of the fresh air of true sophistication.', 1)
    """
    return rows_of(
        resources["archive"],
        f"movie_reviews/{split}.tsv",
        "MovieReviews",
        _text_and_label,
        delimiter="\t",
        skip_lines=1,
        quoting=csv.QUOTE_NONE,
    )


def _text_and_label(row: list[str]) -> tuple[str, int]:
    return row[0], numbered(0, 1, row[1])
