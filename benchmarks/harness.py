"""What the benchmarks share: fair rounds, medians, tables and verdicts."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TypeVar

__all__ = ["CACHE", "environment", "python_of_torchdata_09", "rounds_of", "share", "table", "verdict", "version_of"]

T = TypeVar("T")

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-benchmarks"
"""Where what takes long to make is kept from one run to the next."""

_CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def python_of_torchdata_09() -> str:
    """Return a Python that has torchdata 0.9, the last with DataLoader2, in an environment made for it."""
    if given := os.environ.get("PENSTOCK_TORCHDATA09_PYTHON"):
        return given
    folder = CACHE / "torchdata-0.9"
    python, complete = folder / "bin" / "python", folder / "complete with portalocker"
    if not complete.exists():
        print("making an environment with torchdata 0.9 …", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        constraints = folder / "constraints.txt"
        pins = _CONSTRAINTS.read_text().splitlines(keepends=True)
        constraints.write_text("".join(pin for pin in pins if not pin.startswith("torchdata=")))
        install = [python, "-m", "pip", "install", "-q", "-c", constraints]
        subprocess.run([*install, "torchdata==0.9.0", "torch", "numpy", "Pillow", "portalocker", "psutil"], check=True)
        complete.touch()
    return str(python)


def rounds_of(contestants: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every contestant once a round, and return their results; each round begins with another one.

    Whatever disturbs the machine for a while disturbs all of them, and a ratio taken within a round holds.
    """
    results: dict[str, list[T]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(contestants[name]())
    return results


def share(values: Sequence[float], of: Sequence[float]) -> float:
    """Return the median of the ratios, taken round by round."""
    return median(value / whole for value, whole in zip(values, of, strict=True))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in aligned columns: the first to the left, the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
    return "\n".join([aligned[0], "-" * len(aligned[0]), *aligned[1:]])


def verdict(goal: str, met: bool) -> str:
    """Return one line on a goal."""
    return f"{'met   ' if met else 'MISSED'}  {goal}"


def version_of(package: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def environment(*packages: str) -> str:
    """Return Python, the machine's kind and the versions of packages in one line."""
    versions = ", ".join(f"{name} {version_of(name) or '(not installed)'}" for name in packages)
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}; {versions}"
