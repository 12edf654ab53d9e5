"""What each operator costs, beside torchdata 0.9 and what is written by hand: `python -m benchmarks.operators`.

An operator's chain is the same line of code in both libraries, most often a source and the operator. A process for each
library answers in turns, and ratios are taken within rounds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from .harness import environment, python_of_torchdata_09, rounds_of, share, table, verdict
from .operator_cases import CASES, Case

OURS, THEIRS, HAND = "penstock", "torchdata", "by hand"
LEAST_MEDIAN = 8.0
SECONDS = 0.3
"""How long the slower library is to be busy with a case."""

Ask = Callable[[str, str, int], float]


class CaseError(Exception):
    """A chain could not be read."""


@contextmanager
def answering(python: str, library: str, folder: Path) -> Iterator[Ask]:
    """Start a process that times cases with a library, and give a function that asks it."""
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
    """Return how many items keep the slower library busy for a while."""
    items = 100
    while items < case.most and ask(case.operator, "chain", items) < SECONDS / 4:
        items = min(items * 4, case.most)
    return items


def compare(case: Case, ours: Ask, theirs: Ask, rounds: int) -> tuple[list[str], float]:
    """Return the row of a case, and how many times faster than torchdata ours is."""
    items = items_for(case, theirs)
    contestants = {
        OURS: partial(ours, case.operator, "chain", items),
        THEIRS: partial(theirs, case.operator, "chain", items),
        HAND: partial(ours, case.operator, HAND, items),
    }
    seconds = rounds_of(contestants, rounds)
    faster = share(seconds[THEIRS], seconds[OURS])
    cost = {name: f"{median(took) / items * 1e9:,.0f}" for name, took in seconds.items()}
    if case.by_hand is None:
        return [case.operator, f"{items:,}", cost[OURS], cost[THEIRS], "", "", f"{faster:.1f}"], faster
    of_hand = f"{share(seconds[OURS], seconds[HAND]):.2f}"
    return [case.operator, f"{items:,}", cost[OURS], cost[THEIRS], cost[HAND], of_hand, f"{faster:.1f}"], faster


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", metavar="OPERATOR", help="such as iter.map")
    options = parser.parse_args()
    print(environment("penstock", "torch"))
    python_09 = python_of_torchdata_09()
    version = [python_09, "-c", "import torch, torchdata; print(torchdata.__version__, torch.__version__)"]
    print("torchdata {} on torch {}".format(*subprocess.check_output(version, text=True).split()))

    rows, ratios, failed = [], {}, []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(answering(sys.executable, "penstock.pipes", folder))
        theirs = stack.enter_context(answering(python_09, "torchdata.datapipes", folder))
        for case in CASES:
            if options.only and case.operator not in options.only:
                continue
            try:
                row, ratios[case.operator] = compare(case, ours, theirs, options.rounds)
                rows.append(row)
            except CaseError as error:
                failed.append(f"{case.operator}: {error}")
    print(f"\nnanoseconds per item, {options.rounds} rounds\n")
    print(table(["", "items", "penstock", "torchdata", "by hand", "× by hand", "× faster"], rows))
    slower = [operator for operator, ratio in ratios.items() if ratio < 1]
    verdicts = [
        verdict(f"none slower than torchdata: {', '.join(slower) or 'none'} of {len(ratios)}", not slower),
        verdict(
            f"at the median, at least {LEAST_MEDIAN:.0f} × faster: {median(ratios.values()):.1f}",
            median(ratios.values()) >= LEAST_MEDIAN,
        ),
    ]
    print("\n" + "\n".join([*verdicts, *failed]))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
