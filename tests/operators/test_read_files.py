"""read_images, read_text and read_numpy: what files become, on disk and in S3, and what errors say."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import threading
import zipfile
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image

import penstock as ps
from deep_images import png_of, tiff_of
from penstock import IterDataPipe
from penstock.errors.optional import zstandard
from penstock.pipes.iter import IterableWrapper
from penstock.registry import Throttle, apply_sharding, copy_of
from resuming import assert_resumes_everywhere
from s3 import S3Server


def paths(*files: Path) -> IterDataPipe[str]:
    return IterableWrapper([str(file) for file in files])


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    files = [tmp_path / name for name in ("red.png", "grey.jpg", "without_extension")]
    Image.new("RGB", (4, 2), (255, 0, 0)).save(files[0])
    Image.new("L", (3, 5), 128).save(files[1])
    Image.new("RGBA", (2, 2), (0, 0, 255, 64)).save(files[2], "png")
    return files


def test_images_are_bytes_with_the_channels_first(images: list[Path]) -> None:
    red, grey, blue = [row["image"] for row in paths(*images).read_images()]
    assert {image.dtype for image in (red, grey, blue)} == {torch.uint8}
    assert (red.shape, grey.shape, blue.shape) == ((3, 2, 4), (3, 5, 3), (3, 2, 2))
    assert red[:, 0, 0].tolist() == [255, 0, 0]
    assert len(paths(*images).read_images()) == 3


def test_images_have_paths_and_modes(images: list[Path]) -> None:
    rows = list(paths(*images).read_images(include_paths=True, mode="RGBA", workers=2))
    assert [row["path"] for row in rows] == [str(path) for path in images]
    assert [*rows[0]] == ["image", "path"]
    assert rows[2]["image"][:, 0, 0].tolist() == [0, 0, 255, 64]
    [grey] = paths(images[0]).read_images(mode="L")
    assert grey["image"].shape == (1, 2, 4)


def test_without_workers_images_are_read_by_the_thread_that_asks(images: list[Path], tmp_path: Path) -> None:
    def chain(**arguments: Any) -> IterDataPipe[Any]:
        files = [*images, tmp_path / "none.png", images[0]]
        return paths(*files).read_images(include_paths=True, on_error="skip", **arguments)

    expected = list(chain())
    dp = chain(workers=0)
    iterator = iter(dp)
    begun = [next(iterator), next(iterator)]
    assert not [each for each in threading.enumerate() if "read_images" in each.name]
    state = dp.state_dict()
    resumed = chain(workers=0)
    resumed.load_state_dict(state)
    for rows in (begun + list(iterator), begun + list(resumed)):
        assert [(row["path"], row["image"].tolist()) for row in rows] == [
            (row["path"], row["image"].tolist()) for row in expected
        ]
    assert dp.stats()["read_images"]["skipped"] == 1
    assert "threads" not in str(dp.explain())
    with pytest.raises(FileNotFoundError) as raised:
        list(paths(images[0], tmp_path / "none.png").read_images(workers=0))
    assert f"raised in ImageReader(workers=0), on '{tmp_path / 'none.png'}'" in raised.value.__notes__[-1]


def test_files_that_are_no_images_are_errors_or_left_out(images: list[Path], tmp_path: Path) -> None:
    cut = tmp_path / "cut.png"
    cut.write_bytes(images[0].read_bytes()[:50])
    (tmp_path / "text.png").write_text("no image")
    for name, error in (("cut.png", OSError), ("text.png", OSError), ("none.png", FileNotFoundError)):
        with pytest.raises(error) as raised:
            list(paths(images[0], tmp_path / name).read_images())
        assert f"raised in ImageReader(), on '{tmp_path / name}'" in raised.value.__notes__[-1]
    dp = paths(cut, images[0], tmp_path / "none.png").read_images(on_error="skip")
    assert [row["image"].shape for row in dp] == [(3, 2, 4)]
    assert dp.stats()["read_images"]["skipped"] == 2


@pytest.mark.parametrize(("write", "channels"), [(png_of, 1), (png_of, 2), (png_of, 3), (png_of, 4), (tiff_of, 3)])
def test_images_of_16_bits_are_errors_or_left_out(
    write: Any, channels: int, images: list[Path], tmp_path: Path
) -> None:
    flow = tmp_path / "flow.png"
    flow.write_bytes(write(np.full((2, 3, channels), 32898)))
    with pytest.raises(ValueError, match="more than 8 bits for each channel") as raised:
        list(paths(flow).read_images())
    assert f"on '{flow}'" in raised.value.__notes__[-1]
    assert len(list(paths(flow, images[0]).read_images(on_error="skip"))) == 1


def test_the_first_of_several_frames_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 2), colour) for colour in ("red", "blue")]
    for name in ("a.gif", "b.tif", "c.webp"):
        frames[0].save(
            tmp_path / name, save_all=True, append_images=frames[1:], **({"lossless": True} if name[0] == "c" else {})
        )
    found = [row["image"][:, 0, 0].tolist() for row in ps.read_images(tmp_path)]
    assert found == [[255, 0, 0]] * 3
    decoded = IterableWrapper([(str(path), path.read_bytes()) for path in sorted(tmp_path.iterdir())]).routed_decode()
    assert [image[:, 1, 3].tolist() for _, image in decoded] == [[1, 0, 0]] * 3


def test_images_come_in_a_size_by_the_decoder_that_is_named(images: list[Path], tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    waves = np.sin(np.arange(300)[:, None, None] / 20 + np.arange(400)[None, :, None] / (15, 25, 35)) * 100 + 120
    Image.fromarray(waves.astype(np.uint8)).save(photo, quality=95)
    for size, shape in (((20, 30), (3, 20, 30)), (100, (3, 100, 133))):
        by_pil = next(iter(paths(photo).read_images(decoder="pil", size=size)))["image"]
        for decoder in ("auto", "simplejpeg"):
            image = next(iter(paths(photo).read_images(decoder=decoder, size=size)))["image"]
            assert image.shape == shape
            assert (image.int() - by_pil.int()).abs().max() <= 1
    assert {row["image"].shape for row in paths(*images).read_images(size=(6, 6))} == {(3, 6, 6)}
    dp = paths(images[0], photo, images[2]).read_images(decoder="simplejpeg", on_error="skip")
    assert [row["image"].shape for row in dp] == [(3, 300, 400)]
    with pytest.raises(OSError, match="simplejpeg cannot decode it, .*: it is no JPEG") as raised:
        list(paths(images[0]).read_images(decoder="simplejpeg"))
    assert f"raised in ImageReader(decoder='simplejpeg'), on '{images[0]}'" in raised.value.__notes__[-1]


def test_text_is_a_row_for_each_line(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    first.write_bytes("one\r\n\n \ntwo ä".encode())
    second.write_bytes(b"three\n")
    assert [row["text"] for row in paths(first, second).read_text()] == ["one", "two ä", "three"]
    assert [row["text"] for row in paths(first).read_text(drop_empty_lines=False)] == ["one", "", " ", "two ä"]
    assert list(paths(second).read_text(include_paths=True)) == [{"text": "three", "path": str(second)}]
    first.write_bytes("ä".encode("latin-1"))
    assert list(paths(first).read_text(encoding="latin-1")) == [{"text": "ä"}]
    with pytest.raises(UnicodeDecodeError) as raised:
        list(paths(second, first).read_text())
    assert str(first) in raised.value.__notes__[0]
    assert list(paths(first, second).read_text(on_error="skip")) == [{"text": "three"}]


COMPRESSED = {
    "gz": gzip.compress,
    "GZ": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard().compress,
}


@pytest.mark.parametrize("ending", COMPRESSED)
def test_compressed_text_is_read_by_one_reader(ending: str, tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(1000)]
    path = tmp_path / f"a.txt.{ending}"
    path.write_bytes(COMPRESSED[ending]("\n".join(lines).encode()))
    assert_resumes_everywhere(lambda: ps.read_text(str(tmp_path)).map(itemgetter("text")).header(5))
    divided = paths(path).shard_files("text", min_bytes=1).read_text()
    with ps.DataLoader2(divided, reading_service=ps.InProcessReadingService()) as loader:
        assert [row["text"] for row in loader] == lines
    parts = [copy_of(divided) for _ in range(2)]
    for number, part in enumerate(parts):
        apply_sharding(part, 2, number)
    assert sorted(row["text"] for part in parts for row in part) == sorted(lines)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OSError, match=f"a.txt.{ending}' is cut or corrupt"):
        list(ps.read_text(str(path)))


def test_resuming_text_reads_none_of_the_files_before(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(3)]
    for file in files:
        file.write_text(f"{file.stem}\n{file.stem}\n")
    with mock.patch.object(Throttle, "step", 1):
        dp = paths(*files).read_text()
        iterator = iter(dp)
        assert [next(iterator)["text"] for _ in range(3)] == ["0", "0", "1"]
    files[0].write_text("changed\n" * 9)
    resumed = paths(*files).read_text()
    resumed.load_state_dict(dp.state_dict())
    assert [row["text"] for row in resumed] == ["1", "2", "2"]


def test_arrays_are_batches_of_their_rows(tmp_path: Path) -> None:
    one, several = tmp_path / "one.npy", tmp_path / "several.npz"
    np.save(one, np.arange(6, dtype=np.int16).reshape(3, 2))
    np.savez(several, x=np.ones(2), y=np.ones((2, 2), bool))
    [batch] = paths(one).read_numpy().to_tensors()
    assert torch.equal(batch["data"], torch.arange(6, dtype=torch.int16).reshape(3, 2))
    [batch] = paths(several).read_numpy(include_paths=True).to_tensors()
    assert ([*batch], batch["y"].dtype, batch["path"]) == (["x", "y", "path"], torch.bool, [str(several)] * 2)
    np.savez(several, path=np.arange(2))
    with pytest.raises(ValueError, match="an array 'path', which include_paths would replace"):
        list(paths(several).read_numpy(include_paths=True))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text.npy", "this is not a NumPy file: it begins with b'no arr'"),
        ("empty.npy", "this is not a NumPy file"),
        ("cut.npy", "the file is cut or corrupt: float64 of shape \\(100,\\) are 800 bytes, and it has 172 for them"),
        ("cut.npz", "the file is cut or corrupt"),
        ("objects.npy", "has pickled objects"),
        ("scalar.npy", "column 'data' is a single value"),
        ("uneven.npz", "'x' has 1, 'y' has 2"),
    ],
)
def test_files_that_are_no_arrays_are_errors(tmp_path: Path, name: str, text: str) -> None:
    np.save(tmp_path / "whole.npy", np.ones(100))
    np.savez(tmp_path / "uneven.npz", x=np.ones(1), y=np.ones(2))
    np.save(tmp_path / "scalar.npy", np.array(3))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no arrays")
    (tmp_path / "empty.npy").touch()
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:300])
    (tmp_path / "cut.npz").write_bytes((tmp_path / "uneven.npz").read_bytes()[:200])
    with pytest.raises(ValueError, match=text) as raised:
        list(paths(tmp_path / name).read_numpy())
    assert f"raised in NumpyReader(), on '{tmp_path / name}'" in raised.value.__notes__[-1]


def test_objects_in_s3_are_read_too(s3_server: S3Server, images: list[Path]) -> None:
    folder = s3_server.root / "files"
    folder.mkdir(exist_ok=True)
    (folder / "a.png").write_bytes(images[0].read_bytes())
    (folder / "a.txt").write_text("one\ntwo\n")
    np.save(folder / "a.npy", np.arange(3))
    [row] = IterableWrapper(["s3://files/a.png"]).read_images(include_paths=True)
    assert (row["image"].shape, row["path"]) == ((3, 2, 4), "s3://files/a.png")
    assert [row["text"] for row in IterableWrapper(["s3://files/a.txt"]).read_text()] == ["one", "two"]
    [batch] = IterableWrapper(["s3://files/a.npy"]).read_numpy()
    assert batch.to_pydict() == {"data": [0, 1, 2]}


@pytest.mark.parametrize(
    ("member", "archive"), [("a.txt", "all.tar.gz"), ("a.txt.gz", "all.tar"), ("a.txt.xz", "all.zip")]
)
def test_a_member_is_decompressed_by_its_own_name(member: str, archive: str, tmp_path: Path) -> None:
    text = b"id\n1\n2\n"
    content = COMPRESSED[member[-2:]](text) if member[-2:] in COMPRESSED else text
    if archive.endswith("zip"):
        with zipfile.ZipFile(tmp_path / archive, "w") as packed:
            packed.writestr(member, content)
    else:
        (tmp_path / member).write_bytes(content)
        with tarfile.open(tmp_path / archive, "w:gz" if archive.endswith("gz") else "w") as packed_tar:
            packed_tar.add(tmp_path / member, member)
    protocol = "zip" if archive.endswith("zip") else "tar"
    for keeping in ("", "simplecache::"):
        urls = IterableWrapper([f"{keeping}{protocol}://{member}::file://{tmp_path / archive}"])
        assert [row["text"] for row in urls.read_text()] == ["id", "1", "2"]
        if not member.endswith("xz"):  # which Arrow does not decompress
            assert [batch.to_pylist() for batch in urls.read_csv()] == [[{"id": 1}, {"id": 2}]]
