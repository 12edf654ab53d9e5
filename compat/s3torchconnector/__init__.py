"""The names of the Amazon S3 connector for PyTorch: its programs run with `penstock.compat.s3torchconnector` imported.

The data sets are pipes, so that `dataset.map(…).batch(…)` and `DataLoader2` work, as torch's `DataLoader` does.
"""

from typing import Any

from .datasets import S3IterableDataset, S3MapDataset
from .objects import NO_CONSTRUCTOR, S3Checkpoint, S3ClientConfig, S3Reader

__all__ = ["S3Checkpoint", "S3ClientConfig", "S3Exception", "S3IterableDataset", "S3MapDataset", "S3Reader"]

S3Exception = OSError
"""What reading and writing raise: FileNotFoundError, PermissionError and others."""

_MISSING = {
    "S3ReaderConstructor": NO_CONSTRUCTOR,
    "S3Writer": "S3Checkpoint(…).writer(uri) gives a file to write to",
}


def __getattr__(name: str) -> Any:
    if name in _MISSING:
        raise ImportError(f"{__name__} has no {name}: {_MISSING[name]}")  # `from` would drop an AttributeError's text
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
