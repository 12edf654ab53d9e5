"""Lints: functions that find known mistakes in chains, each with its fix."""

from . import loaders, memory, order, shards
from .lint import LINTS, Mistake, mistakes_in

__all__ = ["LINTS", "Mistake", "loaders", "memory", "mistakes_in", "order", "shards"]
