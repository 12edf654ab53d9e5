"""Optional libraries: imported when an operator that needs one is made, with an error that says how to get it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["require", "zstandard"]


def require(module: str, extra: str) -> ModuleType:
    """Return a module; raise ImportError that names the extra of penstock that installs it, where it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f'{module} is needed for this: pip install "penstock[{extra}]"', name=module) from error


def zstandard() -> ModuleType:
    """Return the module of Zstandard: Python's own, from 3.14 on, or the one that is like it."""
    try:
        return import_module("compression.zstd")
    except ImportError:
        return require("backports.zstd", "zstd")
