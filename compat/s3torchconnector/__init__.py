"""The names of the Amazon S3 connector for PyTorch: its programs run with `penstock.compat.s3torchconnector` imported.

The data sets are pipes, so that `dataset.map(…).batch(…)` and `DataLoader2` work, as torch's `DataLoader` does.
"""

from .datasets import S3IterableDataset, S3MapDataset
from .objects import S3Checkpoint, S3ClientConfig, S3Reader

__all__ = ["S3Checkpoint", "S3ClientConfig", "S3IterableDataset", "S3MapDataset", "S3Reader"]
