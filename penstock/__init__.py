"""Penstock: small, composable DataPipes for PyTorch.

>>> import penstock as ps
>>> dp = ps.iter.IterableWrapper(range(10)).filter(lambda x: x % 2 == 0).map(lambda x: x * x).batch(2)
>>> list(dp)
[[0, 4], [16, 36], [64]]
"""

from .pipes import iter, map
from .registry import IterDataPipe, MapDataPipe, functional_datapipe

__all__ = [
    "IterDataPipe",
    "MapDataPipe",
    "functional_datapipe",
    "iter",
    "map",
]
