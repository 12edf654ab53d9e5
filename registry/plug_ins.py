"""Plug-ins: modules of installed packages that entry points name."""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points
from importlib.util import find_spec


def load_plug_ins(group: str, stacklevel: int) -> dict[str, Exception]:
    """Import the plug-ins of a group, and return the errors of those that cannot be imported, by name.

    Each of these errors is a warning, for the caller's line at `stacklevel`.
    """
    broken: dict[str, Exception] = {}
    for plug_in in entry_points(group=group):
        try:
            try:
                plug_in.load()
            finally:
                expect_no_folder_instead(plug_in.module)
        except Exception as error:  # a plug-in may raise anything; load the others
            broken[plug_in.name] = error
            text = f"the plug-in {plug_in.name!r} ({plug_in.value}) could not be loaded: {error!r}"
            warnings.warn(text, stacklevel=stacklevel + 1)
    return broken


def expect_no_folder_instead(module: str) -> None:
    """Raise ImportError if Python takes a folder without `__init__.py` for a module, or for a package that it is in."""
    try:
        spec = find_spec(module)
    except ImportError:
        spec = None
    if spec is None:
        if parent := module.rpartition(".")[0]:
            expect_no_folder_instead(parent)
    elif spec.origin is None:
        (folder, *_) = spec.submodule_search_locations or ("",)
        raise ImportError(
            f"Python takes the folder {folder!r}, which has no __init__.py, for the package {module!r}: rename it, "
            "move the program away from it, or keep the package in a folder src of its project, as `penstock new` does"
        )
