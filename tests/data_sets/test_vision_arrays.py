"""Data sets whose images are rows of arrays give what torchvision's own give, from files of the same layout."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets.laws import DATA_SET_LAWS
from served import FileServer, served
from vision_items import mat, same, theirs, write

pytestmark = pytest.mark.timeout(50)
D = ps.datasets
rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision takes files of any digest."""
    for module in ("utils", "semeion", "cifar", "svhn", "stl10", "fer2013"):
        monkeypatch.setattr(f"torchvision.datasets.{module}.check_integrity", lambda *arguments, **options: True)


def idx(array: Any) -> bytes:
    magic = {"uint8": 0x0800, "int32": 0x0C00}[array.dtype.name] + array.ndim
    sizes = np.array([magic, *array.shape], ">u4").tobytes()
    return sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


def pixels(*shape: int) -> Any:
    return rng.integers(0, 256, shape, np.uint8)


def labels(n: int, first: int = 0, classes: int = 10) -> Any:
    return (np.arange(n) * 7 % classes + first).astype(np.uint8)


# MNIST and its like

MNIST = {f"{split}_images": idx(pixels(n, 28, 28)) for split, n in (("train", 9), ("test", 4))} | {
    f"{split}_labels": idx(labels(n)) for split, n in (("train", 9), ("test", 4))
}


def unpacked(data: Any, files: Mapping[str, bytes], folder: Path) -> Path:
    names = {name: re.sub(r"\.(gz|xz)$", "", data.resources[name].name) for name in files}
    return write(folder, {names[name]: content for name, content in files.items()})


@pytest.mark.parametrize("name", ["MNIST", "FashionMNIST", "KMNIST"])
def test_mnist_and_its_like(name: str, server: FileServer, tmp_path: Path) -> None:
    data = getattr(D, name)
    unpacked(data, MNIST, tmp_path / "theirs" / name / "raw")
    small = served(data, {key: gzip.compress(value) for key, value in MNIST.items()}, server, train=9, test=4)
    for train in (True, False):
        same(small(tmp_path, train=train), getattr(theirs, name)(tmp_path / "theirs", train=train))


@pytest.mark.parametrize("image_set", ["balanced", "byclass", "bymerge", "letters", "digits", "mnist"])
def test_emnist(image_set: str, server: FileServer, tmp_path: Path) -> None:
    first = 1 if image_set == "letters" else 0
    files = {}
    for split in ("train", "test"):
        files[f"emnist-{image_set}-{split}-images-idx3-ubyte"] = idx(pixels(5, 28, 28))
        files[f"emnist-{image_set}-{split}-labels-idx1-ubyte"] = idx(labels(5, first))
    write(tmp_path / "theirs" / "EMNIST" / "raw", files)
    archive = zip_of({f"gzip/{name}.gz": gzip.compress(content) for name, content in files.items()})
    small = served(D.EMNIST, {"archive": archive}, server)
    for train in (True, False):
        other = theirs.EMNIST(tmp_path / "theirs", image_set, train=train)
        data = small(tmp_path, train=train, image_set=image_set)
        same(data, other)
        assert [*data.info.categories] == [*other.classes]


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda: D.EMNIST("r", "test"), 18_800),
        (lambda: D.EMNIST("r", image_set="byclass"), 697_932),
        (lambda: D.STL10("r", folds=9), 1_000),
        (lambda: D.STL10("r", "train+unlabeled", folds=0), 101_000),
        (lambda: D.STL10("r", "test", folds=0), 8_000),
    ],
)
def test_options_decide_the_count(make: Callable[[], Any], count: int) -> None:
    assert len(make()) == count


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(ValueError, match=r"image_set must be one of 'balanced', .*, and is 'letter'"):
        D.EMNIST("r", image_set="letter")
    with pytest.raises(ValueError, match="folds must be None or in 0 … 9, and is 10"):
        D.STL10("r", folds=10)


