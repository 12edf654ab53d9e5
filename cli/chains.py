"""`penstock graph`, `penstock explain` and `penstock profile`: look at a chain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ..runner import DataLoader2
from .errors import WrongUse, their_code
from .finding import find

_PICTURES = (".svg", ".png", ".mmd")


def draw(address: str, arguments: Sequence[str], output: Path | None) -> int:
    """Write the picture of a chain to a file, or print it as text; return the exit status."""
    if output is not None and output.suffix not in _PICTURES:
        raise WrongUse(f"a picture is written to an .svg, .png or .mmd, and not to {str(output)!r}")
    _expect_folder_of(output)
    found = find(address, arguments)
    with their_code():
        picture = found.visualize(None if output is None else str(output))
    print(picture if output is None else f"wrote {output}")
    return 0


def explain_chain(address: str, arguments: Sequence[str], strict: bool) -> int:
    """Print what a chain will do; return the exit status, which is 1 for warnings if `strict`."""
    found = find(address, arguments)
    with their_code():
        explanation = found.explain()
    print(explanation)
    return 1 if strict and explanation.warnings else 0


def profile_chain(address: str, arguments: Sequence[str], items: int | None, trace: Path | None) -> int:
    """Read a chain or a loader, and print where the time goes; return the exit status."""
    if items is not None and items < 1:
        raise WrongUse(f"-n is a number of items, at least 1, and not {items}")
    _expect_folder_of(trace)
    found = find(address, arguments)
    with their_code():
        measured = _profile_of_loader(found, items) if isinstance(found, DataLoader2) else found.profile(items)
    print(measured)
    if trace is not None:
        measured.save(str(trace))
        print(f"wrote {trace}")
    return 0


def _expect_folder_of(output: Path | None) -> None:
    if output is not None and not output.parent.is_dir():
        raise WrongUse(f"there is no folder {str(output.parent)!r}")


def _profile_of_loader(loader: Any, items: int | None) -> Any:
    loader.profile()  # raises at once where the loader does not measure
    with loader:
        for _ in islice(loader, items):
            pass
        return loader.profile()
