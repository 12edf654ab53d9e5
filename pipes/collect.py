"""Gathers the operator classes of a package's families, so that no list of them is kept by hand."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any

from ..registry import operators
from ..registry.functional import did_you_mean

__all__ = ["import_families", "operator_class"]


def import_families(package: str, path: Any) -> dict[str, type]:
    """Import every module of a package and return the operator classes they define, by class name."""
    prefix = f"{package}."
    for family in pkgutil.iter_modules(path):
        import_module(prefix + family.name)
    classes = {entry.cls for entry in operators._entries.values()}
    return {cls.__name__: cls for cls in classes if cls.__module__.startswith(prefix)}


def operator_class(package: str, name: str) -> type:
    """Return the class of an operator that came later, from a plug-in or a user; AttributeError where there is none."""
    kind = package.rpartition(".")[2]
    classes = {entry.cls.__name__: entry.cls for entry in operators.values() if entry.kind == kind}
    if name not in classes:
        other = "map" if kind == "iter" else "iter"
        there = any(entry.cls.__name__ == name and entry.kind == other for entry in operators.values())
        hint = f": it is in penstock.{other}" if there else did_you_mean(name, [*classes])
        raise AttributeError(f"no operator class {name!r} in penstock.{kind}{hint}")
    return classes[name]
