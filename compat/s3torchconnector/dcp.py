"""The connector's writer and reader for `torch.distributed.checkpoint`."""

from __future__ import annotations

import os
from typing import Any

from ...checkpoint.sharded import StorageReader, StorageWriter
from ...errors.checks import takes_only
from .objects import NO_CONSTRUCTOR, S3ClientConfig, options_of

__all__ = ["S3StorageReader", "S3StorageWriter"]


_NO_STRATEGY = "leave it out: all files of a checkpoint are in its folder, by the names that torch gives them"


class S3StorageWriter(StorageWriter):
    """A writer for `torch.distributed.checkpoint.save`, as `penstock.checkpoint.StorageWriter`.

    >>> S3StorageWriter(region="us-east-1", path="s3://bucket/run/").checkpoint_id
    's3://bucket/run/'
    """

    def __init__(
        self,
        region: str,
        path: str | os.PathLike[str],
        s3client_config: S3ClientConfig | None = None,
        **kwargs: Any,
    ) -> None:
        if "prefix_strategy" in kwargs:
            raise TypeError(f"S3StorageWriter takes no prefix_strategy: {_NO_STRATEGY}")
        super().__init__(path, storage_options=options_of(region, config=s3client_config), **kwargs)


class S3StorageReader(StorageReader):
    """A reader for `torch.distributed.checkpoint.load`, as `penstock.checkpoint.StorageReader`.

    >>> S3StorageReader(region="us-east-1", path="s3://bucket/run/").checkpoint_id
    's3://bucket/run/'
    """

    @takes_only(reader_constructor=NO_CONSTRUCTOR)
    def __init__(
        self, region: str, path: str | os.PathLike[str], s3client_config: S3ClientConfig | None = None
    ) -> None:
        super().__init__(path, storage_options=options_of(region, config=s3client_config))
