"""How fast columns of Parquet files become tensors, and go through a model: `python -m benchmarks.columns`.

The data are 2 M rows in 8 files, with 16 columns of float32, an id and a label. Batches are dicts of tensors of 9
columns of 1,024 rows. Each contestant runs in its own process, once a round: a warm-up epoch, and then all epochs that
begin within a second, which count. Memory is sampled in an extra round, whose times do not count. CPU time is that of
an epoch, in all processes of the contestant.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from .columns_peers import BATCHES, BY_HAND, INFERENCE, OF_RAY, ORDERS, OURS, OURS_OF_MODELS, SHUFFLED, measure
from .harness import environment, measured_apart, plot, python_of_ray, rounds_of, share, table, verdict

FILES = 8
LEAST_OF_BY_HAND, LEAST_OF_OTHERS, LEAST_OF_ORDERS, LEAST_SHUFFLED = 0.9, 10.0, 0.95, 3e6

KINDS = {"batches": BATCHES, "orders": ORDERS, "shuffled": SHUFFLED, "inference": INFERENCE}


def lay_out(folder: Path, rows: int) -> None:
    """Write the files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    for number in range(FILES):
        count = rows // FILES
        columns: dict[str, Any] = {f"x{each}": random.random(count, dtype=np.float32) for each in range(16)}
        columns["id"] = np.arange(number * count, (number + 1) * count)
        columns["label"] = random.integers(0, 10, count)
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=65_536)


def run(folder: Path, kind: str, peer: str, peaks: list[float] | None = None) -> dict[str, Any]:
    python = python_of_ray() if peer in OF_RAY else sys.executable
    return measured_apart([python, "-m", "benchmarks.columns", "--measure", str(folder), kind, peer], peaks)


def compare(folder: Path, kind: str, rows: int, rounds: int) -> list[str]:
    """Measure all contestants of a kind, print the table and return the verdicts."""
    peers = [*KINDS[kind]]
    peaks: dict[str, list[float]] = {peer: [] for peer in peers}
    first = {peer: run(folder, kind, peer, peaks[peer]) for peer in peers}
    failed = {peer: result["error"] for peer, result in first.items() if "error" in result}
    able = [peer for peer in peers if peer not in failed]
    results = rounds_of({peer: partial(run, folder, kind, peer) for peer in able}, rounds)
    failed |= {peer: result["error"] for peer in able for result in results[peer] if "error" in result}
    able = [peer for peer in able if peer not in failed]
    if wrong := {peer for peer in able for result in results[peer] if result["rows"] != rows}:
        raise AssertionError(f"not all rows were read by {', '.join(sorted(wrong))}")
    seconds = {peer: [result["seconds"] for result in results[peer]] for peer in able}
    cells = [
        [
            peer,
            f"{rows / median(seconds[peer]) / 1e6:,.2f}",
            f"{share(seconds[able[0]], seconds[peer]):.2f}",
            f"{median(result['cpu'] for result in results[peer]):.2f}",
            f"{peaks[peer][0]:,.0f}",
        ]
        for peer in able
    ]
    print(f"\n{kind}: {rows:,} rows, {rounds} rounds\n")
    print(table(["", "M rows/s", f"share of {able[0]}", "CPU, s", "memory, MB"], cells))
    rates = {peer: rows / median(seconds[peer]) / 1e6 for peer in able}
    plot(f"columns-{kind}", f"{kind}: rows of Parquet to tensors, M rows/s", rates)
    for peer, error in failed.items():
        print(f"{peer}: not measured: {error}")
    return verdicts_on(kind, seconds, rows)


def verdicts_on(kind: str, seconds: dict[str, list[float]], rows: int) -> list[str]:
    def times(ours: str, peer: str) -> float:
        return share(seconds[peer], seconds[ours])

    if kind == "inference":
        best = min(OURS_OF_MODELS, key=lambda peer: median(seconds[peer]))
        rays = [peer for peer in OF_RAY if peer in seconds]
        return [
            verdict(f"{kind}: {best}: at least as fast as {peer}: {times(best, peer):.2f} ×", times(best, peer) >= 1)
            for peer in rays
        ]
    if kind == "orders":
        first, *others = ORDERS
        return [
            verdict(
                f"{kind}: {peer}: as fast as {first}: {times(peer, first):.2f} ×", times(peer, first) >= LEAST_OF_ORDERS
            )
            for peer in others
        ]
    if kind == "shuffled":
        rate = rows / median(seconds[OURS])
        return [verdict(f"{kind}: at least 3 M rows/s: {rate / 1e6:.1f}", rate >= LEAST_SHUFFLED)]
    reached = times(OURS, BY_HAND)
    verdicts = [verdict(f"{kind}: at least {LEAST_OF_BY_HAND} of by hand: {reached:.2f}", reached >= LEAST_OF_BY_HAND)]
    for peer in ("Hugging Face datasets, streamed", "Ray Data"):
        if peer in seconds:
            reached = times(OURS, peer)
            goal = f"{kind}: at least {LEAST_OF_OTHERS:.0f} × {peer}: {reached:.1f}"
            verdicts.append(verdict(goal, reached >= LEAST_OF_OTHERS))
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.columns", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND", help=", ".join(KINDS))
    parser.add_argument(
        "--measure", nargs=3, metavar=("FOLDER", "KIND", "PEER"), help="measure this only, here; print JSON"
    )
    options = parser.parse_args()
    if options.measure:
        folder, kind, peer = options.measure
        print(json.dumps(measure(KINDS[kind][peer], folder)))
        return
    print(environment("penstock", "torch", "pyarrow", "datasets") + ", ray 2.60.0 in an environment of its own")
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder), options.rows)
        verdicts = [
            each for kind in options.kinds for each in compare(Path(folder), kind, options.rows, options.rounds)
        ]
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
