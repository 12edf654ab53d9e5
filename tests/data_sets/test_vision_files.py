"""Data sets whose images are files give what torchvision's own give, from files of the same layout."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets.laws import DATA_SET_LAWS
from served import FileServer, served
from vision_items import equal, image_file, jpeg, mat, same, theirs, write

pytestmark = pytest.mark.timeout(50)
D = ps.datasets
Files = dict[str, bytes]


def jpegs(paths: list[str], mode: str = "RGB") -> Files:
    return {path: jpeg(number, mode=mode) for number, path in enumerate(paths)}


# Each returns the resources of ours, and the files below the root of torchvision's.


def caltech101(every: int = 1) -> tuple[Files, Files]:
    images = jpegs([f"101_ObjectCategories/{name}/image_0001.jpg" for name in D.Caltech101.categories[::every]])
    images["101_ObjectCategories/Faces/image_0002.jpg"] = jpeg(500, mode="L")
    images["101_ObjectCategories/BACKGROUND_Google/image_0001.jpg"] = jpeg(501)
    other = {
        "Faces": "Faces_2",
        "Faces_easy": "Faces_3",
        "Motorbikes": "Motorbikes_16",
        "airplanes": "Airplanes_Side_2",
    }
    outlines = {}
    for number, path in enumerate(images):
        _, name, image = path.split("/")
        content = mat(obj_contour=np.random.default_rng(number).random((2, number + 2)), box_coord=np.ones((1, 4)))
        outlines[f"Annotations/{other.get(name, name)}/annotation_{image[6:10]}.mat"] = content
    inner = {
        "caltech-101/101_ObjectCategories.tar.gz": tar_of(images),
        "caltech-101/Annotations.tar": tar_of(outlines, ""),
    }
    return {"archive": zip_of(inner)}, {f"caltech101/{path}": each for path, each in (images | outlines).items()}


def caltech256(every: int = 1) -> tuple[Files, Files]:
    names = [f"{number:03}.{name}" for number, name in enumerate(D.Caltech256.categories, 1)][::every]
    images = jpegs([f"256_ObjectCategories/{name}/{name[:3]}_0001.jpg" for name in reversed(names)])
    images["256_ObjectCategories/056.dog/056_0002.jpg"] = jpeg(1, mode="L")
    stray = {"256_ObjectCategories/198.spider/RENAME2": b"", "256_ObjectCategories/056.dog/greg/vision309/a.jpg": b""}
    return {"archive": tar_of(images | stray, "")}, {f"caltech256/{path}": each for path, each in images.items()}


def pets(every: int = 1) -> tuple[Files, Files]:
    names = ["Abyssinian_1", "yorkshire_terrier_9", "beagle_3"]
    images = jpegs([f"images/{name}.jpg" for name in names]) | {"images/Abyssinian_100.mat": b"mat"}
    lists = {
        "annotations/trainval.txt": b"Abyssinian_1 1 1 1\nyorkshire_terrier_9 37 2 25\n",
        "annotations/test.txt": b"beagle_3 5 2 1\n",
    }
    masks = {f"annotations/trimaps/{name}.png": image_file(k, mode="L") for k, name in enumerate(names)}
    masks["annotations/trimaps/._beagle_3.png"] = b"resource fork"
    files = {"images": tar_of(images), "annotations": tar_of(lists | masks)}
    return files, {f"oxford-iiit-pet/{path}": each for path, each in (images | lists | masks).items()}


def flowers(every: int = 1) -> tuple[Files, Files]:
    images = jpegs([f"jpg/image_{number:05}.jpg" for number in range(1, 8)])
    tables = {
        "labels": mat(labels=np.array([[1, 102, 7, 1, 5, 5, 9]], np.uint8)),
        "setid": mat(
            trnid=np.array([[3, 1]], np.uint16),
            valid=np.array([[2, 5]], np.uint16),
            tstid=np.array([[7, 4, 6]], np.uint16),
        ),
    }
    tree = images | {"imagelabels.mat": tables["labels"], "setid.mat": tables["setid"]}
    return {"images": tar_of(images), **tables}, {f"flowers-102/{path}": each for path, each in tree.items()}


def food(every: int = 1) -> tuple[Files, Files]:
    images, lists = {}, {}
    for split, first in (("train", 0), ("test", 200)):
        names = {dish: [f"{dish}/{first + k}"] for k, dish in enumerate(reversed(D.Food101.categories[::every]))}
        lists[f"food-101/meta/{split}.json"] = json.dumps(names).encode()
        images |= jpegs([f"food-101/images/{name}.jpg" for [name] in names.values()])
    return {"archive": tar_of(images | lists)}, images | lists


def dtd(every: int = 1) -> tuple[Files, Files]:
    names = [f"{name}/{name}_{k:04}.jpg" for k, name in enumerate(D.DTD.categories)][::every]
    lists = {
        f"dtd/labels/{split}{k}.txt": "\n".join(names[:: -1 if k == 2 else 1]).encode()
        for split in ("train", "val", "test")
        for k in (1, 2)
    }
    tree = jpegs([f"dtd/images/{name}" for name in names]) | lists
    return {"archive": tar_of(tree)}, {f"dtd/{path}": each for path, each in tree.items()}


def eurosat(every: int = 1) -> tuple[Files, Files]:
    images = jpegs([f"2750/{name}/{name}_{k}.jpg" for name in reversed(D.EuroSAT.categories) for k in (10, 9)])
    return {"archive": zip_of({"2750/": b"", **images})}, {f"eurosat/{path}": each for path, each in images.items()}


def gtsrb(every: int = 1) -> tuple[Files, Files]:
    train = {
        f"GTSRB/Training/{k:05}/0000{j}_00000.ppm": image_file(k, kind="PPM")
        for k in range(0, 43, every)
        for j in (1, 0)
    }
    train |= {f"GTSRB/Training/{k:05}/GT-{k:05}.csv": b"Filename;Width" for k in range(43)}
    test = {f"GTSRB/Final_Test/Images/{k:05}.ppm": image_file(k, kind="PPM") for k in range(3)}
    head = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\r\n"
    truth = {"GT-final_test.csv": (head + "".join(f"{k:05}.ppm;9;7;1;1;5;5;{42 - k}\r\n" for k in range(3))).encode()}
    files = {"train": zip_of(train), "test": zip_of(test), "test_labels": zip_of(truth)}
    return files, {f"gtsrb/{path}": each for path, each in (train | test | truth).items()}


def country211(every: int = 1) -> tuple[Files, Files]:
    images = jpegs(
        [
            f"country211/{split}/{code}/{split}1.jpg"
            for split in ("train", "valid", "test")
            for code in D.Country211.categories[::every]
        ]
    )
    return {"archive": tar_of(images)}, images


def cars(every: int = 1) -> tuple[Files, Files]:
    def table(rows: list[tuple[int, str]]) -> bytes:
        fields = [(name, object) for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")]
        return mat(annotations=np.array([(1, 2, 3, 4, label, name) for label, name in rows], fields).reshape(1, -1))

    train = jpegs(["cars_train/00001.jpg", "cars_train/00002.jpg"])
    test = jpegs(["cars_test/00001.jpg", "cars_test/00002.jpg"])
    devkit = {
        "devkit/cars_train_annos.mat": table([(196, "00001.jpg"), (1, "00002.jpg")]),
        "devkit/cars_meta.mat": mat(class_names=np.array([*D.StanfordCars.categories], object)),
    }
    labels = table([(77, "00001.jpg"), (5, "00002.jpg")])
    files = {"train": tar_of(train), "test": tar_of(test), "devkit": tar_of(devkit), "test_labels": labels}
    tree = train | test | devkit | {"cars_test_annos_withlabels.mat": labels}
    return files, {f"stanford_cars/{path}": each for path, each in tree.items()}


def celeba(every: int = 1) -> tuple[Files, Files]:
    names = [f"{k:06}.jpg" for k in range(1, 7)]
    images = jpegs([f"img_align_celeba/{name}" for name in names])
    rng = np.random.default_rng(0)

    def table(header: str, numbers: Any) -> bytes:
        head = [str(len(names)), header] if header else []
        return (
            "\r\n".join(
                [*head, *(f"{name}  {'  '.join(map(str, row))}" for name, row in zip(names, numbers, strict=True))]
            ).encode()
            + b"\r\n"
        )

    tables = {
        "partition": "".join(f"{name} {k % 3}\n" for k, name in enumerate(names)).encode(),
        "identity": "".join(f"{name} {k * 99 + 1}\n" for k, name in enumerate(names)).encode(),
        "attributes": table(" ".join(D.CelebA.categories) + " ", rng.choice([-1, 1], (6, 40))),
        "bbox": table("image_id x_1 y_1 width height", rng.integers(0, 300, (6, 4))),
        "landmarks": table(
            "lefteye_x lefteye_y righteye_x righteye_y nose_x nose_y leftmouth_x leftmouth_y rightmouth_x rightmouth_y",
            rng.integers(0, 99, (6, 10)),
        ),
    }
    tree = {D.CelebA.resources[name].name: content for name, content in tables.items()}
    tree = images | tree
    return {"images": zip_of(images), **tables}, {f"celeba/{path}": each for path, each in tree.items()}


MAKERS: dict[str, Callable[..., tuple[Files, Files]]] = {
    "Caltech101": caltech101,
    "Caltech256": caltech256,
    "OxfordIIITPet": pets,
    "Flowers102": flowers,
    "Food101": food,
    "DTD": dtd,
    "EuroSAT": eurosat,
    "GTSRB": gtsrb,
    "Country211": country211,
    "StanfordCars": cars,
    "CelebA": celeba,
}


@functools.cache
def made(name: str, every: int = 1) -> tuple[Files, Files]:
    return MAKERS[name](every)


def small(name: str, server: FileServer, every: int = 1, **changed: bytes) -> Any:
    return served(getattr(D, name), made(name, every)[0] | changed, server)


CASES: list[tuple[str, dict[str, Any]]] = [
    ("Caltech101", {}),
    ("Caltech101", {"target_type": "annotation"}),
    ("Caltech101", {"target_type": ["annotation", "category"]}),
    ("Caltech256", {}),
    ("OxfordIIITPet", {}),
    ("OxfordIIITPet", {"target_types": "binary-category"}),
    ("OxfordIIITPet", {"target_types": "segmentation"}),
    ("OxfordIIITPet", {"target_types": ["category", "segmentation"]}),
    ("OxfordIIITPet", {"target_types": []}),
    ("Flowers102", {}),
    ("Food101", {}),
    ("DTD", {}),
    ("DTD", {"partition": 2}),
    ("EuroSAT", {}),
    ("GTSRB", {}),
    ("Country211", {}),
    ("StanfordCars", {}),
    ("CelebA", {}),
    ("CelebA", {"target_type": "identity"}),
    ("CelebA", {"target_type": "bbox"}),
    ("CelebA", {"target_type": ["landmarks", "attr"]}),
    ("CelebA", {"target_type": []}),
]


@pytest.fixture
def unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision takes files of any digest."""
    for module in ("flowers102", "celeba"):
        monkeypatch.setattr(f"torchvision.datasets.{module}.check_integrity", lambda *arguments, **options: True)
    monkeypatch.setattr(theirs.CelebA, "_check_integrity", lambda self: True)


