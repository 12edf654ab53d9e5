"""`torch.distributed.checkpoint` in object stores and at any other URL."""

from __future__ import annotations

import io
import os
import pickletools
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from ..errors.checks import expect_whole
from ..errors.secrets import Options, without_secrets
from ..storage.addresses import address_of
from ..storage.file_systems import locate, move_file
from ..storage.listing import folder_at, names_beginning
from ..storage.reading import open_to_seek
from ..storage.streaming.streams import checked_path
from ..storage.streaming.zips import is_of_torchs_zips, verify
from ..storage.writing import remove_file
from .files import writing

_OF_DATA = ".distcp"
_METADATA = ".metadata"


class StorageWriter(FileSystemWriter):
    """A writer for `torch.distributed.checkpoint.save`, to a folder at a URL.

    `url` is a local path or any URL that fsspec supports, such as `s3://bucket/run/last`. An earlier checkpoint there
    stays loadable until the new one is complete, and is then removed. `storage_options` are for the file system;
    without them, credentials and endpoints come from the environment. `thread_count` threads of each rank write a file
    each. Other arguments are for torch's `FileSystemWriter`.

    `prefix_strategy` is a function of the rank, which returns what the names of its files begin with, such as
    `"shard1/__0_"`: `RoundRobinPrefixes`, `BinaryPrefixes`, `HexPrefixes` or your own. An object store divides its load
    by the beginnings of keys. Readers find the files of any strategy. Files of an unfinished save stay if they are in
    folders that later saves do not use.

    Saving raises, in torch's CheckpointException, ValueError for a prefix that leads out of the folder or that two
    ranks have.

    >>> import torch, torch.distributed.checkpoint as dcp
    >>> writer = StorageWriter("memory://run/sharded")
    >>> _ = dcp.save({"weight": torch.ones(2)}, storage_writer=writer)
    >>> state = {"weight": torch.zeros(2)}
    >>> dcp.load(state, storage_reader=StorageReader("memory://run/sharded"))
    >>> state
    {'weight': tensor([1., 1.])}
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        prefix_strategy: Callable[[int], str] | None = None,
        thread_count: int = 1,
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        expect_whole("thread_count", thread_count)
        if prefix_strategy is not None and not callable(prefix_strategy):
            raise TypeError(f"prefix_strategy must be a function of the rank, and is {prefix_strategy!r:.100}")
        # `writing` already syncs the files.
        super().__init__(checked_path(url), sync_files=False, thread_count=thread_count, **kwargs)
        self.prefix_strategy = prefix_strategy
        self.fs: Any = _Files(Options(storage_options))
        self.path = self.fs.init_path(url)

    @property
    def _knows_all_ranks(self) -> bool:
        return getattr(self, "use_collectives", True)  # which torch 2.6 does not have

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        plans = super().prepare_global_plan(plans)
        prefixes = [plan.storage_data.prefix for plan in plans]
        if self.prefix_strategy is not None:
            alone = [] if self.rank is None else [self.rank]
            ranks = range(len(plans)) if self._knows_all_ranks else alone
            prefixes = _checked([self.prefix_strategy(rank) for rank in ranks])
        # Torch uses the same file names for every save: a failed one would leave a mix of new and old files.
        return [
            replace(plan, storage_data=replace(plan.storage_data, prefix=f"{prefix}{self.save_id}_"))
            for plan, prefix in zip(plans, prefixes, strict=True)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        results = super().write_data(plan, planner)
        if len(results.wait()) < len(plan.items):  # torch does not look at how its threads ended
            raise self.fs.failure or OSError(f"a thread did not write all to {without_secrets(str(self.path))}")
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        earlier = self.fs.data_files_of(self._metadata_path) if self._knows_all_ranks else set()
        super().finish(metadata, results)
        if self._knows_all_ranks:  # else this rank does not know the other ranks' files
            names = {each.storage_data.relative_path for rank in results for each in rank}
            self.fs.remove_others(self.path, names, earlier)

    @property
    def _metadata_path(self) -> str:
        return self.fs.concat_path(self.path, _METADATA)  # type: ignore[no-any-return]


def _checked(prefixes: list[str]) -> list[str]:
    for rank, prefix in enumerate(prefixes):
        if not isinstance(prefix, str):
            raise TypeError(f"prefix_strategy must return text, such as 'shard1/__0_', and returned {prefix!r:.100}")
        if not {"", ".", ".."}.isdisjoint(prefix.split("/")[:-1]):
            raise ValueError(f"prefix_strategy must return names of folders below the checkpoint, and not {prefix!r}")
        if (first := prefixes.index(prefix)) != rank:
            raise ValueError(
                f"prefix_strategy gives {prefix!r} to the ranks {first} and {rank}: put the rank at its end, as in "
                f"f'{prefix}__{{rank}}_'"
            )
    return prefixes


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

    failure: BaseException | None = None
    """The error of the last file that failed: torch loses those of its threads."""

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
            with writing(url, self._options) if "w" in mode else open_to_seek(url, self._options) as file:
                yield file  # type: ignore[misc]
        except Exception as error:
            self.failure = error
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

    def data_files_of(self, metadata: str) -> set[str]:
        """Return the names in the description of a checkpoint, which is not unpickled: that could run any code."""
        with suppress(FileNotFoundError, ValueError), self.create_stream(metadata, "rb") as file:
            found = {text for _, text, _ in pickletools.genops(file.read()) if isinstance(text, str)}
            return {text for text in found if text.endswith(_OF_DATA)}
        return set()

    def remove_others(self, folder: str, names: set[str], earlier: set[str]) -> None:
        """Remove the files of the earlier checkpoint, and of unfinished saves in the folders of this one.

        There may be other checkpoints in folders below: those have a description.
        """
        below = any(map(_folder_of, names | earlier))
        found = [*names_beginning(folder_at(folder), self._options, below=below)]
        folders = {"", *map(_folder_of, names)} - {_folder_of(name) for name in found if name.endswith(f"/{_METADATA}")}
        for name in found:
            is_ours = name in earlier or _folder_of(name) in folders
            if name.endswith(_OF_DATA) and is_ours and name not in names:
                remove_file(self.concat_path(folder, name), self._options)


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0]
