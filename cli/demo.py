"""The main use, on real data: several processes read digit images from tar shards to train a CNN."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import penstock as ps
from penstock.errors.secrets import without_secrets

BUILT_IN = Path(ps.datasets.__file__).parent / "data"
GOAL = 0.95
"""Required accuracy on the held-out images."""

Images = tuple[torch.Tensor, torch.Tensor]


def digits(url: str, shards: list[str]) -> Any:
    """Return the chain from the named shards in a folder to pairs of an image (1×8×8) and its label."""
    return (
        ps.iter.FSSpecFileLister(url, masks=shards)
        .sharding_filter()  # before opening, so that each process reads only its own shards
        .open_files_by_fsspec(mode="rb")
        .load_from_tar()
        .webdataset()
        .routed_decode("torchl")
        .map(lambda sample: (sample[".png"], sample[".cls"]))
    )


def batches(samples: Any, device: str | torch.device | None = "cpu") -> Any:
    """Return the chain from pairs of image and label to shuffled batches of both on a device."""
    return samples.shuffle().batch(32).collate().to_device(device)


def shifted(image: torch.Tensor) -> torch.Tensor:
    """Return an image shifted at random by -1, 0 or 1 pixels along each axis."""
    down, right = torch.randint(-1, 2, (2,)).tolist()
    return image.roll((down, right), (-2, -1))


def small_cnn() -> nn.Module:
    """Return a model from images (1×8×8) to the logits of ten digits."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


def run_demo(url: str | None, workers: int, epochs: int, device_name: str | None) -> int:
    """Train on all shards but the last and test on the last; return 0 if the goal was reached, else 1."""
    url = url or str(BUILT_IN)
    try:
        device = torch.device(device_name) if device_name else default_device()
    except RuntimeError as error:
        raise ValueError(f"no device is called {device_name!r}: {error}") from error
    torch.manual_seed(0)
    shards = sorted(path.rpartition("/")[2] for path in ps.iter.FSSpecFileLister(url, masks="*.tar*"))
    if len(shards) < 2:
        found = ", ".join(shards) or "none"
        raise ValueError(
            f"one shard is held out, so a folder must have two shards at least, and has {found}: {without_secrets(url)}"
        )
    *training, held_out = shards

    chain = batches(digits(url, training).map(shifted, input_col=0), device)
    print(f"{chain}\n")
    torch.set_num_threads(max((os.cpu_count() or 1) - workers, 1))  # leave the other cores to the workers
    model = small_cnn().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    service = ps.MultiProcessingReadingService(num_workers=workers)
    started, read = time.perf_counter(), 0
    with ps.DataLoader2(chain, reading_service=service, progress=True) as loader:
        for _ in range(epochs):
            read += train(model, optimizer, loader)
            schedule.step()
    seconds = time.perf_counter() - started
    reached = accuracy(model, batches(digits(url, [held_out]), device))
    print(
        f"{read} images in {seconds:.1f} s: {read / seconds:.0f} images/s, "
        f"with training on {device} and the start of {workers} processes\n"
        f"{reached:.1%} of {held_out}, which was held out, are right"
    )
    return 0 if reached >= GOAL else 1


def default_device() -> torch.device:
    """Return the accelerator, or else the CPU."""
    # A torch built for an accelerator reports it even if the machine has none.
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return found or torch.device("cpu")


def train(model: nn.Module, optimizer: torch.optim.Optimizer, loader: Iterable[Images]) -> int:
    """Train a model for one epoch, and return the number of images."""
    model.train()
    read = 0
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        read += len(labels)
    return read


@torch.inference_mode()
def accuracy(model: nn.Module, loader: Iterable[Images]) -> float:
    """Return the share of images that a model classifies correctly."""
    model.eval()
    right = [(model(images).argmax(dim=1) == labels).cpu() for images, labels in loader]
    return torch.cat(right).float().mean().item()
