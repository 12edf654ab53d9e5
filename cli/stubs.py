"""`penstock stubs`: write typed stubs of operators."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from ..registry.stubs import carried_stub, penstock_stubs, plugged_in_stubs
from .finding import let_folder_be_imported


def write_stubs(packages: list[str], output: Path, installed: bool, inside: bool) -> int:
    """Write stubs of installed plug-ins and of packages to a folder, and return the exit status.

    With `installed` they replace the empty ones beside the installed Penstock. With `inside`, each package gets the
    stub that it carries. Those of Penstock itself are beside its modules.
    """
    let_folder_be_imported(Path.cwd())  # projects that are not installed
    try:
        if inside:
            stubs = _carried(packages)
        elif packages == ["penstock"]:
            stubs = penstock_stubs()
        else:
            folder = _installed() if installed else output
            stubs = {folder / file: text for file, text in plugged_in_stubs(packages).items()}
    except (ImportError, ValueError) as error:
        print(f"penstock stubs: {error}", file=sys.stderr)
        return 1
    for file, text in stubs.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file}")
    return 0


def _carried(packages: list[str]) -> dict[Path, str]:
    if not packages:
        raise ValueError("--inside writes into packages: name them")
    return dict(map(carried_stub, packages))


def _installed() -> Path:
    """Return the folder of the environment that has the installed stubs."""
    folder = Path(sysconfig.get_path("purelib"))
    if not (folder / "penstock_plugins").is_dir():
        raise ValueError(f"Penstock is not installed in {folder}, or from its source tree: leave --installed out")
    return folder
