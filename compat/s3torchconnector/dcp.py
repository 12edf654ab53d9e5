"""The connector's writer and reader for `torch.distributed.checkpoint`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ...checkpoint.prefixes import BinaryPrefixes, HexPrefixes, RoundRobinPrefixes
from ...checkpoint.sharded import StorageReader, StorageWriter
from ...errors.checks import takes_only
from .objects import NO_CONSTRUCTOR, S3ClientConfig, options_of


class S3PrefixStrategyBase(ABC):
    """The base of prefix strategies: their `generate_prefix` returns what the names of a rank's files begin with."""

    def __call__(self, rank: int) -> str:
        return self.generate_prefix(rank)

    @abstractmethod
    def generate_prefix(self, rank: int) -> str:
        """Return the prefix of a rank."""


class DefaultPrefixStrategy(S3PrefixStrategyBase):
    """Give the names that torch gives.

    >>> DefaultPrefixStrategy()(1)
    '__1_'
    """

    def generate_prefix(self, rank: int) -> str:
        """Return the prefix of a rank."""
        return f"__{rank}_"


class _ByOurs(S3PrefixStrategyBase):
    def __init__(self, prefixes: Callable[[int], str]) -> None:
        self._prefixes = prefixes

    def generate_prefix(self, rank: int) -> str:
        """Return the prefix of a rank."""
        return self._prefixes(rank)


class RoundRobinPrefixStrategy(_ByOurs):
    """Give the prefixes of `penstock.checkpoint.RoundRobinPrefixes`.

    >>> RoundRobinPrefixStrategy(["shard1", "shard2"], epoch_num=5)(1)
    'shard2/epoch_5/__1_'
    """

    def __init__(self, user_prefixes: Sequence[str], epoch_num: int | None = None) -> None:
        super().__init__(RoundRobinPrefixes(user_prefixes, epoch_num))


class BinaryPrefixStrategy(_ByOurs):
    """Give the prefixes of `penstock.checkpoint.BinaryPrefixes`.

    >>> BinaryPrefixStrategy(prefix_count=4)(1)
    '1000000000/__1_'
    """

    def __init__(
        self, epoch_num: int | None = None, min_prefix_length: int = 10, prefix_count: int | None = None
    ) -> None:
        super().__init__(BinaryPrefixes(epoch_num, min_prefix_length, prefix_count))


class HexPrefixStrategy(_ByOurs):
    """Give the prefixes of `penstock.checkpoint.HexPrefixes`.

    >>> HexPrefixStrategy(min_prefix_length=2, prefix_count=256)(26)
    'a1/__26_'
    """

    def __init__(
        self, epoch_num: int | None = None, min_prefix_length: int = 10, prefix_count: int | None = None
    ) -> None:
        super().__init__(HexPrefixes(epoch_num, min_prefix_length, prefix_count))


class S3StorageWriter(StorageWriter):
    """A writer for `torch.distributed.checkpoint.save`, as `penstock.checkpoint.StorageWriter`.

    `prefix_strategy` and `thread_count` are those of the connector; a function of the rank is a strategy, too.

    >>> S3StorageWriter(region="us-east-1", path="s3://bucket/run/").checkpoint_id
    's3://bucket/run/'
    """

    def __init__(
        self,
        region: str,
        path: str | os.PathLike[str],
        s3client_config: S3ClientConfig | None = None,
        prefix_strategy: Callable[[int], str] | None = None,
        thread_count: int = 1,
        **kwargs: Any,
    ) -> None:
        options = options_of(region, config=s3client_config)
        super().__init__(
            path, prefix_strategy=prefix_strategy, thread_count=thread_count, storage_options=options, **kwargs
        )


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
