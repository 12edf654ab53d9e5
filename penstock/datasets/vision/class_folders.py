"""Data sets that have a folder for each class: EuroSAT, Country211 and SUN397."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from ...registry import IterDataPipe
from ..definition import dataset
from ..files import Files
from ..resource import Resource
from .names import Names
from .rows import class_folders, images_of, label_of

__all__ = ["SUN397", "Country211", "EuroSAT"]

_COUNTRIES, _SCENES = Names("country211.txt"), Names("sun397.txt")
_LAND = (
    *("AnnualCrop", "Forest", "HerbaceousVegetation", "Highway", "Industrial"),
    *("Pasture", "PermanentCrop", "Residential", "River", "SeaLake"),
)


@dataset(
    "eurosat",
    splits={"all": 27_000},
    categories=_LAND,
    resources={
        "archive": Resource(
            (
                "https://huggingface.co/datasets/torchgeo/eurosat/resolve/c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip",
                "https://madm.dfki.de/files/sentinel/EuroSAT.zip",
            ),
            sha256="8ebea626349354c5328b142b96d0430e647051f26efc2dc974c843f25ecf70bd",
            size=94_280_567,
            note="Facts: torchvision, which had both addresses with one digest, and tensorflow-datasets",
        )
    },
    licence="MIT",
    home_page="https://github.com/phelber/eurosat",
    citation="Helber, Bischke, Dengel, Borth: EuroSAT: A Novel Dataset and Deep Learning Benchmark for Land Use and "
    "Land Cover Classification, IEEE JSTARS 2019",
)
def EuroSAT(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Satellite images of ten kinds of land.

    Items: `(image, label)`, an image of shape (3, 64, 64), and 0 … 9.
    """
    return images_of(resources["archive"], partial(class_folders, resources["archive"], "2750", _LAND))


@dataset(
    "country211",
    splits={"train": 31_650, "valid": 10_550, "test": 21_100},
    categories=_COUNTRIES,
    resources={
        "archive": Resource(
            "https://openaipublic.azureedge.net/clip/data/country211.tgz",
            sha256="c011343cdc1296a8c31ff1d7129cf0b5e5b8605462cffd24f89266d6e6f4da3c",
            unpack=True,
            note="Facts: torchvision and its prototype; its size could not be confirmed",
        )
    },
    licence="of each image, by those who uploaded it: Creative Commons (a part of YFCC100M)",
    home_page="https://github.com/openai/CLIP/blob/main/data/country211.md",
    citation="Radford et al.: Learning Transferable Visual Models From Natural Language Supervision (CLIP), 2021",
)
def Country211(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs, each with the country in which it was taken.

    Items: `(image, label)`, and 0 … 210.
    """
    files = resources["archive"]
    return images_of(files, partial(class_folders, files, f"country211/{split}", _COUNTRIES))


@dataset(
    "sun397",
    splits={"all": 108_754},
    categories=_SCENES,
    resources={
        "archive": Resource(
            "http://vision.princeton.edu/projects/2010/SUN/SUN397.tar.gz",
            sha256="f404130965a7ad77bed5ececc71e720ab50f3cc1e1bb257257610d38f3b928ec",
            size=39_077_296_924,
            unpack=True,
            note="Facts: torchvision and its prototype, tensorflow-datasets",
        )
    },
    home_page="https://vision.princeton.edu/projects/2010/SUN/",
    citation="Xiao, Hays, Ehinger, Oliva, Torralba: SUN database: Large-scale scene recognition from abbey to zoo, "
    "CVPR 2010",
)
def SUN397(resources: Mapping[str, Files], split: str) -> IterDataPipe[tuple[torch.Tensor, int]]:
    """Photographs of 397 kinds of places.

    Items: `(image, label)`, and 0 … 396. They come in the order of the paths; torchvision has no fixed order.
    """
    return images_of(resources["archive"], partial(_scenes, resources["archive"]))


def _scenes(files: Files) -> list[tuple[str, int]]:
    labels = {name: label for label, name in enumerate(_SCENES)}
    paths = sorted(files.paths("SUN397/?/*/sun_*.jpg"))
    return [(path, label_of(labels, path.rpartition("/")[0].split("/", 2)[2], files, path)) for path in paths]