@pytest.mark.parametrize(("split", "compat"), [("train", True), ("nist", False), ("test", False)])
def test_qmnist(split: str, compat: bool, server: FileServer, tmp_path: Path) -> None:
    same(*qmnist(split, compat, 5, server, tmp_path))


@pytest.mark.parametrize("split", ["test10k", "test50k"])
def test_parts_of_qmnist(split: str, server: FileServer, tmp_path: Path) -> None:
    data, other = qmnist(split, True, 10_003, server, tmp_path, map_style=True)
    assert len(data) == len(other)
    same([data[0], data[-1]], [other[0], other[len(other) - 1]])


def qmnist(split: str, compat: bool, n: int, server: FileServer, tmp_path: Path, **options: Any) -> tuple[Any, Any]:
    """Return a split of ours and of torchvision's."""
    columns = np.stack([labels(n).astype(np.int32), *rng.integers(0, 10**6, (7, n), np.int32)], axis=1)
    part = split.rstrip("105k")
    files = {f"{part}_images": idx(pixels(n, 28, 28)), f"{part}_labels": idx(columns)}
    unpacked(D.QMNIST, files, tmp_path / "theirs" / "QMNIST" / "raw")
    pack = lzma.compress if split == "nist" else gzip.compress
    small = served(D.QMNIST, {key: pack(value) for key, value in files.items()}, server)
    data = small(tmp_path, split, compat=compat, **options)
    return data, theirs.QMNIST(tmp_path / "theirs", what=split, compat=compat)


# digits in text


def usps_line(number: int) -> str:
    values = np.random.default_rng(number).uniform(-1, 1, 256)
    return " ".join([str(number % 10 + 1), *(f"{place}:{value:.4f}" for place, value in enumerate(values, 1))])


def test_usps(server: FileServer, tmp_path: Path) -> None:
    files = {
        name: bz2.compress("".join(f"{usps_line(number)} \n" for number in range(n)).encode())
        for name, n in (("train", 7), ("test", 3))
    }
    write(tmp_path / "theirs", {D.USPS.resources[name].name: content for name, content in files.items()})
    small = served(D.USPS, files, server, train=7, test=3)
    for train in (True, False):
        same(small(tmp_path, train=train), theirs.USPS(tmp_path / "theirs", train=train))


def semeion_line(number: int) -> str:
    values = np.random.default_rng(number).integers(0, 2, 256)
    return " ".join(
        [*(f"{value}.0000" for value in values), *("1" if place == number % 10 else "0" for place in range(10))]
    )


def test_semeion(server: FileServer, tmp_path: Path) -> None:
    content = "".join(f"{semeion_line(number)} \n" for number in range(12)).encode()
    write(tmp_path / "theirs", {"semeion.data": content})
    other = theirs.SEMEION(tmp_path / "theirs", download=False)
    same(served(D.SEMEION, {"data": content}, server, all=12)(tmp_path), other)


# CIFAR


def batch(n: int, key: str, classes: int = 10) -> bytes:
    """A pickle as Python 2 wrote it: of numpy.core, where today's is of numpy._core."""
    content = {"data": pixels(n, 3072), key: labels(n, 0, classes).tolist(), "filenames": ["a"] * n}
    return pickle.dumps(content, 2).replace(b"numpy._core", b"numpy.core")


CIFAR10 = {
    f"cifar-10-batches-py/{name}": batch(n, "labels")
    for n, name in enumerate(["data_batch_4", "test_batch", *(f"data_batch_{k}" for k in (3, 1, 5, 2))], 2)
} | {"cifar-10-batches-py/batches.meta": pickle.dumps({"label_names": [*D.CIFAR10.categories]}, 2)}
CIFAR100 = {f"cifar-100-python/{split}": batch(6, "fine_labels", 100) for split in ("train", "test")} | {
    "cifar-100-python/meta": pickle.dumps({"fine_label_names": [*D.CIFAR100.categories]}, 2)
}


