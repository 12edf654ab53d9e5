"""The connector's plug-in for Lightning's checkpoints."""

from __future__ import annotations

from ...checkpoint.lightning import LightningCheckpoint
from ...errors.checks import takes_only
from .objects import NO_CONSTRUCTOR, S3ClientConfig, options_of


class S3LightningCheckpoint(LightningCheckpoint):
    """Write and read a Trainer's checkpoints in S3: `Trainer(plugins=[S3LightningCheckpoint("us-east-1")])`.

    The rest is as for `penstock.checkpoint.LightningCheckpoint`.
    """

    @takes_only(reader_constructor=NO_CONSTRUCTOR)
    def __init__(self, region: str, s3client_config: S3ClientConfig | None = None, endpoint: str | None = None) -> None:
        super().__init__(options_of(region, endpoint, s3client_config))
