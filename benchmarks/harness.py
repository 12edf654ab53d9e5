"""Shared by the benchmarks: fair rounds, medians, tables and verdicts."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

T = TypeVar("T")

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-benchmarks"
"""The folder that keeps slow preparations between runs."""

_ROOT = Path(__file__).parents[1]
_PLOTS = _ROOT / "docs" / "plots"
_CONSTRAINTS = _ROOT / "constraints.txt"
_SECONDS_AT_MOST = 120


def python_of_torchdata_09() -> str:
    """Return the Python of an environment with torchdata 0.9, the last version with DataLoader2."""
    packages = ["torchdata==0.9.0", "torch", "numpy", "Pillow", "portalocker", "psutil"]
    return _python_apart("PENSTOCK_TORCHDATA09_PYTHON", "torchdata-0.9", packages)


def python_of_ray() -> str:
    """Return the Python of an environment with Ray Data and torch."""
    return _python_apart(
        "PENSTOCK_RAY_PYTHON", "ray", ["ray[data]==2.60.0", "pydantic", "torch", "numpy", "pyarrow", "psutil"]
    )


def python_of_litdata() -> str:
    """Return a Python that has LitData and torch, in an environment made for it."""
    return _python_apart(
        "PENSTOCK_LITDATA_PYTHON", "litdata", ["litdata==0.2.76", "torch", "numpy", "Pillow", "simplejpeg", "psutil"]
    )


def python_of_lance() -> str:
    """Return a Python that has Lance, the format of LanceDB, and torch, in an environment made for it."""
    packages = ["pylance==14.0.2", "torch", "numpy", "pyarrow", "Pillow", "simplejpeg", "psutil"]
    return _python_apart("PENSTOCK_LANCE_PYTHON", "lance", packages)


def _python_apart(variable: str, name: str, packages: list[str]) -> str:
    """Return the Python named by an environment variable, or else that of a new environment with `packages`."""
    if given := os.environ.get(variable):
        return given
    folder = CACHE / name
    python, complete = folder / "bin" / "python", folder / f"complete with {len(packages)} packages"
    if not complete.exists():
        print(f"making an environment with {packages[0]} …", file=sys.stderr)
        venv.create(folder, clear=True, with_pip=True)
        constraints = folder / "constraints.txt"
        pins = _CONSTRAINTS.read_text().splitlines(keepends=True)
        constraints.write_text("".join(pin for pin in pins if not pin.startswith("torchdata=")))
        subprocess.run([python, "-m", "pip", "install", "-q", "-c", constraints, *packages], check=True)
        complete.touch()
    return str(python)


def rounds_of(contestants: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Run every contestant once a round, and return their results; each round begins with another contestant.

    A temporary disturbance of the machine affects all contestants, so ratios within a round stay valid.
    """
    results: dict[str, list[T]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(contestants[name]())
    return results


def with_bytecode() -> dict[str, str]:
    """Return this environment with bytecode caching on, as installed packages have it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measured_apart(arguments: Sequence[str], peaks: list[float] | None = None) -> dict[str, Any]:
    """Run a Python program that prints its figures as JSON, and return them; if that fails, they have the `error`.

    Each process computes in one thread, so that processes are compared. With `peaks`, the peak memory is appended to
    it; sampling takes time, so do not use the other figures of such a run.
    """
    environ = {**with_bytecode(), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        arguments,
        cwd=_ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        if peaks is not None:
            threading.Thread(target=_peak_memory, args=(process.pid, peaks), daemon=True).start()
        try:
            out, errors = process.communicate(timeout=_SECONDS_AT_MOST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return {"error": f"no end within {_SECONDS_AT_MOST} s"}
    if process.returncode != 0:
        return {"error": (errors.strip() or f"exit code {process.returncode}").splitlines()[-1]}
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


def _peak_memory(pid: int, peaks: list[float]) -> None:
    """Append the peak memory, in MB, of a process and its descendants, until it ends.

    Where the system reports the proportional set size, shared memory counts once.
    """
    import psutil

    peaks.append(0.0)
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        while top.status() != psutil.STATUS_ZOMBIE:
            used = 0
            for process in [top, *top.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    memory = process.memory_full_info()
                    used += getattr(memory, "pss", memory.uss)
            peaks[-1] = max(peaks[-1], used / 1e6)
            time.sleep(0.02)


def plot(name: str, title: str, figures: Mapping[str, float]) -> None:
    """Draw figures as bars into `docs/plots/NAME.svg`, for docs/performance.md; Penstock's are blue."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(f"docs/plots/{name}.svg is not drawn: matplotlib is not installed")
        return
    labels = [*figures][::-1]
    figure = Figure(figsize=(8, 0.6 + 0.35 * len(labels)), layout="constrained")
    axes = figure.subplots()
    ours = ["tab:blue" if label.startswith("penstock") else "lightgray" for label in labels]
    bars = axes.barh(labels, [figures[label] for label in labels], color=ours)
    axes.bar_label(
        bars, [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in map(figures.get, labels)], padding=3
    )
    axes.margins(x=0.12)
    axes.set_title(title, fontsize="medium", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    _PLOTS.mkdir(exist_ok=True)
    figure.savefig(_PLOTS / f"{name}.svg", metadata={"Date": None})


def cpu_seconds() -> float:
    """Return the CPU time of this process and its descendants, ended or not."""
    import psutil

    this = psutil.Process()
    return sum(sum(process.cpu_times()[:4]) for process in [this, *this.children(recursive=True)])


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
    """Return a line that says whether a goal was reached."""
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
