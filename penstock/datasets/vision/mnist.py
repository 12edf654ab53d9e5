"""MNIST and the data sets that come as it does: one file of images and one of labels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from ...registry import IterDataPipe
from ..definition import Dataset, dataset
from ..files import Files
from ..resource import Resource
from .arrays import checked, from_arrays
from .idx import BYTES_1, BYTES_3, INTS_2, idx
from .images import as_image
from .rows import content, flawed

__all__ = ["KMNIST", "MNIST", "QMNIST", "FashionMNIST"]

_DIGITS = (
    *("0 - zero", "1 - one", "2 - two", "3 - three", "4 - four"),
    *("5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine"),
)


def _read(images: Files, labels: Files) -> tuple[Any, Any]:
    pixels = idx(images, "", content(images), BYTES_3)
    return checked(labels, "", pixels, idx(labels, "", content(labels), BYTES_1), 10)


def _mnist(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Small grey images, each of one of ten classes.

    Items: `(image, label)`, an image of shape (1, 28, 28), and 0 … 9.
    """
    return from_arrays(partial(_read, resources[f"{split}_images"], resources[f"{split}_labels"]))


MNIST = Dataset(
    "mnist",
    _mnist,
    title="MNIST",
    splits={"train": 60_000, "test": 10_000},
    categories=_DIGITS,
    resources={
        "train_images": Resource(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
                "http://yann.lecun.com/exdb/mnist/train-images-idx3-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
            ),
            sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            size=9_912_422,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "train_labels": Resource(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
                "http://yann.lecun.com/exdb/mnist/train-labels-idx1-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/train-labels-idx1-ubyte.gz",
            ),
            sha256="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            size=28_881,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test_images": Resource(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
                "http://yann.lecun.com/exdb/mnist/t10k-images-idx3-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-images-idx3-ubyte.gz",
            ),
            sha256="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            size=1_648_877,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test_labels": Resource(
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
                "http://yann.lecun.com/exdb/mnist/t10k-labels-idx1-ubyte.gz",
                "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-labels-idx1-ubyte.gz",
            ),
            sha256="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            size=4_542,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
    },
    home_page="http://yann.lecun.com/exdb/mnist/",
    citation="LeCun, Cortes, Burges: MNIST handwritten digit database, 2010",
)

FashionMNIST = Dataset(
    "fashion_mnist",
    _mnist,
    title="FashionMNIST",
    splits={"train": 60_000, "test": 10_000},
    categories=(
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    ),
    resources={
        "train_images": Resource(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
            sha256="3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            size=26_421_880,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "train_labels": Resource(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
            sha256="a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            size=29_515,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test_images": Resource(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
            sha256="346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            size=4_422_102,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test_labels": Resource(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
            sha256="67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            size=5_148,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
    },
    licence="MIT",
    home_page="https://github.com/zalandoresearch/fashion-mnist",
    citation="Xiao, Rasul, Vollgraf: Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning "
    "Algorithms, arXiv:1708.07747, 2017",
)

KMNIST = Dataset(
    "kmnist",
    _mnist,
    title="KMNIST",
    splits={"train": 60_000, "test": 10_000},
    categories=("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
    resources={
        "train_images": Resource(
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/train-images-idx3-ubyte.gz",
            sha256="51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
            size=18_165_135,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "train_labels": Resource(
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/train-labels-idx1-ubyte.gz",
            sha256="e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
            size=29_497,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test_images": Resource(
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/t10k-images-idx3-ubyte.gz",
            sha256="edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
            size=3_041_136,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
        "test_labels": Resource(
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/t10k-labels-idx1-ubyte.gz",
            sha256="20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
            size=5_120,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        ),
    },
    licence="CC BY-SA 4.0",
    home_page="http://codh.rois.ac.jp/kmnist/index.html.en",
    citation="Clanuwat et al.: Deep Learning for Classical Japanese Literature, arXiv:1812.01718, 2018; KMNIST Dataset "
    "(created by CODH), adapted from Kuzushiji Dataset (created by NIJL and others), doi:10.20676/00000341",
)

_PARTS_OF_TEST = {"test10k": slice(10_000), "test50k": slice(10_000, None)}


@dataset(
    "qmnist",
    splits={"train": 60_000, "test": 60_000, "test10k": 10_000, "test50k": 50_000, "nist": 402_953},
    categories=_DIGITS,
    resources={
        "train_images": Resource(
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-images-idx3-ubyte.gz",
            sha256="9e26a7bf1683614e065d7b76460ccd52807165b3f22561fb782bd9f38c52b51d",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "train_labels": Resource(
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-labels-idx2-int.gz",
            sha256="2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "test_images": Resource(
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-test-images-idx3-ubyte.gz",
            sha256="43fc22bf7498b8fc98de98369d72f752d0deabc280a43a7bcc364ab19e57b375",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "test_labels": Resource(
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-test-labels-idx2-int.gz",
            sha256="9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "nist_images": Resource(
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/xnist-images-idx3-ubyte.xz",
            sha256="f075553993026d4359ded42208eff77a1941d3963c1eff49d6015814f15f0984",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
        "nist_labels": Resource(
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/xnist-labels-idx2-int.xz",
            sha256="db042968723ec2b7aed5f1beac25d2b6e983b9286d4f4bf725f1086e5ae55c4f",
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        ),
    },
    licence="BSD-style",
    home_page="https://github.com/facebookresearch/qmnist",
    citation="Yadav, Bottou: Cold Case: The Lost MNIST Digits, NeurIPS 2019, arXiv:1905.10498",
)
def QMNIST(
    resources: Mapping[str, Files], split: str, *, compat: bool = True
) -> IterDataPipe[tuple[torch.Tensor, Any]]:
    """MNIST's digits reconstructed from those of NIST, with who wrote them.

    Items: `(image, label)`, an image of shape (1, 28, 28) and 0 … 9. With `compat=False` the label is an int64 tensor
    of eight numbers: class, series, writer, the digit of this writer, class of NIST, the digit of NIST, and two unused
    ones. The split is what torchvision calls `what`: `"test10k"` and `"test50k"` are parts
    of `"test"`.
    """
    part = "test" if split in _PARTS_OF_TEST else split
    read = partial(_read_qmnist, resources[f"{part}_images"], resources[f"{part}_labels"], split)
    return from_arrays(read, _image_and_class if compat else _image_and_columns)


def _read_qmnist(images: Files, labels: Files, split: str) -> tuple[Any, Any]:
    pixels = idx(images, "", content(images), BYTES_3)
    columns = idx(labels, "", content(labels), INTS_2)
    if columns.shape[1] != 8:
        raise flawed(labels, "", f"its rows have {columns.shape[1]} numbers, not 8")
    checked(labels, "", pixels, columns[:, 0], 10)
    chosen = _PARTS_OF_TEST.get(split, slice(None))
    return pixels[chosen], columns[chosen]


def _image_and_class(pixels: Any, columns: Any) -> tuple[torch.Tensor, Any]:
    return as_image(pixels), int(columns[0])


def _image_and_columns(pixels: Any, columns: Any) -> tuple[torch.Tensor, Any]:
    return as_image(pixels), torch.from_numpy(columns.astype(np.int64))
