"""read_image_folder, list_image_folder and shuffle_image_folder: a sub-folder for each class."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
import torchvision  # type: ignore[import-untyped]
from PIL import Image

import penstock as ps
from penstock.pipes.iter import IterableWrapper
from s3 import S3Server

COUNTS = {"cat": 5, "dog": 3, "zebra": 4}


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """A folder of images whose grey tells their number, with one class in a folder below."""
    number = 0
    for name, count in COUNTS.items():
        for each in range(count):
            file = tmp_path / "pets" / name / ("wild" if name == "zebra" else "") / f"{each}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (3, 2), number).save(file)
            number += 1
    return tmp_path / "pets"


def seen(rows: Any) -> list[tuple[int, int]]:
    return [(int(row["image"][0, 0, 0]), row["label"]) for row in rows]


def test_images_have_the_labels_that_torchvision_gives(pets: Path) -> None:
    dp = ps.read_image_folder(pets, include_paths=True)
    theirs = torchvision.datasets.ImageFolder(str(pets))
    assert dp.class_to_idx == theirs.class_to_idx == {"cat": 0, "dog": 1, "zebra": 2}
    rows = list(dp)
    assert [(row["path"], row["label"]) for row in rows] == theirs.imgs
    assert [*rows[0]] == ["image", "label", "path"]
    assert rows[0]["image"].shape == (3, 2, 3)
    assert [number for number, _ in seen(rows)] == [*range(12)]


def test_workers_give_each_image_once(pets: Path) -> None:
    expected = sorted(seen(ps.read_image_folder(pets)))
    for workers in (0, 2):
        with ps.DataLoader2(
            ps.read_image_folder(pets, shuffle=True),
            reading_service=ps.MultiProcessingReadingService(workers),
        ) as loader:
            first, second = seen(loader), seen(loader)
        assert sorted(first) == sorted(second) == expected
        assert first != second
    [batch] = ps.read_image_folder(pets, size=(4, 4)).batch(12).collate()
    assert batch["image"].shape == (12, 3, 4, 4)
    assert torch.equal(batch["label"], torch.tensor([0] * 5 + [1] * 3 + [2] * 4))


def test_classes_may_be_given(pets: Path) -> None:
    dp = ps.read_image_folder(pets, classes=["zebra", "yak", "dog", "cat"])
    assert dp.class_to_idx == {"zebra": 0, "yak": 1, "dog": 2, "cat": 3}
    assert Counter(label for _, label in seen(dp)) == {3: 5, 2: 3, 0: 4}
    with pytest.raises(ValueError, match="0.png' is of the class 'cat', and classes has no such name"):
        list(ps.read_image_folder(pets, classes=["dog", "zebra"]))
    with pytest.raises(TypeError, match="classes must be a list of names, and is 'cat'"):
        ps.read_image_folder(pets, classes="cat")
    with pytest.raises(ValueError, match="classes has a name twice"):
        ps.read_image_folder(pets, classes=["cat", "cat"])
    with pytest.raises(TypeError, match="root must be the path or URL of a folder, and is 3"):
        ps.read_image_folder(3)  # type: ignore[arg-type]


def test_a_folder_of_another_kind_is_an_error_that_says_so(pets: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        list(ps.read_image_folder(tmp_path / "none"))
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"there is no file \*.png"):
        list(ps.read_image_folder(tmp_path / "empty"))
    with pytest.raises(ValueError, match=r"0.png' is in no sub-folder of '.*cat', and the sub-folder says the class"):
        list(ps.read_image_folder(pets / "cat"))
    (pets / "yak").mkdir()
    for read in (list, lambda dp: dp.class_to_idx):
        with pytest.raises(
            FileNotFoundError, match="the folder of the class 'yak' in '.*pets' has no image: remove it"
        ):
            read(ps.read_image_folder(pets))
    os.rename(pets / "yak", pets / ".yak")
    assert len(seen(ps.read_image_folder(pets))) == 12
    (pets / "dog" / "0.png").write_text("no image")
    with pytest.raises(OSError, match="cannot identify") as raised:
        list(ps.read_image_folder(pets))
    assert str(pets / "dog" / "0.png") in "".join(raised.value.__notes__)
    assert len(seen(ps.read_image_folder(pets, on_error="skip"))) == 11


def test_the_numbers_can_be_asked_for_at_any_time(pets: Path) -> None:
    roots = IterableWrapper([pets / ".."]).map(lambda path: str(path / "pets"))
    dp = roots.list_image_folder()
    files = iter(dp)
    assert next(files).label == 0
    assert dp.class_to_idx == {"cat": 0, "dog": 1, "zebra": 2}
    assert [file.label for file in files] == [0] * 4 + [1] * 3 + [2] * 4
    assert not hasattr(IterableWrapper([]).read_images(), "class_to_idx")


def test_other_places_are_read_too(pets: Path, s3_server: S3Server) -> None:
    expected = seen(ps.read_image_folder(pets))
    memory = fsspec.filesystem("memory")
    for file in pets.rglob("*.png"):
        name = file.relative_to(pets).as_posix()
        memory.pipe(f"/image_folder/{name}", file.read_bytes())
        copy = s3_server.root / "images" / "pets" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    for root in ("memory://image_folder/", "s3://images/pets", f"file://{pets}"):
        dp = ps.read_image_folder(root)
        assert seen(dp) == expected
        assert dp.class_to_idx == {"cat": 0, "dog": 1, "zebra": 2}
