"""`python -m penstock.compat SCRIPT ARGS…` or `-m MODULE ARGS…`: run a program with torchdata's old import paths."""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType

from . import install
from .child import children_import_the_program

USAGE = "usage: python -m penstock.compat SCRIPT ARGS…\n       python -m penstock.compat -m MODULE ARGS…"


def main() -> None:
    """Run the program on the command line as Python itself would."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments == ["-m"]:
        sys.exit(USAGE)
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        children_import_the_program("module", arguments[1])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        _run_script(arguments[0])


def _run_script(path: str) -> None:
    """Run a script in its own main module, which lives until the process ends."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        sys.exit(f"{sys.executable}: can't open file {path!r}: {error.strerror}")
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.abspath(path))
    children_import_the_program("script", os.path.abspath(path))
    module = ModuleType("__main__")
    vars(module).update(__file__=path, __cached__=None)
    sys.modules["__main__"] = module
    exec(compile(source, path, "exec"), vars(module))


if __name__ == "__main__":
    main()
