"""The main module of child processes of a program that runs under compat."""

from __future__ import annotations

import os
import runpy
from multiprocessing import spawn
from typing import Any

from . import install

__all__ = ["PROGRAM", "children_import_the_program"]

PROGRAM = "PENSTOCK_COMPAT_PROGRAM"
"""Environment variable that names the program for its children: `script:PATH` or `module:NAME`."""

_spawn_data = spawn.get_preparation_data


def children_import_the_program(kind: str, program: str) -> None:
    """Make children started by spawn or forkserver install the old paths before they import the main module."""

    def prepare(name: str) -> dict[str, Any]:
        data = _spawn_data(name)
        if {data.pop("init_main_from_path", None), data.pop("init_main_from_name", None)} != {None}:
            data["init_main_from_name"] = __name__  # multiprocessing imports it as the main module
        return data

    os.environ[PROGRAM] = f"{kind}:{program}"
    spawn.get_preparation_data = prepare


if __name__ == "__mp_main__":
    install()
    _how, _, _program = os.environ[PROGRAM].partition(":")
    _run_program = runpy.run_module if _how == "module" else runpy.run_path
    globals().update(_run_program(_program, run_name=__name__))
