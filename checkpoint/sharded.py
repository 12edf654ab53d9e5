"""`torch.distributed.checkpoint` in object stores and at any other URL."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.storage import WriteResult

from ..errors.secrets import Options, without_secrets
from ..storage.addresses import address_of
from ..storage.file_systems import locate, move_file
from ..storage.listing import folder_at, names_beginning
from ..storage.streaming.streams import checked_path
from ..storage.streaming.zips import is_of_torchs_zips, verify
from ..storage.writing import remove_file
from .files import reading, writing

__all__ = ["StorageReader", "StorageWriter"]

_OF_DATA = ".distcp"


class StorageWriter(FileSystemWriter):
    """A writer for `torch.distributed.checkpoint.save`, to a folder at a URL.

    `url` is a local path or any URL that fsspec supports, such as `s3://bucket/run/last`. An earlier checkpoint there
    stays loadable until the new one is complete, and is then removed. `storage_options` are for the file system;
    without them, credentials and endpoints come from the environment. Other arguments are for torch's
    `FileSystemWriter`.

    >>> import torch, torch.distributed.checkpoint as dcp
    >>> writer = StorageWriter("memory://run/sharded")
    >>> _ = dcp.save({"weight": torch.ones(2)}, storage_writer=writer)
    >>> state = {"weight": torch.zeros(2)}
    >>> dcp.load(state, storage_reader=StorageReader("memory://run/sharded"))
    >>> state
    {'weight': tensor([1., 1.])}
    """

    def __init__(
        self, url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        # `writing` already syncs the files.
        super().__init__(checked_path(url), sync_files=False, **kwargs)
        self.fs: Any = _Files(Options(storage_options))
        self.path = self.fs.init_path(url)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        # Torch uses the same file names for every save: a failed one would leave a mix of new and old files.
        return [
            replace(plan, storage_data=replace(plan.storage_data, prefix=f"{plan.storage_data.prefix}{self.save_id}_"))
            for plan in super().prepare_global_plan(plans)
        ]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        super().finish(metadata, results)
        if getattr(self, "use_collectives", True):  # else this rank does not know the other ranks' files
            self.fs.remove_others(self.path, {each.storage_data.relative_path for rank in results for each in rank})


class StorageReader(FileSystemReader):
    """A reader for `torch.distributed.checkpoint.load`, for checkpoints of `StorageWriter` or torch's own writers.

    `url` and `storage_options` are as for `StorageWriter`. Torch unpickles the checkpoint's metadata (its file
    `.metadata`) without restrictions: load only what you trust.

    Raises, in torch's CheckpointException, FileNotFoundError if there is no finished checkpoint, and ValueError for a
    file that is corrupt according to its checksums.

    >>> StorageReader("memory://run/sharded").checkpoint_id
    'memory://run/sharded'
    """

    def __init__(self, url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> None:
        super().__init__(checked_path(url))
        self.fs: Any = _Files(Options(storage_options))
        self.path = self.fs.init_path(url)

    def _slice_file(self, file: Any, sinfo: Any) -> Any:
        # Torch saves each tensor or object as a zip, and does not verify it on load.
        file.seek(sinfo.offset)
        content = io.BytesIO(file.read(sinfo.length))
        verify(content)
        return content


class _Files(FileSystemBase):
    """The file system interface of torch's writer and reader."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._given = self._options = options

    def init_path(self, path: str | os.PathLike[str]) -> str:
        # All other paths come from this one, and go to the file system itself.
        address = address_of(checked_path(path), self._given)
        self._options = address.options
        self._file_system, _ = locate(address)
        return address.bare

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        url = checked_path(path)
        try:
            with writing(url, self._options) if "w" in mode else reading(url, self._options) as file:
                yield file  # type: ignore[misc]
        except Exception as error:
            if isinstance(error, zipfile.BadZipFile) or is_of_torchs_zips(error):
                raise ValueError(f"{without_secrets(url)} is corrupt: {error}") from error
            raise

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return folder_at(checked_path(path)) + suffix

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        move_file(self._file_system, checked_path(path), checked_path(new_path))

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Do nothing: folders are created on the first write to them."""

    def exists(self, path: str | os.PathLike[str]) -> bool:
        self._file_system.invalidate_cache()  # another process may have written it
        return bool(self._file_system.exists(path))

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Do nothing: torch removes `.metadata` only just before a rename that replaces it."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))

    def remove_others(self, folder: str, names: set[str]) -> None:
        """Remove the files of other saves, finished or not."""
        for name in names_beginning(folder_at(folder), self._options):
            if name.endswith(_OF_DATA) and name not in names:
                remove_file(self.concat_path(folder, name), self._options)
