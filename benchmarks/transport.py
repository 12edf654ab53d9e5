"""What bringing items from two processes to one costs: `python -m benchmarks.transport`.

Each contestant runs in its own process, once a round: a warm-up epoch, and epochs that count, for at least a second.
Memory is sampled in an extra round, whose times do not count.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from functools import partial
from statistics import median
from typing import Any

from .harness import environment, measured_apart, rounds_of, share, table, verdict
from .transport_peers import IN_MEMORY, KINDS, LIMIT, OURS, PEERS, TORCH, Kind, measure, parts_of

LEAST_OF_TORCH = {"tensors": 1.5, "NumPy": 4.0}
LEAST_OF_LIMIT = 0.8


def run(peer: str, kind: str, peaks: list[float] | None = None) -> dict[str, Any]:
    return measured_apart([sys.executable, "-m", "benchmarks.transport", "--measure", peer, kind], peaks)


def megabytes(kind: Kind) -> float:
    """Return the MB of an epoch: of the arrays, or of the pickle if there are none."""
    item = kind.make(0)
    parts = [] if isinstance(item, list) else [part for part in parts_of(item) if hasattr(part, "nbytes")]
    return kind.count * (sum(part.nbytes for part in parts) or len(pickle.dumps(item, protocol=5))) / 1e6


def compare(name: str, rounds: int) -> list[str]:
    """Measure all contestants with one kind of items, print the table and return the verdicts."""
    kind = KINDS[name]
    peers = [peer for peer in PEERS if peer != LIMIT or name in IN_MEMORY]
    peaks: dict[str, list[float]] = {peer: [] for peer in peers}
    failed = {peer: result["error"] for peer in peers if "error" in (result := run(peer, name, peaks[peer]))}
    able = [peer for peer in peers if peer not in failed]
    results = rounds_of({peer: partial(run, peer, name) for peer in able}, rounds)
    seconds = {peer: [result["seconds"] for result in results[peer]] for peer in able}
    size = megabytes(kind)
    rows = [
        [
            peer,
            f"{size / median(seconds[peer]):,.0f}",
            f"{median(seconds[peer]) / kind.count * 1e6:,.1f}",
            f"{share(seconds[TORCH], seconds[peer]):.2f}",
            f"{share(seconds[LIMIT], seconds[peer]):.2f}" if LIMIT in able else "",
            f"{median(result['cpu'] for result in results[peer]):.2f}",
            f"{peaks[peer][0]:,.0f}",
        ]
        for peer in able
    ]
    print(f"\n{name}: {kind.count:,} items, {size:,.0f} MB, {rounds} rounds\n")
    header = ["", "MB/s", "µs per item", "× faster than DataLoader", "share of the limit", "CPU, s", "memory, MB"]
    print(table(header, rows))
    for peer, error in failed.items():
        print(f"{peer}: not measured: {error}")
    verdicts = []
    if name in LEAST_OF_TORCH:
        faster, least = share(seconds[TORCH], seconds[OURS]), LEAST_OF_TORCH[name]
        verdicts.append(verdict(f"{name}: at least {least} × faster than DataLoader: {faster:.2f}", faster >= least))
    if name in IN_MEMORY:
        of_limit = share(seconds[LIMIT], seconds[OURS])
        goal = f"{name}: at least {LEAST_OF_LIMIT} of the rate of copying once: {of_limit:.2f}"
        verdicts.append(verdict(goal, of_limit >= LEAST_OF_LIMIT))
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transport", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS], metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--measure", nargs=2, metavar=("PEER", "KIND"), help="measure this only, here; print JSON")
    options = parser.parse_args()
    if options.measure:
        peer, kind = options.measure
        print(json.dumps(measure(peer, KINDS[kind])))
        return
    print(environment("penstock", "torch", "numpy"))
    verdicts = [each for kind in options.kinds for each in compare(kind, options.rounds)]
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
