"""`torch.distributed.checkpoint` in object stores, and wherever else a URL leads to."""

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

from ..registry.secrets import Options, without_secrets
from ..storage.file_systems import locate
from ..storage.streams import checked_path
from ..storage.zips import is_of_torchs_zips, verify
from .files import reading, writing

__all__ = ["StorageReader", "StorageWriter"]

_OF_DATA = ".distcp"


class StorageWriter(FileSystemWriter):
    """A writer for `torch.distributed.checkpoint.save`, to a folder that a URL leads to.

    `url` is a local path, or whatever fsspec speaks, such as `s3://bucket/run/last`. An earlier checkpoint there stays
    whole, and the one that is loaded, until the new one is, and is removed then. `storage_options` are those of the
    file system; without them credentials and endpoints come from the environment. Further arguments are those of
    torch's `FileSystemWriter`.

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
        # The files themselves see to it that they are on the disk.
        super().__init__(checked_path(url), sync_files=False, **kwargs)
        self.fs: Any = _Files(Options(storage_options))
        self.path = self.fs.init_path(url)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        # Torch names the files of all saves alike, so that one that fails would leave some new files, and some old.
        return [
            replace(plan, storage_data=replace(plan.storage_data, prefix=f"{plan.storage_data.prefix}{self.save_id}_"))
            for plan in super().prepare_global_plan(plans)
        ]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        super().finish(metadata, results)
        if getattr(self, "use_collectives", True):  # else other ranks have files there that this one knows nothing of
            self.fs.remove_others(self.path, {each.storage_data.relative_path for rank in results for each in rank})


class StorageReader(FileSystemReader):
    """A reader for `torch.distributed.checkpoint.load`, of what `StorageWriter` or torch's own writers have written.

    `url` and `storage_options` are as for `StorageWriter`. Torch unpickles the description of the checkpoint, its file
    `.metadata`, without restrictions: load what you trust.

    Raises, in torch's CheckpointException, FileNotFoundError where there is no checkpoint, or none that was finished,
    and ValueError for a file that is corrupt, which the checksums in it tell.

    >>> StorageReader("memory://run/sharded").checkpoint_id
    'memory://run/sharded'
    """

    def __init__(self, url: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> None:
        super().__init__(checked_path(url))
        self.fs: Any = _Files(Options(storage_options))
        self.path = self.fs.init_path(url)

    def _slice_file(self, file: Any, sinfo: Any) -> Any:
        # What torch saved of a tensor or an object is a zip, of which it verifies nothing.
        file.seek(sinfo.offset)
        content = io.BytesIO(file.read(sinfo.length))
        verify(content)
        return content


class _Files(FileSystemBase):
    """What torch's writer and reader ask of a file system."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options

    def init_path(self, path: str | os.PathLike[str]) -> str:
        url = checked_path(path)
        self._file_system, _ = locate(url, self._options)
        return url

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
        return f"{checked_path(path).rstrip('/')}/{suffix}"

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        self._file_system.mv(path, new_path)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Do nothing, since folders are made when there is something to write to them."""

    def exists(self, path: str | os.PathLike[str]) -> bool:
        self._file_system.invalidate_cache()  # others may have written it
        return bool(self._file_system.exists(path))

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Do nothing: torch removes a description just before another is given its name, and it is replaced by that."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))

    def remove_others(self, folder: str, names: set[str]) -> None:
        """Remove the files of other saves, finished or not."""
        self._file_system.invalidate_cache()
        for path in self._file_system.ls(folder, detail=False):
            if path.endswith(_OF_DATA) and path.rpartition("/")[2] not in names:
                self._file_system.rm_file(path)
