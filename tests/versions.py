"""Print the version to release, on which the files that name it agree: `python tests/versions.py`."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def version(root: Path) -> str:
    """Return the version; raise ValueError, with the version in each file, where they differ."""
    found = {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"],
        "CHANGELOG.md": _first(r"^## ([^\s,]+)", root / "CHANGELOG.md"),
        "CITATION.cff": _first(r"^version: (\S+)$", root / "CITATION.cff"),
    }
    if len({*found.values()}) > 1:
        told = ", ".join(f"{file} has {each}" for file, each in found.items())
        raise ValueError(f"the files name different versions: {told}. Name the version to release in each of them")
    return found["pyproject.toml"]


def _first(pattern: str, file: Path) -> str:
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    return "none" if found is None else found[1]


if __name__ == "__main__":
    try:
        print(version(ROOT))
    except ValueError as error:
        sys.exit(str(error))