@pytest.mark.parametrize(("name", "files"), [("CIFAR10", CIFAR10), ("CIFAR100", CIFAR100)])
def test_cifar(name: str, files: dict[str, bytes], server: FileServer, tmp_path: Path) -> None:
    write(tmp_path / "theirs", files)
    small = served(getattr(D, name), {"archive": tar_of(files)}, server)
    for train in (True, False):
        same(small(tmp_path, train=train), getattr(theirs, name)(tmp_path / "theirs", train=train))


class Evil:
    def __reduce__(self) -> Any:
        return print, ("this must not run",)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (pickle.dumps(Evil()), r"test_batch: it is no pickle of data and labels: .*builtins.print, which is no array"),
        (pickle.dumps({"data": pixels(2, 3072)}), r"no pickle of data and labels: KeyError"),
        (batch(2, "labels")[:500], r"no pickle of data and labels: "),
        (pickle.dumps({"data": pixels(2, 3072), "labels": [1]}), r"there are 1 labels of 2 images"),
        (pickle.dumps({"data": pixels(2, 3072), "labels": [1, 10]}), r"test_batch, row 2: label 10 is not in 0 … 9"),
        (None, r"has no 'cifar-10-batches-py/test_batch': its layout has changed"),
    ],
)
def test_damaged_cifar(
    content: bytes | None, error: str, server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"cifar-10-batches-py/test_batch" if content else "other": content or b""}
    small = served(D.CIFAR10, {"archive": tar_of(files)}, server)
    with pytest.raises((ValueError, FileNotFoundError), match=error):
        list(small(tmp_path, train=False))
    assert capsys.readouterr().out == ""


# larger arrays


def test_svhn(server: FileServer, tmp_path: Path) -> None:
    files = {
        split: mat(X=pixels(32, 32, 3, n), y=labels(n, first=1).reshape(-1, 1))
        for split, n in (("train", 11), ("test", 3), ("extra", 4))
    }
    write(tmp_path / "theirs", {f"{split}_32x32.mat": content for split, content in files.items()})
    small = served(D.SVHN, files, server)
    for split in files:
        same(small(tmp_path, split), theirs.SVHN(tmp_path / "theirs", split))


STL10 = {
    "stl10_binary/test_X.bin": pixels(3, 27_648).tobytes(),
    "stl10_binary/test_y.bin": labels(3, 1).tobytes(),
    "stl10_binary/train_X.bin": pixels(5, 27_648).tobytes(),
    "stl10_binary/train_y.bin": labels(5, 1).tobytes(),
    "stl10_binary/unlabeled_X.bin": pixels(4, 27_648).tobytes(),
    "stl10_binary/class_names.txt": "\n".join(D.STL10.categories).encode(),
    "stl10_binary/fold_indices.txt": "".join(f"{k % 5} {(k + 3) % 5} \n" for k in range(10)).encode(),
}


@pytest.mark.parametrize("split", ["train", "train+unlabeled", "unlabeled", "test"])
@pytest.mark.parametrize("folds", [None, 4])
def test_stl10(split: Any, folds: int | None, server: FileServer, tmp_path: Path) -> None:
    write(tmp_path / "theirs", STL10)
    small = served(D.STL10, {"archive": tar_of(STL10)}, server)
    other = theirs.STL10(tmp_path / "theirs", split, folds)
    same(small(tmp_path, split, folds=folds), other)


def h5(name: str, array: Any) -> bytes:
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file[name] = array
    return buffer.getvalue()


def test_pcam(server: FileServer, tmp_path: Path) -> None:
    files = {}
    for split, n in (("train", 4), ("test", 2), ("val", 3)):
        files[f"{split}_images"] = h5("x", pixels(n, 96, 96, 3))
        files[f"{split}_targets"] = h5("y", (np.arange(n) % 2).reshape(n, 1, 1, 1).astype(np.uint8))
    unpacked(D.PCAM, files, tmp_path / "theirs" / "pcam")
    small = served(D.PCAM, {key: gzip.compress(value) for key, value in files.items()}, server)
    for split in ("train", "test", "val"):
        same(small(tmp_path, split), theirs.PCAM(tmp_path / "theirs", split))


