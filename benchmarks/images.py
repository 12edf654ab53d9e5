"""JPEG decode and resize on two processes: `python -m benchmarks.images`.

Each library reads the same images twice, in its own process: first all by Pillow, then by the fastest decoder or their
own, then each decoder alone. Every contestant runs once a round. Shares are computed within rounds, of two references:
twice the rate of one hand-written process, and two hand-written processes at once that hand nothing over. Memory is
sampled in an extra round, whose times do not count.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
from functools import partial
from statistics import median
from typing import Any

from .harness import CACHE, environment, measured_apart, plot, rounds_of, share, table, verdict
from .image_peers import ALL, DECODERS, FAST_PEERS, PEERS, Peer, measure

LEAST_OF_HANDS = 0.95
GROUPS = {"pillow": PEERS, "fast": FAST_PEERS, "decoders": DECODERS}


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
        python = ALL[name].python()
    except subprocess.CalledProcessError as error:
        return {"error": str(error)}
    return measured_apart([python, "-m", "benchmarks.images", "--images", str(count), "--measure", name], peaks)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__)
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--group", choices=GROUPS, action="append", help="run only these contestants")
    parser.add_argument("--measure", choices=ALL, help="measure this one only, here, and print the figures as JSON")
    options = parser.parse_args()
    paths = make_images(options.images)
    if options.measure:
        print(json.dumps(measure(options.measure, paths)))
        return
    size = sum(map(os.path.getsize, paths)) / len(paths)
    print(environment("penstock", "torch", "Pillow", "simplejpeg", "spdl"))
    print(
        f"\n{options.images:,} JPEGs of {size / 1000:.0f} KB to 224 × 224, batches of 32; medians of {options.rounds}."
    )
    for group in options.group or GROUPS:
        compare(group, options.images, options.rounds)


def compare(group: str, count: int, rounds: int) -> None:
    """Measure the contestants of a group, and print the table and the verdicts."""
    peers: dict[str, Peer] = GROUPS[group]
    peaks: dict[str, list[float]] = {name: [] for name in peers}
    trial = {name: run(name, count, peaks[name]) for name in peers}  # also what reads everything into memory
    able = [name for name, result in trial.items() if "error" not in result]
    results = rounds_of({name: partial(run, name, count) for name in able}, rounds)
    if group == "decoders":
        of_decoders(results, {name: trial[name]["version"] for name in able})
    else:
        of_loaders(group, results, {name: (trial[name]["version"], peaks[name][0]) for name in able})
    for name, result in trial.items():
        if "error" in result:
            print(f"{name}: not measured: {result['error']}")


def of_decoders(results: dict[str, list[dict[str, Any]]], versions: dict[str, Any]) -> None:
    """Print what each decoder does alone, beside Pillow."""
    cpu = {name: [result["cpu_again"] for result in results[name]] for name in results}
    rows = []
    for name in results:
        pillow = next(other for other in results if other.split(", ")[-1] == name.split(", ")[-1])
        rate = median(result["rate_again"] for result in results[name])
        rows.append(
            [name, versions[name], f"{rate:,.0f}", f"{median(cpu[name]):.2f}", f"{share(cpu[pillow], cpu[name]):.2f}"]
        )
    print("\nEach decoder alone in one process; how many times as fast, by the CPU time, in the same round.\n")
    print(table(["", "version", "images/s", "CPU of an image, ms", "× Pillow"], rows))


def of_loaders(group: str, results: dict[str, list[dict[str, Any]]], facts: dict[str, tuple[Any, float]]) -> None:
    """Print what loaders do with two processes, beside what is done by hand, and whether ours comes near it."""
    hand, two_hands, ours = list(GROUPS[group])[:3]

    def of(name: str, figure: str) -> list[float]:
        return [result[figure] for result in results[name]]

    def of_hands(name: str, figure: str) -> float:
        return share(of(name, figure), [2 * rate for rate in of(hand, "rate_again")])

    rows = []
    for name in results:
        shares = [
            part
            for figure in ("rate", "rate_again")
            for part in (f"{median(of(name, figure)):,.0f}", f"{of_hands(name, figure):.2f}")
        ]
        of_two = f"{share(of(name, 'rate_again'), of(two_hands, 'rate_again')):.2f}"
        of_ours = f"{share(of(name, 'rate_again'), of(ours, 'rate_again')):.2f}"
        version, peak = facts[name]
        rest = [f"{median(of(name, 'first')):.2f}", f"{median(of(name, 'cpu_again')):.2f}", f"{peak:,.0f}"]
        rows.append([name, version, *shares, of_two, of_ours, *rest])
    alone = of(hand, "rate_again")
    print(
        "\nTwo processes, or threads. Epoch 1 is counted from its first batch on, epoch 2 from its beginning. Shares\n"
        "are of twice the hand loop's epoch 2 in the same round; those “of two”, of the epoch 2 of the two hand loops\n"
        f"at once; those “of ours”, of the epoch 2 of {ours}.\n"
        f"The hand loop's own epoch 2 went from {min(alone):,.0f} to {max(alone):,.0f} images/s: where these lie far\n"
        "apart, the machine was busy with something else, and the shares are not to be trusted.\n"
    )
    header = ["", "version", "epoch 1, images/s", "share", "epoch 2, images/s", "share", "of two", "of ours"]
    print(table([*header, "first batch, s", "CPU of an image, ms", "memory, MB"], rows))
    if group == "pillow":
        rates = {name: median(of(name, "rate_again")) for name in results}
        plot("images", "JPEGs decoded and resized by two processes, images/s", rates)
    print()
    for figure, when in (("rate", "after the first batch"), ("rate_again", "in a second epoch")):
        reached = of_hands(ours, figure)
        goal = f"at least {LEAST_OF_HANDS} of twice the hand loop, {when}: {reached:.2f}"
        print(verdict(goal, reached >= LEAST_OF_HANDS))
    others = [name for name in results if name not in (hand, two_hands) and not name.startswith("penstock")]
    nearest = max(share(of(name, "rate_again"), of(ours, "rate_again")) for name in others)
    print(verdict(f"ahead of every loader, in a second epoch: the next has {nearest:.2f} of ours", nearest < 1))


if __name__ == "__main__":
    main()
