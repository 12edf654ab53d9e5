"""Ray Data's names, backed by Penstock: `from penstock.compat import ray`, and `ray.data.read_parquet(url)` is a chain.

Nothing of Ray is imported, so it need not be installed.
"""

from . import data as data

__all__ = ["data"]
