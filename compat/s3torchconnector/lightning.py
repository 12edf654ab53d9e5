"""The connector's plug-in for Lightning's checkpoints."""

from __future__ import annotations

import os
from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO

from ...errors.checks import takes_only
from ...storage.addresses import address_of
from ...storage.errors import in_plain_words
from ...storage.file_systems import locate
from ...storage.streaming.streams import checked_path
from .objects import NO_CONSTRUCTOR, S3Checkpoint, S3ClientConfig, options_of

__all__ = ["S3LightningCheckpoint"]


class S3LightningCheckpoint(CheckpointIO):
    """Write and read a Trainer's checkpoints in S3: `Trainer(plugins=[S3LightningCheckpoint("us-east-1")])`.

    What is written appears once it is whole.
    """

    @takes_only(reader_constructor=NO_CONSTRUCTOR)
    def __init__(self, region: str, s3client_config: S3ClientConfig | None = None, endpoint: str | None = None) -> None:
        self._options = options_of(region, endpoint, s3client_config)
        self._files = S3Checkpoint(region, endpoint, s3client_config)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write a checkpoint; options come from the constructor, so that `storage_options` is not used."""
        with self._files.writer(checked_path(path)) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any = None, weights_only: bool | None = None
    ) -> Any:
        """Return a checkpoint; the arguments are those of `torch.load`."""
        with self._files.reader(checked_path(path)) as file:
            return torch.load(file, map_location, weights_only=weights_only)

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove a checkpoint."""
        url = checked_path(path)
        file_system, place = locate(address_of(url, self._options))
        in_plain_words(url, file_system.rm_file, place)
