"""The operators: `iter` for pipes read item by item, `map` for pipes read by index."""

from ..registry import operators
from .index import OPERATORS

operators.announce(OPERATORS)

from . import iter, map  # noqa: E402

__all__ = ["iter", "map"]