@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{name}{each or ''}" for name, each in CASES])
@pytest.mark.usefixtures("unverified")
def test_items_are_torchvisions(name: str, options: dict[str, Any], server: FileServer, tmp_path: Path) -> None:
    data = small(name, server)
    write(tmp_path / "theirs", made(name)[1])
    for split in data.splits:
        other = getattr(theirs, name)(
            tmp_path / "theirs", **({} if split == "all" and name != "CelebA" else {"split": split}), **options
        )
        same(data(tmp_path, split, **options), other)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # torchvision leaves a GIF to the garbage collector
def test_sun397(server: FileServer, tmp_path: Path) -> None:
    images = jpegs([f"SUN397/{name[0]}/{name}/sun_{k:015}.jpg" for k, name in enumerate(D.SUN397.categories)])
    images["SUN397/a/abbey/sun_b.jpg"] = image_file(7, kind="GIF", mode="L")  # some are no JPEGs
    names = "".join(f"/{name[0]}/{name}\n" for name in D.SUN397.categories).encode()
    archive = tar_of(images | {"SUN397/ClassName.txt": names, "SUN397/README.txt": b""})
    write(tmp_path / "theirs", images | {"SUN397/ClassName.txt": names})
    other = theirs.SUN397(tmp_path / "theirs")
    in_order = sorted(range(len(other)), key=lambda index: str(other._image_files[index]))
    items = list(served(D.SUN397, {"archive": archive}, server)(tmp_path))
    assert len(items) == len(in_order) == 398
    for item, index in zip(items, in_order, strict=True):
        assert all(map(equal, item, other[index]))


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("Caltech101", {"target_type": "box"}, r"target_type must be of 'category', 'annotation', and 'box' is not"),
        ("OxfordIIITPet", {"target_types": ["mask"]}, r"target_types must be of 'category', .*, and 'mask' is not"),
        ("CelebA", {"target_type": "hair"}, r"target_type must be of 'attr', 'identity', 'bbox', 'landmarks', and"),
        ("DTD", {"partition": 11}, r"partition must be in 1 … 10, and is 11"),
    ],
)
def test_wrong_options_are_named(name: str, options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        getattr(D, name)("root", **options)


def folders_of(path: str, content: bytes = b"") -> Files:
    """An archive of Caltech 101 with one file."""
    return {"archive": zip_of({"caltech-101/101_ObjectCategories.tar.gz": tar_of({path: content})})}


DAMAGES: list[tuple[str, Files, str]] = [
    ("Caltech101", folders_of("101_ObjectCategories/toad/image_0001.jpg"), r"'toad' is none of the 101 classes"),
    (
        "Caltech256",
        {"archive": tar_of({"256_ObjectCategories/300.toad/300_0001.jpg": b""}, "")},
        r"300_0001.jpg: 300 is none of the 257 classes",
    ),
    (
        "OxfordIIITPet",
        {"annotations": tar_of({"annotations/trainval.txt": b"a 1 1 1\nb 2 1\n"})},
        r"trainval.txt, row 2: it is no name with three numbers: 'b 2 1'",
    ),
    (
        "OxfordIIITPet",
        {"annotations": tar_of({"annotations/trainval.txt": b"a 38 1 1\n"})},
        r"row 1: 38 is no breed of 1 … 37",
    ),
    ("Flowers102", {"setid": mat(trnid=np.array([[99]]))}, r"setid.mat: it names an image 99, .* labels of 7"),
    ("Flowers102", {"setid": b"<html>"}, r"setid.mat: it is no MATLAB file"),
    ("Flowers102", {"labels": mat(labels=np.array([[103] * 7]))}, r"its labels are 103 … 103, not 1 … 102"),
    ("Food101", {"archive": tar_of({"food-101/meta/train.json": b"[1]"})}, r"train.json: it is no JSON of lists"),
    (
        "Food101",
        {"archive": tar_of({"food-101/meta/train.json": b'{"stone": ["stone/1"]}'})},
        r"'stone' is none of the 101 classes",
    ),
    (
        "DTD",
        {"archive": tar_of({"dtd/labels/train1.txt": b"banded/a.jpg\nfurry/a.jpg"})},
        r"train1.txt, row 2: 'furry' is none of the 47 classes",
    ),
    ("GTSRB", {"train": zip_of({"GTSRB/Training/00043/a.ppm": b""})}, r"00043/a.ppm: '00043' is none of the 43"),
    (
        "StanfordCars",
        {"devkit": tar_of({"devkit/cars_train_annos.mat": mat(annotations=np.ones(3))})},
        r"cars_train_annos.mat: its annotations have no fname and class",
    ),
    ("CelebA", {"partition": b"000001.jpg 0\n000002.jpg 7\n"}, r"partition.txt, row 2: it is no name with 0, 1 or"),
    ("CelebA", {"attributes": b"1\nA B\n000001.jpg 1 -1\n"}, r"list_attr_celeba.txt, row 3: it is no name with 40"),
    ("CelebA", {"partition": b"9.jpg 0\n"}, r"row 1: 9.jpg is not in all tables of targets"),
]


@pytest.mark.parametrize(("name", "change", "error"), DAMAGES)
def test_damage_is_named(
    name: str, change: Mapping[str, bytes], error: str, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=error):
        list(small(name, server, **change)(tmp_path))


def test_what_is_missing_or_no_image_is_named(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no '2750/\*.jpg': its layout has changed"):
        list(small("EuroSAT", server, archive=zip_of({"other/a.jpg": b""}))(tmp_path / "a"))
    broken = small("EuroSAT", server, archive=zip_of({"2750/River/River_1.jpg": b"no image"}))
    with pytest.raises(OSError, match="cannot identify image file") as caught:
        list(broken(tmp_path / "b"))
    assert "2750/River/River_1.jpg" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("name", MAKERS)
def test_laws(name: str, server: FileServer, tmp_path: Path) -> None:
    data = small(name, server, every=20)
    D.check_dataset(
        lambda **arguments: data(tmp_path, **arguments), [law for law in DATA_SET_LAWS if law != "two_workers_read_it"]
    )


@pytest.mark.parametrize("name", ["OxfordIIITPet", "GTSRB"])
def test_unpacked_files_and_a_zip_are_read_where_a_url_leads_to(name: str, server: FileServer, tmp_path: Path) -> None:
    data = small(name, server)
    assert [item[1] for item in data(f"memory://vision-{name}")] == [item[1] for item in data(tmp_path)]
