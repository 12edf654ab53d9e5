"""Images of data sets: torchvision's tensors where it loads, plain ones where it does not."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import penstock as ps
from archives import tar_of
from deep_images import png_of
from penstock.datasets import facts
from penstock.datasets.facts import labels
from penstock.datasets.vision import images
from penstock.datasets.vision.images import as_boxes, as_image, as_mask, decoded, decoded_mask
from served import FileServer, served
from vision_items import image_file, jpeg, tv_tensors, v2

pytestmark = pytest.mark.timeout(50)
D = ps.datasets


@pytest.fixture(params=[True, False], ids=["with torchvision", "without torchvision"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if not request.param:
        monkeypatch.setattr(images, "tv_tensors", lambda: None)
    return bool(request.param)


def test_kinds_of_tensors(installed: bool) -> None:
    grey, coloured = np.arange(6, dtype=np.uint8).reshape(2, 3), np.zeros((3, 2, 3), np.uint8)
    image = as_image(grey)
    assert type(image) is (tv_tensors.Image if installed else torch.Tensor)
    assert image.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert as_image(coloured).shape == (3, 2, 3)
    assert type(as_mask(grey)) is (tv_tensors.Mask if installed else torch.Tensor)
    boxes = as_boxes([[0, 0, 1, 2]], image)
    assert type(boxes) is (tv_tensors.BoundingBoxes if installed else torch.Tensor)
    assert as_boxes([], image).shape == (0, 4)
    grey[0, 0] = 9
    assert image[0, 0, 0] == 0  # nothing is shared with an array that is read again


@pytest.mark.parametrize(
    ("mode", "kind", "wanted", "channels"),
    [
        ("RGB", "PNG", "RGB", 3), ("L", "PNG", "RGB", 3), ("L", "JPEG", None, 1), ("P", "PNG", None, 3),
        ("RGB", "GIF", "L", 1),
    ],
)  # fmt: skip
def test_modes(mode: str, kind: str, wanted: str | None, channels: int, installed: bool) -> None:
    content = image_file(3, (4, 5), mode, kind)
    image = decoded(content, wanted)
    assert image.shape == (channels, 5, 4)
    assert image.dtype == torch.uint8
    assert type(image) is (tv_tensors.Image if installed else torch.Tensor)


def test_masks_keep_the_indices_of_a_palette(installed: bool) -> None:
    mask = decoded_mask(image_file(3, (4, 5), "P"))
    assert mask.shape == (1, 5, 4)
    assert mask.max() < 4


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_images_and_masks_of_16_bits_are_errors(channels: int) -> None:
    content = png_of(np.full((2, 3, channels), 32898))
    for decode in (decoded, decoded_mask, partial(decoded, mode=None)):
        with pytest.raises(ValueError, match="more than 8 bits for each channel"):
            decode(content)


def test_a_torchvision_that_does_not_load_is_none() -> None:
    """Beside a torch that it was not built for it raises RuntimeError when it is imported."""
    program = (
        "import sys; sys.modules['torchvision'] = None\n"
        "from penstock.datasets.vision.images import as_image, tv_tensors\n"
        "import numpy as np\n"
        "print(tv_tensors(), type(as_image(np.zeros((2, 2), np.uint8))).__name__)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=True)
    assert ended.stdout == "None Tensor\n"


def test_whole_samples_go_through_transforms(server: FileServer, tmp_path: Path) -> None:
    paths = {f"oxford/{k}.jpg": jpeg(k) for k in range(2)}
    lists = {"annotations/trainval.txt": b"a 1 1 1\nb 2 2 1\n"}
    masks = {f"annotations/trimaps/{name}.png": image_file(k, mode="L") for k, name in enumerate("ab")}
    archives = {"images": tar_of({f"images/{name}.jpg": jpeg(k) for k, name in enumerate("ab")} | paths)}
    data = served(D.OxfordIIITPet, archives | {"annotations": tar_of(lists | masks)}, server)
    resize = v2.Compose([v2.Resize((6, 8)), v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True)])
    samples = data(tmp_path, target_types=["category", "segmentation"]).map(resize)
    for number, (image, (label, mask)) in enumerate(samples):
        assert (image.shape, image.dtype) == ((3, 6, 8), torch.float32)
        assert (label, mask.shape, type(mask)) == (number, (1, 6, 8), tv_tensors.Mask)
    by_index = data(tmp_path, map_style=True).map(resize)
    batches = list(torch.utils.data.DataLoader(by_index, batch_size=2))
    assert [(batch[0].shape, batch[1].tolist()) for batch in batches] == [((2, 3, 6, 8), [0, 1])]


# The facts

COUNTS = {"coco": 91, "imagenet": 1000, "caltech256": 257, "stanford_cars": 196}


@pytest.mark.parametrize("name", [
    "cifar100", "coco", "caltech101", "caltech256", "country211", "flowers102", "food101", "imagenet", "stanford_cars",
    "sun397",
])  # fmt: skip
def test_classes_that_lie_in_a_file(name: str) -> None:
    names = D.load(name, "root").info.categories
    assert all(each == each.strip() != "" for each in names)
    assert len(names) == COUNTS.get(name, int("".join(filter(str.isdecimal, name)) or 0))
    assert [each for each in names if each != "N/A"] == [each for each in labels(name) if each != "N/A"]
    assert all(names[label] == each for each, label in labels(name).items())
    if name in ("caltech101", "country211", "food101"):
        assert [*names] == sorted(names)  # torchvision's labels are places among the sorted names
    if name == "imagenet":
        assert [*labels("imagenet", "wnids")] == sorted(labels("imagenet", "wnids"))


def test_each_entry_is_a_data_set_and_has_facts_that_are_read() -> None:
    tables = tomllib.loads(Path(facts.__file__).with_name("facts.toml").read_text(encoding="utf-8"))
    ours = {each.name for each in map(D.__getattr__, D.__all__) if isinstance(each, D.Dataset)}
    assert {*tables} == ours
    read = {"splits", "counts", "categories", "resources", "licence", "home_page", "citation", "folder", "title"}
    for name, table in tables.items():
        assert {*table} <= read | {"note", "like", "wnids"}, name


@pytest.mark.parametrize("name", D.list())
def test_cards_are_short_and_classes_distinct(name: str) -> None:
    data = D.load(name, "root")
    assert len(repr(data).splitlines()) <= 10
    categories = [each for each in data.info.categories if each != "N/A"]
    assert len({*categories}) == len(categories)
    for resource in data.info.resources.values():
        if any(url.startswith("package://") for url in resource.urls):
            continue  # it travels with the package
        assert resource.digest or resource.note
        assert resource.size or "could not be confirmed" in resource.note or "Download it" in resource.note