# FER2013: files that users put there


def fer(header: str, rows: list[tuple[int, str]]) -> bytes:
    lines = [header]
    for number, (emotion, usage) in enumerate(rows):
        values = {
            "emotion": str(emotion),
            "pixels": " ".join(map(str, np.random.default_rng(number).integers(0, 256, 48 * 48))),
            "Usage": usage,
        }
        lines.append(",".join(values[name.strip()] for name in header.split(",")))
    return "\n".join(lines).encode() + b"\n"


ROWS = [(3, "Training"), (0, "PublicTest"), (6, "Training"), (5, "PrivateTest")]
FER = {
    "fer2013.csv": fer("emotion,pixels,Usage", ROWS),
    "icml_face_data.csv": fer("emotion, Usage, pixels", ROWS),
    "train.csv": fer("emotion,pixels", ROWS),
    "test.csv": fer("pixels", ROWS),
}


@pytest.mark.parametrize("there", [["fer2013.csv"], ["icml_face_data.csv"], ["train.csv", "test.csv"]])
def test_fer2013(there: list[str], server: FileServer, tmp_path: Path) -> None:
    small = served(D.FER2013, {name.partition("_")[0].removesuffix(".csv"): FER[name] for name in there}, server)
    missing = {name: each for name, each in D.FER2013.resources.items() if each.name not in there}
    small.resources = {**small.resources, **missing}
    write(tmp_path / "theirs" / "fer2013", {name: FER[name] for name in there})
    for split in ("train", "test"):
        same(small(tmp_path, split), theirs.FER2013(tmp_path / "theirs", split))


# damage: each with the file and what is wrong with it

