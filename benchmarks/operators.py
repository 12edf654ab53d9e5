"""What each operator costs, compared with torchdata 0.9 and hand-written code: `python -m benchmarks.operators`.

An operator's chain is the same line of code in both libraries, usually a source and the operator. A process for each
library takes turns, and ratios are computed within rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from .harness import environment, python_of_torchdata_09, share, table, verdict
from .operator_cases import CASES, Case

OURS, THEIRS, HAND = "penstock", "torchdata", "by hand"
LEAST_MEDIAN = 8.0
MOST_NOISE = 1.1
"""Costs that differ by less count as equal, such as one call of a Python function in both libraries."""
SECONDS = 0.3
"""The seconds that a case should take in the slower library."""

Ask = Callable[[str, str, int], float]
Costs = dict[str, float]


class CaseError(Exception):
    """A chain could not be read."""


@contextmanager
def answering(python: str, library: str, folder: Path) -> Iterator[Ask]:
    """Start a process that times cases with a library; yield a function that asks it."""
    command = [python, "-m", "benchmarks.operator_cases", library, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask(operator: str, side: str, items: int) -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([operator, side, items]) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            if isinstance(answer, str):
                raise CaseError(answer)
            return float(answer)

        try:
            yield ask
        finally:
            process.terminate()


def items_for(case: Case, ask: Ask) -> int:
    """Return the number of items that takes the slower library long enough to measure."""
    items = 100
    while items < case.most and ask(case.operator, "chain", items) < SECONDS / 4:
        items = min(items * 4, case.most)
    return items


def one_round(cases: dict[str, int], folder: Path, python_09: str, failed: dict[str, str]) -> dict[str, Costs]:
    """Return the cost of each case for each contestant, in nanoseconds per item.

    Each round starts new processes: random properties of a process, such as its hash seed, may favour one library.
    """
    costs: dict[str, Costs] = {}
    with (
        answering(sys.executable, "penstock.pipes", folder) as ours,
        answering(python_09, "torchdata.datapipes", folder) as theirs,
    ):
        for case in CASES:
            if case.operator not in cases:
                continue
            try:
                items = cases[case.operator] = cases[case.operator] or items_for(case, theirs)
                asked = {OURS: (ours, "chain"), THEIRS: (theirs, "chain"), HAND: (ours, HAND)}
                costs[case.operator] = {
                    name: ask(case.operator, side, items) / items * 1e9 for name, (ask, side) in asked.items()
                }
            except CaseError as error:
                failed[case.operator] = str(error)
    return costs


def row(case: Case, items: int, rounds: list[Costs]) -> list[str]:
    """Return the line of a case in the table."""
    names = [OURS, THEIRS, HAND] if case.by_hand is not None else [OURS, THEIRS]
    cells = [f"{median(each[name] for each in rounds):,.0f}" for name in names]
    of_hand = f"{ratio(rounds, OURS, HAND):.2f}" if case.by_hand is not None else ""
    return [
        case.operator,
        f"{items:,}",
        *cells,
        *[""] * (3 - len(cells)),
        of_hand,
        f"{ratio(rounds, THEIRS, OURS):.1f}",
    ]


def ratio(rounds: list[Costs], name: str, of: str) -> float:
    return share([each[name] for each in rounds], [each[of] for each in rounds])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", metavar="OPERATOR", help="such as iter.map")
    options = parser.parse_args()
    print(environment("penstock", "torch"))
    python_09 = python_of_torchdata_09()
    version = [python_09, "-c", "import torch, torchdata; print(torchdata.__version__, torch.__version__)"]
    print("torchdata {} on torch {}".format(*subprocess.check_output(version, text=True).split()))

    wanted = {case.operator: 0 for case in CASES if not options.only or case.operator in options.only}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        rounds = [one_round(wanted, Path(folder), python_09, failed) for _ in range(options.rounds)]
    costs = {operator: [each[operator] for each in rounds] for operator in wanted if operator not in failed}
    print(f"\nnanoseconds per item, {options.rounds} rounds\n")
    lines = [row(case, wanted[case.operator], costs[case.operator]) for case in CASES if case.operator in costs]
    print(table(["", "items", OURS, THEIRS, HAND, f"× {HAND}", "× faster"], lines))
    ratios = {operator: ratio(each, THEIRS, OURS) for operator, each in costs.items()}
    slower = [f"{operator} {found:.2f}" for operator, found in ratios.items() if found < 1 / MOST_NOISE]
    verdicts = [
        verdict(
            f"none of {len(ratios)} over {MOST_NOISE} × torchdata's cost: {', '.join(slower) or 'none'}", not slower
        ),
        verdict(
            f"at the median, at least {LEAST_MEDIAN:.0f} × faster: {median(ratios.values()):.1f}",
            median(ratios.values()) >= LEAST_MEDIAN,
        ),
    ]
    print("\n" + "\n".join([*verdicts, *(f"{operator}: {error}" for operator, error in failed.items())]))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
