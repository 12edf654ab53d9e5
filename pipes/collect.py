"""The operator classes of a package, imported on first access, without a list kept by hand."""

from __future__ import annotations

import sys
from importlib import import_module

from ..errors.hints import did_you_mean
from ..registry import operators
from .index import OPERATORS


def class_names(package: str) -> list[str]:
    """Return the names of the operator classes in a package."""
    return sorted(_addresses(package))


def operator_class(package: str, name: str) -> type:
    """Return the class of an operator: ours, a plug-in's or a user's; AttributeError without one."""
    if name in (ours := _addresses(package)):
        found: type = getattr(import_module(ours[name]), name)
        setattr(sys.modules[package], name, found)
        return found
    parent, _, kind = package.rpartition(".")
    other = "map" if kind == "iter" else "iter"
    classes: dict[tuple[str, str], type] = {
        (entry.kind, entry.cls.__name__): entry.cls for entry in operators.of_others()
    }
    if (kind, name) not in classes:
        there = name in _addresses(f"{parent}.{other}") or (other, name) in classes
        near = [*ours, *(each for of_kind, each in classes if of_kind == kind)]
        hint = f": it is in penstock.{other}" if there else did_you_mean(name, near)
        raise AttributeError(f"no operator class {name!r} in penstock.{kind}{hint}")
    return classes[kind, name]


def where_it_is(name: str, known: list[str]) -> str:
    """Return the end of an error message for a name that a package lacks, which has those that are `known`."""
    for kind in ("iter", "map"):
        if name in class_names(f"{__package__}.{kind}"):
            return f": it is penstock.{kind}.{name}"
        if operators.has_method(kind, name):
            return f": it is a method of pipes, as in dp.{name}(…)"
    return did_you_mean(name, known)


def _addresses(package: str) -> dict[str, str]:
    """Return the modules of a package's operator classes, by class name."""
    addresses = (address.split(":") for address in OPERATORS.values() if address.startswith(f"{package}."))
    return {name: module for module, name in addresses}