SMALL: dict[str, tuple[Any, dict[str, bytes]]] = {
    "MNIST": (
        D.MNIST,
        {"train_images": gzip.compress(idx(pixels(2, 28, 28))), "train_labels": gzip.compress(idx(labels(2)))},
    ),
    "USPS": (D.USPS, {"train": bz2.compress(usps_line(1).encode())}),
    "SEMEION": (D.SEMEION, {"data": semeion_line(1).encode()}),
    "SVHN": (D.SVHN, {"train": mat(X=pixels(32, 32, 3, 2), y=labels(2, 1))}),
    "STL10": (D.STL10, {"archive": tar_of(STL10)}),
    "FER2013": (D.FER2013, {"fer2013": FER["fer2013.csv"]}),
    "PCAM": (
        D.PCAM,
        {
            "train_images": gzip.compress(h5("x", pixels(2, 96, 96, 3))),
            "train_targets": gzip.compress(h5("y", pixels(2, 1, 1, 1) % 2)),
        },
    ),
    "QMNIST": (
        D.QMNIST,
        {
            "train_images": gzip.compress(idx(pixels(2, 28, 28))),
            "train_labels": gzip.compress(idx(np.ones((2, 8), np.int32))),
        },
    ),
}


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("MNIST", {"train_images": gzip.compress(b"\x89PNG")}, r"ubyte.gz: it begins with 89504e47, not with 00000803"),
        ("MNIST", {"train_images": gzip.compress(b"\0\0\x08\x03\0\0")}, r"ubyte.gz: it has 6 bytes, and .* it is cut"),
        ("MNIST", {"train_images": gzip.compress(idx(pixels(2, 28, 28))[:-1])}, r"it has 1,583 bytes, and 1,584"),
        ("MNIST", {"train_labels": gzip.compress(idx(labels(3)))}, r"train-labels.*: there are 3 labels of 2 images"),
        ("MNIST", {"train_labels": gzip.compress(idx(labels(2) + 9))}, r"row 2: label 16 is not in 0 … 9"),
        ("QMNIST", {"train_labels": gzip.compress(idx(np.ones((2, 7), np.int32)))}, r"its rows have 7 numbers, not 8"),
        ("USPS", {"train": bz2.compress(b"1 1:0.5 2:0.1\n")}, r"usps.bz2, row 1: it is no label and 256 values"),
        ("USPS", {"train": bz2.compress(usps_line(1).replace("2", "11", 1).encode())}, r"row 1: label 11 is not"),
        ("SEMEION", {"data": semeion_line(1)[:-4].encode()}, r"semeion.data, row 1: it has 264 numbers"),
        ("SEMEION", {"data": b"<html>"}, r"semeion.data, row 1: could not convert"),
        ("SVHN", {"train": b"no such page"}, r"train_32x32.mat: it is no MATLAB file"),
        ("SVHN", {"train": mat(X=pixels(32, 32, 3, 2))}, r"train_32x32.mat: it has no variable y"),
        ("SVHN", {"train": mat(X=pixels(32, 32, 4, 2), y=labels(2, 1))}, r"X has the shape \(32, 32, 4, 2\)"),
        ("STL10", {"archive": tar_of(STL10 | {"stl10_binary/train_X.bin": b"abc"})}, r"train_X.bin: it has 3 bytes"),
        ("STL10", {"archive": tar_of(STL10 | {"stl10_binary/train_y.bin": b"\0"})}, r"train_y.bin: there are 1 labels"),
        ("PCAM", {"train_images": gzip.compress(b"no such page")}, r"train_x.h5.gz: it is no HDF5 file"),
        ("PCAM", {"train_targets": gzip.compress(h5("z", pixels(2)))}, r"train_y.h5.gz: it is no HDF5 file with"),
        ("FER2013", {"fer2013": b"pixels\n1 2 3\n"}, r"its columns are pixels, and not emotion, pixels and Usage"),
        ("FER2013", {"fer2013": b"emotion,pixels,Usage\n1,1 2,Training\n"}, r"fer2013.csv>, row 1: cannot reshape"),
        ("FER2013", {"fer2013": b"emotion,pixels,Usage\n1,1 2\n"}, r"fer2013.csv, row 1: it has too few columns"),
        ("FER2013", {"fer2013": fer("emotion,pixels,Usage", [(7, "Training")])}, r"row 1: label 7 is not in 0 … 6"),
    ],
)  # fmt: skip
def test_damage_is_named(name: str, change: dict[str, bytes], error: str, server: FileServer, tmp_path: Path) -> None:
    data, files = SMALL[name]
    with pytest.raises(ValueError, match=error):
        list(served(data, files | change, server)(tmp_path))


@pytest.mark.parametrize("name", SMALL)
def test_laws(name: str, server: FileServer, tmp_path: Path) -> None:
    data, files = SMALL[name]
    small = served(data, files, server, **({"train": 2} if name == "MNIST" else {}))
    laws = [law for law in DATA_SET_LAWS if law != "two_workers_read_it" or name == "MNIST"]
    D.check_dataset(lambda **arguments: small(tmp_path, **arguments), laws)


@pytest.mark.parametrize("name", ["MNIST", "SVHN", "STL10", "PCAM"])
def test_arrays_are_read_where_a_url_leads_to(name: str, server: FileServer, tmp_path: Path) -> None:
    data, files = SMALL[name]
    small = served(data, files, server)
    for (image, label), (other, its_label) in zip(small(tmp_path), small(f"memory://arrays-{name}"), strict=True):
        assert torch.equal(image, other)
        assert label == its_label


def test_a_state_holds_no_rows(server: FileServer, tmp_path: Path) -> None:
    files = {"train_images": gzip.compress(idx(pixels(90, 28, 28))), "train_labels": gzip.compress(idx(labels(90)))}
    data = served(D.MNIST, files, server, train=90)(tmp_path, shuffle=True)
    data.take(31)
    assert len(json.dumps(data.state_dict())) < 3_000
