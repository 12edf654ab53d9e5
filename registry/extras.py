"""Optional libraries: imported when an operator needs one. The error for a missing one says how to install it."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["require", "zstandard"]


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
