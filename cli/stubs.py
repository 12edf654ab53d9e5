"""`penstock stubs`: write typed stubs of operators."""

from __future__ import annotations

import sys
from pathlib import Path

from ..registry.stubs import PLUGGED_IN, penstock_stubs, plugged_in_stubs
from .finding import let_folder_be_imported

__all__ = ["write_stubs"]


def write_stubs(packages: list[str], output: Path) -> int:
    """Write a stub for packages to a folder, or Penstock's own beside its modules; return the exit status."""
    let_folder_be_imported(Path.cwd())  # projects that are not installed
    try:
        stubs = (
            penstock_stubs()
            if packages == ["penstock"]
            else {output / PLUGGED_IN / "__init__.pyi": plugged_in_stubs(packages)}
        )
    except (ImportError, ValueError) as error:
        print(f"penstock stubs: {error}", file=sys.stderr)
        return 1
    for file, text in stubs.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file}")
    return 0
