"""What copying batches to an accelerator costs while it computes: `python -m benchmarks.device`.

Each batch is copied from main memory and used by a training step. The step takes no time, or about as long as the copy.
The hand-written loop copies the next batch from pinned memory on its own stream. Needs an accelerator.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from statistics import median
from typing import Any

import torch

from .harness import environment, rounds_of, share, table, verdict

SHAPE = (128, 3, 224, 224)
HAND, OURS, PLAIN = "by hand, one ahead", "penstock, to_device()", "batch.to(device)"
TORCH, NOT_MOVED = "torch's DataLoader, pinned", "no copies, for comparison"
LEAST_OF_HAND = 0.95


class Batches(torch.utils.data.IterableDataset[torch.Tensor]):
    """Yields a number of batches of images, in main memory that is not pinned."""

    def __init__(self, batches: int) -> None:
        self.made = [torch.rand(SHAPE) for _ in range(4)]
        self.batches = batches

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(self.batches):
            yield self.made[number % len(self.made)]


def by_hand(batches: Batches, device: torch.device) -> Iterator[torch.Tensor]:
    side = torch.Stream(device=device)
    current = torch.accelerator.current_stream(device)

    def start(batch: torch.Tensor) -> tuple[torch.Tensor, torch.Event]:
        pinned = batch.pin_memory()
        torch.accelerator.set_stream(side)
        moved = pinned.to(device, non_blocking=True)
        torch.accelerator.set_stream(current)
        return moved, side.record_event()

    def arrived(moved: torch.Tensor, copied: torch.Event) -> torch.Tensor:
        current.wait_event(copied)
        moved.record_stream(current)
        return moved

    ahead = None
    for batch in batches:
        started = start(batch)
        if ahead is not None:
            yield arrived(*ahead)
        ahead = started
    if ahead is not None:
        yield arrived(*ahead)


def plainly(batches: Batches, device: torch.device) -> Iterator[torch.Tensor]:
    for batch in batches:
        yield batch.to(device)


def by_torch(batches: Batches, device: torch.device) -> Iterator[torch.Tensor]:
    loader = torch.utils.data.DataLoader(batches, batch_size=None, pin_memory=True)
    for batch in loader:
        yield batch.to(device, non_blocking=True)


def ours(batches: Batches, device: torch.device) -> Iterable[torch.Tensor]:
    import penstock as ps

    return ps.iter.IterableWrapper(batches, deepcopy=False).to_device(device)


def not_moved(batches: Batches, device: torch.device) -> Iterator[torch.Tensor]:
    batch = batches.made[0].to(device)
    for _ in range(batches.batches):
        yield batch


def seconds(moved: Callable[[], Iterable[torch.Tensor]], step: Callable[[torch.Tensor], None]) -> float:
    torch.accelerator.synchronize()
    started = time.perf_counter()
    for batch in moved():
        step(batch)
    torch.accelerator.synchronize()
    return time.perf_counter() - started


def training_step(weight: torch.Tensor, products: int) -> Callable[[torch.Tensor], None]:
    def step(batch: torch.Tensor) -> None:
        result = weight * batch.view(-1)[0]
        for _ in range(products):
            result = result @ weight

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    if not torch.accelerator.is_available():
        print("This machine has no accelerator, so there is nothing to measure.")
        return
    device = torch.accelerator.current_accelerator()
    assert device is not None
    name = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    print(environment("penstock", "torch"), f"on {name}\n")
    batches = Batches(arguments.batches)
    size = 4 * torch.Size(SHAPE).numel()
    weight = torch.rand(4096, 4096, device=device, dtype=torch.bfloat16) / 64
    kinds: dict[str, Any] = {HAND: by_hand, OURS: ours, PLAIN: plainly, TORCH: by_torch, NOT_MOVED: not_moved}
    shares = {}
    copy = seconds(partial(plainly, batches, device), lambda batch: None) / arguments.batches
    for products in (0, products_in(copy, weight)):
        step = training_step(weight, products)
        contestants = {name: partial(seconds, partial(make, batches, device), step) for name, make in kinds.items()}
        times = rounds_of(contestants, arguments.rounds)
        print(f"{arguments.batches} batches of {size / 1e6:.0f} MB, {products} matrix products per step\n")
        rows = [
            [name, f"{1e3 * median(times[name]) / arguments.batches:.2f}", f"{share(times[HAND], times[name]):.2f}"]
            for name in kinds
        ]
        print(table(["", "ms a step", "of the loop by hand"], rows), "\n")
        shares[products] = share(times[HAND], times[OURS])
    for products, reached in shares.items():
        goal = f"at least {LEAST_OF_HAND} of the loop by hand, {products} products a step: {reached:.2f}"
        print(verdict(goal, reached >= LEAST_OF_HAND))


def products_in(seconds_a_step: float, weight: torch.Tensor) -> int:
    """Return how many matrix products the device computes in a given time."""
    step = training_step(weight, 100)
    first = weight.view(-1)
    step(first)
    torch.accelerator.synchronize()
    started = time.perf_counter()
    step(first)
    torch.accelerator.synchronize()
    return max(1, round(100 * seconds_a_step / (time.perf_counter() - started)))


if __name__ == "__main__":
    main()
