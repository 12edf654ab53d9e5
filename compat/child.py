"""Old import paths in child processes, which is their main module where a program runs under compat."""

from __future__ import annotations

import os
import runpy
import sys
from multiprocessing import spawn
from typing import Any

PROGRAM = "PENSTOCK_COMPAT_PROGRAM"
"""Environment variable that names the program for its children: `script:PATH` or `module:NAME`."""


class _Code:
    """Code that runs where it is unpickled."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.code,)


def children_have_the_old_paths() -> None:
    """Make children started by spawn or forkserver install the old paths before they load what they run."""
    data_of_child = spawn.get_preparation_data

    def prepare(name: str) -> dict[str, Any]:
        data = data_of_child(name)
        # A child loads the data before it changes its sys.path, and ignores keys that it does not know.
        path = f"import sys; sys.path[:] = {[*sys.path]!r}"
        data["penstock"] = _Code(f"{path}; import penstock.compat; penstock.compat.install()")
        return data

    spawn.get_preparation_data = prepare


def children_import_the_program(kind: str, program: str) -> None:
    """Make children started by spawn or forkserver install the old paths before they import the main module."""
    data_of_child = spawn.get_preparation_data

    def prepare(name: str) -> dict[str, Any]:
        data = data_of_child(name)
        if {data.pop("init_main_from_path", None), data.pop("init_main_from_name", None)} != {None}:
            data["init_main_from_name"] = __name__  # multiprocessing imports it as the main module
        return data

    os.environ[PROGRAM] = f"{kind}:{program}"
    spawn.get_preparation_data = prepare


if __name__ == "__mp_main__":
    _how, _, _program = os.environ[PROGRAM].partition(":")
    _run_program = runpy.run_module if _how == "module" else runpy.run_path
    globals().update(_run_program(_program, run_name=__name__))
