"""Typed stubs, generated from the registry: for Penstock itself, for plug-ins, and for a user's own operators."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from .method_stubs import PLUGGED_IN, methods_stub
from .registration import PLUG_INS, Operator, functions_of_all_pipes, operators

_OURS = "penstock"
_CARRIED = "penstock_methods"
"""The stub that a plug-in carries in its package: its methods."""
_HEADER = "# Generated from the operators by `{command}`. Changes here are lost.\n"


def penstock_stubs() -> dict[Path, str]:
    """Return the stubs of Penstock's own operators: the text of each file."""
    registry, header = import_module("penstock.registry"), _HEADER.format(command="penstock stubs penstock")
    pipes = import_module("penstock.pipes")
    packages = [import_module(f"penstock.pipes.{kind}") for kind in ("iter", "map")]
    for package in packages:  # import all: a new operator is not in the index yet
        for family in pkgutil.iter_modules(package.__path__):
            import_module(f"{package.__name__}.{family.name}")
    ours = [entry for entry in operators.values() if entry.is_of(_OURS)]
    stubs = {
        _folder(registry) / "methods.pyi": header + methods_stub(ours, [PLUGGED_IN], functions_of_all_pipes()),
        _folder(pipes) / "index.py": header + _index(ours),
    }
    for package in packages:
        kind = package.__name__.rpartition(".")[2]
        here = [entry for entry in ours if entry.cls.__module__.startswith(f"{package.__name__}.")]
        stubs[_folder(package) / "__init__.pyi"] = f"{header}\nfrom {PLUGGED_IN}.{kind} import *\n{_classes(here)}"
    return stubs


def plugged_in_stubs(packages: list[str]) -> dict[Path, str]:
    """Return the stubs of the operators of all installed plug-ins and of some packages: the text of each file.

    The methods of a plug-in that carries a stub are those of its stub.

    Raises ImportError for a package that cannot be imported. Raises ValueError for one that registers no operator, and
    if there are neither packages nor plug-ins.
    """
    for package in packages:
        operators.of_package(package)
    plug_ins = sorted({found.module.partition(".")[0] for found in entry_points(group=PLUG_INS)})
    theirs = [entry for entry in operators.of_others() if any(map(entry.is_of, [*plug_ins, *packages]))]
    if not theirs:
        raise ValueError("no plug-in is installed: name the packages whose operators to write")
    carrying = [package for package in plug_ins if package not in packages and _carries_a_stub(package)]
    others = [entry for entry in theirs if not any(map(entry.is_of, carrying))]
    header = _HEADER.format(command=" ".join(["penstock stubs", *packages]))
    stubs = {"__init__": methods_stub(others, [f"{package}.{_CARRIED}" for package in carrying])}
    for kind in ("iter", "map"):
        stubs[kind] = f"\n{_classes(entry for entry in theirs if entry.kind == kind)}"
    return {Path(PLUGGED_IN, f"{name}.pyi"): header + text for name, text in stubs.items()}


def carried_stub(package: str) -> tuple[Path, str]:
    """Return the stub that a package carries: its file inside the package, and the text.

    Raises ImportError for a package that cannot be imported, and ValueError for a module without a folder and for a
    package that registers no operator.
    """
    theirs = operators.of_package(package)
    if not hasattr(module := import_module(package), "__path__"):
        raise ValueError(f"{package!r} is a module: only a package, which is a folder, can carry a stub")
    header = _HEADER.format(command=f"penstock stubs {package} --inside")
    return _folder(module) / f"{_CARRIED}.pyi", header + methods_stub(theirs)


def _carries_a_stub(package: str) -> bool:
    found = find_spec(package)
    folders = (found and found.submodule_search_locations) or ()
    return any(Path(folder, f"{_CARRIED}.pyi").is_file() for folder in folders)


def _folder(package: ModuleType) -> Path:
    return Path(next(iter(package.__path__)))


def _classes(entries: Iterable[Operator]) -> str:
    """Return the imports that make classes public names of a stub."""
    classes = {entry.cls for entry in entries}
    lines = [f"from {cls.__module__} import {cls.__qualname__} as {cls.__qualname__}\n" for cls in classes]
    return "".join(sorted(lines))


def _index(entries: Iterable[Operator]) -> str:
    """Return the text of the module that maps each operator to its module."""
    lines = sorted(f'    "{e.on}.{e.name}": "{e.cls.__module__}:{e.cls.__qualname__}",\n' for e in entries)
    doc = '"""The module of each operator, imported on first use."""'
    return f"\n{doc}\n\nOPERATORS = {{\n{''.join(lines)}}}\n"
