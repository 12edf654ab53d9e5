"""What resuming costs: `python -m benchmarks.resuming`. Each part is one module, which describes what it measures.

`--parts again state passes` are the parts on single chains. `again` reads a million items of each operator: 1,000,003,
a prime, so that no batch or buffer ends exactly there.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from .harness import environment

PARTS = {
    "throughput": "throughput",
    "states": "states",
    "growth": "states",
    "again": "again",
    "state": "steps",
    "passes": "steps",
}
"""The module of each part, `resuming_…`. If one cannot be imported, the others still run."""


def part_of(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(import_module(f".resuming_{PARTS[name]}", __package__), name)
    return function


def with_workers(parts: list[str], only: list[str], rounds: int, scale: float) -> list[str]:
    """Run the parts that read with workers."""
    from .resuming_chains import cases, make_archives

    verdicts: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_archives(folder)
        chosen = {name: case for name, case in cases(folder).items() if name.startswith(tuple(only or [""]))}
        if "throughput" in parts:
            verdicts += part_of("throughput")(chosen, rounds, scale)
        if "states" in parts:
            verdicts += part_of("states")(chosen, scale)
        if "growth" in parts:
            part_of("growth")(folder, scale)
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resuming", description=__doc__)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of items read with workers")
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        metavar="NAME",
        help="start of a chain's name, such as cheap; for the part again of an operator's name, such as iter.map",
    )
    parser.add_argument(
        "--items", type=int, default=1_000_003, help="the number of items after which the part again resumes"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="the most seconds that the part again reads a chain")
    options = parser.parse_args()
    print(environment("penstock", "torch"))
    verdicts = []
    if {"throughput", "states", "growth"} & {*options.parts}:
        verdicts += with_workers(options.parts, options.only, options.rounds, options.scale)
    if "again" in options.parts:
        verdicts += part_of("again")(options.items, options.seconds, options.only)
    if "state" in options.parts:
        verdicts += part_of("state")(options.rounds)
    if "passes" in options.parts:
        verdicts += part_of("passes")(options.rounds)
    print("\n" + "\n".join(verdicts))


if __name__ == "__main__":
    main()
