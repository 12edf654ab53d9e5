"""VOC and COCO: boxes, masks and captions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets.laws import DATA_SET_LAWS
from served import FileServer, served
from vision_items import as_items, equal, image_file, jpeg, same, theirs, tv_tensors, v2, write

pytestmark = pytest.mark.timeout(50)
D = ps.datasets
QUICK_LAWS = [law for law in DATA_SET_LAWS if law != "two_workers_read_it"]

# VOC


def annotation(*things: tuple[str, tuple[int, int, int, int]], parts: bool = False) -> bytes:
    objects = "".join(
        f"<object><name>{name}</name><pose>Left</pose><difficult>0</difficult><bndbox><xmin>{box[0]}</xmin>"
        f"<ymin>{box[1]}</ymin><xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox>"
        + ("<part><name>head</name></part><part><name>foot</name></part>" if parts else "")
        + "</object>"
        for name, box in things
    )
    return (
        f"<annotation><folder>VOC</folder><size><width>20</width><height>10</height></size>{objects}</annotation>"
    ).encode()


def voc(year: str, splits: tuple[str, ...] = ("train", "val", "trainval")) -> dict[str, bytes]:
    folder = f"{'TrainVal/' if year == '2011' else ''}VOCdevkit/VOC{year}"
    names = [f"{year}_{number:06}" for number in range(4)]
    files = {f"{folder}/JPEGImages/{name}.jpg": jpeg(k, (20, 10)) for k, name in enumerate(names)}
    files |= {f"{folder}/SegmentationClass/{name}.png": image_file(k, (20, 10), "P") for k, name in enumerate(names)}
    things = [("dog", (1, 2, 8, 9)), ("person", (3, 3, 20, 10)), ("dog", (5, 1, 9, 6))]
    for number, name in enumerate(names):
        files[f"{folder}/Annotations/{name}.xml"] = annotation(*things[: number % 3 + 1], parts=number == 2)
    for kind in ("Main", "Segmentation"):
        for k, split in enumerate(splits):
            lines = names[k:] if kind == "Main" else names[k::2]
            files[f"{folder}/ImageSets/{kind}/{split}.txt"] = "".join(f"{name}\n" for name in lines).encode()
    return files


VOC = {year: voc(year) for year in ("2007", "2008", "2009", "2010", "2011", "2012")} | {
    "2007-test": voc("2007", ("test",))
}
VOC_SPLITS = [*((year, "train") for year in sorted(VOC) if len(year) == 4), ("2012", "trainval"), ("2008", "val")]


def small(name: str, server: FileServer, **changed: bytes) -> Any:
    return served(getattr(D, name), {year: tar_of(files, "") for year, files in VOC.items()} | changed, server)


@pytest.mark.parametrize(("year", "split"), [*VOC_SPLITS, ("2007", "test")])
def test_voc(year: str, split: str, server: FileServer, tmp_path: Path) -> None:
    write(tmp_path / "theirs", VOC["2007-test" if split == "test" else year])
    arguments: dict[str, Any] = {"year": year, "image_set": split}
    same(
        small("VOCSegmentation", server)(tmp_path, split, year=year),
        theirs.VOCSegmentation(tmp_path / "theirs", **arguments),
    )
    items = list(small("VOCDetection", server)(tmp_path, split, year=year))
    plain = theirs.VOCDetection(tmp_path / "theirs", **arguments)
    wrapped = theirs.wrap_dataset_for_transforms_v2(theirs.VOCDetection(tmp_path / "theirs", **arguments))
    for item, one, other in zip(items, as_items(plain), as_items(wrapped), strict=True):
        assert equal(item[0], one[0])
        assert item[1]["annotation"] == one[1]["annotation"]
        assert type(item[1]["boxes"]) is tv_tensors.BoundingBoxes
        assert item[1]["boxes"].format == other[1]["boxes"].format
        assert item[1]["boxes"].canvas_size == other[1]["boxes"].canvas_size == (10, 20)
        assert torch.equal(item[1]["boxes"], other[1]["boxes"])
        assert equal(item[1]["labels"], other[1]["labels"])


def test_voc_has_masks_kinds_and_images_without_things(server: FileServer, tmp_path: Path) -> None:
    image, mask = next(iter(small("VOCSegmentation", server)(tmp_path / "a")))
    assert type(mask) is tv_tensors.Mask
    assert (mask.dtype, mask.shape) == (torch.uint8, (1, *image.shape[1:]))
    data = small("VOCClassification", server)(tmp_path / "a")
    found = [[data.info.categories[k] for k in labels.nonzero().flatten()] for _, labels in data]
    assert found == [["dog"], ["dog", "person"], ["dog", "person"], ["dog"]]
    files = VOC["2012"] | {"VOCdevkit/VOC2012/Annotations/2012_000000.xml": annotation()}
    _, target = next(iter(small("VOCDetection", server, **{"2012": tar_of(files, "")})(tmp_path / "b")))
    assert (target["boxes"].shape, target["labels"].shape) == ((0, 4), (0,))
    assert target["annotation"]["object"] == []


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"<annotation><object>", r"VOC2012/Annotations/2012_000000.xml: it is no XML"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>&b;</annotation>", r"it is no XML: it declares a DOCTYPE"),
        (b"<html><p>no</p></html>", r"it begins with 'html', not with an annotation"),
        (annotation(("unicorn", (1, 2, 3, 4))), r"object 1 is no class with a box: ValueError"),
        (annotation(("dog", (1, 2, 3, 4))).replace(b"xmin", b"left"), r"object 1 is no class with a box: KeyError"),
    ],
)
def test_damaged_voc(content: bytes, error: str, server: FileServer, tmp_path: Path) -> None:
    files = VOC["2012"] | {"VOCdevkit/VOC2012/Annotations/2012_000000.xml": content}
    with pytest.raises(ValueError, match=error):
        list(small("VOCDetection", server, **{"2012": tar_of(files, "")})(tmp_path))


# COCO


def coco(split: str, year: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    images = [{"id": number, "file_name": f"{number:012}.jpg", "height": 10, "width": 20} for number in (9, 4, 7)]
    instances = [
        {"id": 1, "image_id": 7, "bbox": [1.5, 2.0, 3.0, 4.5], "category_id": 90, "area": 13.5, "iscrowd": 0,
         "segmentation": [[1.5, 2.0, 4.5, 2.0, 4.5, 6.5]]},
        {"id": 2, "image_id": 4, "bbox": [0, 0, 20, 10], "category_id": 1, "area": 200, "iscrowd": 1,
         "segmentation": {"counts": [0, 200], "size": [10, 20]}},
        {"id": 3, "image_id": 7, "bbox": [5.0, 5.0, 1.0, 1.0], "category_id": 18, "area": 1.0, "iscrowd": 0,
         "segmentation": [[5, 5, 6, 5, 6, 6]]},
    ]  # fmt: skip
    captions = [{"id": k, "image_id": number, "caption": f"caption {k}"} for k, number in enumerate((9, 7, 4, 9))]
    annotations = {
        f"annotations/{kind}_{split}{year}.json": json.dumps({"images": images, "annotations": found}).encode()
        for kind, found in (("instances", instances), ("captions", captions))
    }
    return {f"{split}{year}/{each['file_name']}": jpeg(k, (20, 10)) for k, each in enumerate(images)}, annotations


COCO = {f"{split}{year}": zip_of(coco(split, year)[0]) for split in ("train", "val") for year in ("2017", "2014")} | {
    f"annotations{year}": zip_of(coco("train", year)[1] | coco("val", year)[1]) for year in ("2017", "2014")
}


@pytest.mark.parametrize(("split", "year"), [("train", "2017"), ("val", "2014")])
def test_coco(split: str, year: str, server: FileServer, tmp_path: Path) -> None:
    data = served(D.COCO, COCO, server)
    _, annotations = coco(split, year)
    instances = json.loads(annotations[f"annotations/instances_{split}{year}.json"])["annotations"]
    items = list(data(tmp_path, split, year=year))
    assert [target["image_id"] for _, target in items] == [4, 7, 9]  # in the order of their numbers
    assert [target["annotations"] for _, target in items] == [[instances[1]], [instances[0], instances[2]], []]
    assert [target["labels"].tolist() for _, target in items] == [[1], [90, 18], []]
    boxes = [target["boxes"] for _, target in items]
    assert all(type(each) is tv_tensors.BoundingBoxes and each.canvas_size == (10, 20) for each in boxes)
    assert boxes[1].tolist() == [[1.5, 2.0, 4.5, 6.5], [5.0, 5.0, 6.0, 6.0]]
    assert boxes[2].shape == (0, 4)
    captions = list(data(tmp_path, split, year=year, annotations="captions"))
    assert [texts for _, texts in captions] == [["caption 2"], ["caption 1"], ["caption 0", "caption 3"]]
    assert all(torch.equal(image, other) for (image, _), (other, _) in zip(items, captions, strict=True))


def test_damaged_coco(server: FileServer, tmp_path: Path) -> None:
    content = json.dumps({"images": [], "annotations": [{"image_id": 3}]}).encode()
    broken = zip_of({"annotations/instances_train2017.json": content})
    with pytest.raises(ValueError, match=r"instances_train2017.json: it is no JSON of images .*: KeyError\(3\)"):
        list(served(D.COCO, COCO | {"annotations2017": broken}, server)(tmp_path))


# All


@pytest.mark.parametrize("name", ["VOCDetection", "VOCSegmentation", "VOCClassification", "COCO"])
def test_laws(name: str, server: FileServer, tmp_path: Path) -> None:
    data = served(D.COCO, COCO, server) if name == "COCO" else small(name, server)
    D.check_dataset(lambda **arguments: data(tmp_path, **arguments), QUICK_LAWS)
    list(small("VOCSegmentation", server)(tmp_path))
    assert sum(server.requests.values()) == (3 if name == "COCO" else 1)  # those of VOC share their archives


def test_counts_and_options_of_voc_and_coco() -> None:
    counts = {"train2017": 118_287, "val2017": 5_000, "train2014": 82_783, "val2014": 40_504}
    assert {key: len(D.COCO("r", key[:-4], year=key[-4:])) for key in counts} == counts
    assert len(D.VOCDetection("r", "test", year="2007")) == 4_952
    assert len(D.VOCSegmentation("r", "val")) == 1_449


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: D.VOCDetection("r", "test"), r"there is a test split of the year '2007' only, and year is '2012'"),
        (lambda: D.VOCClassification("r", year=2012), r"year must be one of '2007', .*, and is 2012"),
        (lambda: D.COCO("r", year=2017), r"year must be one of '2017', '2014', and is 2017"),
        (lambda: D.COCO("r", annotations="masks"), r"annotations must be 'instances' or 'captions', and is 'masks'"),
    ],
)
def test_a_wrong_option_is_named(make: Callable[[], Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        make()


@pytest.mark.parametrize("name", ["VOCDetection", "VOCSegmentation", "COCO"])
def test_transforms_move_the_targets_too(name: str, server: FileServer, tmp_path: Path) -> None:
    data = served(D.COCO, COCO, server) if name == "COCO" else small(name, server)
    flip = v2.Compose(
        [v2.RandomHorizontalFlip(1.0), v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True)]
    )
    for (image, target), (flipped, moved) in zip(data(tmp_path), data(tmp_path).map(flip), strict=True):
        assert torch.allclose(flipped, image.flip(-1) / 255)
        if name == "VOCSegmentation":
            assert torch.equal(moved, target.flip(-1))
        else:
            left, top, right, bottom = target["boxes"].unbind(-1)
            assert torch.equal(moved["boxes"], torch.stack([20 - right, top, 20 - left, bottom], -1))
