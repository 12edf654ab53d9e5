"""Prints, as JSON, the public names of each public module of the torchdata 0.9 that is installed where it runs.

To renew the list: PYTHON_WITH_TORCHDATA_09 tests/compat/names_of_torchdata.py > compat/names_0_9.json
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import warnings
from importlib import import_module
from types import ModuleType


def names_of(module: ModuleType) -> list[str]:
    """The names in `__all__`, the classes and functions defined there, and what its package exports of them."""
    package = import_module(module.__name__.rpartition(".")[0])
    exported = {*getattr(module, "__all__", ())} | (vars(module).keys() & {*getattr(package, "__all__", ())})
    defined = {
        name
        for name, value in vars(module).items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == module.__name__
    }
    return sorted(name for name in exported | defined if not name.startswith("_"))


def main() -> None:
    warnings.simplefilter("ignore")
    torchdata = import_module("torchdata")
    found = (found.name for found in pkgutil.walk_packages(torchdata.__path__, "torchdata."))
    public = (name for name in found if "._" not in name and name.split(".")[1] in ("datapipes", "dataloader2"))
    lines = [f"{json.dumps(name)}: {json.dumps(names_of(import_module(name)))}" for name in sorted(public)]
    print("{", ",\n".join(lines), "}", sep="\n")


if __name__ == "__main__":
    main()
