"""Write the pictures in docs/pictures and docs/concepts: `python docs/make_pictures.py`.

Each chain becomes an SVG and a PNG. Where Chromium is installed, a screenshot shows items as a notebook does.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from concept_pictures import concepts

import penstock as ps
from penstock.views.html import Preview
from penstock.views.pictures.picture import Picture

FOLDER = Path(__file__).with_name("pictures")


def augment(sample: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Stand for the transforms of a training run."""
    return sample


def tokenize(line: str) -> list[int]:
    """Stand for a tokenizer."""
    return [len(word) for word in line.split()]


def images() -> Any:
    """Return a chain that reads images from tar archives in a store."""
    shards = ps.iter.IterableWrapper(["s3://bucket/train-{00000..00511}.tar"]).shard_expand()
    files = shards.shuffle().sharding_filter().open_files_by_fsspec(mode="rb").load_from_tar()
    samples = files.webdataset().routed_decode("rgb8", on_error="skip").shuffle(buffer_size=2000)
    return samples.map(augment).batch(64, drop_last=True).collate().prefetch(4).pin_memory()


def text() -> Any:
    """Return a chain of two languages, of which one goes two ways."""
    english, longer = ps.iter.FileLister("en", "*.txt").open_files().readlines(return_path=False).fork(2)
    german = ps.iter.FileLister("de", "*.txt").open_files().readlines(return_path=False)
    pairs = english.map(tokenize).zip(german.map(tokenize), longer.map(len)).sharding_filter()
    return pairs.shuffle().batch(32).collate()


def pictures() -> dict[str, Picture]:
    """Return the pictures by the names of their files."""
    return {"images": Picture(images(), workers="in 4 worker processes"), "text": Picture(text())}


def items() -> str:
    """Return a page with items, as a notebook shows them."""
    ramp = np.linspace(0, 1, 96, dtype=np.float32)
    across = np.broadcast_to(ramp, (96, 96))
    image = torch.from_numpy(np.stack([across, across.T, 1 - across]))
    tone = torch.sin(torch.arange(16_000) * (2 * np.pi * 440 / 16_000))
    batch = {"image": torch.stack([image, image.flip(1), image.flip(2)]), "label": torch.tensor([3, 1, 4])}
    shown = [(image, 3), (tone, 16_000, "a tone"), batch, torch.linspace(-1, 1, 4096).reshape(64, 64)]
    dp = ps.iter.IterableWrapper(shown)
    html = Preview(dp.map(augment), shown, len(shown))._repr_mimebundle_()["text/html"]
    return f'<meta charset="utf-8"><body style="font-family:sans-serif;background:#fff">{html}'


def decode(name: str) -> int:
    """Stand for slow work."""
    time.sleep(0.004)
    return len(name)


def scale(number: int) -> float:
    """Stand for quicker work."""
    time.sleep(0.0008)
    return number / 10


def profile() -> str:
    """Return a page with the profile of a loader, as a notebook shows it."""
    names = ps.iter.IterableWrapper([f"image-{n}.jpg" for n in range(400)])
    dp = names.shuffle().sharding_filter().map(decode).map(scale).batch(8)
    service = ps.MultiProcessingReadingService(num_workers=2)
    with ps.DataLoader2(dp, reading_service=service, profile=True) as loader:
        for _ in loader:
            time.sleep(0.005)
        html = loader.profile()._repr_html_()
    return f'<meta charset="utf-8"><body style="font-family:sans-serif;background:#fff">{html}'


def _screenshot(page: str, size: str) -> bytes | None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.html").write_text(page, encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
        command = [browser, *options, f"--screenshot={folder}/page.png", f"file://{folder}/page.html"]
        subprocess.run(command, check=True, timeout=60, capture_output=True)
        return Path(folder, "page.png").read_bytes()


def _write_png(name: str, content: bytes) -> None:
    from PIL import Image

    image = Image.open(io.BytesIO(content)).convert("RGB").quantize(64)  # a third of the size
    image.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    for name, drawn in concepts().items():
        FOLDER.with_name("concepts").joinpath(f"{name}.svg").write_text(drawn, encoding="utf-8")
    for name, picture in pictures().items():
        picture.save(FOLDER / f"{name}.svg")
        _write_png(name, picture.png)
    for name, page, size in (("items", items(), "1100,640"), ("profile", profile(), "1200,800")):
        if (screenshot := _screenshot(page, size)) is not None:
            _write_png(name, screenshot)
