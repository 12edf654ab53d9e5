"""ImageFolder over folders, archives and URLs, and ImageNet from its archives."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import fsspec
import numpy as np
import pytest
from PIL import Image

import penstock as ps
from archives import tar_of, zip_of
from penstock.datasets.laws import DATA_SET_LAWS
from served import FileServer, served
from vision_items import equal, image_file, jpeg, mat, same, theirs, write

pytestmark = pytest.mark.timeout(50)
D = ps.datasets
QUICK_LAWS = [law for law in DATA_SET_LAWS if law != "two_workers_read_it"]

FILES = {
    "dog/b.JPG": jpeg(1),
    "dog/a.png": image_file(2, mode="L"),
    "dog/sub/0.webp": image_file(3, kind="WEBP"),
    "dog/notes.txt": b"no image",
    "cat/z.jpeg": jpeg(4),
    "cat-2/1.bmp": image_file(5, kind="BMP"),
    "cat/y/1.ppm": image_file(6, kind="PPM"),
    "cat/y-2/1.tiff": image_file(7, kind="TIFF"),
    "in_no_folder.jpg": jpeg(8),
}


@pytest.fixture
def places(tmp_path: Path, server: FileServer) -> dict[str, str]:
    """The same files in a folder, in archives and behind URLs."""
    write(tmp_path / "images", FILES)
    nested = {f"images/{path}": content for path, content in FILES.items() if "/" in path}
    archives = {
        "flat.zip": zip_of(FILES),
        "nested.zip": zip_of({"__MACOSX/images/dog/._b.jpg": b"", **nested}),
        "flat.tar": tar_of(FILES, ""),
        "nested.tar": tar_of(nested, ""),
    }
    write(tmp_path, archives)
    server.files |= archives
    memory = fsspec.filesystem("memory")
    for path, content in (FILES | archives).items():
        memory.pipe(f"/images/{path}", content)
    return {
        "folder": str(tmp_path / "images"),
        "path with a slash": f"{tmp_path}/images/",
        **{name: str(tmp_path / name) for name in archives},
        "a URL of a folder": "memory://images",
        "a URL of a tar": "memory://images/nested.tar",
    }


@pytest.mark.parametrize("where", [
    "folder", "path with a slash", "flat.zip", "nested.zip", "flat.tar", "nested.tar", "a URL of a folder",
    "a URL of a tar",
])  # fmt: skip
def test_image_folder(where: str, places: dict[str, str]) -> None:
    other = theirs.ImageFolder(places["folder"])
    data = D.ImageFolder(places[where])
    same(data, other)
    assert [*data.info.categories] == other.classes == ["cat", "cat-2", "dog"]
    same(D.ImageFolder(places[where], map_style=True), other)


def test_every_image_that_readers_know_is_taken(tmp_path: Path) -> None:
    files = {f"a/{number}.{ending}": jpeg(number) for number, ending in enumerate(("jfif", "JPE", "Gif", "pnm"))}
    write(tmp_path, files | {"a/notes.doc": b"no image"})
    assert len([*D.ImageFolder(tmp_path)]) == len([*ps.read_images(tmp_path)]) == 4


def test_valid_files_are_chosen(places: dict[str, str]) -> None:
    asked = []

    def is_valid(path: str) -> bool:
        asked.append(path)
        return path.endswith((".JPG", ".ppm", "1.bmp"))

    data = D.ImageFolder(places["folder"], is_valid_file=is_valid)
    same(
        data, theirs.ImageFolder(places["folder"], is_valid_file=lambda path: path.endswith((".JPG", ".ppm", "1.bmp")))
    )
    assert f"{places['folder']}/dog/notes.txt" in asked


def test_links_are_followed_and_empty_classes_named(places: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "images" / "linked").symlink_to(tmp_path / "images" / "cat")
    same(D.ImageFolder(places["folder"]), theirs.ImageFolder(places["folder"]))
    (tmp_path / "images" / "bird").mkdir()
    with pytest.raises(FileNotFoundError, match="there are no images of the classes bird in"):
        list(D.ImageFolder(places["folder"]))
    data = D.ImageFolder(places["folder"], allow_empty=True)
    same(data, theirs.ImageFolder(places["folder"], allow_empty=True))
    assert data.info.categories[0] == "bird"


def test_nothing_is_listed_until_it_is_read(places: dict[str, str], tmp_path: Path) -> None:
    data = D.ImageFolder(tmp_path / "absent")
    assert repr(data).startswith("ImageFolder: Images in folders")
    with pytest.raises(FileNotFoundError, match=r"there are no folders, one for each class, in.*absent"):
        list(data)
    (tmp_path / "images.tar.gz").write_bytes(tar_of(FILES))
    with pytest.raises(ValueError, match=r"images.tar.gz can be read in order only: .* or unpack it"):
        list(D.ImageFolder(tmp_path / "images.tar.gz"))
    there = D.ImageFolder(places["folder"])
    assert "cat" not in repr(there)
    list(there)
    assert "cat, cat-2, dog" in repr(there)
    assert "cat" not in repr(pickle.loads(pickle.dumps(there)))
    assert len(list(pickle.loads(pickle.dumps(D.ImageFolder(places["folder"], map_style=True))))) == 7


@pytest.mark.parametrize("where", ["folder", "flat.zip"])
def test_laws(where: str, places: dict[str, str]) -> None:
    laws = [law for law in QUICK_LAWS if law != "root_is_clean"]  # what it reads is not its own
    D.check_dataset(lambda **arguments: D.ImageFolder(places[where], **arguments), laws)


# ImageNet

WNIDS = (Path(D.__file__).parent / "categories" / "imagenet_wnids.txt").read_text().split()


def imagenet() -> dict[str, bytes]:
    inner = {
        f"{wnid}.tar": tar_of({f"{wnid}_{k}.JPEG": jpeg(label + k) for k in (20, 3)}, "")
        for label, wnid in reversed([*enumerate(WNIDS)][::400])
    }
    leaves = [(k + 1, wnid, "words", "gloss", 0) for k, wnid in enumerate(reversed(WNIDS))]
    rows = [*leaves, (1001, "n00000001", "all", "gloss", 5)]
    kinds = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children")]
    folder = "ILSVRC2012_devkit_t12/data"
    return {
        "train": tar_of(inner, ""),
        "val": tar_of({f"ILSVRC2012_val_{k:08}.JPEG": jpeg(k) for k in (2, 1, 3)}, ""),
        "devkit": tar_of({
            f"{folder}/meta.mat": mat(synsets=np.array(rows, kinds).reshape(-1, 1)),
            f"{folder}/ILSVRC2012_validation_ground_truth.txt": b"1\n1000\n2\n",
        }),
    }  # fmt: skip


IMAGENET = imagenet()


def test_imagenet(server: FileServer, tmp_path: Path) -> None:
    small = served(D.ImageNet, IMAGENET, server)
    tree = {f"{wnid}/{wnid}_{k}.JPEG": jpeg(label + k) for label, wnid in [*enumerate(WNIDS)][::400] for k in (20, 3)}
    other = theirs.ImageFolder(write(tmp_path / "theirs", tree))
    items = list(small(tmp_path))
    assert [label for _, label in items] == [0, 0, 400, 400, 800, 800]
    for index, (image, _) in enumerate(items):
        assert equal(image, other[index][0])
    val = list(small(tmp_path, "val"))
    assert [label for _, label in val] == [0, 998, 999]  # the devkit numbers them from the last one here
    for (image, _), number in zip(val, (2, 3, 1), strict=True):
        assert equal(image, Image.open(io.BytesIO(jpeg(number))))


@pytest.mark.parametrize(
    ("change", "split", "error"),
    [
        ({"train": tar_of({"n0.tar": b""}, "")}, "train", r"img_train.tar, n0.tar: 'n0' is none of the 1000 classes"),
        (
            {"train": tar_of({f"{WNIDS[0]}.tar": tar_of({"a.JPEG": bytes(9_999)}, "")[:5_000]}, "")},
            "train",
            r"n01440764.tar' in .* is cut",
        ),
        ({"val": tar_of({"ILSVRC2012_val_00000001.JPEG": b""}, "")}, "val", r"there are 3 labels of 1 images"),
    ],
)
def test_damaged_imagenet(change: dict[str, bytes], split: str, error: str, server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=error):
        list(served(D.ImageNet, IMAGENET | change, server)(tmp_path, split))


@pytest.mark.parametrize("split", ["train", "val"])
def test_laws_of_imagenet(split: str, server: FileServer, tmp_path: Path) -> None:
    small = served(D.ImageNet, IMAGENET, server)
    D.check_dataset(lambda **arguments: small(tmp_path, split, **arguments), QUICK_LAWS)
