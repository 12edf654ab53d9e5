"""The type variables of operators."""

from typing import ParamSpec, TypeVar

__all__ = ["P", "R", "T"]

P = ParamSpec("P")
"""The parameters of a function."""
R = TypeVar("R")
"""The type of what a step makes of items."""
T = TypeVar("T")
"""The type of items."""
