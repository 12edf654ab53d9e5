"""The operators: `iter` for pipes read item by item, `map` for pipes read by index."""

from . import iter, map

__all__ = ["iter", "map"]
