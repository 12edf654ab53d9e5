"""Imports of optional libraries, whose errors say how to install them, and imports that each process needs first."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

PREPARATIONS: list[Callable[[], object]] = []
"""Functions that a process calls before it loads anything from the program, such as a pickled pipe."""


def require(module: str, extra: str) -> ModuleType:
    """Return a module. If it is missing, raise ImportError with the extra of penstock that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f'{module} is needed for this: pip install "penstock[{extra}]"', name=module) from error


def zstandard() -> ModuleType:
    """Return the Zstandard module: Python's own from 3.14 on, or its backport."""
    try:
        return import_module("compression.zstd")
    except ImportError:
        return require("backports.zstd", "zstd")


class LazyModule(ModuleType):
    """A module that is imported when something in it is first used."""

    def __getattr__(self, name: str) -> Any:
        module = import_module(self.__name__)
        vars(self).update(vars(module))
        self.__class__ = ModuleType  # type: ignore[assignment]  # whose attributes are looked up without a call
        return getattr(module, name)
