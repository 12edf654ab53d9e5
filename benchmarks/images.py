"""JPEG decode and resize on two processes: `python -m benchmarks.images`.

Each library reads the same images twice, in its own process. Every contestant runs once a round. Shares are computed
within rounds, of two references: twice the rate of one hand-written process, and two hand-written processes at once
that hand nothing over. Memory is sampled in an extra round, whose times do not count.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
from functools import partial
from statistics import median
from typing import Any

from .harness import CACHE, environment, measured_apart, plot, python_of_torchdata_09, rounds_of, share, table, verdict
from .image_peers import PEERS, measure

HAND, TWO_HANDS, OURS, OLD = *list(PEERS)[:3], "torchdata 0.9 DataLoader2"
LEAST_OF_HANDS = 0.95


def jpeg(number: int) -> bytes:
    """Return an image of 500 × 375 and about 65 KB: waves, patches of colour and noise, drawn from its number."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(number)
    y, x = np.mgrid[0:375, 0:500]
    waves = [np.sin(f * (x * np.cos(a) + y * np.sin(a))) for f, a in random.uniform(0.002, 6.28, (3, 2)) * (0.003, 1)]
    patches = Image.fromarray(random.integers(0, 256, (24, 32, 3), dtype=np.uint8)).resize((500, 375))
    noise = random.normal(0, 10, (375, 500, 1))
    pixels = 0.6 * (127 + 80 * np.stack(waves, axis=-1)) + 0.4 * np.asarray(patches) + noise
    file = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=85)
    return file.getvalue()


def make_images(count: int) -> list[str]:
    """Return the paths of the images; make missing ones."""
    folder = CACHE / "images"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:05}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        if not path.exists():
            unfinished = path.with_suffix(".part")
            unfinished.write_bytes(jpeg(number))
            unfinished.replace(path)
    return list(map(str, paths))


def run(name: str, count: int, peaks: list[float] | None = None) -> dict[str, Any]:
    """Measure one contestant in its own process; if that fails, the result has the `error`."""
    try:
        python = python_of_torchdata_09() if name == OLD else sys.executable
    except subprocess.CalledProcessError as error:
        return {"error": str(error)}
    return measured_apart([python, "-m", "benchmarks.images", "--images", str(count), "--measure", name], peaks)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__)
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", choices=PEERS, help="measure this one only, here, and print the figures as JSON")
    options = parser.parse_args()
    paths = make_images(options.images)
    if options.measure:
        print(json.dumps(measure(options.measure, paths)))
    else:
        compare(options.images, options.rounds, sum(map(os.path.getsize, paths)) / len(paths))


def compare(count: int, rounds: int, size: float) -> None:
    """Measure all contestants and print the table and the verdicts."""
    print(environment("penstock", "torch", "Pillow"))
    peaks: dict[str, list[float]] = {name: [] for name in PEERS}
    trial = {name: run(name, count, peaks[name]) for name in PEERS}  # also reads all files into memory
    able = [name for name, result in trial.items() if "error" not in result]
    results = rounds_of({name: partial(run, name, count) for name in able}, rounds)

    def of(name: str, figure: str) -> list[float]:
        return [result[figure] for result in results[name]]

    def of_hands(name: str, figure: str) -> float:
        return share(of(name, figure), [2 * rate for rate in of(HAND, "rate_again")])

    rows = []
    for name in able:
        rates = [
            part
            for figure in ("rate", "rate_again")
            for part in (f"{median(of(name, figure)):,.0f}", f"{of_hands(name, figure):.2f}")
        ]
        of_two = f"{share(of(name, 'rate_again'), of(TWO_HANDS, 'rate_again')):.2f}"
        rest = [f"{median(of(name, 'first')):.2f}", f"{median(of(name, 'cpu')):.1f}", f"{peaks[name][0]:,.0f}"]
        rows.append([name, trial[name]["version"], *rates, of_two, *rest])
    alone = of(HAND, "rate_again")
    print(
        f"\n{count:,} JPEGs of {size / 1000:.0f} KB to 224 × 224, batches of 32, two processes; medians of {rounds}.\n"
        "Epoch 1 is timed from its first batch on, epoch 2 from its beginning. A share is relative to twice the hand\n"
        "loop's epoch 2 in the same round; a share “of two”, to epoch 2 of the two hand loops at once.\n"
        f"The hand loop's own epoch 2 varied from {min(alone):,.0f} to {max(alone):,.0f} images/s. If these differ\n"
        "much, the machine was busy with something else, and the shares are not reliable.\n"
    )
    header = ["", "version", "epoch 1, images/s", "share", "epoch 2, images/s", "share", "of two"]
    print(table([*header, "first batch, s", "CPU, s", "memory, MB"], rows))
    rates = {name: median(of(name, "rate_again")) for name in able}
    plot("images", "JPEGs decoded and resized by two processes, images/s", rates)
    for name, result in trial.items():
        if "error" in result:
            print(f"{name}: not measured: {result['error']}")
    if OURS in able:
        print()
        for figure, when in (("rate", "after the first batch"), ("rate_again", "in a second epoch")):
            reached = of_hands(OURS, figure)
            goal = f"at least {LEAST_OF_HANDS} of twice the hand loop, {when}: {reached:.2f}"
            print(verdict(goal, reached >= LEAST_OF_HANDS))


if __name__ == "__main__":
    main()
