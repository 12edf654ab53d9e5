"""A plug-in for the checkpoints of Lightning's Trainer."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from ..errors.optional import require
from ..errors.secrets import Options, without_secrets
from ..storage.reading import open_to_seek
from ..storage.streaming.decompression_limit import MAX_BYTES
from ..storage.streaming.streams import checked_path
from ..storage.streaming.zips import read_verified
from ..storage.writing import remove_file
from .files import writing
from .states import read_checked

_LIGHTNINGS = ("lightning", "pytorch_lightning")
_MODULES = {"lightning": "lightning.pytorch.plugins.io", "pytorch_lightning": "pytorch_lightning.plugins.io"}


class LightningCheckpoint:
    """Write, read and remove a Trainer's checkpoints at any URL: `Trainer(plugins=[LightningCheckpoint()])`.

    It is a `CheckpointIO` of `lightning` and of `pytorch_lightning`. A checkpoint appears once it is whole; until then
    an earlier one stays. It is sent while it is written, read by ranges, and verified. `storage_options` are for the
    file system; without them, credentials and endpoints come from the environment. Lightning itself looks for files in
    the folder of the checkpoints, always by the environment.

    Raises ImportError if neither library is installed. Loading raises FileNotFoundError for a missing checkpoint,
    ValueError for one that is truncated or corrupt, and UnpicklingError for one with more than tensors and plain data,
    unless `weights_only` is False: load only what you trust that way.

    >>> files = LightningCheckpoint()
    >>> files.save_checkpoint({"epoch": 3}, "memory://run/last.ckpt")
    >>> files.load_checkpoint("memory://run/last.ckpt")
    {'epoch': 3}
    >>> files.remove_checkpoint("memory://run/last.ckpt")
    """

    def __init__(self, storage_options: Mapping[str, Any] | None = None) -> None:
        self._options = Options(storage_options)
        _register(type(self))

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write a checkpoint; `storage_options` take precedence over those of the constructor."""
        with writing(checked_path(path), Options({**self._options, **(storage_options or {})})) as file:
            torch.save(checkpoint, file)

    def load_checkpoint(
        self, path: str | os.PathLike[str], map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Return a checkpoint; the arguments are those of `torch.load`."""
        url = checked_path(path)
        load = partial(torch.load, map_location=map_location, weights_only=weights_only)
        with open_to_seek(url, self._options) as file:
            loaded: dict[str, Any] = read_checked(
                file, without_secrets(url), partial(read_verified, load=load, max_bytes=MAX_BYTES)
            )
        return loaded

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove a checkpoint, if there is one."""
        remove_file(checked_path(path), self._options)

    def teardown(self) -> None:
        """Do nothing: no file stays open."""


def _register(cls: type) -> None:
    """Let a class be a `CheckpointIO` of each Lightning that the program has imported, or else of one that is there.

    The two libraries have a base class each, and take seconds to import.
    """
    imported = [name for name in _LIGHTNINGS if name in sys.modules]
    installed = [name for name in _LIGHTNINGS if find_spec(name)]
    for name in imported or installed[:1] or _LIGHTNINGS[:1]:
        require(name, "lightning")
        import_module(_MODULES[name]).CheckpointIO.register(cls)
